"""The short paths of the interpreter equal the definition, for every operation, dtype and lane count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from strategies.semtree_values import allowed_ops, content
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, cast
from tileir.core.numbers.number_system import NumberSystem
from tileir.core.ops import Op
from tileir.semtree.expressions import REDUCTIONS
from tileir.semtree.interpret.scalar_arithmetic import (
    constant,
    conversion,
    operation,
    reduction,
    reinterpretation,
    wrap,
)
from tileir.semtree.ir import Type
from tileir_testing.checking.check import EXACT

if TYPE_CHECKING:
    from tileir.semtree.interpret.scalar_arithmetic import Value

SIZE = 48


def scalars(array: np.ndarray[Any, Any], dtype: DType) -> list[Value]:
    """Return elements in the form that the interpreter holds for scalars."""
    return list(array) if dtype.is_float else array.tolist()


def raw(array: np.ndarray[Any, Any]) -> bytes:
    """Return the bits of an array, with one NaN for all."""
    values = np.array(array)
    values[values != values] = 0
    return bytes(values.tobytes() + (array != array).tobytes())


def ops(dtype: DType) -> list[Op]:
    extra = [op for op in Op if op.info.compares or op is Op.COND]
    return [*allowed_ops(dtype), *extra]


@pytest.mark.parametrize("dtype", DType)
def test_operations(dtype: DType) -> None:
    for op in ops(dtype):
        args = [content(dtype, SIZE, seed) for seed in range(op.info.arity)]
        if op is Op.COND:
            args[0] = content(DType.BOOL, SIZE, 0)
        kinds = [DType.BOOL if op is Op.COND and not number else dtype for number in range(op.info.arity)]
        expected = apply(op, *args)
        with np.errstate(all="ignore"):
            vectors = operation(op, Type(dtype, SIZE))(*args)
            function = operation(op, Type(dtype))
            columns = [scalars(arg, kind) for arg, kind in zip(args, kinds, strict=True)]
            single = [function(*row) for row in zip(*columns, strict=True)]
        assert raw(vectors) == raw(expected), op
        assert raw(np.array(single, expected.dtype)) == raw(expected), op
        wanted = bool if op.info.compares or dtype.is_bool else int if dtype.is_integer else np.generic
        assert all(isinstance(value, wanted) for value in single), op


@pytest.mark.parametrize("dtype", DType)
def test_vectors_of_two_lanes_are_vectors(dtype: DType) -> None:
    kind = Type(dtype, 2)
    for op in ops(dtype):
        args = [content(dtype, 2, seed) for seed in range(op.info.arity)]
        if op is Op.COND:
            args[0] = np.array([True, False])
        with np.errstate(all="ignore"):
            assert raw(operation(op, kind)(*args)) == raw(apply(op, *args)), op
    values = content(dtype, 2, 3)
    for target in DType:
        assert raw(conversion(kind, target)(values)) == raw(cast(values, target))
    assert reinterpretation(kind, dtype)(values).shape == constant(1, kind).shape == (2,)


FLOATS = [dtype for dtype in DType if dtype.is_float]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
def test_other_numbers_take_the_place_of_floats(dtype: DType) -> None:
    left, right, third = (EXACT.random(dtype, (SIZE,), np.random.default_rng(seed)) for seed in range(3))
    for op in (Op.ADD, Op.MUL, Op.DIV, Op.FMA, Op.EXP, Op.CMP_LT, Op.MAX):
        args = (left, right, third)[: op.info.arity]
        expected = EXACT.apply(op, DType.BOOL if op.info.compares else dtype, *args)
        assert operation(op, Type(dtype, SIZE), EXACT)(*args).tolist() == expected.tolist()
        single = [operation(op, Type(dtype), EXACT)(*row) for row in zip(*args, strict=True)]
        assert single == expected.tolist()
        assert not op.info.compares or all(type(value) is bool for value in single)
    chosen = operation(Op.COND, Type(dtype), EXACT)
    assert (chosen(True, left[0], right[0]), chosen(False, left[0], right[0])) == (left[0], right[0])
    assert operation(Op.COND, Type(dtype, SIZE), EXACT)(left == left, left, right).tolist() == left.tolist()
    merged = left[0]
    for lane in left[1:]:
        merged = EXACT.apply(Op.ADD, dtype, merged, lane)
    assert reduction(Op.ADD, Type(dtype, SIZE), EXACT)(left) == merged
    assert constant(0.5, Type(dtype), EXACT) == EXACT.constant(0.5, dtype)
    assert constant(0.5, Type(dtype, 3), EXACT).tolist() == [EXACT.constant(0.5, dtype)] * 3
    assert conversion(Type(dtype), DType.I32, EXACT)(EXACT.constant(2.5, dtype)) == 2
    assert conversion(Type(DType.I32), dtype, EXACT)(3) == EXACT.constant(3, dtype)


class Told(NumberSystem):
    """Numbers as usual, which note the dtypes of the results that they are asked for."""

    def __init__(self) -> None:
        self.dtypes: list[DType] = []

    def apply(self, op: Op, dtype: DType, *args: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.dtypes.append(dtype)
        return super().apply(op, dtype, *args)


@pytest.mark.parametrize("lanes", [1, 4])
def test_other_numbers_are_told_the_dtype_of_the_result(lanes: int) -> None:
    kind, numbers = Type(DType.F16, lanes), Told()
    value = content(DType.F16, lanes, 1)
    for op in (Op.CMP_LT, Op.ADD):
        operation(op, kind, numbers)(value, value)
    assert numbers.dtypes == [DType.BOOL, DType.F16]
    reduction(Op.ADD, kind, numbers)(value)
    assert numbers.dtypes[2:] == [DType.F16] * (lanes - 1)
    reduction(Op.ADD, Type(DType.I8, 4), numbers)(np.ones(4, np.int8))
    assert len(numbers.dtypes) == 1 + lanes, "integers are no matter of number systems"


def test_integers_are_the_same_in_all_number_systems() -> None:
    values = content(DType.I8, SIZE, 1)
    assert operation(Op.ADD, Type(DType.I8, SIZE), EXACT)(values, values).dtype == np.int8
    assert operation(Op.ADD, Type(DType.I8), EXACT)(100, 100) == -56
    assert type(operation(Op.CMP_LT, Type(DType.I8), EXACT)(1, 2)) is bool
    assert reduction(Op.ADD, Type(DType.I8, 2), EXACT)(np.array([100, 100], np.int8)) == -56
    assert type(constant(3, Type(DType.I8), EXACT)) is int


@pytest.mark.sampled(88)
@pytest.mark.parametrize("source", DType)
@pytest.mark.parametrize("target", DType)
def test_conversions(source: DType, target: DType) -> None:
    values = content(source, SIZE, 3)
    expected = cast(values, target)
    assert raw(conversion(Type(source, SIZE), target)(values)) == raw(expected)
    single = [conversion(Type(source), target)(value) for value in scalars(values, source)]
    assert raw(np.array(single, expected.dtype)) == raw(expected)


@pytest.mark.sampled(133)
@pytest.mark.parametrize("source", DType)
@pytest.mark.parametrize("target", DType)
def test_reinterpretations(source: DType, target: DType) -> None:
    if source.bits != target.bits or source.is_bool:
        return
    values = content(source, SIZE, 3)
    expected = values.view(target.numpy)
    vector = reinterpretation(Type(source, SIZE), target)(values)
    assert vector.dtype == target.numpy
    assert vector.tobytes() == expected.tobytes()
    single = [reinterpretation(Type(source), target)(value) for value in scalars(values, source)]
    assert raw(np.array(single, expected.dtype)) == raw(expected)


@pytest.mark.parametrize("dtype", DType)
def test_reductions(dtype: DType) -> None:
    values = content(dtype, 8, 5)
    values[values != values] = 0
    for op in sorted(REDUCTIONS & set(allowed_ops(dtype)), key=lambda op: op.value):
        with np.errstate(all="ignore"):
            actual = reduction(op, Type(dtype, 8))(values)
        expected = values[0:1]
        for lane in range(1, 8):
            expected = apply(op, expected, values[lane : lane + 1])
        if dtype in (DType.F16, DType.BF16):
            assert raw(actual) == raw(expected[0]), op
        elif dtype.is_float and np.isfinite(np.float64(expected[0])):
            np.testing.assert_allclose(np.float64(actual), np.float64(expected[0]), rtol=1e-2, atol=1e-2)
        elif not dtype.is_float:
            assert actual == expected[0]
            assert type(actual) in (int, bool)
        assert reduction(op, Type(dtype))(actual) is actual


def test_constants() -> None:
    assert constant(3, Type(DType.I8)) == 3
    assert constant(True, Type(DType.BOOL)) is True
    assert constant(0.5, Type(DType.BF16)).dtype == DType.BF16.numpy
    assert constant(2, Type(DType.U8, 3)).tolist() == [2, 2, 2]
    assert constant(2, Type(DType.U8, 3)).dtype == np.uint8


def test_wrap() -> None:
    assert [wrap(value, DType.I8) for value in (127, 128, -129, 256)] == [127, -128, 127, 0]
    assert [wrap(value, DType.U8) for value in (255, 256, -1)] == [255, 0, 255]


@pytest.mark.parametrize("tail", [0.0, 2.0**-80, -(2.0**-80), 2.0**-149])
def test_fused_sums_are_rounded_once(tail: float) -> None:
    factors = np.array([1 + 2.0**-12, 2.0**-75, 2.0**-63, 0.0, 2.0**100, np.inf, np.nan], np.float32)
    tails = np.full(len(factors), tail, np.float32)
    expected = apply(Op.FMA, factors, factors, tails)
    function = operation(Op.FMA, Type(DType.F32))
    with np.errstate(all="ignore"):
        assert raw(operation(Op.FMA, Type(DType.F32, len(factors)))(factors, factors, tails)) == raw(expected)
        single = [function(x, x, z) for x, z in zip(factors, tails, strict=True)]
    assert raw(np.array(single)) == raw(expected)
    assert all(isinstance(value, np.float32) for value in single)


def test_fused_sums_below_the_normal_range_are_rounded_once() -> None:
    """Next to the middle between two subnormal numbers, the f64 sum would be that middle."""
    above, below = np.float32(2.0**-75 * (1 + 2.0**-23)), np.float32(2.0**-75 * (1 - 2.0**-23))
    unit = 2.0**-149
    function = operation(Op.FMA, Type(DType.F32))
    for sum_of, added in ((2.0**-130, 2.0**-130), (2.0**-130 + unit, 2.0**-130 + unit)):
        assert function(above, below, np.float32(added)) == sum_of
        assert function(-above, below, np.float32(added)) == sum_of
        assert function(-above, -above, np.float32(added)) == sum_of + unit
        assert function(-above, above, np.float32(added)) == sum_of - unit
        lefts, rights = np.array([above, -above, -above], np.float32), np.array([below, -above, above], np.float32)
        lanes = operation(Op.FMA, Type(DType.F32, 3))(lefts, rights, np.full(3, added, np.float32))
        assert lanes.tolist() == [sum_of, sum_of + unit, sum_of - unit]
