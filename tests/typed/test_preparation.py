"""Markers go, what they stood between is simplified, and everything computes the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import (
    Checkpoint,
    Constant,
    Elementwise,
    Function,
    Marker,
    Operation,
    Override,
    TensorType,
    Upstream,
    Value,
)
from tileir.typed.simplify.preparation import prepared, unmarked
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import verify

F = DType.F32
A = Value("A", F, (3,))


def typed(text: str, **shapes: tuple[int, ...]) -> Function:
    function = infer(parse(text), {name: TensorType(F, shape) for name, shape in shapes.items()})
    verify(function)
    return function


def unnumbered(function: Function) -> str:
    return re.sub(r"_\d+", "", to_text(function))


@pytest.mark.parametrize("marker", ["stop_gradient", "checkpoint", "upstreamless", "reverse"])
def test_markers_hinder_no_simplification(marker: str) -> None:
    marked = {
        "stop_gradient": "stop_gradient({})",
        "checkpoint": "checkpoint({})",
        "upstreamless": "override_gradient({}, A, 5)",
        "reverse": "reverse_grad({}, 2)",
    }[marker]
    text = "function (A) -> (O, P) {{ B = {}; O = -B + (A * 1) * 2; P = {} * 3; }}"
    with_marks = typed(text.format(marked.format("-A"), marked.format("-(-A)")), A=(3,))
    without = typed(text.format("-A", "-(-A)"), A=(3,))
    after = prepared(with_marks)
    verify(after)
    assert not any(isinstance(operation, Marker) for operation in after.operations)
    assert unnumbered(after) == unnumbered(prepared(without))


def test_results_that_are_markers_keep_their_names() -> None:
    function = typed("function (A) -> (O, P, Q) { O = checkpoint(A); P = stop_gradient(exp(A)); Q = P; }", A=(3,))
    after = prepared(function)
    verify(after)
    assert after.outputs == ("O", "P", "Q")
    values = {"A": np.arange(3, dtype=np.float32)}
    expected = interpret(function, values)
    assert all(np.array_equal(array, expected[name]) for name, array in interpret(after, values).items())


def test_templates_are_dropped_and_labels_stay() -> None:
    text = """function (A) -> (O) {
      [[pid(root)]] B = sqrt(A);
      [[pid(marked)]] C = override_gradient(B, A, exp(upstream(B)) * B);
      O = C + 1.0;
    }"""
    function = typed(text, A=(3,))
    assert any(isinstance(operation, Upstream) for operation in function.operations)
    after = prepared(function)
    verify(after)
    assert [o.op for o in after.operations if isinstance(o, Elementwise)] == [Op.SQRT, Op.ADD]
    assert after.labels == (("B", "root"), ("B", "marked"))


def test_what_has_no_markers_stays_as_it_is() -> None:
    function = simplify(typed("function (A) -> (O) { O = exp(A); }", A=(3,)))
    assert prepared(function) is function
    assert unmarked(function) is function


def test_the_simplifier_merges_no_upstreams_and_no_overrides() -> None:
    def override(name: str, upstream: str) -> Override:
        return Override(name, "A", (("A", f"{upstream}G"),), upstream, F, (3,))

    operations: tuple[Operation, ...] = (
        Upstream("U", F, (3,)),
        Upstream("V", F, (3,)),
        Elementwise("UG", Op.NEG, ("U",), F, (3,)),
        Elementwise("VG", Op.NEG, ("V",), F, (3,)),
        override("P", "U"),
        override("Q", "V"),
        override("R", "V"),
        Elementwise("S", Op.ADD, ("P", "Q"), F, (3,)),
        Elementwise("O", Op.ADD, ("S", "R"), F, (3,)),
    )
    function = Function((A,), ("O",), operations)
    verify(function)
    assert simplify(function) is function


def test_the_simplifier_merges_equal_checkpoints_and_stays_within_marks() -> None:
    operations: tuple[Operation, ...] = (
        Checkpoint("P", "A", F, (3,)),
        Checkpoint("Q", "A", F, (3,)),
        Constant("one", F, 1.0),
        Elementwise("R", Op.MUL, ("Q", "one"), F, (3,)),
        Elementwise("O", Op.ADD, ("P", "R"), F, (3,)),
    )
    after = simplify(Function((A,), ("O",), operations))
    assert [operation.name for operation in after.operations] == ["P", "O"]
    assert after.operations[1] == Elementwise("O", Op.ADD, ("P", "P"), F, (3,))
