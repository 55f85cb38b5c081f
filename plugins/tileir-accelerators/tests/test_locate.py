from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import TileError
from tileir.passes.base import Pass, run
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.stripe.ir import Block, Program
from tileir.stripe.text.language import location_text
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.locate import LocateBlock, LocateInnerBlock, LocateMemory, Place, RewriteLocations

NEST = """
#CONV
block [(#part p:2)]:2 ( // outer
  in X[4*p] fp32:I(4):(1):16 B
  out O[4*p] fp32:I(4):(1):16 B
  none new@0x00000000 T[0] fp32:I(4):(1):16 B
) {
  0: #leaf
  block [i:4]:4 ( // first
      in X[i] fp32:I(1):(1):4 B
      out T[i] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
  1: #skip
  block [i:4]:4 ( // second
      in T[i] fp32:I(1):(1):4 B
      out O[i] fp32:I(1):(1):4 B
  ) {
    0: $x = load(T)
    1: O = store($x)
  }
}
"""


@pytest.fixture(name="program")
def nest() -> Program:
    return program_of([NEST], dict.fromkeys("XO", (8,)))


def places(program: Program) -> list[str]:
    kernel = program.main.blocks[0]
    return [location_text(block.location) for block in (program.main, kernel, *kernel.blocks)]


def test_the_slides_way_to_locate(program: Program) -> None:
    text = '[{"name": "loc_CONV", "locate_block": {"reqs": ["CONV"], "loc": {"name": "CONV"}}}]'
    after = run(load_pipeline(text), program)
    assert places(after) == ["", "<CONV>", "", ""]
    assert load_pipeline(text)[0](after) is after


def test_units_are_numbers_tags_and_affines(program: Program) -> None:
    def located(*units: int | str) -> str:
        return places(run((LocateBlock(("CONV",), (Place("CONV", units),)),), program))[1]

    assert located(0, 3) == "<CONV[0, 3]>"
    assert located("#part") == "<CONV[p]>"
    assert located("2*p + 1") == "<CONV[1 + 2*p]>"


@pytest.mark.parametrize(("unit", "message"), [("#bank", "must carry the tag 'bank'"), ("q", "uses 'q'")])
def test_units_that_the_block_does_not_have(program: Program, unit: str, message: str) -> None:
    with pytest.raises(TileError, match=message) as caught:
        LocateBlock(("CONV",), (Place("CONV", (unit,)),))(program)
    assert [d.code for d in caught.value.diagnostics] == ["TIL505"]


@pytest.mark.parametrize(("name", "units"), [("", ()), ("a b", ()), ("A", ("#",)), ("A", ("1 +",))])
def test_places_that_are_none(name: str, units: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"name of a device|a unit is"):
        Place(name, units)


def test_append_and_skip(program: Program) -> None:
    passes = (
        LocateBlock(("all",), (Place("DSP"),), skip_tags=("skip", "main")),
        LocateBlock(("leaf",), (Place("LANE", (0,)),), append_devs=True),
        LocateInnerBlock(("CONV",), ("skip",), (Place("HOST"),)),
    )
    after = run(passes, program)
    assert places(after) == ["", "<DSP>", "<DSP/LANE[0]>", "<HOST>"]


def test_views_follow_their_memory(program: Program) -> None:
    passes = (LocateMemory(loc=(Place("DRAM", (0,)),)), LocateMemory(("CONV",), loc=(Place("SRAM", ("#part",)),)))
    after = run(passes, program)
    text = to_text(after)
    assert text.count("X<DRAM[0]>[") == 4
    assert "T<SRAM[p]>[0]" in text
    assert text.count("T<SRAM>[i]") == 2
    assert LocateMemory(loc=(Place("L2"),))(after) is after
    moved = LocateMemory(loc=(Place("L2"),), located=True)(after)
    assert to_text(moved).count("X<L2>[") == 4


def test_prefixes_are_rewritten(program: Program) -> None:
    passes: tuple[Pass, ...] = (
        LocateMemory(loc=(Place("DRAM", (0,)),)),
        LocateBlock(("CONV",), (Place("DRAM", (1,)), Place("CORE"))),
        RewriteLocations(prefix=(Place("DRAM", (0,)),), target=(Place("NODE", (2,)), Place("HBM"))),
    )
    after = run(passes, program)
    assert "X<NODE[2]/HBM>[0]" in to_text(after)
    assert places(after)[1] == "<DRAM[1]/CORE>"
    gone = RewriteLocations(prefix=(Place("DRAM"),))(after)
    assert places(gone)[1] == "<CORE>"
    assert RewriteLocations(prefix=(Place("DRAM"),))(gone) is gone


PASSES = st.lists(
    st.sampled_from(
        (
            LocateBlock(loc=(Place("DSP"),)),
            LocateBlock((), (Place("LANE", (1,)),), append_devs=True),
            LocateInnerBlock(loc=(Place("CORE"),)),
            LocateMemory(loc=(Place("DRAM"),)),
            LocateMemory(("kernel",), loc=(Place("SRAM", (0,)),)),
            RewriteLocations(prefix=(Place("DRAM"),), target=(Place("HOST"), Place("DDR"))),
        )
    ),
    min_size=1,
    max_size=4,
)


@given(programs(), PASSES)
@examples(60)
def test_where_things_are_means_nothing(program: Program, passes: list[Pass]) -> None:
    after = run(passes, program)
    assert_same_meaning(program, after)


def test_nothing_asked_for(program: Program) -> None:
    for step in (LocateBlock(), LocateInnerBlock(), LocateMemory(), RewriteLocations()):
        assert step(program) is program
    assert isinstance(program.main, Block)
