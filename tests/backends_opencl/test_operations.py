"""Every operation and conversion of every element type, on the values at which they are most likely to go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from strategies.opencl_source import PLATFORMS, run
from strategies.semtree_values import ALL_DTYPES, allowed_ops, same_content, special_values
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Cast,
    Const,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.semtree.ir import Expr

INDEX: Final = Type(DType.I32)
COUNTER: Final = Var("i", INDEX)
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)


def padded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Repeat elements up to a multiple of 48, which vectors of all lanes fill."""
    return np.ascontiguousarray(np.resize(array, -(-array.size // 48) * 48))


def mapped(inputs: tuple[DType, ...], values: Mapping[str, Expr], size: int, lanes: int) -> KernelFunction:
    """Return a kernel that computes values, which read ``in0[i]`` and so on, for each run of ``lanes`` elements."""
    stores = [Assign(Subscript(name, COUNTER, value.type), value) for name, value in values.items()]
    params = [Param(f"in{number}", dtype, size, ParamAccess.READ) for number, dtype in enumerate(inputs)]
    params += [Param(name, value.type.dtype, size, ParamAccess.WRITE) for name, value in values.items()]
    loop = For(COUNTER, Const(0, INDEX), Const(size, INDEX), lanes, tuple(stores))
    return KernelFunction("k", tuple(params), (loop,), index=DType.I32)


def element(number: int, dtype: DType, lanes: int) -> Subscript:
    return Subscript(f"in{number}", COUNTER, Type(dtype, lanes))


def assert_same(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], label: str, *inputs: Any) -> None:
    if not same_content(actual, expected):
        wrong = np.flatnonzero(~((actual == expected) | ((actual != actual) & (expected != expected))))[:5]
        operands = [each[wrong] for each in inputs]
        raise AssertionError(f"{label} of {operands}: {actual[wrong]}, not {expected[wrong]}")


def check(
    inputs: tuple[np.ndarray[Any, Any], ...],
    cases: Sequence[tuple[Mapping[str, Expr], Mapping[str, Any]]],
    platform: str,
) -> None:
    """Compute all values of each case in one kernel, and compare each with what it should be."""
    dtypes = tuple(arithmetic.dtype_of(array) for array in inputs)
    kernels = []
    results = []
    for values, expected in cases:
        lanes = next(iter(values.values())).type.lanes
        kernels.append(mapped(dtypes, values, inputs[0].size, lanes))
        results.append([np.empty_like(array) for array in expected.values()])
    run(kernels, [[*inputs, *outputs] for outputs in results], platform)
    for (values, expected), outputs in zip(cases, results, strict=True):
        for (name, wanted), actual in zip(expected.items(), outputs, strict=True):
            assert_same(actual, wanted, f"{name} of {values[name].type}", *inputs)


LANES: Final = {DType.I32: (1, 2, 3, 4, 8, 16), DType.F32: (1, 3, 8, 16), DType.F16: (1, 3, 8, 16)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_operations_on_special_values(dtype: DType, platform: str) -> None:
    values = special_values(dtype)
    left, right = (padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    inputs = (left, right, np.ascontiguousarray(np.roll(left, 3)))
    ops = [*allowed_ops(dtype), *(op for op in COMPARISONS if op.works_on(dtype))]
    expected = {op.value: np.ascontiguousarray(arithmetic.apply(op, *inputs[: op.info.arity])) for op in ops}
    cases = []
    for lanes in LANES.get(dtype, (1, 4)):
        args = tuple(element(number, dtype, lanes) for number in range(3))
        cases.append(({op.value: Apply(op, args[: op.info.arity]) for op in ops}, expected))
    check(inputs, cases, platform)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_casts_of_special_values(source: DType, platform: str) -> None:
    values = padded(special_values(source))
    targets = [target for target in ALL_DTYPES if target is not source]
    expected = {f"to_{target.value}": np.ascontiguousarray(arithmetic.cast(values, target)) for target in targets}
    same = [target for target in targets if target.bits == source.bits]
    with np.errstate(all="ignore"):
        numbers = np.where(values == values, values, np.zeros_like(values))  # the bits of a NaN may change
        expected |= {f"as_{target.value}": numbers.view(target.numpy) for target in same}
    cases = []
    for lanes in (1, 3, 16):
        operand, number = element(0, source, lanes), element(1, source, lanes)
        results: dict[str, Expr] = {f"to_{t.value}": Cast(operand, Type(t, lanes)) for t in targets}
        results |= {f"as_{t.value}": Bitcast(number, Type(t, lanes)) for t in same}
        cases.append((results, expected))
    check((values, numbers), cases, platform)


@pytest.mark.parametrize("dtype", [DType.I8, DType.I16], ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_magnitudes_of_all_small_numbers_beside_a_third(dtype: DType, platform: str) -> None:
    numbers = padded(np.arange(int(dtype.minimum), int(dtype.maximum) + 1).astype(dtype.numpy))
    others = np.roll(numbers, 77)
    wanted = np.maximum(np.where(numbers < 0, -numbers, numbers), others)
    cases = []
    for lanes in (1, 4, 16):
        number, other = element(0, dtype, lanes), element(1, dtype, lanes)
        cases.append(({"greater": Apply(Op.MAX, (Apply(Op.ABS, (number,)), other))}, {"greater": wanted}))
    check((numbers, others), cases, platform)
