from __future__ import annotations

import pytest

from tileir.core.errors import TileError
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Device, Index, Tags
from tileir_accelerators.placement.locate import Place, is_at, location

BLOCK = Block("b", indices=(Index("i", 4, tags=Tags.of("unit")), Index("j", 2), Index("k", 2, tags=Tags.of("lane"))))
TWICE = Block("b", indices=(Index("i", 4, tags=Tags.of("unit")), Index("j", 2, tags=Tags.of("unit"))))


def test_units_are_numbers_tags_of_indices_and_affines() -> None:
    found = location((Place("PE", (3, "#unit")), Place("SRAM", ("2*i + 1",)), Place("DRAM")), BLOCK)
    assert found == (
        Device("PE", (Affine.constant(3), Affine.index("i"))),
        Device("SRAM", (Affine.index("i") * 2 + 1,)),
        Device("DRAM", ()),
    )


@pytest.mark.parametrize(
    ("block", "unit", "message"),
    [
        (BLOCK, "#bank", "one index of block 'b' must carry the tag 'bank' to be a unit's number: none does"),
        (TWICE, "#unit", "one index of block 'b' must carry the tag 'unit' to be a unit's number: i, j do"),
        (BLOCK, "i + m", "the unit 'i + m' uses 'm', which is no index of block 'b'"),
    ],
)
def test_units_that_a_block_does_not_have_are_named(block: Block, unit: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        location((Place("PE", (unit,)),), block)
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("TIL505", message)]


def test_names_and_units_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="the name of a device must be letters, digits and underscores, not '1a'"):
        Place("1a")
    with pytest.raises(ValueError, match="a unit is a number, #tag of an index, or an affine, not '#1'"):
        Place("PE", ("#1",))
    with pytest.raises(ValueError, match=r"a unit is a number, #tag of an index, or an affine, not 'i \+'"):
        Place("PE", ("i +",))


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((), True),
        ((Place("PE"),), True),
        ((Place("PE", (3,)),), True),
        ((Place("PE", (4,)),), False),
        ((Place("PE", (3,)), Place("SRAM")), True),
        ((Place("PE"), Place("DRAM")), False),
        ((Place("SRAM"),), False),
        ((Place("PE"), Place("SRAM", (5,))), True),
        ((Place("PE"), Place("SRAM"), Place("BANK")), False),
    ],
)
def test_a_location_is_at_the_devices_that_it_begins_with(places: tuple[Place, ...], expected: bool) -> None:
    where = (Device("PE", (Affine.constant(3),)), Device("SRAM", (Affine.index("i"),)))
    assert is_at(where, places) is expected
