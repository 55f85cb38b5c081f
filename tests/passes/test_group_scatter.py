"""Small tables that each group of threads keeps: their meaning, their threads, and what is refused."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from strategies.passes import assert_same_meaning
from strategies.scatters import scattering, values
from tileir import ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.atomic_scatter import AtomicScatter
from tileir.passes.base import run
from tileir.passes.schedules.groups.group_scatter import GroupScatter
from tileir.schedule.remarks import Remarks, listening
from tileir.stripe.blocks import Binding
from tileir.stripe.lower.lowering import lower
from tileir.tile.builder import FunctionBuilder
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

ATOMIC: Final = AtomicScatter(update_bytes=8)
GROUPS: Final = GroupScatter(threads=4, groups=3, updates=1)


def bound(block: Block, binding: Binding) -> list[int]:
    mine = [index.range for index in block.indices if index.binding is binding]
    return mine + [each for inner in block.blocks for each in bound(inner, binding)]


def scatter_of(program: Program) -> Block:
    return next(block for block in program.main.blocks if "scatter" in block.tags)


def grouped(program: Program, groups: GroupScatter = GROUPS) -> Program:
    after = run((ATOMIC, groups), program)
    assert bound(scatter_of(after), Binding.GRID)
    return after


@pytest.mark.parametrize(
    ("updates", "rest", "size"),
    [((48,), (), 5), ((48,), (), 16), ((47,), (), 5), ((6, 10), (), 3), ((30,), (3,), 4), ((25,), (2, 3), 2)],
)
def test_groups_keep_the_meaning(updates: tuple[int, ...], rest: tuple[int, ...], size: int) -> None:
    program = scattering(updates, rest, size, DType.I32)
    assert_same_meaning(program, grouped(program), values(program))


@pytest.mark.parametrize(("rest", "size"), [((), 2), ((), 11), ((3,), 4), ((9,), 2)])
def test_a_group_has_no_more_threads_than_it_may(rest: tuple[int, ...], size: int) -> None:
    def threads(block: Block, above: int = 1) -> int:
        own = above * prod(index.range for index in block.indices if index.binding is Binding.THREAD)
        return max([own, *(threads(inner, own) for inner in block.blocks)])

    assert 1 < threads(scatter_of(grouped(scattering((64,), rest, size, DType.I32)))) <= GROUPS.threads


def test_rows_of_tables_of_their_own_are_no_updates_of_one() -> None:
    f = FunctionBuilder()
    x, places, updates = f.input("X", "O", "V"), f.input("I", "O", "N"), f.input("D", "O", "N")
    function = f.build(R=ops.scatter_along_axis(x, places, updates, 1))
    shapes = {"X": (4, 3), "I": (4, 32), "D": (4, 32)}
    program = lower(infer(function, {name: TensorType(DType.I32, shape) for name, shape in shapes.items()}))
    random = np.random.default_rng(2)
    arrays = {name: random.integers(0, 3, shape).astype(np.int32) for name, shape in shapes.items()}
    assert_same_meaning(program, grouped(program), arrays)


@pytest.mark.parametrize(
    ("code", "passes", "program"),
    [
        ("TR664", (GROUPS,), scattering((48,), (), 5, DType.I32)),  # no updates by all threads
        ("TR693", (ATOMIC, GroupScatter(threads=4, groups=3, table_bytes=16)), scattering((48,), (), 5, DType.I32)),
        ("TR693", (ATOMIC, GROUPS), scattering((9,), (), 5, DType.I32)),  # too few for two groups
    ],
)
def test_refused(code: str, passes: tuple[AtomicScatter | GroupScatter, ...], program: Program) -> None:
    kept = Remarks()
    with listening(kept):
        after = run(passes, program)
    assert not bound(scatter_of(after), Binding.GRID)
    assert code in [remark.code for remark in kept.all()]
