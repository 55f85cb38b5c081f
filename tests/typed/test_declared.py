"""Arguments and results are compared with what signatures declare of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping


def fault(text: str, types: Mapping[str, str | float]) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the code, message, underlined text and notes of the only fault that a text has for some types."""
    with pytest.raises(TileError) as caught:
        tileir.compile(text, types)
    (found,) = caught.value.diagnostics
    return found.code, found.message, found.underlined, found.notes


@pytest.mark.parametrize(
    ("text", "types", "message", "underlined"),
    [
        (
            "function (A: f32[N, 3]) -> (C) { C = A; }",
            {"A": "f64[2, 3]"},
            "input 'A' is declared as A: f32[N, 3], but its argument is f64[2, 3]; "
            "convert it, or declare another dtype",
            "A: f32[N, 3]",
        ),
        (
            "function (A: f32[N, 3]) -> (C) { C = A; }",
            {"A": "f32[2, 4]"},
            "axis 1 of 'A' is declared as 3, but its argument has 4",
            "3",
        ),
        (
            "function (A: i32) -> (C) { C = A; }",
            {"A": 2.5},
            "input 'A' is declared as A: i32, but its argument is number(f64); pass a number of that kind",
            "A: i32",
        ),
        (
            "function (A: f32) -> (C) { C = A; }",
            {"A": True},
            "input 'A' is declared as A: f32, but its argument is number(bool); pass a number of that kind",
            "A: f32",
        ),
        (
            "function (A[N]) -> (C: f32[N]) { C = A * 2; }",
            {"A": "f16[4]"},
            "result 'C' is declared as C: f32[N], but is f16[4]; convert it, by as_f32(C)",
            "C: f32[N]",
        ),
        (
            "function (A[N]) -> (C[2 * N, 3]) { C[i, j : N, 3] = +(A[i + j]); }",
            {"A": "f16[4]"},
            "result 'C' is declared as C[2 * N, 3], which is [8, 3] here, but is [4, 3]",
            "C[2 * N, 3]",
        ),
        (
            "function (A) -> (C[3]) { C = A; }",
            {"A": "f16[4, 3]"},
            "result 'C' is declared as C[3], which is [3] here, but is [4, 3]",
            "C[3]",
        ),
        (
            "function (A: i8[]) -> (C) { C[i : A] = =(A[]), i < A; }",
            {"A": 300},
            "input 'A' is declared as A: i8[], but its argument is size(300); pass a number of that kind",
            "A: i8[]",
        ),
    ],
)
def test_faults(text: str, types: Mapping[str, str | float], message: str, underlined: str) -> None:
    assert fault(text, types)[:3] == ("TIL317", message, underlined)


def test_faults_of_results_name_where_these_are_defined() -> None:
    text = "function (A) -> (C: f32) {\n  B = A;\n  C = B + 1;\n}\n"
    assert fault(text, {"A": "i8[2]"})[3] == ("it is defined in line 3",)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if not dtype.is_bool and not dtype.is_storage])
def test_numbers_adapt_to_declared_dtypes(dtype: DType) -> None:
    text = f"function (A, S: {dtype.value}) -> (O, P) {{ O = S * 3; P = A + S; }}"
    number: int | float = 2.25 if dtype.is_float else 2
    array = np.array([1, 2], np.int8)
    thrice, plus = tileir.evaluate(text, [array, number])
    assert (thrice.dtype, float(thrice)) == (dtype.numpy, number * 3)
    as_array = tileir.evaluate(text, [array, np.array(number, dtype.numpy)])[1]
    assert plus.dtype == as_array.dtype
    np.testing.assert_array_equal(plus, array + np.array(number, plus.dtype))


@examples(50)
@given(st.floats(width=64, allow_nan=False), st.sampled_from(["f16", "bf16", "f32", "f64"]))
def test_numbers_are_rounded_once_to_what_is_declared(value: float, dtype: str) -> None:
    jitted = tileir.jit(f"function (A: {dtype}, B) -> (C: {dtype}) {{ C = A + B; }}")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else DType(dtype).numpy)
    with np.errstate(over="ignore"):
        right = np.array(value).astype(kind)
    if np.isinf(right) and not np.isinf(value):
        with pytest.raises(TileError):
            jitted(value, np.zeros((), kind))
    else:
        np.testing.assert_array_equal(jitted(value, np.zeros((), kind)), right + np.zeros((), kind))


def test_numbers_out_of_range_are_refused() -> None:
    jitted = tileir.jit("function (A: i8, B) -> (C) { C = A + B; }")
    array = np.zeros(2, np.int32)
    np.testing.assert_array_equal(jitted(127, array), [127, 127])
    with pytest.raises(TileError, match="128"):
        jitted(128, array)


def test_constants_get_what_results_declare() -> None:
    source = "function (A[N]) -> (O: f64, P: u8[], Q: f32[]) { O = 0.1; P = N; Q[] = +(A[i]); }"
    found = tileir.evaluate(source, np.ones(3, np.float32))
    assert [result.dtype for result in found] == [np.float64, np.uint8, np.float32]
    assert [float(result) for result in found] == [0.1, 3.0, 3.0]
    with pytest.raises(TileError, match="300 does not fit in u8"):
        tileir.evaluate("function (A[N]) -> (P: u8) { P = N; }", np.ones(300, np.float32))


def test_shapes_alone_mean_the_declared_dtype() -> None:
    compiled = tileir.compile("function (A: i16[N], B[N]) -> (C: f32[N]) { C = A + B; }", {"A": (3,), "B": (3,)})
    np.testing.assert_array_equal(compiled(np.ones(3, np.int16), np.ones(3, np.float32)), [2, 2, 2])


def test_steps_of_scans_are_checked() -> None:
    text = """function (X{outer}) -> (S) {{
      Start = 0;
      S = scan(Start; X) function (C: f64[], E[]) -> (C1: f64[]) {{ C1 = C + E; }};
    }}"""
    found = tileir.evaluate(text.format(outer="[N]"), np.arange(4, dtype=np.float32))
    assert (found.dtype, float(found)) == (np.float64, 6.0)
    with pytest.raises(TileError, match="input 'E' is declared as E: f32"):
        tileir.evaluate(text.format(outer="").replace("E[]", "E: f32[]"), np.arange(4.0))


def test_calls_check_dtypes_where_they_are_known() -> None:
    inner = parse("function (A: f32[N, 3], S: f64) -> (C: f32[N]) { C[i : N] = +(A[i, j]); }")
    f = tileir.FunctionBuilder()
    x = f.input("X", "M", "K")
    function = f.build(O=inner(x, 2))
    with pytest.raises(TileError, match="'X' is f64, where f32 is declared"):
        tileir.compile(function, {"X": "f64[2, 3]"})
    with pytest.raises(TileError, match=r"has shape \[2, 4\], where \[2, 3\] is declared"):
        tileir.compile(function, {"X": "f32[2, 4]"})
    np.testing.assert_array_equal(tileir.evaluate(function, np.ones((2, 3), np.float32)), [3, 3])


def test_bound_values_are_what_is_declared() -> None:
    source = "function (A: f32[N, 2], S: f32, K[3]) -> (C) { C = A * S + 0 * N; }"
    bound = tileir.bind(source, S=2, A=np.ones((3, 2), np.float32))
    assert "constant S = f32[](2.0);" in tileir.to_text(bound)
    assert "constant A[N, 2] = f32[3, 2]" in tileir.to_text(bound)
    for name, value in (("S", True), ("A", np.ones((3, 2))), ("S", np.float64(2))):
        with pytest.raises(TileError) as caught:
            tileir.bind(source, {name: value})
        assert [found.code for found in caught.value.diagnostics] == ["TIL317"]
    with pytest.raises(TileError, match="declared as 2, but has 3"):
        tileir.bind(source, A=np.ones((3, 3), np.float32))


@pytest.mark.parametrize("number", [3, 3.0])
def test_gradients_by_declared_numbers(number: float) -> None:
    source = "function (A: f64[N], S: f32) -> (L: f64[]) { B = A * S; L[] = +(B[i]); }"
    derived = tileir.gradient(source)
    assert tileir.to_text(derived).splitlines()[0] == "function (A: f64[N], S: f32) -> (DA: f64[N], DS: f32) {"
    array = np.array([1.0, 2.0, 4.0])
    for function in (derived, tileir.gradient(source, arguments=[array, number])):
        by_array, by_number = tileir.evaluate(function, [array, number])
        np.testing.assert_array_equal(by_array, [3.0, 3.0, 3.0])
        assert (by_number.dtype, float(by_number)) == (np.float32, 7.0)


def test_cotangents_and_tangents_have_the_declared_dtypes() -> None:
    source = "function (A: f32[N, 2], I: i32[N]) -> (B: f32[N, 2]) { B = A * A; }"
    array, places = np.ones((3, 2), np.float32), np.zeros(3, np.int32)
    pulled = tileir.vjp(source, [array, places], {"B": 2 * array})
    np.testing.assert_array_equal(pulled["A"], 4 * array)
    pushed = tileir.jvp(source, [array, places], {"A": 3 * array})
    np.testing.assert_array_equal(next(iter(pushed.values())), 6 * array)
