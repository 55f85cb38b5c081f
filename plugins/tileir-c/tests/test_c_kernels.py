"""Kernels through the C compiler against the interpreter of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from c_devices import launch_all
from c_values import INDEX, assert_same, element, mapped, padded, special_values
from strategies.effort import examples
from strategies.semtree import function_cases, kernel_cases
from strategies.semtree_values import ALL_DTYPES, allowed_ops, same_content
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import Apply, Assign, Cast, Const, KernelFunction, Reduce, Subscript, Type
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir_emit.c_like import NATIVE

if TYPE_CHECKING:
    from strategies.semtree import KernelCase

BATCH = 10
"""Kernels that are compiled together: to start a C compiler takes most of the time of a small one."""

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A batch is not made smaller: each try would take a second, and the message shows the one kernel that is wrong."""


def batched(count: int) -> settings:
    return settings(examples(count), phases=UNSHRUNK)


def check(cases: list[KernelCase]) -> None:
    expected, actual = ([case.arrays() for case in cases] for _ in range(2))
    for case, arrays in zip(cases, expected, strict=True):
        interpreter.run(case.kernel, arrays)
    launch_all([case.kernel for case in cases], actual)
    for case, ours, theirs in zip(cases, actual, expected, strict=True):
        for param, left, right in zip(case.kernel.params, ours, theirs, strict=True):
            assert same_content(left, right), f"{param.name} of {to_text(case.kernel)}"


@batched(12)
@given(cases=st.lists(kernel_cases(), min_size=BATCH, max_size=BATCH))
def test_random_kernels_compute_what_the_interpreter_does(cases: list[KernelCase]) -> None:
    check(cases)


@batched(6)
@given(cases=st.lists(kernel_cases(threads=True), min_size=BATCH, max_size=BATCH))
def test_threads_of_a_group_meet_at_barriers(cases: list[KernelCase]) -> None:
    check(cases)


@batched(6)
@given(cases=st.lists(function_cases(), min_size=BATCH, max_size=BATCH))
def test_mathematical_functions_are_close(cases: list[KernelCase]) -> None:
    expected, actual = ([case.arrays() for case in cases] for _ in range(2))
    for case, arrays in zip(cases, expected, strict=True):
        interpreter.run(case.kernel, arrays)
    launch_all([case.kernel for case in cases], actual)
    for ours, theirs in zip(actual, expected, strict=True):
        tolerance = 16 * np.finfo(ours[-1].dtype).eps
        np.testing.assert_allclose(ours[-1], theirs[-1], rtol=tolerance, atol=0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_operations_on_special_values(dtype: DType) -> None:
    values = special_values(dtype)
    left, right = (padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    third = np.ascontiguousarray(np.roll(left, 3))
    comparisons = [op for op in Op if op.info.compares and op.works_on(dtype)]
    ops = [op for op in allowed_ops(dtype) if op in NATIVE or not dtype.is_float] + comparisons
    kernels, arrays, expected = [], [], []
    for op in ops:
        inputs = (left, right, third)[: op.info.arity]
        for lanes in (1, 16):
            value = Apply(op, tuple(element(number, dtype, lanes) for number in range(len(inputs))))
            kernels.append(mapped(op.value, (dtype,) * len(inputs), value.type.dtype, left.size, lanes, value))
            expected.append(np.ascontiguousarray(arithmetic.apply(op, *inputs)))
            arrays.append((*inputs, np.empty_like(expected[-1])))
    launch_all(kernels, arrays)
    for kernel, own, wanted in zip(kernels, arrays, expected, strict=True):
        assert_same(own[-1], wanted, f"{kernel.name} of {dtype.value}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_casts_of_special_values(source: DType) -> None:
    values = padded(special_values(source))
    kernels, arrays = [], []
    for target in ALL_DTYPES:
        for lanes in (1, 16):
            value = Cast(element(0, source, lanes), Type(target, lanes))
            kernels.append(mapped(target.value, (source,), target, values.size, lanes, value))
            arrays.append((values, np.empty(values.size, target.numpy)))
    launch_all(kernels, arrays)
    for kernel, (_, actual) in zip(kernels, arrays, strict=True):
        expected = np.ascontiguousarray(arithmetic.cast(values, DType(kernel.name)))
        assert_same(actual, expected, f"{source.value} to {kernel.name}")


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=lambda dtype: dtype.value)
def test_every_half_becomes_a_float_and_back(dtype: DType) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    single, back = np.empty(values.size, np.float32), np.empty_like(values)
    widen = mapped("widen", (dtype,), DType.F32, values.size, 16, Cast(element(0, dtype, 16), Type(DType.F32, 16)))
    narrow = mapped("narrow", (DType.F32,), dtype, values.size, 16, Cast(element(0, DType.F32, 16), Type(dtype, 16)))
    launch_all([widen, narrow], [(values, single), (single, back)])
    assert_same(single, values.astype(np.float32), "widened")
    assert_same(back, values, "back")


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("source", [DType.F32, DType.F64], ids=lambda dtype: dtype.value)
def test_floats_between_two_halves_are_rounded_once(source: DType, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        near = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).astype(source.numpy)
        middle = (near + np.roll(near, 1)) / 2
        values = np.concatenate([np.nextafter(middle, -np.inf), middle, np.nextafter(middle, np.inf)])
    values = values.astype(source.numpy)
    actual = np.empty(values.size, dtype.numpy)
    kernel = mapped("k", (source,), dtype, values.size, 16, Cast(element(0, source, 16), Type(dtype, 16)))
    launch_all([kernel], [(values, actual)])
    assert_same(actual, np.ascontiguousarray(arithmetic.cast(values, dtype)), "rounded")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
@pytest.mark.parametrize("lanes", [2, 3, 5, 8, 13])
def test_reductions_of_any_number_of_lanes(op: Op, lanes: int) -> None:
    numbers = np.array([1.0, 2.0, 0.5, -1.0, 3.0, 1.0, 2.0, 1.0, -2.0, 1.0, 1.0, 1.0, 2.0])
    ufuncs: dict[Op, np.ufunc] = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}
    wanted = ufuncs[op].reduce(numbers[:lanes])
    for dtype in (DType.F16, DType.BF16, DType.F32, DType.F64):
        values = numbers.astype(dtype.numpy)
        special = values.copy()
        special[1] = np.nan
        merged = Reduce(op, Subscript("in0", Const(0, INDEX), Type(dtype, lanes)))
        params = mapped("k", (dtype,), dtype, values.size, 1, merged).params
        kernel = KernelFunction("k", params, (Assign(Subscript("out", Const(0, INDEX), Type(dtype)), merged),))
        results = np.zeros((2, values.size), dtype.numpy)
        launch_all([kernel] * 2, [(values, results[0]), (special, results[1])])
        assert float(results[0, 0]) == wanted
        assert np.isnan(results[1, 0].astype(np.float32))


# Stores over what later lanes read, and lanes that meet.
TRAPS = """
kernel traps(in i32 A[64], inout i32 B[64] noalias, out i32 O[64] noalias) grid(1) {
  B[1 : 8] = B[0 : 8];
  O[0 : 8] = B[0 : 8];
  O[4 : 8] = A[0 : 8];
  i32x8 x = O[2 : 8];
  O[10 : 8] = x;
  O[ramp<8>(i64(30), 0)] = A[8 : 8];
  O[ramp<8>(i64(40), 2)] = O[40 : 8];
  B[16 : 4] = broadcast<4>(B[18]);
  i32 total = reduce<add>(x + O[10 : 8]);
  O[20 : 4] = broadcast<4>(total);
  for (i64 j = 0; j < 3; j += 1) unroll {
    B[(cast<i64>(B[32 + j]) & 7) + 40 : 4] = A[j * 4 : 4];
  }
}
"""


def test_lanes_that_touch_what_others_write() -> None:
    kernel = parse_kernel(TRAPS)
    generator = np.random.default_rng(7)
    content = [generator.integers(-99, 99, 64).astype(np.int32) for _ in range(3)]
    expected, actual = ([array.copy() for array in content] for _ in range(2))
    interpreter.run(kernel, expected)
    launch_all([kernel], [actual])
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_few_lanes_beside_wide_registers() -> None:
    """GCC 12 dropped these stores when it was told not to unroll the loop over the lanes."""
    kernel = parse_kernel(
        "kernel k(out f32 O[32] noalias, in f32 A[32] noalias) grid(8) {"
        "  f32x4 v = A[group_id(0) * 4 : 4];"
        "  f32x4 w = fma(v, f32x4(2.0), broadcast<4>(A[group_id(0)]));"
        "  O[group_id(0) * 4 : 4] = max(w, v) + (v > f32x4(0.0) ? v : -v);"
        "}"
    )
    values = np.arange(32, dtype=np.float32) - 9
    expected, actual = np.zeros(32, np.float32), np.zeros(32, np.float32)
    interpreter.run(kernel, [expected, values])
    launch_all([kernel], [(actual, values)])
    assert actual.tolist() == expected.tolist()


def test_parameters_that_may_overlap() -> None:
    kernel = parse_kernel(
        "kernel k(out i32 O[16], in i32 A[16]) grid(1) {"
        "  i32x8 x = A[0 : 8]; O[0 : 8] = x; i32x8 y = A[1 : 8]; O[8 : 8] = y;"
        "}"
    )
    assert not kernel.params[0].no_alias
    memory = np.arange(16, dtype=np.int32)
    launch_all([kernel], [(memory, memory)])
    assert memory.tolist() == [*range(8), *range(1, 9)]


LOOPS = """
kernel loops(out i64 O[16] noalias, in i8 A[2]) grid(1) {
  i64 count = 0;
  for (i8 i = A[0]; i < A[1]; i += 100) { count = count + 1; }
  O[0] = count;
  count = 0;
  for (i64 k = 9223372036854775800; k < 9223372036854775807; k += 5) { count = count + 1; }
  O[1] = count;
  count = 0;
  for (u8 m = u8(250); m < u8(255); m += 3) { count = count + 1; }
  O[2] = count;
}
"""


def test_counters_do_not_wrap() -> None:
    kernel = parse_kernel(LOOPS)
    expected, actual = np.zeros(16, np.int64), np.zeros(16, np.int64)
    bounds = np.array([-128, 127], np.int8)
    interpreter.run(kernel, [expected, bounds])
    launch_all([kernel], [(actual, bounds)])
    assert actual.tolist() == expected.tolist()
    assert actual[:3].tolist() == [3, 2, 2]
