"""The slide 'Stripe: Hardware Model', filled in and read.

The text is the slide's but for what the slide leaves out or gets wrong: it has no braces around everything; after
`{{NUM_DSP}}` and `{{NUM_CONV}}` there is one brace too many, and one is missing behind CONV; the end of a loop stands
as `{endfor %}`, and the lists lack a bracket; no comma stands between the sinks that a loop makes; `...` stands for
further buses, of which those below let data reach the execution units. Another slide has SRAM_SIZE_KIB for a name.
"""

from __future__ import annotations

import pytest

from tileir.core.errors import TileError
from tileir.core.targets.hardware_json import from_json, to_json
from tileir.core.targets.target_file import sections_of
from tileir.core.targets.template import fill

SLIDE = """{
"clock_mhz": {{ CLOCK_MHZ }},
"mem_units": {
    "DRAM": { "count": 1, "size_KiB": 1048576 },
    "SRAM": { "count": {{ NUM_SRAM }}, "size_KiB": {{ SRAM_SIZE_KiB }} },
},
"exec_units": {
    "DSP": { "count": {{NUM_DSP}}, "ops_per_cycle": 64 },
    "CONV": { "count": {{NUM_CONV}}, "ops_per_cycle": 512, "pipeline_depth": 2 }
},
"tx_units": {
    "DMA": { "count": 1 },
    "NOC": { "count": 1 },
},
"buses": [
    { "sources": ["DRAM[0]"], "sinks": ["DMA[0]"], "bytes_per_cycle": 64 },
    { "sources": ["DMA[0]"], "sinks": ["DRAM[0]"], "bytes_per_cycle": 64 },
    {
        "sources": ["DMA[0]"],
        "sinks": [[% for i in range(NUM_SRAM) %] "SRAM[{{i}}]", [% endfor %]],
        "bytes_per_cycle": 64
    },
    {
        "sources": ["NOC[0]"],
        "sinks": [[% for i in range(NUM_SRAM) %] "SRAM[{{i}}]", [% endfor %]],
        "bytes_per_cycle": 512
    },
    { "sources": ["SRAM"], "sinks": ["DSP", "CONV"], "bytes_per_cycle": 512 }, // what the slide calls "..."
    { "sources": ["DSP", "CONV"], "sinks": ["NOC"], "bytes_per_cycle": 512 },
]
}"""
PARAMETERS = {"CLOCK_MHZ": 800, "NUM_SRAM": 4, "SRAM_SIZE_KiB": 256, "NUM_DSP": 4, "NUM_CONV": 2}


def test_the_slide_is_a_model() -> None:
    model = from_json(fill(SLIDE, PARAMETERS), "slide")
    assert (model.clock_mhz, model.memory("SRAM").count, model.size("SRAM")) == (800, 4, 256 * 1024)
    assert (model.execution("CONV").pipeline_depth, model.execution("DSP").count) == (2, 4)
    assert model.buses[2].sinks == ("SRAM[0]", "SRAM[1]", "SRAM[2]", "SRAM[3]")
    assert [memory.name for memory in model.levels()] == ["DRAM", "SRAM"]
    assert model.bandwidth("DRAM", "SRAM[3]") == 64 * 800e6
    assert model.bandwidth("DSP", "SRAM") == 512 * 800e6
    assert from_json(to_json(model)) == model


@pytest.mark.parametrize("block", ["{% for", "[% for"])
def test_both_marks_of_blocks_are_known(block: str) -> None:
    text = SLIDE if block.startswith("[") else SLIDE.replace("[%", "{%").replace("%]", "%}")
    assert block in text
    assert fill(text, PARAMETERS) == fill(SLIDE, PARAMETERS)


def test_a_parameter_that_is_missing_is_named() -> None:
    with pytest.raises(TileError) as caught:
        fill(SLIDE, {name: value for name, value in PARAMETERS.items() if name != "NUM_SRAM"}, "slide")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.message) == ("TIL546", "NUM_SRAM has no value here; did you mean NUM_DSP?")
    assert fault.span is not None
    assert (fault.span.line, fault.span.column, fault.span.text) == (5, 24, "{{ NUM_SRAM }}")


def test_the_brace_too_many_of_the_slide_is_found() -> None:
    text = SLIDE.replace('"count": {{NUM_DSP}}, "ops_per_cycle": 64 }', '"count": {{NUM_DSP}}}, "ops_per_cycle": 64 }')
    with pytest.raises(TileError) as caught:
        sections_of(text, "slide")
    (fault,) = caught.value.diagnostics
    assert fault.message == (
        "this '}' closes the '{' in line 7, which begins a block of lines; drop a bracket too many in this line"
    )
    assert fault.span is not None
    assert (fault.span.line, fault.span.text) == (8, "}")


def test_a_unit_too_many_is_told() -> None:
    with pytest.raises(TileError, match=r"sink 'SRAM\[4\]' is out of range; there are 4"):
        from_json(fill(SLIDE.replace("range(NUM_SRAM)", "range(NUM_SRAM + 1)"), PARAMETERS))
