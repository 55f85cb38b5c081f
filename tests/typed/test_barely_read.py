"""Aggregations over indices that no operand has, against the interpreter: each of their values is a term.

A sum counts them, a product is raised to their number, and a greatest or least value only asks whether there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import event, given

import tileir
from strategies import means
from strategies.barely_read import barely_read
from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.driver.compiler import compile_stages
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType
from tileir.typed.simplify import distribution
from tileir.typed.simplify.preparation import prepared
from tileir.typed.text.parser import parse as parse_typed
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from fuzz.area import Array
    from tileir.typed.ir import Function


@examples(300)
@given(barely_read())
def test_operands_that_stay_are_taken_out(case: tuple[Function, dict[str, Array]]) -> None:
    function, arrays = case
    verify(function)
    with mock.patch.multiple(distribution, GAIN=0, LEAST=0):
        after = prepared(function)
    verify(after)
    event("apart" if len(after.operations) > 1 else "whole")
    np.testing.assert_array_equal(interpret(after, arrays)["O"], interpret(function, arrays)["O"])


@examples(100)
@given(barely_read(largest=6))
def test_kernels_visit_each_value(case: tuple[Function, dict[str, Array]]) -> None:
    function, arrays = case
    types = {value.name: TensorType(value.dtype, value.shape) for value in function.inputs}
    for name, passes in (("middle", "cpu"), ("groups", "gpu")):
        target = means.TARGETS[name]
        stages = compile_stages(function, types, target, passes=means.PASSES[passes](target))
        np.testing.assert_array_equal(means.on_device(stages, arrays)["O"], interpret(function, arrays)["O"])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", ["(j - k + 1) / 2", "(j + k) / 3", "(9 - j - k) / 2", "j / 2 - k", "2*j - k / 3"])
@pytest.mark.parametrize("sign", "+*><")
@pytest.mark.parametrize("read", ["A[]", "A[] * A[]", "A[] + B[i]", "B[i]"])
def test_written_at_a_part_of_a_sum(place: str, sign: str, read: str) -> None:
    text = f"function (A[], B[N]) -> (O) {{ O[{place}, i : 20, 14] = {sign}({read}), k / 2 < 6, j < 40; }}"
    arrays = {"A": np.bool_(True), "B": np.arange(14) % 2 == 0}
    wanted = tileir.evaluate(text, arrays)
    assert np.any(wanted)
    np.testing.assert_array_equal(tileir.jit(text)(**arrays), wanted)


@pytest.mark.parametrize(
    ("sign", "condition", "wanted"),
    [
        ("+", "0 + k < 5", 15),
        ("+", "1/2*k < 5", 15),
        ("+", "1/3*k - 1 < 2", 6),
        ("+", "2*k + 1 < 5", 6),
        ("*", "0 + k < 5", 243),
        (">", "0 + k < 5", 3),
        ("<", "0 + k < 5", 3),
        ("+", "0 + k < 0", 0),
        (">", "0 + k < 0", 0),
        ("=", "0 + k < 1", 3),
        ("=", "0 + k < 0", 0),
    ],
)
def test_an_index_of_a_condition_alone_counts(sign: str, condition: str, wanted: int) -> None:
    """Tile takes such an index for a slip; in the typed stage it says how often a value counts."""
    text = f"function (A: i32[]) -> (O) {{ O: i32[] = [] {sign}(A[]), {condition} }}"
    function = parse_typed(text)
    verify(function)
    arrays = {"A": np.int32(3)}
    assert tileir.evaluate(function, arrays) == wanted
    assert tileir.jit(function)(**arrays) == wanted


def test_gradients_count_such_values() -> None:
    text = "function (A[N]) -> (O) { O[(j - k + 1) / 2 : 20] = +(A[0] * A[i]), k / 2 < 6, j < 40; }"
    arrays = {"A": np.array([2.0, 3.0, 5.0])}
    gradient = tileir.gradient(tileir.parse(text))
    values = infer(parse(text), {"A": TensorType(DType.F64, (3,))})
    terms = interpret(values, arrays)["O"].sum() / (2.0 * 10.0)
    for found in (tileir.evaluate(gradient, arrays), tileir.jit(gradient)(**arrays)):
        np.testing.assert_allclose(found, terms * np.array([12.0, 2.0, 2.0]), rtol=1e-12)
