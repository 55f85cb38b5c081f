"""Passes that fill memories go by the sizes of the hardware model, where their options name a memory and no size."""

from __future__ import annotations

from typing import Any

import pytest

import tileir
from strategies.passes import assert_same_meaning, vector_sums
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.resolution import resolve_pipeline
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.tensor_type import TensorType
from tileir_accelerators.placement.memory_placement import Limit, MemoryPlacement
from tileir_accelerators.placement.schedule_memory import Schedule
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.search import best_tiles
from tileir_performance.explain.tiles import tile_tables

SLIDE = '[{ "autotile": { "reqs": ["contraction"], "only_po2": false, "memory": "SRAM" } }]'
CONVOLUTION = "function (I[X, C], K[P, C, D]) -> (O) { O[x, d : X, D] = +(I[x + p - 1, c] * K[p, c, d]); }"


def machine(kib: float, banks: int) -> Target:
    """Return the accelerator of the slides with so much SRAM in so many banks."""
    return Target(pipeline="dsp_conv", parameters=(("SRAM_SIZE_KIB", kib), ("NUM_SRAM", banks)))


def convolution() -> Program:
    shapes = {"I": (64, 8), "K": (3, 8, 16)}
    return lower(infer(parse(CONVOLUTION), {name: TensorType(DType.I8, shape) for name, shape in shapes.items()}))


@pytest.mark.parametrize(("kib", "banks", "split"), [(1, 4, True), (1, 1, True), (4, 2, False), (4096, 8, False)])
def test_tiles_of_the_slide_fit_a_bank_of_the_model(kib: int, banks: int, split: bool) -> None:
    (step,) = resolve_pipeline(SLIDE, machine(kib, banks))
    assert isinstance(step, Autotile)
    assert step.room == kib * 1024 // banks
    before = convolution()
    (best,) = best_tiles(before.main.blocks[0], step)
    assert best.footprint <= step.room
    after = run((step,), before)
    assert (after is not before) is split  # all of it is 1,920 bytes
    assert_same_meaning(before, after)


def test_a_size_that_is_given_counts_more() -> None:
    (step,) = resolve_pipeline("autotile{memory=SRAM, memory_bytes=96}", machine(4096, 8))
    assert isinstance(step, Autotile)
    assert step.room == 96
    (given,) = resolve_pipeline("schedule{mem_kib=3}", machine(4096, 8))
    assert isinstance(given, Schedule)
    assert (given.room_kib, given.banks) == (3, 1)


@pytest.mark.parametrize("text", ["autotile{memory=SRAM}", "schedule"])
def test_memories_that_no_model_knows_have_the_size_that_the_manual_tells(text: str) -> None:
    (step,) = resolve_pipeline(text, Target())
    assert isinstance(step, Autotile | Schedule)
    assert step.room == 32 * 1024 if isinstance(step, Autotile) else (step.room_kib, step.banks) == (256, 1)
    assert "bytes" not in pipeline.to_text((step,))
    assert "kib" not in pipeline.to_text((step,))


@pytest.mark.parametrize(
    ("facts", "size"),
    [
        ({}, Target().cache_bytes[0]),
        ({"cache_bytes": (9216, 65536)}, 9216),
        ({"local_bytes": 3072, "group_threads": 64, "group_width": 32}, 3072),
        ({"cache_bytes": ()}, 32 * 1024),
    ],
)
def test_tiles_fit_the_innermost_memory_where_none_is_named(facts: dict[str, Any], size: int) -> None:
    target = Target(**facts)
    (step,) = resolve_pipeline("autotile", target)
    assert isinstance(step, Autotile)
    assert step.room == size
    assert all(tile.footprint <= size for tile in best_tiles(convolution().main.blocks[0], step, 5))


@pytest.mark.parametrize("threads", [1, 256])
def test_tiles_go_by_the_memory_that_settings_give(threads: int) -> None:
    """Of the seven numbers of the slides, this one decides what a tile holds."""
    found = []
    for most in (512, 1024, 2048):
        file = tileir.parse(
            f'{{"name": "v0", "settings": {{"threads": {threads}, "max_mem": {most}}}}}', stage="target"
        )
        (table,) = tile_tables(CONVOLUTION, {"I": "i8[64, 8]", "K": "i8[3, 8, 16]"}, target=file, passes="autotile")
        assert table.room == most
        assert all(row.nbytes <= most for row in table.tiles)
        found.append(table.tiles[0].sizes)
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("options", "expected"), [("", (32, 4)), ("mem_loc={name=SRAM,units=(0)}", (32, 1)), ("num_banks=2", (32, 2))]
)
def test_schedules_have_the_banks_of_the_model(options: str, expected: tuple[float, int]) -> None:
    (step,) = resolve_pipeline(f"schedule{{{options}}}", machine(128, 4))
    assert isinstance(step, Schedule)
    assert (step.room_kib, step.banks) == expected


def test_what_does_not_fit_the_memory_of_the_model_is_not_scheduled() -> None:
    sums = vector_sums("XYO")  # three times 256 bytes
    for kib, fits in ((0.75, True), (0.5, False)):
        (step,) = resolve_pipeline("schedule", machine(kib, 1))
        if fits:
            assert_same_meaning(sums, run((step,), sums))
        else:
            with pytest.raises(TileError, match=r"TIL548.*0\.5 KiB"):
                run((step,), sums)


@pytest.mark.parametrize(
    ("where", "kib", "fits"),
    [
        ("{name=SRAM}", 1, True),  # of all banks together
        ("{name=SRAM,units=(0)}", 1, False),
        ("{name=SRAM,units=(0)}", 4, True),
        ("{name=ROM}", 1, True),  # of which the model tells nothing
    ],
)
def test_placement_refuses_what_is_too_large(where: str, kib: float, fits: bool) -> None:
    sums = vector_sums("XYO")
    passes = resolve_pipeline(f"locate_memory{{loc={where}}}, memory_placement", machine(kib, 4))
    if fits:
        placed = run(passes, sums)
        assert all(each.offset is not None for each in placed.memory)
        return
    with pytest.raises(TileError) as caught:
        run(passes, sums)
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL548"
    assert "in SRAM[0] at a time, which has 0.25 KiB" in fault.message


def test_limits_of_placement_go_to_text_and_back() -> None:
    (step,) = resolve_pipeline("memory_placement{limits=({name=SRAM,kib=0.5})}", machine(4096, 8))
    assert isinstance(step, MemoryPlacement)
    assert step.limits == (Limit("SRAM", 0.5),)
    assert resolve_pipeline(pipeline.to_text((step,)), Target()) == (step,)
    (free,) = resolve_pipeline("memory_placement{limits=()}", machine(1, 4))
    assert isinstance(free, MemoryPlacement)
    assert free.limits == ()
