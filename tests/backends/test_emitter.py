"""The LLVM back end against the interpreter of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from strategies.devices import buffers, compiler, executor, launch
from strategies.effort import examples
from strategies.semtree import function_cases, kernel_cases
from strategies.semtree_values import ALL_DTYPES, allowed_ops, same_content, special_values
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import (
    Apply,
    Assign,
    Cast,
    Const,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Reduce,
    Subscript,
    Type,
    Var,
)
from tileir_llvm.emit.floats import NATIVE

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir.semtree.ir import Expr


def check(case: KernelCase) -> None:
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    launch(case.kernel, actual)
    for param, ours, theirs in zip(case.kernel.params, actual, expected, strict=True):
        assert same_content(ours, theirs), param.name


@examples(100)
@given(case=kernel_cases())
def test_random_kernels_compute_what_the_interpreter_does(case: KernelCase) -> None:
    check(case)


@examples(60)
@given(case=kernel_cases(threads=True))
def test_threads_of_a_group_meet_at_barriers(case: KernelCase) -> None:
    check(case)


INDEX = Type(DType.I64)
COUNTER = Var("i", INDEX)
COMPARISONS = tuple(op for op in Op if op.info.compares)
SHIFTS = (Op.BIT_LEFT, Op.BIT_RIGHT)


def mapped(name: str, inputs: tuple[DType, ...], output: DType, size: int, lanes: int, value: Expr) -> KernelFunction:
    """Return a kernel that computes ``value``, which reads ``in0[i]`` and so on, for each run of ``lanes`` elements."""
    store = Assign(Subscript("out", COUNTER, Type(output, lanes)), value)
    loop = For(COUNTER, Const(0, INDEX), Const(size, INDEX), lanes, (store,))
    params = (
        *(Param(f"in{number}", dtype, size, ParamAccess.READ) for number, dtype in enumerate(inputs)),
        Param("out", output, size, ParamAccess.WRITE),
    )
    return KernelFunction(name, params, (loop,))


def element(number: int, dtype: DType, lanes: int) -> Subscript:
    return Subscript(f"in{number}", COUNTER, Type(dtype, lanes))


def padded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Repeat elements up to a multiple of 16."""
    return np.ascontiguousarray(np.resize(array, -(-array.size // 16) * 16))


def assert_same(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], label: str) -> None:
    if not same_content(actual, expected):
        wrong = np.flatnonzero(~((actual == expected) | ((actual != actual) & (expected != expected))))
        raise AssertionError(f"{label}: at {wrong[:5]} {actual[wrong[:5]]}, not {expected[wrong[:5]]}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_operations_on_special_values(dtype: DType) -> None:
    values = special_values(dtype)
    left, right = (padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    ops = [op for op in allowed_ops(dtype) if op in NATIVE or not dtype.is_float]
    ops += [op for op in COMPARISONS if op.works_on(dtype)]
    cases = [(op, lanes) for op in ops for lanes in (1, 16)]
    kernels = []
    for op, lanes in cases:
        dtypes = (dtype,) * op.info.arity
        value = Apply(op, tuple(element(number, dtype, lanes) for number in range(op.info.arity)))
        kernels.append(mapped(op.value, dtypes, value.type.dtype, left.size, lanes, value))
    library = compiler().build(kernels)
    third = np.ascontiguousarray(np.roll(left, 3))
    for number, (op, lanes) in enumerate(cases):
        inputs = (left, right, third)[: op.info.arity]
        expected = np.ascontiguousarray(arithmetic.apply(op, *inputs))
        actual = np.empty_like(expected)
        executor().prepare(library, number).launch(buffers((*inputs, actual)))
        assert_same(actual, expected, f"{op.value} of {dtype.value}x{lanes}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_casts_of_special_values(source: DType) -> None:
    values = padded(special_values(source))
    cases = [(target, lanes) for target in ALL_DTYPES if target is not source for lanes in (1, 16)]
    kernels = [
        mapped("k", (source,), target, values.size, lanes, Cast(element(0, source, lanes), Type(target, lanes)))
        for target, lanes in cases
    ]
    library = compiler().build(kernels)
    for number, (target, lanes) in enumerate(cases):
        expected = np.ascontiguousarray(arithmetic.cast(values, target))
        actual = np.empty_like(expected)
        executor().prepare(library, number).launch(buffers((values, actual)))
        assert_same(actual, expected, f"{source.value}x{lanes} to {target.value}")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64], ids=lambda dtype: dtype.value)
def test_reductions_of_floats(op: Op, dtype: DType) -> None:
    values = np.array([1.0, 2.0, 0.5, -1.0, 3.0, 1.0, 2.0, 1.0]).astype(dtype.numpy)
    kernel = mapped("k", (dtype,), dtype, 8, 8, Reduce(op, element(0, dtype, 8)))
    store = Assign(Subscript("out", Const(0, INDEX), Type(dtype)), Reduce(op, element(0, dtype, 8)))
    kernel = KernelFunction("k", kernel.params, (For(COUNTER, Const(0, INDEX), Const(1, INDEX), 1, (store,)),))
    result = np.zeros(8, dtype.numpy)
    launch(kernel, [values, result])
    assert result[0] == {Op.ADD: 9.5, Op.MUL: -6.0, Op.MAX: 3.0, Op.MIN: -1.0}[op]
    values[5] = np.nan
    launch(kernel, [values, result])
    assert result[0] != result[0]


@examples(60)
@given(case=function_cases())
def test_mathematical_functions_are_close(case: KernelCase) -> None:
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    launch(case.kernel, actual)
    tolerance = 16 * np.finfo(actual[-1].dtype).eps
    np.testing.assert_allclose(actual[-1], expected[-1], rtol=tolerance, atol=0)
