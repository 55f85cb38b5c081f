"""Constants of Tile functions as text: round trips to the bit, digests of long arrays, faults."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays_of

from strategies.effort import examples
from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Constant, Function, Name, Output
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.tile.traversal import arrays


def holding(value: ArrayValue | bool | int | float, dims: tuple[str, ...] | None = None) -> Function:
    names = None if dims is None else tuple(map(Name, dims))
    return Function((), (Output("K"),), (Constant("K", value, names),))


@st.composite
def any_bits(draw: st.DrawFn) -> ArrayValue:
    """Arrays of all dtypes with any bits, NaNs of all kinds among them."""
    dtype = draw(st.sampled_from(DType))
    shape = draw(arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
    count = math.prod(shape)
    if dtype.is_bool:
        return ArrayValue(dtype, shape, bytes(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))))
    if dtype.is_float and draw(st.booleans()):
        special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 1e-7, 65504.0]).astype(dtype.numpy)
        return ArrayValue.of(special[draw(st.lists(st.integers(0, 7), min_size=count, max_size=count))].reshape(shape))
    size = count * dtype.itemsize
    return ArrayValue(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


@given(value=any_bits())
@examples(200)
def test_elements_read_back_to_the_bit(value: ArrayValue) -> None:
    function = holding(value)
    text = to_text(function)
    assert parse(text) == function
    assert to_text(parse(text)) == text
    assert from_json(to_json(function), Function) == function


@given(value=st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats())
@examples(100)
def test_numbers_read_back(value: bool | int | float) -> None:
    function = holding(value)
    again = parse(to_text(function))
    assert again == function
    assert from_json(to_json(function), Function) == function
    (constant,) = again.statements
    assert isinstance(constant, Constant)
    assert type(constant.value) is type(value)


def test_numbers_of_one_value_differ_by_kind() -> None:
    functions = [holding(value) for value in (1, 1.0, True, 0, 0.0, -0.0, False)]
    assert len(set(functions)) == len(functions)
    assert holding(math.nan) == holding(math.nan)


def test_text_is_stable() -> None:
    weights = ArrayValue.of(np.array([[1, 0.1], [-2.5e-9, np.nan]], np.float32))
    assert to_text(holding(weights, ("H", "W'"))).splitlines()[1:-1] == [
        "  constant K[H, W'] = f32[2, 2](1.0, 0.1, -2.5e-09, nan);"
    ]
    many = to_text(holding(ArrayValue.of(np.arange(100, dtype=np.int64))))
    assert max(map(len, many.splitlines())) <= 100
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert "f32[1](bits(2143289345))" in to_text(holding(ArrayValue.of(payload)))


def test_long_arrays_are_printed_by_their_digests() -> None:
    weights = np.random.default_rng(1).normal(size=(500, 500)).astype(np.float32)
    function = holding(ArrayValue.of(weights), ("M", "N"))
    text = to_text(function)
    assert len(text) < 200
    with pytest.raises(TileError, match=r"TIL219.*only the digest") as caught:
        parse(text)
    assert caught.value.diagnostics[0].span is not None
    assert caught.value.diagnostics[0].span.text.startswith("f32[500, 500] sha256_")
    assert parse(text, arrays=[weights]) == function
    assert parse(text, arrays=arrays(function)) == function
    with pytest.raises(TileError, match="TIL219"):
        parse(text, arrays=[weights + 1])
    with pytest.raises(TileError, match=r"TIL219.*the array of this digest is f32"):
        parse(text.replace("f32[", "f64["), arrays=[weights])


def test_constants_of_steps_count_too() -> None:
    step = "function (S) -> (S2) { constant K = f32[2](1.0, 2.0); S2 = S * K; }"
    text = f"function (H) -> (O) {{ O = scan(H) 3 times {step}; }}"
    function = parse(text)
    assert [array.shape for array in arrays(function)] == [(2,)]
    assert parse(to_text(function)) == function


@pytest.mark.parametrize(
    ("declared", "code", "underlined"),
    [
        ("K = f32[2](1.0)", "TIL219", "f32[2](1.0)"),
        ("K = f32[](1.0, 2.0)", "TIL219", "f32[](1.0, 2.0)"),
        ("K = f32[2](1.0, B)", "TIL102", "B"),
        ("K = f32[-2](1.0)", "TIL102", "-"),
        ("K = i8[1](300)", "TIL104", "300"),
        ("K = i8[1](1.5)", "TIL104", "1.5"),
        ("K = i8[1](inf)", "TIL104", "inf"),
        ("K = u8[1](-1)", "TIL104", "-1"),
        ("K = bool[1](2)", "TIL104", "2"),
        ("K = f16[1](70000.0)", "TIL104", "70000.0"),
        ("K = f16[1](bits(65536))", "TIL104", "65536"),
        ("K = i16[1](bits(65))", "TIL102", "bits"),
        ("K = f32[1](1e999)", "TIL104", "1e999"),
        ("K = f32[99999999999999999999]()", "TIL104", "99999999999999999999"),
        ("K = 99999999999999999999999", "TIL104", "99999999999999999999999"),
        ("K = -9223372036854775809", "TIL104", "-9223372036854775809"),
        ("K = 1e999", "TIL104", "1e999"),
        ("K = f8[1](1.0)", "TIL102", "f8"),
        ("K = A", "TIL102", "A"),
        ("K = 1 + 2", "TIL102", "+"),
        ("K = f32[2] sha256_12", "TIL219", "f32[2] sha256_12"),
        ("k = 1", "TIL102", "k"),
        ("K[i] = f32[1](1.0)", "TIL102", "i"),
        ("K[N] = f32[2, 1](1.0, 2.0)", "TIL305", "K"),
        ("K[N] = 2.0", "TIL305", "K"),
        ("K[N, N] = f32[2, 1](1.0, 2.0)", "TIL304", "N"),
        ("K[A] = f32[1](1.0)", "TIL202", "A"),
        ("K[K] = f32[1](1.0)", "TIL202", "K"),
        ("A = 2.0", "TIL202", "A"),
    ],
)
def test_faults_are_told_where_they_are(declared: str, code: str, underlined: str) -> None:
    with pytest.raises(TileError) as caught:
        parse(f"function (A) -> (O) {{ constant {declared}; O = A; }}")
    assert [(d.code, d.span.text if d.span else None) for d in caught.value.diagnostics] == [(code, underlined)]


def test_what_stands_behind_a_fault_is_read() -> None:
    text = "function (A) -> (O) { constant K = f32[2](1.0); constant L = i8[1](300)\nconstant M = 1; O = A * Z; }"
    with pytest.raises(TileError) as caught:
        parse(text)
    assert [d.code for d in caught.value.diagnostics] == ["TIL219", "TIL104", "TIL201"]


def test_dimensions_are_sizes_of_the_array() -> None:
    declared = "constant K[M] = f32[3](1.0, 2.0, 3.0)"
    verify(parse(f"function (I[N]) -> (O) {{ {declared}; O[x : N - M + 1] = +(I[x + j] * K[j]); }}"))
    with pytest.raises(TileError, match="TIL204"):
        parse("function (I[N]) -> (O) { constant K[M] = f32[1](3.0); O[x : K] = +(I[x]); }")


def test_dimensions_are_known_behind_their_constant_only() -> None:
    with pytest.raises(TileError, match=r"TIL201.*used before"):
        parse("function (I[N]) -> (O) { O[x : M] = =(I[x]); constant K[M] = f32[1](3.0); }")


def test_integers_that_no_text_holds_are_refused() -> None:
    with pytest.raises(TileError, match="TIL212"):
        verify(holding(1 << 64))
