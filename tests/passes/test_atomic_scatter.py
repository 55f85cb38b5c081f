"""Scatters by updates of all threads: which are, what they become, and that kernels for cards mean the same."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from strategies.scatters import scattering, values
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.atomic_scatter import AtomicScatter
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.base import run, with_temporaries
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import DeclareArray, KernelFunction, Region, Update
from tileir.semtree.rewrite import statements
from tileir.stripe import ir as stripe
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

ATOMIC: Final = AtomicScatter(update_bytes=8)
CARD: Final = Target(
    name="card", vector_bytes=16, threads=4, local_bytes=65536, group_threads=256, group_width=32, alignment=256,
    scratch=False, index_dtype=DType.I32, max_lanes=16, update_bytes=8, pipeline="gpu",
)  # fmt: skip

FUNCTIONS: Final = {"add": "scatter", "max": "scatter_max", "min": "scatter_min"}
NARROW: Final = (DType.BOOL, DType.I8, DType.U16, DType.F16, DType.BF16)
DTYPES: Final = (*NARROW, DType.I32, DType.U32, DType.I64, DType.F32, DType.F64)


def is_atomic(program: stripe.Program) -> bool:
    return any(
        isinstance(s, stripe.Store) and stripe.ATOMIC in s.tags
        for block in program.main.blocks
        for s in block.statements
    )


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64, DType.I8, DType.U16])
def test_sums_of_integers_need_no_order(dtype: DType) -> None:
    program = scattery(dtype)
    after = run((ATOMIC,), program)
    assert is_atomic(after)
    assert_same_meaning(program, after, values(program))
    assert run((SplitScatter(parts=64),), after) is after


def scattery(dtype: DType) -> stripe.Program:
    return scattering((40, 3), (5,), 7, dtype)


@pytest.mark.parametrize(
    ("code", "program", "most"),
    [
        ("TR692", scattering((40,), (), 7), 8),  # a sum of floats
        ("TR620", scattering((40,), (), 7, DType.I64), 4),
        ("TR620", scattering((40,), (), 7, DType.I32), 0),
    ],
)
def test_others_stay(code: str, program: stripe.Program, most: int) -> None:
    kept = Remarks()
    with listening(kept):
        assert run((AtomicScatter(update_bytes=most),), program) is program
    assert code in [remark.code for remark in kept.all()]


def test_what_clears_another_table_clears_none_of_these() -> None:
    function = parse("function (D[N], E[N], I[N], T[V]) -> (R, S) { R = scatter(D, I, T); S = scatter(E, I, T); }")
    shapes = {"D": (40,), "E": (40,), "I": (40,), "T": (7,)}
    dtypes = {name: DType.I32 if name == "I" else DType.I8 for name in shapes}
    program = lower(infer(function, {name: TensorType(dtypes[name], shape) for name, shape in shapes.items()}))
    one, first, other, second = program.main.statements
    for order, marked in (((one, first, other, second), True), ((one, other, first, second), False)):
        assert is_atomic(run((ATOMIC,), with_temporaries(program, order, ()))) is marked


def kernels(
    how: str, updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType, target: Target = CARD
) -> Any:
    shapes = {"D": (*updates, *rest), "I": updates, "T": (size, *rest)}
    inputs = ", ".join(f"{name}[{', '.join(f'{name}{n}' for n in range(len(s)))}]" for name, s in shapes.items())
    function = parse(f"function ({inputs}) -> (R) {{ R = {FUNCTIONS[how]}(D, I, T); }}")
    dtypes = {"D": dtype, "I": DType.I32, "T": dtype}
    return compile_stages(function, {n: TensorType(dtypes[n], s) for n, s in shapes.items()}, target).sem


def arrays(updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    drawn = random.integers(
        0 if dtype.is_bool or not dtype.is_signed else -9, 2 if dtype.is_bool else 9, (*updates, *rest)
    )
    places = random.integers(-2, size + 2, updates).astype(np.int32)
    return {"D": drawn.astype(dtype.numpy), "I": places, "T": np.zeros((size, *rest), dtype.numpy)}


def wanted(how: str, given: dict[str, Any], dtype: DType) -> Any:
    """Return what NumPy makes of updates; rows without any hold the least, or greatest, number."""
    updates, places = given["D"], np.clip(given["I"], 0, len(given["T"]) - 1)
    if dtype.is_float:
        updates, first = updates.astype(np.float64), {"add": 0, "max": -np.inf, "min": np.inf}[how]
    elif dtype.is_bool:
        first = how == "min"
    else:
        limits = np.iinfo(dtype.numpy)
        first = {"add": 0, "max": limits.min, "min": limits.max}[how]
    table = np.full(given["T"].shape, first, updates.dtype)
    {"add": np.add, "max": np.maximum, "min": np.minimum}[how].at(table, places, updates)
    return table


@given(st.data())
@examples(60)
def test_kernels_for_cards_update_as_numpy_does(data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(list(FUNCTIONS)), label="how")
    dtype = data.draw(st.sampled_from([d for d in DTYPES if how != "add" or not d.is_bool]), label="dtype")
    updates = tuple(data.draw(st.lists(st.integers(1, 70), min_size=1, max_size=2), label="updates"))
    rest = tuple(data.draw(st.lists(st.integers(1, 9), max_size=2), label="rest"))
    size = data.draw(st.sampled_from([1, 3, 40, 3000]), label="size")
    program, given = kernels(how, updates, rest, size, dtype), arrays(updates, rest, size, dtype)
    found = np.asarray(run_program(program, given, ALL_CHECKS)["R"])
    expected = wanted(how, given, dtype)
    np.testing.assert_array_equal(found.astype(expected.dtype), expected)


def updated(kernel: KernelFunction) -> list[Update]:
    return [stmt for stmt in statements(kernel.body) if isinstance(stmt, Update)]


@pytest.mark.parametrize("dtype", [DType.I32, DType.I8])
def test_all_threads_update(dtype: DType) -> None:
    (kernel,) = (each for each in kernels("add", (1 << 12,), (32,), 5000, dtype).kernels if updated(each))
    assert kernel.grid[0] * kernel.group[0] >= (1 << 12) * 32 // 4
    assert {stmt.target.type.dtype for stmt in updated(kernel)} == {DType.I32}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rest", [(), (3,), (64,)])
def test_groups_keep_small_tables(rest: tuple[int, ...]) -> None:
    program = kernels("add", (1 << 14,), rest, 11, DType.I32)
    (kernel,) = (each for each in program.kernels if updated(each))
    (table,) = (stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
    assert (table.region, table.size) == (Region.LOCAL, 11 * int(np.prod(rest)))
    assert kernel.grid[0] > 1
    given = arrays((1 << 14,), rest, 11, DType.I32)
    np.testing.assert_array_equal(run_program(program, given, ALL_CHECKS)["R"], wanted("add", given, DType.I32))


def test_tables_that_are_large_or_have_few_updates_are_updated_at_once() -> None:
    for updates, size in ((1 << 14, 1 << 15), (64, 40)):
        (kernel,) = (each for each in kernels("max", (updates,), (), size, DType.F32).kernels if updated(each))
        assert not any(isinstance(stmt, DeclareArray) for stmt in statements(kernel.body))


def test_a_nan_is_the_extremum_of_its_row() -> None:
    for how in ("max", "min"):
        given = arrays((300,), (), 4, DType.F32)
        given["D"][[7, 8]], given["I"][[7, 8]] = [np.nan, -np.nan], [1, 2]
        found = np.asarray(run_program(kernels(how, (300,), (), 4, DType.F32), given, ALL_CHECKS)["R"])
        assert np.isnan(found).tolist() == [False, True, True, False]
