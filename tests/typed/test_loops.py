from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.core.json.codec import from_json, to_json
from tileir.core.ops import Op
from tileir.typed.dataflow import MAX_NESTING, loops_of
from tileir.typed.interpreter import interpret
from tileir.typed.ir import ArrayConstant, Elementwise, Function, Scan, ScanPart, ScanResult, Value
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import verify

F = DType.F32
STEP = Function(
    (Value("c", F, (2,)), Value("d", F, ()), Value("x", F, (2,)), Value("w", F, (2,))),
    ("c2", "d2", "y"),
    (
        Elementwise("p", Op.MUL, ("c", "w"), F, (2,)),
        Elementwise("c2", Op.ADD, ("p", "x"), F, (2,)),
        Elementwise("d2", Op.ADD, ("d", "d"), F, ()),
        Elementwise("y", Op.SUB, ("c2", "c"), F, (2,)),
    ),
)
TABLE = ArrayConstant("t", ArrayValue.of(np.zeros(2, np.float32)))
INPUTS = (Value("c0", F, (2,)), Value("d0", F, ()), Value("xs", F, (3, 2)), Value("w", F, (2,)))


def scan(name: str, part: ScanPart, number: int, shape: tuple[int, ...], **changes: Any) -> Scan:
    made = Scan(name, STEP, 3, False, ("c0", "d0"), ("xs",), ("w",), ScanResult(part, number), F, shape)
    return attrs.evolve(made, **changes)


C = scan("c", ScanPart.FINAL, 0, (2,))
D = scan("d", ScanPart.FINAL, 1, ())
Y = scan("y", ScanPart.OUTPUT, 0, (3, 2))
H = scan("h", ScanPart.HISTORY, 0, (3, 2))


def function(*scans: Scan) -> Function:
    return Function(INPUTS, tuple(s.name for s in scans), scans)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_is_what_python_says(reverse: bool) -> None:
    made = function(*(attrs.evolve(s, reverse=reverse) for s in (C, D, Y, H)))
    verify(made)
    given = arguments(made)
    c, d = given["c0"], given["d0"]
    ys, hs = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32)
    for t in reversed(range(3)) if reverse else range(3):
        hs[t] = c
        after = c * given["w"] + given["xs"][t]
        c, d, ys[t] = after, d + d, after - c
    assert_same(interpret(made, given), {"c": c, "d": np.asarray(d), "y": ys, "h": hs})


def test_results_of_one_loop_belong_together() -> None:
    other = scan("o", ScanPart.FINAL, 0, (2,), reverse=True)
    assert [len(results) for results in loops_of(function(C, other, Y)).values()] == [2, 1]


def test_idle_parts_go() -> None:
    simple = simplify(function(C))
    (kept,) = simple.operations
    assert isinstance(kept, Scan)
    assert (kept.carries, kept.sequences, kept.constants) == (("c0",), ("xs",), ("w",))
    assert kept.body.outputs == ("c2",)
    (alone,) = simplify(function(D)).operations
    assert isinstance(alone, Scan)
    assert (alone.carries, alone.sequences, alone.constants) == (("d0",), (), ())
    assert alone.result == ScanResult(ScanPart.FINAL, 0)


def test_equal_results_are_one() -> None:
    twice = Function(INPUTS, ("z",), (C, attrs.evolve(C, name="e"), Elementwise("z", Op.ADD, ("c", "e"), F, (2,))))
    assert len(simplify(twice).operations) == 2


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (attrs.evolve(C, carries=("c0",)), "passes 3 values"),
        (attrs.evolve(C, carries=("w", "w")), "passes 'w' for 'd'"),
        (attrs.evolve(C, count=4), "passes 'xs' for 'x'"),
        (attrs.evolve(C, shape=(3,)), "has type f32[3], not f32[2]"),
        (attrs.evolve(C, result=ScanResult(ScanPart.OUTPUT, 1)), "which the loop does not have"),
        (attrs.evolve(C, count=-1), "runs -1 steps"),
        (attrs.evolve(C, body=attrs.evolve(STEP, operations=(TABLE, *STEP.operations))), "pass it to the loop"),
        (attrs.evolve(C, body=attrs.evolve(STEP, outputs=("d2", "c2"))), "is f32[2] before a step and f32[] after"),
        (attrs.evolve(C, body=attrs.evolve(STEP, outputs=("c2", "d2", "w"))), "is not defined by an operation"),
    ],
)
def test_broken_loops_are_refused(broken: Scan, words: str) -> None:
    with pytest.raises(VerifyError, match="TIL531") as caught:
        verify(function(broken))
    assert any(words in d.message for d in caught.value.diagnostics), caught.value


def test_loops_are_not_nested_without_end() -> None:
    made = Function((Value("a", F, ()),), ("b",), (Elementwise("b", Op.ADD, ("a", "a"), F, ()),))
    for _ in range(MAX_NESTING + 1):
        inner = Scan("b", made, 2, False, ("a",), (), (), ScanResult(ScanPart.FINAL, 0), F, ())
        made = attrs.evolve(made, operations=(inner,))
    with pytest.raises(VerifyError, match="may be nested"):
        verify(made)


def test_steps_are_printed_once() -> None:
    text = to_text(function(C, Y))
    assert text.count("c_step = function (") == 1
    assert "y: f32[3, 2] = scan c_step(c0, d0; xs; w) 3 times: output 0" in text


@examples(60)
@given(functions())
def test_simplification_and_json_keep_loops(function: Function) -> None:
    verify(function)
    assert from_json(to_json(function), Function) == function
    simple = simplify(function)
    verify(simple)
    given = arguments(function)
    assert_same(interpret(simple, given), interpret(function, given))
