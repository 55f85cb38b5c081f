"""The definition itself: what happens to unwritten elements, NaN, overflow, wrong arrays."""

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType
from tileir_testing.programs.case import Array


def function_of(text: str, **arrays: Array) -> Function:
    types = {}
    for name, array in arrays.items():
        dtype = DType.of(array.dtype)
        assert dtype is not None
        types[name] = TensorType(dtype, array.shape)
    return infer(parse(text), types)


def run(text: str, **arrays: Array) -> list[object]:
    return [array.tolist() for array in interpret(function_of(text, **arrays), arrays).values()]


def test_halves_are_summed_in_f32() -> None:
    many = np.full(3000, 1, np.float16)
    assert run("function (A[N]) -> (O) { O[] = +(A[i]); }", A=many) == [3000.0]
    large = np.full(3, 300, np.float16)
    assert run("function (A[N]) -> (O) { O[] = +(A[i] * A[i]) ; }", A=large) == [float("inf")]
    assert run("function (A[N]) -> (O) { O[i : N] = >(A[i] * A[i]); }", A=large)[0] == [float("inf")] * 3


def test_integer_sums_wrap() -> None:
    assert run("function (A[N]) -> (O) { O[] = +(A[i]); }", A=np.array([100, 100], np.int8)) == [-56]
    assert run("function (A[N]) -> (O) { O[] = *(A[i]); }", A=np.array([16, 16], np.uint8)) == [0]


def test_nan_wins_in_maximum_and_minimum() -> None:
    values = np.array([[1, np.nan], [np.nan, 2], [3, 4]], np.float32)
    text = "function (A[N, M]) -> (O, P) { O[i : N] = >(A[i, j]); P[i : N] = <(A[i, j]); }"
    high, low = interpret(function_of(text, A=values), {"A": values}).values()
    np.testing.assert_array_equal(high, np.array([np.nan, np.nan, 4], np.float32))
    np.testing.assert_array_equal(low, np.array([np.nan, np.nan, 3], np.float32))


def test_infinities_survive_maximum() -> None:
    values = np.array([-np.inf, -np.inf], np.float32)
    assert run("function (A[N]) -> (O) { O[] = >(A[i]); }", A=values) == [float("-inf")]


def test_a_failed_condition_contributes_zero() -> None:
    a, b, c = np.array([1, 2], "i4"), np.array([1, 3], "i4"), np.array([-5, -7], "i4")
    text = "function (A[N], B[N], C[N]) -> (O, P) { O[] = >(A[i] == B[i] ? C[i]); P[] = *(A[i] == B[i] ? C[i]); }"
    assert run(text, A=a, B=b, C=c) == [0, 0]


def test_nothing_valid_leaves_zeros_or_the_default() -> None:
    a, d = np.array([1, 2, 3], "i4"), np.array([7, 8], "i4")
    text = (
        "function (A[N], D[M]) -> (O, P) { O[2 * i : 2] = >(A[4 * i + 3]); P[2 * i : 2] = <(A[4 * i + 3]) default D; }"
    )
    assert run(text, A=a, D=d) == [[0, 0], [7, 8]]


def test_results_do_not_depend_on_the_order_of_an_input_in_memory() -> None:
    a = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert run("function (A[N, M]) -> (O) { O[j, i : M, N] = =(A[i, j]); }", A=a) == [a.T.tolist()]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "input 'A' has no array"),
        ({"A": np.zeros(3, np.float64)}, r"input 'A' is float64\[3\], but its parameter is f32\[3\]"),
        ({"A": np.zeros(4, np.float32)}, r"input 'A' is float32\[4\], but its parameter is f32\[3\]"),
        ({"A": np.zeros(3, ">f4")}, r"but its parameter is f32\[3\]"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, Array], message: str) -> None:
    function = function_of("function (A) -> (O) { O = A; }", A=np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match=message) as caught:
        interpret(function, arrays)
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == [("TIL701", "A")]
