from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import dtype_of
from tileir.core.targets.target import Target
from tileir.passes.algorithms.count_order import CountOrder
from tileir.passes.algorithms.group_order import GroupOrder
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fusion
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree import ir as sem
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as kernels_of
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.programs.moves import ORDERS

if TYPE_CHECKING:
    from tileir.stripe.ir import Program
    from tileir_testing.programs.case import Conformance

NAMES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "bfloat16")
FEW = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3.0, -7.0])
SMALL = GroupOrder(threads=32, items=3, least=2)
"""Groups of 96 elements: rows of a few hundreds are sorted in several kernels."""


def program_of(shape: tuple[int, ...], dtype: DType, axis: int, count: int, *, descending: bool) -> Program:
    sizes = ", ".join(f"N{number}" for number in range(len(shape)))
    text = f"function (X[{sizes}]) -> (O) {{ O = argsort(X, {axis}, {int(descending)}, {count}); }}"
    return lower(infer(parse(text), {"X": TensorType(dtype, shape)}))


def first(keys: np.ndarray, axis: int, count: int, *, descending: bool) -> np.ndarray:
    """Return the stable order by NumPy, NaN as the greatest."""
    keys = keys.astype(np.float32) if keys.dtype.kind == "V" or keys.dtype.name == "bfloat16" else keys
    if descending:
        turned = np.argsort(np.flip(keys, axis), axis, kind="stable")
        places = keys.shape[axis] - 1 - np.flip(turned, axis)
    else:
        places = np.argsort(keys, axis, kind="stable")
    return np.take(places, range(count), axis)


def check(keys: np.ndarray, axis: int, count: int, step: GroupOrder, *, descending: bool) -> Program:
    """Compare what groups find with NumPy, by the interpreters of blocks and of kernels; return the program."""
    program = program_of(keys.shape, dtype_of(keys), axis, count, descending=descending)
    sorted_by_groups = run([step], program)
    verify(sorted_by_groups)
    expected = first(keys, axis, count, descending=descending)
    np.testing.assert_array_equal(np.asarray(interpret(sorted_by_groups, {"X": keys})["O"]), expected)
    kernels = kernels_of(sorted_by_groups, Target(index_dtype=DType.I32))
    np.testing.assert_array_equal(np.asarray(run_program(kernels, {"X": keys})["O"]), expected)
    return sorted_by_groups


def keys_of(random: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str) -> np.ndarray:
    values = random.choice(FEW, shape) if kind == "few" else random.standard_normal(shape) * 100
    if kind in ("falling", "rising"):
        values = np.sort(values)[..., :: 1 if kind == "rising" else -1]
    name = DType.BF16.numpy if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(name)


@given(
    random=st.integers(0, 1 << 32).map(np.random.default_rng),
    size=st.one_of(st.integers(2, 97), st.sampled_from([191, 192, 193, 287, 385, 700])),
    wanted=st.floats(0, 1),
    lead=st.sampled_from([(), (2,), (2, 3)]),
    last=st.booleans(),
    dtype=st.sampled_from(NAMES),
    descending=st.booleans(),
    kind=st.sampled_from(["random", "few", "falling", "rising"]),
)
def test_groups_find_the_stable_order(
    random: np.random.Generator,
    size: int,
    wanted: float,
    lead: tuple[int, ...],
    last: bool,
    dtype: str,
    descending: bool,
    kind: str,
) -> None:
    keys = keys_of(random, (*lead, size), dtype, kind)
    axis = len(lead)
    if not last:
        keys, axis = np.ascontiguousarray(np.moveaxis(keys, -1, 0)), 0
    check(keys, axis, max(1, int(wanted * size)), SMALL, descending=descending)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1, 24, 25, 400])
@pytest.mark.parametrize("dtype", NAMES)
def test_keys_of_all_dtypes_in_several_kernels(dtype: str, count: int) -> None:
    keys = keys_of(np.random.default_rng(7), (400,), dtype, "few" if count > 24 else "random")
    program = check(keys, 0, count, SMALL, descending=count % 2 == 1)
    assert len(program.kernels) > 1


@pytest.mark.parametrize("threads", [33, 50, 63])
def test_groups_have_a_power_of_two_of_threads(threads: int) -> None:
    keys = keys_of(np.random.default_rng(7), (300,), "f4", "few")
    program = check(keys, 0, 300, GroupOrder(threads=threads, items=3, least=2), descending=False)
    assert program == run([SMALL], program_of(keys.shape, DType.F32, 0, 300, descending=False))


SHORT = [case for case in ORDERS if 2 <= max(case.inputs["X"].shape) <= 80]


@pytest.mark.sampled(29)
@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_orders_of_the_kit(case: Conformance) -> None:
    program = run([SMALL], lower(infer(parse(case.text), case.types)))
    verify(program)
    case.check({name: np.asarray(value) for name, value in interpret(program, case.inputs).items()})


def test_a_kernel_for_a_part_and_one_for_each_doubling() -> None:
    whole = run([GroupOrder()], program_of((1 << 20,), DType.F32, 0, 1 << 20, descending=False))
    assert len(whole.kernels) == 1 + 8
    few = run([GroupOrder()], program_of((64, 128256), DType.F32, 1, 50, descending=True))
    assert len(few.kernels) == 2
    assert len(run([GroupOrder()], program_of((9, 4352), DType.F32, 1, 4352, descending=True)).kernels) == 1


@pytest.mark.parametrize("local_bytes", [8192, 16384, 49152, 232448])
@pytest.mark.parametrize("dtype", [DType.I8, DType.F32, DType.F64])
def test_groups_keep_to_their_local_memory(dtype: DType, local_bytes: int) -> None:
    program = run([GroupOrder(local_bytes=local_bytes)], program_of((30000,), dtype, 0, 30000, descending=False))
    kernels = kernels_of(program, Target(index_dtype=DType.I32)).kernels
    for kernel in kernels:
        arrays = [each for each in kernel.body if isinstance(each, sem.DeclareArray)]
        sizes = [each.size * each.dtype.itemsize for each in arrays if each.region is sem.Region.LOCAL]
        assert 0 < sum(sizes) <= local_bytes


def test_rows_that_others_sort() -> None:
    short = program_of((3, 64), DType.F32, 1, 64, descending=False)
    kept = Remarks()
    with listening(kept):
        assert run([GroupOrder()], short) is short
        assert run([GroupOrder(threads=16)], program_of((300,), DType.F32, 0, 9, descending=False)) is not None
        assert run([GroupOrder(local_bytes=2048)], program_of((300,), DType.F32, 0, 9, descending=False)) is not None
    assert {remark.code for remark in kept.all()} == {"TR679"}


def test_what_groups_sort_is_left_alone_by_what_follows() -> None:
    program = run([SMALL], program_of((300,), DType.F32, 0, 8, descending=False))
    assert run([CountOrder(), Fusion(rows=True)], program) is program
