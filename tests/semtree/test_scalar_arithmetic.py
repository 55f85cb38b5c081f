"""The short paths of the interpreter equal the definition, for every operation, dtype and lane count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from strategies.semtree_values import allowed_ops, content
from tileir.core.arithmetic import apply, cast
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir.semtree.scalar_arithmetic import constant, conversion, operation, reduction, reinterpretation, wrap
from tileir.semtree.type_rules import REDUCTIONS

if TYPE_CHECKING:
    from tileir.semtree.scalar_arithmetic import Value

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


@pytest.mark.parametrize("source", DType)
@pytest.mark.parametrize("target", DType)
def test_conversions(source: DType, target: DType) -> None:
    values = content(source, SIZE, 3)
    expected = cast(values, target)
    assert raw(conversion(Type(source, SIZE), target)(values)) == raw(expected)
    single = [conversion(Type(source), target)(value) for value in scalars(values, source)]
    assert raw(np.array(single, expected.dtype)) == raw(expected)


@pytest.mark.parametrize("source", DType)
@pytest.mark.parametrize("target", DType)
def test_reinterpretations(source: DType, target: DType) -> None:
    if source.bits != target.bits or source.is_bool:
        return
    values = content(source, SIZE, 3)
    expected = values.view(target.numpy)
    assert reinterpretation(Type(source, SIZE), target)(values).tobytes() == expected.tobytes()
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
        if dtype.is_float and np.isfinite(np.float64(expected[0])):
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
