"""Views that can be in an inner memory, and those that stay where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.passes import assert_same_meaning, program_of, vector_sums
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.regions.tile import Tile
from tileir.poly.affine import Affine
from tileir.stripe.aliases import Aliases, allocations
from tileir.stripe.check.scope import enter
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Device, Dim, Direction, Refinement, Special, Tags, TensorShape
from tileir_accelerators.placement.locate import Place
from tileir_accelerators.placement.resident_views import identity, locals_of, residents
from tileir_accelerators.placement.schedule_memory import Schedule
from tileir_accelerators.placement.transfers import can_move

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

SRAM = (Place("SRAM"),)


def kernels(*names: str) -> Program:
    """Return kernels that each add two vectors of 32 bytes."""
    return vector_sums(*names, size=8, outputs=("O",))


def found(program: Program, skip_tags: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the views of ``main`` that can be in SRAM."""
    main = enter(program.main, enter(program.entry, None, 0), 0)
    return [resident.view.name for resident in residents(Aliases(main), program.outputs, SRAM, 1, skip_tags)]


def with_views(program: Program, **changes: Refinement) -> Program:
    """Return a program with other views of ``main``."""
    views = tuple(changes.get(view.name, view) for view in program.main.refinements)
    main = attrs.evolve(program.main, refinements=views)
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def placed(program: Program, name: str, device: str) -> Program:
    """Return a program with an allocation of its entry at a device."""
    views = tuple(
        attrs.evolve(r, location=(Device(device),)) if r.name == name else r for r in program.entry.refinements
    )
    return attrs.evolve(program, memory=views)


def test_views_of_memory_that_is_farther_away_can() -> None:
    program = kernels("XYO")
    assert found(program) == ["X", "Y", "O"]
    assert found(placed(program, "X", "DRAM")) == ["X", "Y", "O"]
    for device in ("LOCAL", "REGISTER", "SCRATCH", "SRAM"):
        assert found(placed(program, "X", device)) == ["Y", "O"]


def test_views_with_a_tag_to_skip_stay() -> None:
    program = kernels("XYO")
    x = program.main.refinement("X")
    assert found(with_views(program, X=attrs.evolve(x, tags=Tags.of("mine"))), ("mine",)) == ["Y", "O"]


def test_only_allocations_that_say_nothing_of_their_place_are_given_one() -> None:
    shape = TensorShape.dense(DType.F32, (4,))
    plain = Refinement("T", Direction.NONE, "", (Affine(),), shape)
    others = (
        attrs.evolve(plain, name="U", location=(Device("DRAM"),)),
        attrs.evolve(plain, name="V", offset=64),
        attrs.evolve(plain, name="W", shape=TensorShape.dense(DType.F32, (0,))),
    )
    inner = Block("inner", refinements=(attrs.evolve(plain, name="S"),))
    block = Block("b", refinements=(plain, *others), statements=(inner,))
    assert [allocation.name for allocation in locals_of(block, SRAM)] == ["T", "S"]
    assert locals_of(attrs.evolve(block, tags=Tags.of("xfer")), SRAM) == ()
    there = attrs.evolve(plain, location=(Device("SRAM"),))
    assert locals_of(attrs.evolve(block, refinements=(plain, there)), SRAM) == ()


def test_statements_find_their_data_in_slots_at_any_depth() -> None:
    program = program_of(
        [
            """
block [i:2]:2 (
  in X[4*i] fp32:I(4):(1):16 B
  out O[4*i] fp32:I(4):(1):16 B
) {
  0: block [j:4]:4 (
    in X[j] fp32:I(1):(1):4 B
    out O[j] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: O = store($x)
  }
}
"""
        ],
        {"X": (8,), "O": (8,)},
    )
    after = run((Schedule(),), program)
    assert_same_meaning(program, after)
    (kernel,) = (block for block in after.main.blocks if "xfer" not in block.tags)
    for block in (kernel, *kernel.blocks):
        assert [(r.name, r.location) for r in block.refinements] == [
            (name, after.main.refinement(f"{name}_sram").location) for name in ("X", "O")
        ]
    assert {a.name for a in allocations(after.main)} == {"X_sram", "O_sram"}


WINDOW = """
block [k:3, x:10]:30 (
  k + x - 1 >= 0
  10 - k - x >= 0
  in X[k + x - 1] fp32:I(1):(1):4 B
  out O[x]:add fp32:I(1):(1):4 B
) {
  0: $x = load(X)
  1: O = store($x)
}
"""


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_slots_that_statements_merge_into_are_filled_first(name: str) -> None:
    program = program_of([WINDOW.replace(":add", f":{name}")], {"X": (10,), "O": (10,)})
    after = run((Tile(sizes=(1, 4), outer_set=("outer",)), Schedule(reqs=("outer",))), program)
    assert_same_meaning(program, after)
    (outer,) = after.main.blocks
    (kernel,) = (s for s in outer.blocks if "xfer" not in s.tags)
    (fill,) = (s for s in outer.statements if isinstance(s, Special))
    assert outer.statements.index(fill) < outer.statements.index(kernel)
    assert (fill.name, fill.outputs) == ("fill", ("O_sram",))
    assert kernel.refinement("O").direction is Direction.INOUT
    assert kernel.refinement("X").direction is Direction.IN


@pytest.mark.parametrize("strides", [(4, 1), (16, 1), (1, 4)])
def test_views_with_gaps_move_where_those_below_have_their_axes(strides: tuple[int, int]) -> None:
    def view(name: str, sizes: tuple[int, int], strides: tuple[int, ...]) -> Refinement:
        dims = tuple(Dim(size, stride) for size, stride in zip(sizes, strides, strict=True))
        return Refinement(name, Direction.IN, "X", (Affine(),) * 2, TensorShape(DType.F32, dims))

    def user(strides: tuple[int, ...]) -> Block:
        return Block("user", refinements=(view("V", (2, 2), strides),))

    whole = view("X", (4, 4), strides)
    assert can_move(whole, [user(strides)])
    assert can_move(whole, [])
    assert can_move(whole, [user(strides), user((3, 2))]) is (strides == (4, 1)), "a slot has the strides of rows"


def test_only_what_merges_has_an_identity() -> None:
    view = Refinement("O", Direction.OUT, "O", (Affine(),), TensorShape.dense(DType.F32, (8,)))
    with pytest.raises(ValueError, match="O does not merge"):
        identity(view)
