from __future__ import annotations

import attrs
import pytest

from strategies.passes import assert_same_meaning
from strategies.scatters import scattering, values
from tileir.core.dtype import DType
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.base import run
from tileir.stripe.ir import Program

SPLIT = SplitScatter(parts=64)
RUNS = SplitScatter(parts=64, runs=True)


@pytest.mark.parametrize("split", [SPLIT, RUNS])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32])
@pytest.mark.parametrize(
    ("updates", "rest", "size"),
    [((96,), (), 3), ((97,), (), 5), ((1,), (), 1), ((12, 9), (), 4), ((50,), (3,), 2), ((31,), (2, 3), 1)],
)
def test_parts_and_their_sum_keep_the_meaning(
    updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType, split: SplitScatter
) -> None:
    program = scattering(updates, rest, size, dtype)
    assert_same_meaning(program, run((split,), program), values(program))


def test_each_part_has_a_table_of_its_own() -> None:
    program = run((SPLIT,), scattering((100,), (), 3))
    clear, partial, merge = program.main.blocks
    (tables,) = [r for r in program.entry.refinements if "tmp" in r.tags]
    assert (tables.name, tables.shape.sizes, tables.shape.strides) == ("R_parts", (3, 8), (1, 3))
    assert [(i.name, i.range) for i in partial.indices] == [("i1_part", 8), ("i1", 13)]
    assert len(partial.constraints) == 1  # 8 times 13 are more than 100
    assert "fill" in clear.tags
    assert merge.name.endswith("_merge")


def test_each_part_takes_a_run_of_updates_and_the_first_what_is_left() -> None:
    program = run((attrs.evolve(RUNS, parts=7),), scattering((103,), (40,), 3))
    _, partial, rest, _ = program.main.blocks
    assert [(i.name, i.range) for i in partial.indices] == [("i1_part", 7), ("i1", 14), ("i2", 40)]
    assert [(i.name, i.range) for i in rest.indices] == [("i1", 5), ("i2", 40)]
    assert not partial.constraints
    assert [str(r.access[0]) for r in (*partial.refinements, *rest.refinements) if r.source == "I"] == [
        "i1 + 14*i1_part",
        "98 + i1",
    ]


def test_runs_are_of_equal_length_where_some_number_of_parts_near_the_most_makes_them_so() -> None:
    program = run((attrs.evolve(RUNS, parts=7),), scattering((102,), (), 3))
    assert [(i.name, i.range) for i in program.main.blocks[1].indices] == [("i1_part", 6), ("i1", 17)]


@pytest.mark.parametrize(
    ("program", "split"),
    [
        (scattering((100,), (), 3), SplitScatter(parts=1)),  # one thread
        (scattering((100,), (), 13), SPLIT),  # a second table would take as long as it saves
        (scattering((100,), (40,), 3), SPLIT),  # columns enough for all threads
        (scattering((1,), (), 1), SPLIT),
        (scattering((100,), (), 3), attrs.evolve(RUNS, points=101)),
    ],
)
def test_others_stay_whole(program: Program, split: SplitScatter) -> None:
    assert run((split,), program) is program
