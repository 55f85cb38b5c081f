"""Sums of floats at places that data choose, by sorted updates: their meaning, their kernels, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from strategies.scatters import added, scattering, values
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.sorted_scatter import SortedScatter
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.base import run
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.stripe.blocks import Special
from tileir.stripe.segments import ADD_SEGMENTS, SegmentParameters
from tileir.tile import builder_functions as tf
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

SORTED: Final = SortedScatter(threads=32, part=4, least=2)
CARD: Final = Target(
    name="card", vector_bytes=16, threads=4, local_bytes=65536, group_threads=256, group_width=32, alignment=256,
    scratch=False, index_dtype=DType.I32, max_lanes=16, update_bytes=8, pipeline="gpu",
)  # fmt: skip


def specials(program: Program) -> list[str]:
    return [special.name for block in program.main.blocks for special in block.statements if hasattr(special, "name")]


@given(st.data())
@examples(60)
def test_sorted_updates_keep_the_meaning(data: st.DataObject) -> None:
    updates = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=2), label="updates"))
    rest = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2), label="rest"))
    dtype = data.draw(st.sampled_from([DType.F32, DType.F64, DType.F16, DType.BF16]))
    program = scattering(updates, rest, data.draw(st.integers(1, 6)), dtype)
    sort = attrs.evolve(SORTED, part=data.draw(st.integers(3, 8)))
    after = run((sort,), program)
    assert (ADD_SEGMENTS in specials(after)) is (int(np.prod(updates)) > 1)
    assert_same_meaning(program, after, values(program, data.draw(st.integers(0, 9))))


def test_groups_have_a_power_of_two_of_threads() -> None:
    program = scattering((40,), (3,), 7, DType.F32)
    assert run((attrs.evolve(SORTED, threads=47),), program) == run((SORTED,), program)


def test_parts_with_tables_of_their_own_are_sorted_alone() -> None:
    program = scattering((48,), (2,), 3)
    after = run((SplitScatter(parts=64, runs=True, run=8, updates=1), SORTED), program)
    assert [i.range for block in after.main.blocks if "argsort" in block.tags for i in block.indices] == [6]
    assert_same_meaning(program, after, values(program))


@pytest.mark.parametrize(
    ("updates", "rest", "size"),
    [
        ((47,), (), 3),  # no parts of equal size
        ((16,), (), 3),  # two parts, which are sorted as one
        ((6, 8), (), 3),  # two indices of updates
        ((48,), (), 12),  # tables that are too large
    ],
)
def test_others_have_one_table(updates: tuple[int, ...], rest: tuple[int, ...], size: int) -> None:
    program = scattering(updates, rest, size)
    assert run((SplitScatter(parts=64, runs=True, run=8, updates=1),), program) is program


@pytest.mark.parametrize(
    ("code", "program", "sort"),
    [
        ("TR620", scattering((40,), (), 7), SortedScatter()),
        ("TR668", scattering((40,), (), 7, DType.I32), SORTED),
        ("TR611", scattering((40,), (), 7), attrs.evolve(SORTED, least=41)),
    ],
)
def test_refused(code: str, program: Program, sort: SortedScatter) -> None:
    kept = Remarks()
    with listening(kept):
        assert run((sort,), program) is program
    assert code in [remark.code for remark in kept.all()]


def test_computed_updates_are_written_first() -> None:
    text = "function (D[N], I[N], T[V]) -> (R) { R = scatter(index(D, 0) * 0.5, I, T); S = scatter(D * 0 + 1, I, T); }"
    shapes = {"D": (300,), "I": (300,), "T": (5,)}
    types = {n: TensorType(DType.I32 if n == "I" else DType.F32, s) for n, s in shapes.items()}
    program = compile_stages(parse(text.replace("(R) {", "(R, S) {")), types, CARD).sem
    places = np.random.default_rng(6).integers(0, 5, 300).astype(np.int32)
    arrays = {"D": np.zeros(300, np.float32), "I": places, "T": np.zeros(5, np.float32)}
    found = run_program(program, arrays, ALL_CHECKS)
    np.testing.assert_array_equal(found["R"], np.bincount(places, np.arange(300) * 0.5, 5))
    np.testing.assert_array_equal(found["S"], np.bincount(places, minlength=5))


def test_what_is_no_special() -> None:
    program = run((SORTED,), scattering((40,), (2,), 7))
    kernel = next(block for block in program.main.blocks if ADD_SEGMENTS in block.tags)
    (special,) = kernel.statements
    assert isinstance(special, Special)
    for parameters in ((), (("threads", 0),), (("threads", 32), ("part", -1)), (("threads", 32), ("parts", 2))):
        with pytest.raises(ValueError, match="add_segments takes the parameters"):
            SegmentParameters.of(attrs.evolve(special, parameters=parameters))


def sums(program: Any, arrays: dict[str, Any]) -> Any:
    return np.asarray(run_program(program, arrays, ALL_CHECKS)["R"])


def kernels(updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType) -> Any:
    shapes = {"D": (*updates, *rest), "I": updates, "T": (size, *rest)}
    inputs = ", ".join(f"{name}[{', '.join(f'{name}{n}' for n in range(len(s)))}]" for name, s in shapes.items())
    function = parse(f"function ({inputs}) -> (R) {{ R = scatter(D, I, T); }}")
    dtypes = {"D": dtype, "I": DType.I32, "T": dtype}
    return compile_stages(function, {n: TensorType(dtypes[n], s) for n, s in shapes.items()}, CARD).sem


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("updates", "rest", "size", "dtype"),
    [
        ((300,), (), 7, DType.F32),
        ((700,), (24,), 50, DType.F32),
        ((16384,), (), 50, DType.F32),  # in parts
        ((20, 20), (6,), 90, DType.F16),
        ((300,), (3, 4), 2000, DType.BF16),
        ((5000,), (2,), 4000, DType.F32),
        ((300,), (1030,), 2, DType.F32),  # more columns than a group has
        ((260,), (5,), 3, DType.F64),
    ],
)
def test_kernels_for_cards_add_as_numpy_does(
    updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType
) -> None:
    random = np.random.default_rng(3)
    arrays = {
        "D": random.integers(-4, 5, (*updates, *rest)).astype(dtype.numpy),
        "I": random.integers(-2, size + 2, updates).astype(np.int32),
        "T": np.zeros((size, *rest), dtype.numpy),
    }
    program = kernels(updates, rest, size, dtype)
    assert any("added" in kernel.name for kernel in program.kernels)
    wide = {name: array if name == "I" else array.astype(np.float64) for name, array in arrays.items()}
    np.testing.assert_array_equal(sums(program, arrays).astype(np.float64), added(wide))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("places", ["one", "ascending", "permuted"])
def test_rows_with_all_updates_and_with_one(places: str) -> None:
    random = np.random.default_rng(4)
    rows = {"one": np.full(1000, 7), "ascending": np.arange(1000) // 37, "permuted": random.permutation(1000)}[places]
    arrays = {
        "D": random.integers(-4, 5, (1000, 3)).astype(np.float32),
        "I": rows.astype(np.int32),
        "T": np.zeros((1000, 3), np.float32),
    }
    np.testing.assert_array_equal(sums(kernels((1000,), (3,), 1000, DType.F32), arrays), added(arrays))


def test_updates_along_an_axis_are_sorted_row_by_row() -> None:
    f = tileir.FunctionBuilder()
    x, i, u = f.input("X", "O", "V"), f.input("I", "O", "N"), f.input("U", "O", "N")
    function = f.build(R=ops.scatter_along_axis(x, i, u, 1))
    random = np.random.default_rng(5)
    arrays: dict[str, Any] = {
        "X": random.integers(-4, 5, (5, 40)).astype(np.float32),
        "I": random.integers(0, 40, (5, 300)).astype(np.int32),
        "U": random.integers(-4, 5, (5, 300)).astype(np.float32),
    }
    types = {n: TensorType(DType.I32 if n == "I" else DType.F32, a.shape) for n, a in arrays.items()}
    program = compile_stages(function, types, CARD).sem
    assert [kernel.grid[-1] for kernel in program.kernels if kernel.name.endswith("sorted")] == [5]
    wanted = arrays["X"].copy()
    for row, places, updates in zip(wanted, arrays["I"], arrays["U"], strict=True):
        np.add.at(row, places, updates)
    np.testing.assert_array_equal(sums(program, arrays), wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "axis", "places"),
    [
        ((5, 40), 1, (300,)),
        ((3, 20, 4), 1, (300,)),
        ((2, 3, 17), 2, (400,)),
        ((2, 3, 9, 2), 2, (300,)),
        ((5, 40), 0, (300,)),
    ],
)
def test_places_that_tables_share_are_sorted_once(shape: tuple[int, ...], axis: int, places: tuple[int, ...]) -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", *(f"X{n}" for n in range(len(shape))))
    i, updates = f.input("I", "N"), (*shape[:axis], *places, *shape[axis + 1 :])
    u = f.input("U", *(f"U{n}" for n in range(len(shape))))
    function = f.build(R=tf.gradient(ops.sum(ops.take(x, i, axis) * u), x))
    random = np.random.default_rng(5)
    arrays: dict[str, Any] = {
        "X": np.zeros(shape, np.float32),
        "I": random.integers(0, shape[axis], places).astype(np.int32),
        "U": random.integers(-4, 5, updates).astype(np.float32),
    }
    types = {n: TensorType(DType.I32 if n == "I" else DType.F32, a.shape) for n, a in arrays.items()}
    program = compile_stages(function, types, CARD).sem
    assert any("added" in kernel.name for kernel in program.kernels)
    assert all(math.prod(kernel.grid) == 1 for kernel in program.kernels if kernel.name.endswith("sorted"))
    wanted = np.zeros(shape)
    np.add.at(np.moveaxis(wanted, axis, 0), arrays["I"], np.moveaxis(arrays["U"], axis, 0))
    np.testing.assert_array_equal(sums(program, arrays), wanted)
