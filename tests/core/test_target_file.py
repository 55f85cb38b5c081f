from __future__ import annotations

import json

import attrs
import pytest

from strategies.hardware import ACCELERATOR
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.generic_hardware import generic_hardware
from tileir.core.targets.hardware_json import to_value
from tileir.core.targets.quantities import facts, quantities
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import (
    file_of,
    hardware_of,
    load,
    passes_value,
    target_called,
    with_facts,
)
from tileir.core.targets.target_names import names_of_targets
from tileir.passes.pipelines.resolution import pipeline_for

TEXT = """{
  "name": "accelerator",
  "about": "An accelerator.",
  "parameters": {
    "NUM_SRAM": { "default": 4, "meaning": "memories" },
    "SRAM_SIZE_KiB": { "meaning": "size of all of them" },
  },
  "hardware": {
    "clock_mhz": 1000, // of all units
    "mem_units": {
      "DRAM": { "count": 1, "size_KiB": 1048576 },
      "SRAM": { "count": {{ NUM_SRAM }}, "size_KiB": {{ SRAM_SIZE_KiB / NUM_SRAM }} },
    },
    "exec_units": { "DSP": { "count": {{ NUM_SRAM }}, "ops_per_cycle": {{ VECTOR_BYTES }} } },
    "buses": [
      { "sources": ["DRAM"], "sinks": [ [% for i in range(NUM_SRAM) %] "SRAM[{{ i }}]", [% endfor %] ],
        "bytes_per_cycle": 64 },
      { "sources": ["SRAM"], "sinks": ["DSP"], "bytes_per_cycle": 64, "count": {{ NUM_SRAM }} },
    ],
  },
  "passes": [
    { "name": "tile", "options": { "sizes": [{{ VECTOR_BYTES }}, {{ SRAM_KIB }}, {{ SRAM_COUNT }}] } },
    { "include": "plain" },
  ],
}
"""
FILE = load(TEXT)


def target(**parameters: int) -> Target:
    return Target(pipeline=TEXT, parameters=tuple(parameters.items()))


def messages(caught: pytest.ExceptionInfo[TileError]) -> list[str]:
    return [d.message for d in caught.value.diagnostics]


def test_a_file_says_what_it_leaves_open() -> None:
    assert (FILE.name, FILE.about) == ("accelerator", "An accelerator.")
    assert [(p.name, p.default, p.meaning) for p in FILE.parameters] == [
        ("NUM_SRAM", 4, "memories"),
        ("SRAM_SIZE_KiB", None, "size of all of them"),
    ]
    assert FILE.values({"SRAM_SIZE_KiB": 8}) == {"NUM_SRAM": 4, "SRAM_SIZE_KiB": 8}


def test_the_model_is_filled_in() -> None:
    model = hardware_of(target(SRAM_SIZE_KiB=512, NUM_SRAM=2))
    assert model.name == "accelerator"
    assert (model.memory("SRAM").count, model.size("SRAM")) == (2, 256 * 1024)
    assert model.buses[0].sinks == ("SRAM[0]", "SRAM[1]")
    assert dict(model.execution("DSP").ops_per_cycle) == {None: 32}


def test_passes_may_use_facts_parameters_and_quantities_of_the_model() -> None:
    value = passes_value(FILE, target(SRAM_SIZE_KiB=512, NUM_SRAM=2))
    assert value == [{"name": "tile", "options": {"sizes": [32, 256, 2]}}, {"include": "plain"}]


def test_the_model_of_the_file_comes_before_that_of_the_device() -> None:
    device = Target(hardware=ACCELERATOR)
    assert hardware_of(device) is ACCELERATOR
    assert hardware_of(attrs.evolve(device, pipeline="fuse")) is ACCELERATOR
    assert hardware_of(attrs.evolve(device, hardware=None)) == generic_hardware(attrs.evolve(device, hardware=None))
    chosen = attrs.evolve(device, pipeline=TEXT, parameters=(("SRAM_SIZE_KiB", 4),))
    assert hardware_of(chosen).memory("SRAM").size_kib == 1


def test_only_names_and_files_are_targets() -> None:
    assert file_of("fuse,localise") is None
    assert file_of(" cpu ") is target_called("cpu")
    assert file_of(TEXT) == FILE
    assert not FILE.builtin
    assert target_called("cpu").builtin
    with pytest.raises(TileError) as caught:
        target_called("cpuu")
    assert messages(caught) == ["there is no target 'cpuu'; did you mean cpu?"]


@pytest.mark.parametrize("name", ["../targets/cpu", "", "a b", "cpu.json"])
def test_names_are_no_paths(name: str) -> None:
    with pytest.raises(TileError, match="there is no target"):
        target_called(name)


def test_parameters_are_checked() -> None:
    with pytest.raises(TileError) as caught:
        FILE.values({"NUM_SRAN": 1, "NUM_SRAM": "many"})
    assert {d.code for d in caught.value.diagnostics} == {"TIL547"}
    assert messages(caught) == [
        "target accelerator has no parameter NUM_SRAN; did you mean NUM_SRAM?",
        "NUM_SRAM of target accelerator takes a number, not 'many'",
        "target accelerator needs SRAM_SIZE_KiB=VALUE (size of all of them)",
    ]
    with pytest.raises(TileError, match="takes a number, not True"):
        FILE.values({"NUM_SRAM": True, "SRAM_SIZE_KiB": 1})
    assert FILE.values({"NUM_SRAM": 2.5, "SRAM_SIZE_KiB": 1})["NUM_SRAM"] == 2.5


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (('"passes"', '"pases"'), "TIL602", "<target>: there is no key 'pases'; did you mean passes?"),
        (('"name": "acc', '"names": "acc'), "TIL602", "<target>: there is no key 'names'; did you mean name?"),
        (('"default": 4', '"default": []'), "TIL602", "<target>: parameters.NUM_SRAM: the default must be a number,"),
        (('"NUM_SRAM": {', '"NUM SRAM": {'), "TIL602", "<target>: parameters.NUM SRAM: write a word such as NUM_SRAM"),
        (('"meaning": "mem', '"why": "mem'), "TIL602", "<target>: parameters.NUM_SRAM: there is no key 'why'"),
        (
            ('"about": ', '"version": 2, "about": '),
            "TIL602",
            "<target>: the version is 2; this release of tileir reads",
        ),
        (('"about": ', '"version": "1", "about": '), "TIL602", "<target>: the version is '1'; this release of tileir"),
        (('"about": ', '"about": 1'), "TIL601", "this is not JSON: Extra data"),
    ],
)
def test_files_of_another_shape_are_refused(change: tuple[str, str], code: str, message: str) -> None:
    assert change[0] in TEXT
    with pytest.raises(TileError) as caught:
        load(TEXT.replace(*change, 1))
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].message.startswith(message)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("{{ NUM_SRAM }}", "{{ NUM_SRAN }}"), "TIL546", "NUM_SRAN has no value here; did you mean NUM_SRAM?"),
        (("1000,", "1000 1"), "TIL601", "this is not JSON: Expecting ',' delimiter"),
        (('"clock_mhz"', '"clock_ghz"'), "TIL602", "accelerator: there is no key 'clock_ghz'; did you mean clock_mhz?"),
        (("1000,", "0,"), "TIL544", "clock_mhz must be above 0"),
    ],
)
def test_wrong_models_are_refused_when_they_are_needed(change: tuple[str, str], code: str, message: str) -> None:
    assert change[0] in TEXT
    chosen = Target(pipeline=TEXT.replace(*change, 1), parameters=(("SRAM_SIZE_KiB", 4),))
    with pytest.raises(TileError) as caught:
        hardware_of(chosen)
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].message.startswith(message)


def test_facts_are_those_of_the_device() -> None:
    known = facts(Target(threads=7, cache_bytes=(1, 2, 3)))
    assert (known["THREADS"], known["L1_BYTES"], known["L2_BYTES"], known["CACHE_BYTES"]) == (7, 1, 2, (1, 2, 3))
    assert facts(Target(cache_bytes=(5,)))["L2_BYTES"] == 5
    assert facts(Target(cache_bytes=()))["L1_BYTES"] == 32 * 1024


def test_quantities_are_those_of_the_model() -> None:
    known = quantities(ACCELERATOR)
    assert (known["CLOCK_MHZ"], known["SRAM_COUNT"], known["SRAM_KIB"], known["CONV_PIPELINE_DEPTH"]) == (
        1000,
        4,
        256,
        2,
    )
    assert known["DMA_COUNT"] == 1


def test_a_file_without_passes_has_none() -> None:
    text = json.dumps({"name": "bare", "hardware": to_value(ACCELERATOR)})
    assert passes_value(load(text), Target()) == []
    assert hardware_of(Target(pipeline=text)) == ACCELERATOR


def test_facts_of_a_file_count_instead_of_the_devices() -> None:
    text = """{"name": "card", "parameters": {"SMS": {"default": 4}}, "facts": {
        "threads": {{ SMS / 2 }}, "group_width": 32, "cache_bytes": [1024, {{ L1_BYTES }}], "index_dtype": "i32" } }"""
    device = Target("it", vector_bytes=64, cache_bytes=(77,), pipeline=text)
    expected = attrs.evolve(
        device, name="card", threads=2, group_width=32, cache_bytes=(1024, 77), index_dtype=DType.I32
    )
    assert with_facts(device) == expected
    assert with_facts(attrs.evolve(device, parameters=(("SMS", 8),))).threads == 4
    plain = attrs.evolve(device, pipeline="plain")
    assert with_facts(plain) is plain


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{"thraeds": 1}', "card: facts: there is no key 'thraeds'; did you mean threads?"),
        ('{"pipeline": "cpu"}', "card: facts: there is no key 'pipeline'"),
        ('{"threads": 1.5}', "card: facts.threads: expected an integer but found the number 1.5"),
        ('{"index_dtype": "i31"}', "card: facts.index_dtype: expected one of 'bool',"),
        ("[]", "card: facts: write an object {…} here, not a list"),
    ],
)
def test_wrong_facts_are_told(written: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        with_facts(Target(pipeline=f'{{"name": "card", "facts": {written}}}'))
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL602"
    assert fault.message.startswith(message)


@pytest.mark.parametrize("name", names_of_targets())
def test_facts_of_targets_fit_their_models(name: str) -> None:
    target = with_facts(Target(pipeline=name))
    if target_called(name).facts is not None:
        model = hardware_of(target)
        assert model.execution_units[0].count == target.threads
        assert target.local_bytes <= model.size("LOCAL")
        assert pipeline_for(target)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA_CUDA-NVIDIA_H200", "nvidia-hopper"),
        ("NVIDIA_CUDA-NVIDIA_H100_80GB_HBM3", "nvidia-hopper"),
        ("AMD_Accelerated_Parallel_Processing-gfx942:sramecc+:xnack-", "amd-cdna3"),
        ("Intel(R)_OpenCL_Graphics-Intel(R)_Data_Center_GPU_Max_1550", "intel-xe-hpc"),
        ("NVIDIA_CUDA-NVIDIA_A100", "NVIDIA_CUDA-NVIDIA_A100"),
    ],
)
def test_devices_that_a_target_knows_have_its_model(name: str, model: str) -> None:
    device = Target(name, group_width=32, pipeline="gpu")
    assert hardware_of(device).name == model
    assert hardware_of(attrs.evolve(device, hardware=ACCELERATOR)) is ACCELERATOR


def test_settings_of_kernels_are_known_too() -> None:
    text = json.dumps({"name": "it", "passes": ["G"]}).replace('"G"', "{{ GOAL_GROUPS }}, {{ MAX_MEM }}")
    target = Target(threads=6, local_bytes=99, pipeline=text)
    assert passes_value(load(text), target) == [24, 99]


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        # data sheets: 10^12 operations a second, those on matrices too, and 10^9 bytes a second
        ("nvidia-hopper", {"f32": (62, 495), "f64": (31, 62), "f16": (124, 989), "i8": (15, 1979), "memory": 4800}),
        ("amd-cdna3", {"f32": (163, 163), "f64": (82, 163), "f16": (163, 1307), "i8": (82, 2615), "memory": 5300}),
        ("intel-xe-hpc", {"f32": (52, 419), "f64": (52, 52), "f16": (105, 839), "i8": (26, 1678), "memory": 3277}),
    ],
)
def test_models_agree_with_data_sheets(name: str, rates: dict[str, tuple[int, int] | int]) -> None:
    model = hardware_of(Target(pipeline=name))
    for dtype, expected in rates.items():
        if isinstance(expected, tuple):
            found = [model.peak(DType(dtype), matrix=matrix) / 1e12 for matrix in (False, True)]
            assert found == [pytest.approx(value, rel=0.04) for value in expected], dtype
    unit = model.execution_units[0].name
    assert model.bandwidth("DRAM", unit) / 1e9 == pytest.approx(rates["memory"])
    assert [memory.name for memory in model.levels(unit)][-1] == "REGISTER"


@pytest.mark.parametrize("name", names_of_targets())
def test_targets_that_come_with_tileir_say_what_they_are_for(name: str) -> None:
    file = target_called(name)
    assert file.name == name
    assert file.about
    assert all(parameter.meaning for parameter in file.parameters)


def places(caught: pytest.ExceptionInfo[TileError]) -> list[tuple[str, int, str]]:
    found = []
    for fault in caught.value.diagnostics:
        assert fault.span is not None, fault.message
        found.append((fault.code, fault.span.line, fault.span.text))
    return found


FAULTY = """{
  "name": "faulty", "pases": [],
  "parameters": { "N": { "default": [1] }, "M": { "defualt": 1 } },
  "facts": {
    "group_thread": 64,
    "local_bytes": "{{ VECTOR_BYTES }}"
  },
  "hardware": {
    "clock_mhz": 1,
    "mem_units": {
      "DRAM": { "count": 1, "size_KB": 2 }
    },
    "exec_units": { "DSP": { "count": {{ THREADS }}.5, "ops_per_cycle": { "f33": 1 } } },
    "buses": [{}, { "sources": 3, "sinks": [], "bytes_per_cycle": 1 }]
  }
}"""


def test_faults_of_keys_and_values_have_their_place() -> None:
    with pytest.raises(TileError) as caught:
        load(FAULTY, "faulty.json")
    assert places(caught) == [
        ("TIL602", 2, '"pases"'),
        ("TIL602", 3, '{ "default": [1] }'),
        ("TIL602", 3, '"defualt"'),
    ]
    mended = FAULTY.replace('"pases": []', '"about": ""').replace("[1]", "1").replace("defualt", "default")
    with pytest.raises(TileError) as caught:
        with_facts(Target(pipeline=mended))
    assert places(caught) == [("TIL602", 5, '"group_thread"'), ("TIL602", 6, '"{{ VECTOR_BYTES }}"')]
    with pytest.raises(TileError) as caught:
        hardware_of(Target(pipeline=mended))
    assert places(caught) == [
        ("TIL602", 11, '"size_KB"'),
        ("TIL602", 11, '{ "count": 1, "size_KB": 2 }'),
        ("TIL602", 13, "{{ THREADS }}.5"),
        ("TIL602", 13, '"f33"'),
        *[("TIL602", 14, "{}")] * 3,
        ("TIL602", 14, "3"),
    ]


def test_a_file_that_is_far_too_long_is_refused() -> None:
    with pytest.raises(TileError, match="at most 1048576 characters"):
        load("{" * (1 << 21))
