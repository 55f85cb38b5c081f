"""The pass schedule: data in an inner memory, transfers, slots and spills."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, program_of, programs, vector_sums
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run, with_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.regions.tile import Tile, tiled
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.aliases import allocations, byte_size
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.text.language import location_text
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.locate import Place
from tileir_accelerators.placement.memory_placement import MemoryPlacement
from tileir_accelerators.placement.schedule_memory import Schedule


def steps(program: Program) -> list[str]:
    return [block.name for block in program.main.blocks]


def slots(block: Block, place: str = "SRAM") -> dict[str, tuple[str, int]]:
    return {
        a.name: (location_text(a.location), a.offset or 0)
        for a in allocations(block)
        if any(device.name == place for device in a.location)
    }


def test_what_fits_stays() -> None:
    program = vector_sums("XYA", "XAB", "YAC", "BCO")
    after = run((Schedule(),), program)
    assert_same_meaning(program, after)
    assert steps(after) == ["swap_in_X", "swap_in_Y", "A", "B", "C", "O", "swap_out_O"]
    assert [block.deps for block in after.main.blocks] == [(), (), (0, 1), (2,), (2,), (3, 4), (5,)]
    assert [r.name for r in after.entry.refinements] == ["X", "Y", "O"]
    assert [location_text(block.location) for block in after.main.blocks][:3] == ["<DMA>", "<DMA>", ""]
    assert Schedule()(after) is after


def test_slots_are_used_again() -> None:
    program = vector_sums("XYA", "AXB", "BXC", "CXD", "DXE", "EXO")
    after = run((Schedule(mem_kib=0.75),), program)
    assert_same_meaning(program, after)
    assert sorted(offset for _, offset in slots(after.main).values()) == [0, 0, 0, 256, 256, 256, 256, 512]
    assert steps(after)[:2] == ["swap_in_X", "swap_in_Y"]


def test_memory_that_is_short_spills() -> None:
    program = vector_sums("XYA", "XAB", "YAC", "BCO")
    after = run((Schedule(mem_kib=0.75),), program)
    assert_same_meaning(program, after)
    names = steps(after)
    assert names.index("swap_out_B") == names.index("B") + 1
    assert names.index("swap_in_B") == names.index("C") + 1
    assert "B" in [r.name for r in after.entry.refinements]


def test_the_next_data_come_in_beside_this_statement() -> None:
    program = vector_sums("XYA", "AVB", "BWO")
    after = run((Schedule(),), program)
    names, deps = steps(after), [block.deps for block in after.main.blocks]
    assert names == ["swap_in_V", "swap_in_X", "swap_in_Y", "A", "swap_in_W", "B", "O", "swap_out_O"]
    assert deps[names.index("swap_in_W")] == ()
    late = run((Schedule(window=0),), program)
    assert steps(late) == ["swap_in_X", "swap_in_Y", "A", "swap_in_V", "B", "swap_in_W", "O", "swap_out_O"]
    early = run((Schedule(window=9),), program)
    assert steps(early)[:4] == ["swap_in_V", "swap_in_W", "swap_in_X", "swap_in_Y"]
    for other in (after, late, early):
        assert_same_meaning(program, other)


def test_data_that_do_not_fit() -> None:
    with pytest.raises(TileError) as caught:
        Schedule(mem_kib=0.5)(vector_sums("XYA", "AXO"))
    found = [(d.code, d.message.partition(", but")[0]) for d in caught.value.diagnostics]
    assert found == [
        ("TIL548", "pass schedule: 'A' of block 'test' needs 0.75 KiB in SRAM, 0.25 of it for 'X'"),
        ("TIL548", "pass schedule: 'O' of block 'test' needs 0.75 KiB in SRAM, 0.25 of it for 'X'"),
    ]


def test_one_thing_larger_than_a_bank() -> None:
    with pytest.raises(TileError, match=r"has 4 banks of 0\.2 KiB"):
        Schedule(mem_kib=0.2, num_banks=4)(vector_sums("XYO"))


def test_banks() -> None:
    program = vector_sums("XYA", "AXB", "BXO")
    after = run((Schedule(mem_kib=0.25, num_banks=4, mem_loc=(Place("L2", (7,)),)),), program)
    assert_same_meaning(program, after)
    where = slots(after.main, "L2")
    assert set(where.values()) == {(f"<L2[7, {bank}]>", 0) for bank in range(4)}


PARTS = """
block [i:{count}]:{count} ( // part{start}
  in X[{read}] fp32:I(1):(1):4 B
  out O[i + {start}] fp32:I(1):(1):4 B
) {{
  0: $a = load(X)
  1: O = store($a)
}}
"""


def test_results_that_several_statements_make() -> None:
    kernels = [PARTS.format(count=40, start=0, read="i"), PARTS.format(count=20, start=40, read="2*i")]
    program = program_of(kernels, dict.fromkeys("XO", (64,)))
    after = run((Schedule(),), program)
    assert steps(after) == ["swap_in_X", "part0", "part40", "swap_out_O"]
    for seed in (None, 3):
        assert_same_meaning(program, run((Schedule(window=seed or 0),), program), whole=False)


def test_a_block_with_memory_of_its_own_keeps_it() -> None:
    program = vector_sums("XYA", "AXB", "BXO")
    tiles = Tile(sizes=(16,), outer_set=("outer",))(program)
    first = run((Schedule(reqs=("outer",), mem_kib=0.25),), tiles)
    assert_same_meaning(program, first)
    assert Schedule()(first) is first
    mixed = run((Tile(sizes=(16,), outer_set=("outer",)), Schedule(reqs=("outer",), mem_kib=0.25)), vector_sums("XYA"))
    kernels = (*mixed.main.blocks, *vector_sums("AXO").main.blocks)
    both = program_of([to_text(k).partition(":")[2] for k in kernels], dict.fromkeys("XYAO", (64,)))
    after = run((Schedule(mem_kib=1.0),), both)
    assert_same_meaning(both, after)
    assert steps(after) == ["swap_in_X", "A", "swap_in_A", "O", "swap_out_O"]
    inner = {offset for _, offset in slots(after.main.blocks[1]).values()}
    assert inner == {0, 64, 128}
    assert after.main.refinement("X_sram").offset == 704


CONV = """
#CONV
block [k:3, x:10]:30 ( // conv
    k + x - 1 >= 0
    10 - k - x >= 0
    in X[k + x - 1] fp32:I(1):(1):4 B
    in W[k] fp32:I(1):(1):4 B
    out O[x]:add fp32:I(1):(1):4 B
) {
  0: $x = load(X)
  1: $w = load(W)
  2: $o = mul($x, $w)
  3: O = store($o)
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(3, 4), (3, 5), (1, 4), (2, 10), (1, 1), (3, 10)])
@pytest.mark.parametrize("overrun", [False, True])
def test_tiles_with_halos(sizes: tuple[int, int], overrun: bool) -> None:
    program = program_of([CONV], {"X": (10,), "W": (3,), "O": (10,)})
    schedule = Schedule(reqs=("CONV",), allow_out_of_range_accesses=overrun)
    after = run((Tile(sizes=sizes, reqs=("CONV",)), schedule), program)
    assert_same_meaning(program, after)
    (kernel,) = after.main.blocks
    assert {"X_sram", "W_sram", "O_sram"} <= slots(kernel).keys()
    names = [block.name for block in kernel.blocks]
    assert names[0].startswith("swap_in_")
    assert names[-1] == "swap_out_O"
    (swap,) = (block for block in kernel.blocks if block.name == "swap_in_X")
    assert ("overrun" in swap.tags) == (overrun and bool(swap.constraints))
    lowered = run((Accumulate(),), after)
    assert_same_meaning(program, lowered)


def test_indices_are_handed_down_to_where_edges_are() -> None:
    program = program_of([CONV], {"X": (10,), "W": (3,), "O": (10,)})
    nested = run((Tile(sizes=(3, 6), reqs=("CONV",), inner_set=("middle",)),), program)
    middle = nested.main.blocks[0].blocks[0]
    sizes = (3, 2, *(1 for _ in middle.indices[2:]))
    deep = run((Tile(sizes=sizes, reqs=("middle",)),), nested)
    after = run((Schedule(reqs=("middle",)),), deep)
    assert_same_meaning(program, after)
    assert "X_sram" in slots(after.main)


def test_points_overlap_in_groups() -> None:
    tiles = Tile(sizes=(8,), outer_set=("outer",))(vector_sums("XYO"))
    after = run((Schedule(reqs=("outer",), pipeline_depth=2),), tiles)
    assert_same_meaning(tiles, after)
    (kernel,) = after.main.blocks
    assert kernel.indices[0].range == 4
    assert kernel.tags.get("pipeline_depth") == 2
    names = [block.name for block in kernel.blocks]
    deps = {name: block.deps for name, block in zip(names, kernel.blocks, strict=True)}
    assert names == [
        *("swap_in_X", "swap_in_X_1", "swap_in_Y", "swap_in_Y_1"),
        *("O", "swap_out_O", "O", "swap_out_O_1"),
    ]
    assert deps["swap_in_X_1"] == deps["swap_in_Y_1"] == ()
    assert len({offset for _, offset in slots(kernel).values()}) == 6
    assert Schedule(reqs=("outer",), pipeline_depth=2)(after) is after


def test_what_points_share_comes_in_once() -> None:
    program = program_of([CONV], {"X": (10,), "W": (3,), "O": (10,)})
    tiles = Tile(sizes=(3, 1), reqs=("CONV",))(program)
    after = run((Schedule(reqs=("CONV",), pipeline_depth=5),), tiles)
    assert_same_meaning(program, after)
    names = [block.name for block in after.main.blocks[0].blocks]
    assert names.count("swap_in_W") == 1
    assert sum(name.startswith("swap_in_X") for name in names) == 5
    uneven = run((Schedule(reqs=("CONV",), pipeline_depth=3),), tiles)
    assert uneven.main.blocks[0].tags.get("pipeline_depth") is None


@given(programs(), st.sampled_from((0.0, 0.25, 0.5, 1.0, 4.0)), st.integers(1, 3), st.integers(0, 3), st.booleans())
@examples(150)
def test_schedules_preserve_meaning(program: Program, kib: float, banks: int, window: int, fuse: bool) -> None:
    before = run((Accumulate(), Fuse()), program) if fuse else program
    step = Schedule(mem_kib=kib, num_banks=banks, window=window, alignment=4)
    if kib and not _fits(step, before):
        with pytest.raises(TileError, match="TIL548"):
            step(before)
        return
    after = run((step,), before)
    assert_same_meaning(before, after)
    assert step(after) is after
    for allocation in allocations(after.main):
        if allocation.offset is not None:
            assert allocation.offset % 4 == 0
            assert kib == 0 or allocation.offset + byte_size(allocation) <= kib * 1024


@given(programs(), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 2), st.integers(1, 3))
@examples(150)
def test_schedules_of_tiles_preserve_meaning(program: Program, sizes: list[int], window: int, depth: int) -> None:
    kernels = []
    for kernel in program.main.blocks:
        count = len(kernel.indices)
        kernels.append(tiled(kernel, (*sizes, *(1,) * count)[:count]) if count else kernel)
    tiles = with_kernels(program, tuple(kernels))
    after = run((Schedule(reqs=("kernel",), window=window, pipeline_depth=depth),), tiles)
    assert_same_meaning(program, after)
    whole = run((Schedule(),), after)
    assert_same_meaning(program, whole)


@given(programs(most=5), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 2))
@examples(60)
def test_schedules_can_be_lowered(program: Program, sizes: list[int], depth: int) -> None:
    kernels = []
    for kernel in program.main.blocks:
        count = len(kernel.indices)
        kernels.append(tiled(kernel, (*sizes, *(1,) * count)[:count]) if count else kernel)
    tiles = with_kernels(program, tuple(kernels))
    steps = (Schedule(reqs=("kernel",), pipeline_depth=depth), Schedule(mem_kib=0), MemoryPlacement(), Accumulate())
    lowered = lower(run(steps, tiles), Target())
    arrays = arrays_for(program)
    actual = run_program(lowered, arrays)
    for name, value in interpret(program, arrays).items():
        np.testing.assert_array_equal(actual[name].reshape(value.shape), value)


def _fits(step: Schedule, program: Program) -> bool:
    try:
        step(program)
    except TileError:
        return False
    return True
