from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import VerifyError
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.base import Pass, run
from tileir.passes.fusion.fuse import Fuse
from tileir.stripe.aliases import allocations, byte_size
from tileir.stripe.check.verifier import diagnose, verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Program
from tileir_accelerators.placement import memory_placement
from tileir_accelerators.placement.locate import LocateMemory, Place
from tileir_accelerators.placement.memory_placement import MemoryPlacement
from tileir_accelerators.placement.schedule_memory import Schedule

MAP = """
block [i:64]:64 ( // {1}
  in {0}[i] fp32:I(1):(1):4 B
  out {1}[i] fp32:I(1):(1):4 B
) {{
  0: $a = load({0})
  1: {1} = store($a)
}}
"""
DRAM = LocateMemory(loc=(Place("DRAM"),))
CHAIN = [MAP.format(*names) for names in ("XA", "AB", "BC", "CO")]


def chain() -> Program:
    return program_of(CHAIN, dict.fromkeys("XABCO", (64,)))


def offsets(program: Program) -> dict[str, int | None]:
    return {a.name: a.offset for a in program.entry.refinements}


def test_temporaries_share_what_is_free_again() -> None:
    after = run((DRAM, MemoryPlacement(locs=(Place("DRAM"),), alignment=64)), chain())
    assert offsets(after) == {"X": 0, "A": 512, "B": 768, "C": 512, "O": 256}
    assert MemoryPlacement()(after) is after


def test_only_what_is_asked_for_is_placed() -> None:
    assert MemoryPlacement()(chain()) == chain()
    located = run((DRAM,), chain())
    assert MemoryPlacement(locs=(Place("SRAM"),))(located) is located
    kept = run((MemoryPlacement(skip_tags=("user",)),), located)
    assert offsets(kept) == {"X": None, "A": 0, "B": 256, "C": 0, "O": None}


def test_what_needs_no_place_keeps_its_deps() -> None:
    program = run((ComputeDeps(),), chain())
    waiting = tuple(attrs.evolve(k, deps=tuple(range(n))) for n, k in enumerate(program.main.blocks))
    main = attrs.evolve(program.main, statements=waiting)
    whole = with_entry(program, attrs.evolve(program.entry, statements=(main,)))
    assert MemoryPlacement()(whole) is whole


def test_what_may_run_at_once_has_bytes_of_its_own() -> None:
    kernels = [MAP.format(*names) for names in ("XA", "AP", "XB", "BQ")]
    program = program_of(kernels, dict.fromkeys("XAPBQ", (64,)), outputs=("P", "Q"))
    place: tuple[Pass, ...] = (DRAM, MemoryPlacement(skip_tags=("user",)))
    assert offsets(run(place, program))["B"] == 0
    apart = run((ComputeDeps(), *place), program)
    assert offsets(apart)["B"] == 256
    assert [kernel.deps for kernel in apart.main.blocks] == [(), (0,), (), (2,)]


def test_large_programs_are_placed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_placement, "_MOST_BY_DEPS", 2)
    kernels = [MAP.format(*names) for names in ("XA", "AP", "XB", "BQ")]
    program = program_of(kernels, dict.fromkeys("XAPBQ", (64,)), outputs=("P", "Q"))
    after = run((ComputeDeps(), DRAM, MemoryPlacement(skip_tags=("user",))), program)
    assert offsets(after)["B"] == 0
    assert [kernel.deps for kernel in after.main.blocks] == [(), (0,), (1,), (2,)]
    assert_same_meaning(program, after)


def test_memory_inside_blocks_is_placed_beside_what_lives_around_them() -> None:
    inner = """
block [i:4]:4 (
  in X[16*i] fp32:I(16):(1):64 B
  out T[16*i] fp32:I(16):(1):64 B
  none new@0x00000000 L<DRAM>[0] fp32:I(16):(1):64 B
) {
  0: (L) = copy(X)
  1: (T) = copy(L)
}
"""
    program = program_of([inner, MAP.format("T", "O")], dict.fromkeys("XTO", (64,)))
    after = run((DRAM, MemoryPlacement()), program)
    assert offsets(after) == {"X": 0, "T": 512, "O": 256}
    assert after.main.blocks[0].refinement("L").offset == 768
    assert_same_meaning(program, after)


def test_the_verifier_finds_memory_that_is_shared_too_early() -> None:
    after = run((DRAM, MemoryPlacement(skip_tags=("user",))), chain())
    moved = tuple(attrs.evolve(r, offset=4) if r.name == "B" else r for r in after.memory)
    wrong = attrs.evolve(after, memory=moved)
    with pytest.raises(VerifyError, match="'A' and 'B' in test are placed at the same bytes"):
        verify(wrong)
    assert {fault.code for fault in diagnose(wrong)} == {"TIL514"}


STEPS: tuple[Pass, ...] = (
    ComputeDeps(),
    ComputeDeps(reqs=("main",)),
    Schedule(mem_kib=2, num_banks=2),
    LocateMemory(("kernel",), loc=(Place("DRAM"),)),
    MemoryPlacement(("main",)),
)


@given(programs(), st.booleans(), st.lists(st.sampled_from(STEPS), max_size=3), st.sampled_from((1, 4, 64)))
@examples(100)
def test_placement_preserves_meaning(program: Program, fuse: bool, steps: list[Pass], alignment: int) -> None:
    before = run((*((Accumulate(), Fuse()) if fuse else ()), DRAM, *steps), program)
    after = run((MemoryPlacement(alignment=alignment),), before)  # the verifier compares all that is placed
    assert_same_meaning(program, after)
    known = {allocation.name for allocation in allocations(before.entry) if allocation.offset is not None}
    for allocation in allocations(after.entry):
        if allocation.name not in known and allocation.location and byte_size(allocation):
            assert allocation.offset is not None
            assert allocation.offset % alignment == 0
    assert MemoryPlacement(alignment=alignment)(after) is after
