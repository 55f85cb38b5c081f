"""The options of the pass schedule: what stays outside, what transfers are called, and banks."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from strategies.passes import assert_same_meaning, program_of, vector_sums
from tileir.core.errors import TileError
from tileir.passes.base import run
from tileir.passes.regions.tile import Tile
from tileir.poly.affine import Affine
from tileir.stripe.aliases import allocations, byte_size
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Device, Program, Tags
from tileir_accelerators.placement.locate import Place
from tileir_accelerators.placement.schedule_memory import Schedule


def with_main(program: Program, **changes: object) -> Program:
    """Return a program with changes of some views of ``main``: a dictionary for each name."""
    views = tuple(attrs.evolve(r, **changes.get(r.name, {})) for r in program.main.refinements)  # type: ignore[arg-type]
    main = attrs.evolve(program.main, refinements=views)
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def transfers(block: Block) -> list[Block]:
    return [inner for inner in block.blocks if "xfer" in inner.tags]


@pytest.mark.parametrize(
    ("kib", "banks", "fits"),
    [(0.75, 1, True), (0.74, 1, False), (0.375, 2, True), (0.25, 2, False), (0.24, 4, False), (0.0, 1, True)],
)
def test_blocks_whose_data_the_block_around_can_bring_in_may_be_left_alone(kib: float, banks: int, fits: bool) -> None:
    tiles = Tile(sizes=(16,), outer_set=("outer",))(vector_sums("XYO"))
    step = Schedule(reqs=("outer",), mem_kib=kib, num_banks=banks, only_larger=True)
    after = run((step,), tiles)
    assert (after is tiles) is fits
    assert_same_meaning(tiles, after)
    assert run((attrs.evolve(step, only_larger=False),), tiles) is not tiles


def test_what_is_inside_counts_as_data_of_the_block_around() -> None:
    inner = Schedule(reqs=("outer",), mem_loc=(Place("L1"),))
    tiles = run((Tile(sizes=(16,), outer_set=("outer",)), inner), vector_sums("XYO"))
    size = sum(byte_size(allocation) for allocation in allocations(tiles.main))
    for kib, fits in (((768 + size) / 1024, True), ((767 + size) / 1024, False)):
        step = Schedule(reqs=("outer",), mem_kib=kib, alignment=1, only_larger=True)
        assert (run((step,), tiles) is tiles) is fits


def test_views_with_a_tag_to_skip_stay_outside() -> None:
    program = with_main(vector_sums("XYO"), X={"tags": Tags.of("streamed")})
    after = run((Schedule(skip_tags=("streamed",)),), program)
    assert_same_meaning(program, after)
    assert {a.name for a in allocations(after.main)} == {"Y_sram", "O_sram"}
    (kernel,) = (block for block in after.main.blocks if "xfer" not in block.tags)
    assert {r.name: r.source for r in kernel.refinements} == {"X": "X", "Y": "Y_sram", "O": "O_sram"}


def test_transfers_have_their_unit_and_their_tags() -> None:
    step = Schedule(xfer_loc=(Place("DMA", (1,)),), swap_in_set=("in", "load"), swap_out_set=("out",))
    blocks = {block.name: block for block in transfers(run((step,), vector_sums("XYO")).main)}
    tags = {name: {tag for tag, _ in block.tags.items} for name, block in blocks.items()}
    into = {"xfer", "in", "load"}
    assert tags == {"swap_in_X": into, "swap_in_Y": into, "swap_out_O": {"xfer", "out"}}
    assert {block.location for block in blocks.values()} == {(Device("DMA", (Affine.constant(1),)),)}
    tiles = run((Tile(sizes=(16,), outer_set=("outer",)), Schedule(reqs=("outer",))), vector_sums("XYO"))
    inner = transfers(tiles.main.blocks[0])
    assert [block.name for block in inner] == ["swap_in_X", "swap_in_Y", "swap_out_O"]


def test_what_has_a_bank_axis_lies_in_all_banks() -> None:
    program = with_main(vector_sums("XYO"), X={"bank_dim": 0})
    after = run((Schedule(num_banks=4, mem_kib=0.5, alignment=1),), program)
    assert_same_meaning(program, after)
    slot = after.main.refinement("X_sram")
    assert (slot.location, slot.bank_dim, slot.tags.get("banks")) == ((Device("SRAM"),), 0, 4)
    assert byte_size(slot) == 64
    assert after.main.refinement("Y_sram").location[0].units != ()
    alone = run((Schedule(),), program)
    assert_same_meaning(program, alone)
    assert byte_size(alone.main.refinement("X_sram")) == 256


def test_a_shortage_says_all_that_is_to_know() -> None:
    with pytest.raises(TileError) as caught:
        Schedule(mem_kib=0.125, num_banks=2, mem_loc=(Place("PE", (0,)), Place("SRAM")))(vector_sums("XYO"))
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.message) == (
        "TIL548",
        "pass schedule: 'O' of block 'test' needs 0.75 KiB in PE/SRAM, 0.25 of it for 'X', but that has 2 banks of"
        " 0.125 KiB: split the block into tiles first, by autotile or tile, and schedule these",
    )


COPY = """
block [i:4]:4 (
  in {0}[i] fp32:I(1):(1):4 B
  out {1}[i] fp32:I(1):(1):4 B
) {{
  0: $a = load({0})
  1: {1} = store($a)
}}
"""


@attrs.frozen
class Late:
    """Bring the first result out last."""

    name: ClassVar[str] = "late"

    def __call__(self, program: Program) -> Program:
        kernels = program.main.blocks
        first = next(block for block in kernels if block.name == "swap_out_C")
        main = attrs.evolve(program.main, statements=(*(b for b in kernels if b is not first), first))
        return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def test_offsets_that_no_longer_hold_are_dropped() -> None:
    kernels = [COPY.format(*names) for names in ("XA", "XB", "AC", "BD")]
    program = program_of(kernels, dict.fromkeys("XABCD", (4,)), ("C", "D"))
    before = run((Schedule(mem_kib=0.03125, alignment=16),), program)
    assert {a.offset for a in allocations(before.main)} == {0, 16}
    after = run((Late(),), before)
    assert {a.offset for a in allocations(after.main)} == {None}
    assert [kernel.deps for kernel in after.main.blocks] == [()] * len(before.main.blocks)
    assert_same_meaning(program, after)
