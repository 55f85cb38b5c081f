"""Programs whose data are scheduled for an inner memory, with that memory as one stretch of bytes."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.arena import run_in_arenas, slots_of
from strategies.effort import examples
from strategies.families import FAMILIES, Written, written
from strategies.tile import assert_equal
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.pipelines.resolution import resolve_pipeline
from tileir.stripe.flattening import with_entry
from tileir.stripe.interpret.interpreter import interpret

TARGET: Final = Target("accelerator", vector_bytes=16, threads=1)
PIPELINES: Final = {
    "large": lambda: parse_pipeline("accumulate,schedule"),
    "banks": lambda: parse_pipeline("schedule{num_banks=4,mem_kib=1,window=0},accumulate"),
    "small": lambda: parse_pipeline("accumulate,compute_deps,schedule{mem_kib=2,window=3}"),
    "fused": lambda: parse_pipeline("accumulate,fusion,localise,schedule{mem_kib=4}"),
    "dsp_conv": lambda: resolve_pipeline("dsp_conv", attrs.evolve(TARGET, pipeline="dsp_conv")),
    "dsp_conv with little memory": lambda: resolve_pipeline(
        "dsp_conv",
        attrs.evolve(TARGET, pipeline="dsp_conv", parameters=(("NUM_SRAM", 2), ("SRAM_SIZE_KIB", 4))),
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@examples(12)
def test_placed_memory_suffices(family: str, name: str, data: st.DataObject) -> None:
    case = data.draw(written(family))
    program, inputs = case.program(), case.arrays()
    try:
        scheduled = run(PIPELINES[name](), program)
    except TileError as error:
        if {fault.code for fault in error.diagnostics} != {"TIL548"}:
            raise
        return  # data that do not fit
    assert_equal(run_in_arenas(scheduled, TARGET, inputs), interpret(program, inputs))


CHAIN = "function (A[N]) -> (O) { B = A * 2; C = B + A; D = C * B; O = D - C; }"


def test_slots_at_the_same_bytes_show() -> None:
    case = Written(CHAIN, {"A": (16,)})
    scheduled = run(parse_pipeline("accumulate,schedule"), case.program())
    expected = interpret(case.program(), case.arrays())
    assert len({slot.offset for slot in slots_of(scheduled).values()}) > 1
    assert_equal(run_in_arenas(scheduled, TARGET, case.arrays()), expected)
    main = scheduled.main
    views = tuple(r if r.offset is None else attrs.evolve(r, offset=0) for r in main.refinements)
    entry = attrs.evolve(scheduled.entry, statements=(attrs.evolve(main, refinements=views),))
    spoilt = run_in_arenas(with_entry(scheduled, entry), TARGET, case.arrays())
    assert not np.array_equal(spoilt["O"], expected["O"])
