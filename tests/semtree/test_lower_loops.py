from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.poly.affine import Affine
from tileir.semtree.ir import LoopKind, Type, Var
from tileir.semtree.lower.loops import LoopPlan, grid_indices, plan_loops, thread_count
from tileir.semtree.lower.views import LANE
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Index
from tileir.stripe.tags import PADDED, Tags

i, j = Affine.index("i"), Affine.index("j")


def planned(block: Block, values: dict[str, Affine] | None = None) -> tuple[LoopPlan, dict[str, Affine]]:
    bound = {} if values is None else values
    plan = plan_loops(block, {"outer": Affine.index("o")}, bound, lambda name: Var(name, Type(DType.I64)))
    return plan, bound


def test_indices_become_loops_lanes_and_nothing() -> None:
    indices = (
        Index("a", 3),
        Index("b", 1),
        Index("c", 4, None, Binding.UNROLL),
        Index("p", 1, Affine.index("outer") * 2),
        Index("v", 8, None, Binding.LANE),
    )
    plan, values = planned(Block("k", indices=indices))
    assert [(loop.counter.name, loop.range, loop.kind) for loop in plan.loops] == [
        ("a", 3, LoopKind.SERIAL),
        ("c", 4, LoopKind.UNROLL),
    ]
    assert plan.lanes == 8
    assert values["b"] == Affine()
    assert values["p"] == Affine.of({"o": 2})
    assert values["v"] == Affine.index(LANE)


def test_indices_that_are_bound_already_get_no_loop() -> None:
    plan, values = planned(Block("k", indices=(Index("i", 3), Index("j", 4))), {"i": Affine.index("group")})
    assert [loop.counter.name for loop in plan.loops] == ["j"]
    assert values["i"] == Affine.index("group")


def test_unit_coefficients_become_bounds_and_others_tests() -> None:
    block = Block("k", indices=(Index("i", 9), Index("j", 9)), constraints=(i - 2, -i + 6, j - i, -2 * j + 11))
    plan, _ = planned(block)
    outer, inner = plan.loops
    assert (outer.lower, outer.upper) == ((Affine.constant(2),), (Affine.constant(7),))
    assert (inner.lower, inner.upper) == ((i,), ())
    assert plan.inner_guards == (-2 * j + 11,)


def test_a_constraint_is_tested_as_far_outside_as_it_can_be() -> None:
    block = Block("k", indices=(Index("i", 9), Index("j", 9)), constraints=(Affine.index("g") - 3, 2 * i - 3))
    plan, _ = planned(block, {"g": Affine.index("g")})
    assert [loop.guards for loop in plan.loops] == [(Affine.index("g") - 3,), (2 * i - 3,)]


def test_unrolled_loops_have_no_bounds() -> None:
    block = Block("k", indices=(Index("i", 4, None, Binding.UNROLL),), constraints=(i - 2,))
    plan, _ = planned(block)
    assert (plan.loops[0].lower, plan.inner_guards) == ((), (i - 2,))


@pytest.mark.parametrize(
    "block",
    [
        Block("k", indices=(Index("v", 4, None, Binding.LANE),), statements=(Block("inside"),)),
        Block("k", (Index("v", 4, None, Binding.LANE),), (Affine.index("v") - 1,), tags=Tags.of(PADDED)),
    ],
    ids=["blocks inside", "constrained, with zeros elsewhere"],
)
def test_lanes_that_cannot_run_side_by_side_are_refused(block: Block) -> None:
    with pytest.raises(TileError) as caught:
        planned(block)
    assert [d.code for d in caught.value.diagnostics] == ["TIL502"]


def test_tests_of_lanes_are_told_apart() -> None:
    lane, loop = Affine.index("v") - 1, 2 - i
    plan, _ = planned(Block("k", (Index("i", 4), Index("v", 4, None, Binding.LANE)), (lane, loop)))
    assert plan.of_lanes == (Affine.index(LANE) - 1,)
    assert plan.inner_guards == ()
    assert [len(loop.upper) for loop in plan.loops] == [1]


def test_what_a_binding_asks_for_and_cannot_have_is_an_error() -> None:
    lanes = tuple(Index(name, 4, None, Binding.LANE) for name in "vw")
    with pytest.raises(TileError, match=r"TIL502.*block k has several vector indices"):
        planned(Block("k", lanes))
    with pytest.raises(TileError, match=r"TIL502.*index g of block k is bound to grid, but the block is no kernel"):
        planned(Block("k", (Index("g", 4, None, Binding.GRID),)))
    with pytest.raises(TileError, match=r"TIL502.*index g of block k is serial: .* cannot be bound to grid"):
        grid_indices(Block("k", (Index("g", 4, None, Binding.GRID, serial=True),)))
    with pytest.raises(TileError, match=r"TIL502.*index t of block k is serial: .* cannot be bound to thread"):
        thread_count(Block("k", (Index("t", 4, None, Binding.THREAD, serial=True),)))


@st.composite
def constrained_blocks(draw: st.DrawFn) -> Block:
    kinds = st.sampled_from([None, None, Binding.UNROLL])
    indices = tuple(Index(name, draw(st.integers(1, 5)), None, draw(kinds)) for name in "ijk")
    coefficients = st.dictionaries(st.sampled_from("ijk"), st.integers(-2, 2), max_size=3)
    constraint = st.builds(Affine.of, coefficients, st.integers(-4, 4))
    return Block("k", indices=indices, constraints=tuple(draw(st.lists(constraint, max_size=4))))


@given(constrained_blocks())
@examples(300)
def test_loops_visit_the_points_of_the_block_in_order(block: Block) -> None:
    plan, values = planned(block)
    visited: list[tuple[int, ...]] = []

    def at(affine: Affine, point: dict[str, int]) -> int:
        return int(affine.substitute({name: Affine.constant(n) for name, n in point.items()}).offset)

    def run(depth: int, point: dict[str, int]) -> None:
        if depth == len(plan.loops):
            if all(at(guard, point) >= 0 for guard in plan.inner_guards):
                visited.append(tuple(at(values[index.name], point) for index in block.indices))
            return
        loop = plan.loops[depth]
        if any(at(guard, point) < 0 for guard in loop.guards):
            return
        begin = max([0, *(at(bound, point) for bound in loop.lower)])
        end = min([loop.range, *(at(bound, point) for bound in loop.upper)])
        for number in range(begin, end):
            run(depth + 1, {**point, loop.counter.name: number})

    run(0, {})
    points = itertools.product(*(range(index.range) for index in block.indices))
    names = [index.name for index in block.indices]
    valid = [p for p in points if all(at(c, dict(zip(names, p, strict=True))) >= 0 for c in block.constraints)]
    assert visited == valid
