from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import TileError
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run
from tileir.passes.fusion.fuse import Fuse
from tileir.stripe.aliases import allocations, byte_size
from tileir.stripe.ir import Program
from tileir.stripe.text.language import location_text
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.locate import LocateBlock, Place
from tileir_accelerators.placement.partition import PartitionCompute, PartitionMemory
from tileir_accelerators.placement.schedule_memory import Schedule

PRODUCT = """
#CONV
block [i:8, j:12, k:5]:480 ( // product
    in A[i, k] fp32:I(1, 1):(5, 1):4 B
    in B[k, j] fp32:I(1, 1):(12, 1):4 B
    out O[i, j]:add fp32:I(1, 1):(12, 1):4 B
) {
  0: $a = load(A)
  1: $b = load(B)
  2: $o = mul($a, $b)
  3: O = store($o)
}
"""
SIZES = {"A": (8, 5), "B": (5, 12), "O": (8, 12)}


def product() -> Program:
    return program_of([PRODUCT], SIZES)


def test_parts_of_a_product_run_on_units_of_their_own() -> None:
    passes: tuple[Pass, ...] = (
        LocateBlock(("CONV",), (Place("CONV"),)),
        PartitionCompute(("CONV",), num_parts=4, set_tags=("parts",), inner_set=("one",)),
    )
    after = run(passes, product())
    assert_same_meaning(product(), after)
    kernel = after.main.blocks[0]
    assert to_text(kernel).startswith("""\
0: #CONV #parts
block<CONV[j]> [(#part j:4)]:4 ( // product
    in A[0, 0] fp32:I(8, 5):(5, 1):160 B, E(8, 5):160 B
    in B[0, 3*j] fp32:I(5, 3):(12, 1):60 B, E(5, 12):240 B
    out O[0, 3*j]:add fp32:I(8, 3):(12, 1):96 B, E(8, 12):384 B
) {
  0: #one
  block [i:8, j:3, k:5]:120 ( // product
""")
    assert run(passes[1:], after) is after


def test_parts_in_multiples() -> None:
    after = run((PartitionCompute(num_parts=4, only_multiple_of=4),), product())
    assert [(i.name, i.range) for i in after.main.blocks[0].indices] == [("j", 3)]
    assert_same_meaning(product(), after)
    uneven = run((PartitionCompute(num_parts=5),), product())
    assert [(i.name, i.range) for i in uneven.main.blocks[0].indices] == [("j", 4)]
    many = run((PartitionCompute(num_parts=7, loc=(Place("NODE", ("#part", 1)),)),), product())
    assert location_text(many.main.blocks[0].location) == "<NODE[j, 1]>"
    assert_same_meaning(product(), many)


def test_what_cannot_be_shared_out() -> None:
    total = """
block [i:8]:8 (
    in A[i] fp32:I(1):(1):4 B
    out O[0]:add fp32:I(1):(1):4 B
) {
  0: $a = load(A)
  1: O = store($a)
}
"""
    program = program_of([total], {"A": (8,), "O": (1,)})
    assert PartitionCompute(num_parts=2)(program) is program
    assert PartitionCompute()(product()) == product()
    with pytest.raises(TileError, match="must carry the tag 'nothing'"):
        PartitionCompute(num_parts=2, loc=(Place("CONV", ("#nothing",)),))(product())


def test_banks_follow_the_parts() -> None:
    passes = (PartitionCompute(num_parts=4), PartitionMemory(num_parts=4))
    after = run(passes, product())
    banks = {r.name: r.bank_dim for r in after.main.refinements}
    assert banks == {"A": 0, "B": 1, "O": 1}
    assert "{3*j}" not in to_text(after)
    assert PartitionMemory(num_parts=4)(after) is after
    assert PartitionMemory()(after) is after
    skipped = PartitionMemory(num_parts=4, ref_reqs=("user",))(product())
    assert {r.bank_dim for r in skipped.main.refinements} == {None}


def test_what_has_a_bank_axis_lies_in_all_banks() -> None:
    passes: tuple[Pass, ...] = (PartitionMemory(num_parts=4), Schedule(mem_kib=0.25, num_banks=4))
    after = run(passes, product())
    assert_same_meaning(product(), after)
    found = {a.name: (location_text(a.location), a.bank_dim, a.offset, byte_size(a)) for a in allocations(after.main)}
    assert found == {
        "A_sram": ("<SRAM>", 0, 160, 40),
        "B_sram": ("<SRAM>", 1, 96, 60),
        "O_sram": ("<SRAM>", 0, 0, 96),
    }


@given(programs(), st.integers(1, 5), st.integers(1, 3), st.booleans())
@examples(100)
def test_parts_preserve_meaning(program: Program, parts: int, multiple: int, fuse: bool) -> None:
    before = run((Accumulate(), Fuse()), program) if fuse else program
    compute = PartitionCompute(num_parts=parts, only_multiple_of=multiple)
    after = run((compute, PartitionMemory(num_parts=parts), Schedule(mem_kib=0, num_banks=parts)), before)
    assert_same_meaning(program, after)
