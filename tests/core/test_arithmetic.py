"""Every operation against Python's own integers, fractions and floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.rounding import DIGITS, nearest, same
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, cast, constant, dtype_of, fits, merge, rounded
from tileir.core.ops import COMPUTING, Aggregation, Domain, Op

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGERS = [dtype for dtype in DType if dtype.is_integer]
FLOATS = [dtype for dtype in DType if dtype.is_float]
COMPUTED = [dtype for dtype in FLOATS if not dtype.is_storage]
FLOAT_VALUES = st.one_of(
    st.floats(),
    st.floats(width=16),
    st.sampled_from([0.0, -0.0, 0.5, 1.5, 2.5, 65504.0, 65519.99, 65520.0, 3.4028235677973366e38, 1e-45]),
)


def in_domain(op: Op, dtype: DType) -> bool:
    if dtype.is_storage:
        return op.info.domain is Domain.STORED
    if dtype.is_bool:
        return op.info.domain in (Domain.STORED, Domain.ANY, Domain.BITS) and op not in (Op.BIT_LEFT, Op.BIT_RIGHT)
    return op.info.domain is not (Domain.BITS if dtype.is_float else Domain.FLOAT)


def wrap(value: int, dtype: DType) -> int:
    span = 1 << dtype.bits
    value %= span
    return value - span if value > dtype.maximum else value


def shift_left(value: int, count: int, dtype: DType) -> int:
    return value << count if 0 <= count < dtype.bits else 0


def shift_right(value: int, count: int, dtype: DType) -> int:
    return value >> count if 0 <= count < dtype.bits else -int(value < 0)


def divide(left: int, right: int, _: DType) -> int:
    return 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def remainder(left: int, right: int, _: DType) -> int:
    return 0 if right == 0 else (-1 if left < 0 else 1) * (abs(left) % abs(right))


INTEGER_OPS: dict[Op, Callable[..., int]] = {
    Op.IDENT: lambda x, _: x,
    Op.NEG: lambda x, _: -x,
    Op.ABS: lambda x, _: abs(x),
    Op.BIT_NOT: lambda x, _: ~x,
    **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), lambda x, _: x),
    Op.ADD: lambda x, y, _: x + y,
    Op.SUB: lambda x, y, _: x - y,
    Op.MUL: lambda x, y, _: x * y,
    Op.DIV: divide,
    Op.MOD: remainder,
    Op.MAX: lambda x, y, _: max(x, y),
    Op.MIN: lambda x, y, _: min(x, y),
    Op.BIT_AND: lambda x, y, _: x & y,
    Op.BIT_OR: lambda x, y, _: x | y,
    Op.BIT_XOR: lambda x, y, _: x ^ y,
    Op.BIT_LEFT: shift_left,
    Op.BIT_RIGHT: shift_right,
    Op.CMP_EQ: lambda x, y, _: x == y,
    Op.CMP_NE: lambda x, y, _: x != y,
    Op.CMP_LT: lambda x, y, _: x < y,
    Op.CMP_LE: lambda x, y, _: x <= y,
    Op.CMP_GT: lambda x, y, _: x > y,
    Op.CMP_GE: lambda x, y, _: x >= y,
}


def integers(dtype: DType) -> st.SearchStrategy[int]:
    low, high = int(dtype.minimum), int(dtype.maximum)
    edges = [v for v in (low, low + 1, -1, 0, 1, 2, dtype.bits - 1, dtype.bits, high) if low <= v <= high]
    return st.one_of(st.integers(low, high), st.sampled_from(edges))


def value(array: np.ndarray[Any, Any]) -> Any:
    assert isinstance(array, np.ndarray)
    assert array.shape == ()
    return float(array) if dtype_of(array).is_float else array.item()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("op", [op for op in COMPUTING if op.info.domain is not Domain.FLOAT and op is not Op.COND])
@examples(100)
@given(data=st.data(), dtype=st.sampled_from(INTEGERS))
def test_integer_operations_agree_with_int(op: Op, dtype: DType, data: st.DataObject) -> None:
    args = [data.draw(integers(dtype)) for _ in range(op.info.arity)]
    result = apply(op, *(constant(arg, dtype) for arg in args))
    exact = INTEGER_OPS[op](*args, dtype)
    assert dtype_of(result) is (DType.BOOL if op.info.compares else dtype)
    assert value(result) == (exact if op.info.compares else wrap(exact, dtype))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FMA])
@pytest.mark.parametrize("dtype", COMPUTED)
@examples(60)
@given(data=st.data())
def test_float_arithmetic_rounds_once(op: Op, dtype: DType, data: st.DataObject) -> None:
    draw = [float(rounded(data.draw(st.floats(-1e6, 1e6)), dtype)) for _ in range(op.info.arity)]
    if any(math.isinf(x) or abs(x) < 1e-3 for x in draw):
        draw = [2.5, -0.75, 3.0][: op.info.arity]
    x, y, *rest = map(Fraction, draw)
    exact = {
        Op.ADD: lambda: x + y,
        Op.SUB: lambda: x - y,
        Op.MUL: lambda: x * y,
        Op.DIV: lambda: x / y,
        Op.FMA: lambda: x * y + rest[0],
    }[op]()
    # Halves are rounded to f32 first; only FMA has enough bits for that to show.
    through = nearest(exact, DType.F32) if op is Op.FMA and dtype.bits == 16 else None
    expected = nearest(exact if through is None else Fraction(through), dtype)
    assert float(apply(op, *(constant(v, dtype) for v in draw))) == expected


MATHS: dict[Op, Callable[[float], float]] = {
    Op.SQRT: math.sqrt,
    Op.RSQRT: lambda x: 1 / math.sqrt(x),
    Op.EXP: math.exp,
    Op.LOG: math.log,
    Op.SIN: math.sin,
    Op.COS: math.cos,
    Op.TAN: math.tan,
    Op.ASIN: math.asin,
    Op.ACOS: math.acos,
    Op.ATAN: math.atan,
    Op.SINH: math.sinh,
    Op.COSH: math.cosh,
    Op.TANH: math.tanh,
    Op.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    Op.ERF: math.erf,
    Op.FLOOR: math.floor,
    Op.CEIL: math.ceil,
    Op.ROUND: round,
    Op.TRUNC: math.trunc,
    Op.ABS: abs,
    Op.NEG: lambda x: -x,
    Op.IDENT: lambda x: x,
}


@pytest.mark.parametrize("op", MATHS)
@given(x=st.floats(0.0625, 0.9375, width=16), dtype=st.sampled_from(COMPUTED))
@examples(50)
def test_functions_agree_with_math(op: Op, dtype: DType, x: float) -> None:
    x = float(rounded(x, dtype))
    assert float(apply(op, constant(x, dtype))) == pytest.approx(MATHS[op](x), rel=2.0 ** (1 - DIGITS[dtype]))


@pytest.mark.sampled(116)
@pytest.mark.parametrize("op", [op for op in COMPUTING if op is not Op.COND])
@pytest.mark.parametrize("dtype", DType)
def test_result_dtype_and_silence(op: Op, dtype: DType) -> None:
    if not in_domain(op, dtype):
        return
    special = [-3, -1, 0, 1, 2, 100, -128, 127]
    numbers = special + ([math.nan, math.inf, -math.inf, 1e30, -0.0, 1e-40] if dtype.is_float else [])
    values = np.stack([constant(number, dtype) for number in numbers])
    result = apply(op, *np.meshgrid(*[values] * op.info.arity))
    assert dtype_of(result) is (DType.BOOL if op.info.compares else dtype)


@pytest.mark.parametrize("dtype", COMPUTED)
def test_max_and_min_propagate_nan(dtype: DType) -> None:
    nan, one = constant(math.nan, dtype), constant(1.0, dtype)
    for op in (Op.MAX, Op.MIN):
        assert math.isnan(float(apply(op, nan, one)))
        assert math.isnan(float(apply(op, one, nan)))
    assert apply(Op.CMP_NE, nan, nan)
    assert not apply(Op.CMP_EQ, nan, nan)


@pytest.mark.parametrize("dtype", COMPUTED)
def test_modulo_has_the_sign_of_the_dividend(dtype: DType) -> None:
    def mod(x: float, y: float) -> float:
        return float(apply(Op.MOD, constant(x, dtype), constant(y, dtype)))

    assert same(mod(-5.5, 2.0), -1.5)
    assert same(mod(5.5, -2.0), 1.5)
    assert math.isnan(mod(1.0, 0.0))


def test_sigmoid_keeps_its_tails() -> None:
    tails = apply(Op.SIGMOID, np.array([-740.0, 740.0, -math.inf, math.inf]))
    assert tails[0] == pytest.approx(math.exp(-740.0), rel=1e-12)
    assert tails.tolist()[1:] == [1.0, 0.0, 1.0]


def test_cond_selects() -> None:
    left, right = np.array([1, 2], np.int8), np.array([3, 4], np.int8)
    assert apply(Op.COND, np.array([True, False]), left, right).tolist() == [1, 4]


@pytest.mark.parametrize("dtype", INTEGERS)
@given(x=FLOAT_VALUES)
def test_float_to_integer_truncates_and_saturates(dtype: DType, x: float) -> None:
    low, high = int(dtype.minimum), int(dtype.maximum)
    expected = 0 if math.isnan(x) else high if x >= high else low if x <= low else int(x)
    assert value(cast(np.array(x), dtype)) == expected
    assert rounded(x, dtype) == expected


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_next_to_the_limits_of_integers(source: DType, dtype: DType) -> None:
    low, high = int(dtype.minimum), int(dtype.maximum)
    values = [limit + move for limit in (low, high, 0) for move in (-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2)]
    array = cast(np.array([*map(float, values), -math.inf, math.inf, math.nan]), source)
    found = cast(array, dtype)
    assert dtype_of(found) is dtype
    floats = array.astype(np.float64).tolist()[:-1]
    ends = {math.inf: high, -math.inf: low}
    clamped = (0 if math.isnan(x) else ends[x] if x in ends else min(max(math.trunc(x), low), high) for x in floats)
    assert found.tolist() == [*clamped, 0]


@pytest.mark.parametrize("dtype", FLOATS)
@given(x=FLOAT_VALUES)
def test_narrowing_rounds_to_nearest_even(dtype: DType, x: float) -> None:
    infinite = math.isinf(x) and dtype.format.infinities
    expected = nearest(Fraction(x), dtype) if math.isfinite(x) else x if infinite else math.nan
    result = float(cast(np.array(x), dtype))
    assert result == expected or (math.isnan(result) and math.isnan(expected))
    assert same(result, float(rounded(x, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_integers_round_once_to_floats(dtype: DType, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(INTEGERS))
    number = data.draw(integers(source))
    assert same(float(cast(constant(number, source), dtype)), nearest(Fraction(number), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@given(number=st.integers(-(2**1100), 2**1100) | st.integers(2**53, 2**70))
def test_python_integers_round_once(dtype: DType, number: int) -> None:
    assert same(float(rounded(number, dtype)), nearest(Fraction(number), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", [1, 9, 25, 53, 54, 55, 64, 65, 127, 128, 129, 1023, 1024, 1025, 1026])
def test_python_integers_next_to_the_middle_of_two_floats_round_once(dtype: DType, bits: int) -> None:
    unit = 1 << max(bits - DIGITS[dtype], 0)
    for low in ((1 << (bits - 1)), (1 << (bits - 1)) + unit, (1 << bits) - unit):
        for number in (low, low + unit // 2 - 1, low + unit // 2, low + unit // 2 + 1):
            for signed in (number, -number):
                assert same(float(rounded(signed, dtype)), nearest(Fraction(signed), dtype)), signed


@pytest.mark.parametrize("dtype", INTEGERS)
@given(data=st.data())
def test_integer_to_integer_wraps(dtype: DType, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(INTEGERS))
    number = data.draw(integers(source))
    assert cast(constant(number, source), dtype).item() == wrap(number, dtype)


@pytest.mark.parametrize("dtype", DType)
def test_cast_to_and_from_bool(dtype: DType) -> None:
    values = np.stack([constant(number, dtype) for number in (0, 1)])
    assert cast(values, DType.BOOL).tolist() == [False, True]
    assert cast(np.array([False, True]), dtype).astype(float).tolist() == [0.0, 1.0]
    if dtype.is_float:
        assert cast(constant(math.nan, dtype), DType.BOOL)


def test_fits() -> None:
    assert all(fits(dtype.minimum, dtype) and fits(dtype.maximum, dtype) for dtype in DType)
    assert not any(fits(dtype.minimum - 1, dtype) or fits(dtype.maximum + 1, dtype) for dtype in INTEGERS)
    assert fits(255, DType.U8)
    assert not fits(256, DType.U8)
    assert not fits(-1, DType.U64)
    assert not fits(0.5, DType.I32)
    assert not fits(math.nan, DType.I32)
    assert fits(math.inf, DType.F16)
    assert fits(65519, DType.F16)
    assert not fits(65520, DType.F16)
    assert not fits(10**400, DType.F64)
    assert fits(1, DType.BOOL)
    assert not fits(2, DType.BOOL)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("aggregation", Aggregation)
def test_identity_leaves_values_unchanged(dtype: DType, aggregation: Aggregation) -> None:
    if aggregation in (Aggregation.SUM, Aggregation.PROD) and dtype.is_bool:
        return
    identity = constant(aggregation.identity(dtype), dtype)
    one = constant(1, dtype)
    assert merge(aggregation, identity, one) == one


def test_aggregations_merge_with_what_is_there() -> None:
    left, right = np.array([2, 7], np.int8), np.array([5, 3], np.int8)
    merged = {aggregation: merge(aggregation, left, right).tolist() for aggregation in Aggregation}
    assert merged == {
        Aggregation.SUM: [7, 10],
        Aggregation.PROD: [10, 21],
        Aggregation.MAX: [5, 7],
        Aggregation.MIN: [2, 3],
        Aggregation.ASSIGN: [5, 3],
    }


def test_foreign_dtype_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="complex128"):
        apply(Op.NEG, np.array(1j))


@pytest.mark.parametrize("source", [DType.I32, DType.I64, DType.U32, DType.U64])
def test_integers_become_bf16_by_one_rounding(source: DType) -> None:
    """Next to the middle of two values of bf16, an f32 on the way there would be that middle."""
    for exponent in range(9, source.bits - 1):
        step = 1 << (exponent - 7)
        for low in (1 << exponent, (1 << exponent) + step):
            values = [low + step // 2 + move for move in (-1, 0, 1)]
            values += [-value for value in values] if source.is_signed else []
            expected = [nearest(Fraction(value), DType.BF16) for value in values]
            found = cast(np.array(values, source.numpy), DType.BF16).astype(np.float64)
            assert found.tolist() == expected


@pytest.mark.parametrize("dtype", COMPUTED)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 0.25, 1.5, 2.0, 3.0, -1.0, 0.0, math.inf, -math.inf, math.nan])
def test_powers_of_special_values_are_those_of_ieee_754(dtype: DType, exponent: float) -> None:
    bases = [-math.inf, math.inf, -0.0, 0.0, -1.0, 1.0, 16.0, math.nan]
    one = apply(Op.POW, cast(np.array(bases), dtype), constant(exponent, dtype))
    for base, found in zip(bases, one.astype(np.float64), strict=True):
        try:
            expected = math.pow(base, exponent)
        except ValueError:  # Python refuses what IEEE 754 gives a value
            expected = math.nan if base < 0 else math.copysign(math.inf, base if exponent % 2 == 1 else 1)
        assert same(found, expected), (base, exponent, found)


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype.is_storage])
def test_conversions_to_types_of_storage_are_those_of_ml_dtypes(dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    numbers = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    ends = np.sort(numbers[np.isfinite(numbers)])
    middles = np.concatenate(
        [ends, (ends[1:] + ends[:-1]) / 2, [464.0, 480.0, 496.0, 512.0, 61440.0, 65536.0, 3e38, 1e-45]]
    )
    near = np.concatenate([np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)])
    for array in (
        every.view(np.float16),
        every.view(DType.BF16.numpy),
        middles.astype(np.float32),
        near.astype(np.float32),
    ):
        with np.errstate(all="ignore"):
            wanted, found = array.astype(dtype.numpy), cast(array, dtype)
            assert np.array_equal(found.view(np.uint8), wanted.view(np.uint8))
            assert np.array_equal(cast(found, DType.F64), wanted.astype(np.float64), equal_nan=True)


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype.is_storage])
def test_doubles_next_to_the_middle_of_two_numbers_of_storage_round_once(dtype: DType) -> None:
    numbers = np.arange(128, dtype=np.uint8).view(dtype.numpy).astype(np.float64)
    ends = np.sort(numbers[np.isfinite(numbers)])
    for middle in [*((ends[1:] + ends[:-1]) / 2), dtype.format.largest * (1 + dtype.format.epsilon / 4)]:
        for value in (middle, np.nextafter(middle, 0.0), np.nextafter(middle, np.inf), middle * (1 + 2.0**-40)):
            for signed in (value, -value):
                assert same(float(cast(np.array(signed), dtype)), nearest(Fraction(signed), dtype)), signed
