from __future__ import annotations

import json

import pytest

from strategies.hardware import ACCELERATOR, PROCESSOR
from tileir.core.dtype import DType
from tileir.core.errors import TileError, VerifyError
from tileir.core.json.plain import read_json
from tileir.core.targets.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit, TransferUnit
from tileir.core.targets.hardware_json import from_json, to_json, to_value

SLIDE = """
{
"clock_mhz": 1000,
"mem_units": {
    "DRAM": { "count": 1, "size_KiB": 1048576 },
    "SRAM": { "count": 2, "size_KiB": 512 },
},
"exec_units": {
    "DSP": { "count": 4, "ops_per_cycle": 64 },
    "CONV": { "count": 1, "ops_per_cycle": 512, "pipeline_depth": 2 }
},
"tx_units": {
    "DMA": { "count": 1 },
    "NOC": { "count": 1 },
},
"buses": [
    { "sources": ["DRAM[0]"], "sinks": ["DMA[0]"], "bytes_per_cycle": 64 },
    { "sources": ["DMA[0]"], "sinks": ["DRAM[0]"], "bytes_per_cycle": 64 },
    { "sources": ["DMA[0]"], "sinks": [ "SRAM[0]", "SRAM[1]"], "bytes_per_cycle": 64 },
    { "sources": ["NOC[0]"], "sinks": [ "SRAM[0]", "SRAM[1]"], "bytes_per_cycle": 512 },
    { "sources": ["SRAM"], "sinks": ["DSP", "CONV"], "bytes_per_cycle": 256 }, // the slide leaves this out
]
}
"""


def test_the_form_of_the_slide_is_read() -> None:
    model = from_json(SLIDE, "accelerator")
    assert model == HardwareModel(
        "accelerator",
        1000,
        (MemoryUnit("DRAM", 1, 1 << 20), MemoryUnit("SRAM", 2, 512)),
        (ExecutionUnit("DSP", 4, ((None, 64),)), ExecutionUnit("CONV", 1, ((None, 512),), 2)),
        (TransferUnit("DMA"), TransferUnit("NOC")),
        (
            Bus(("DRAM[0]",), ("DMA[0]",), 64),
            Bus(("DMA[0]",), ("DRAM[0]",), 64),
            Bus(("DMA[0]",), ("SRAM[0]", "SRAM[1]"), 64),
            Bus(("NOC[0]",), ("SRAM[0]", "SRAM[1]"), 512),
            Bus(("SRAM",), ("DSP", "CONV"), 256),
        ),
    )


def test_the_form_of_the_slide_is_written() -> None:
    value = to_value(from_json(SLIDE, "accelerator"))
    assert value.pop("name") == "accelerator"
    assert value == read_json(SLIDE)


@pytest.mark.parametrize("model", [ACCELERATOR, PROCESSOR], ids=lambda model: model.name)
def test_models_go_to_json_and_back(model: HardwareModel) -> None:
    assert from_json(to_json(model)) == model


def test_rates_are_told_by_dtype() -> None:
    text = to_json(PROCESSOR)
    assert '"ops_per_cycle": {\n        "f32": 32,\n        "other": 16\n      }' in text
    assert from_json(text).execution("CORE").ops_per_cycle == ((DType.F32, 32), (None, 16))


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"clock_mhz": "fast"}, ["it.clock_mhz: write a number here, not the text 'fast'"]),
        ({"clock": 1}, ["it: there is no key 'clock'; did you mean clock_mhz?"]),
        (
            {"mem_units": {"SRAM": {"size_kib": 4, "count": 1.5}}},
            [
                "it.mem_units.SRAM: there is no key 'size_kib'; did you mean size_KiB?",
                "it.mem_units.SRAM.count: write a number without a fraction here, not 1.5",
                'it.mem_units.SRAM: the key "size_KiB" is missing; it takes a number',
            ],
        ),
        (
            {"exec_units": {"DSP": {"ops_per_cycle": {"f33": 1}}, "CONV": {}}},
            [
                "it.exec_units.DSP.ops_per_cycle: 'f33' is no dtype; did you mean f32?",
                'it.exec_units.CONV: the key "ops_per_cycle" is missing; it takes a number',
            ],
        ),
        ({"tx_units": [1]}, ["it.tx_units: write an object {…} here, not a list"]),
        (
            {"buses": [{"sources": "DRAM", "sinks": ["DMA"], "bytes_per_cycle": 1}]},
            ["it.buses[0].sources: write a list of texts here, not the text 'DRAM'"],
        ),
        ({"exec_units": None}, ["it.exec_units: write an object {…} here, not null"]),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(change: dict[str, object], messages: list[str]) -> None:
    with pytest.raises(TileError) as caught:
        from_json(json.dumps(to_value(ACCELERATOR) | {"name": "it"} | change), "it")
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("TIL602", message) for message in messages]


def test_rules_are_checked() -> None:
    with pytest.raises(VerifyError, match="clock_mhz must be above 0"):
        from_json(SLIDE.replace("1000,", "0,"))
