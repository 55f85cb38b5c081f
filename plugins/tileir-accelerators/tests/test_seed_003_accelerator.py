"""The slides 'Stripe Top', 'Hardware Model' and 'Optimizer Config': layer_test7 on DSPs and CONV units.

The slides show the first kernel of the program; what follows it, `1: ...`, is open: two more convolutions, with biases
and ramps in between, as the passes fuse_CONV_add and fuse_CONV_zelu suggest. Our refinements print sizes and strides
apart, the extents without the padding, and no location before a pass gives one (the slides: `<[0]>`). The slides list
O1 twice in `main`, as a result and as an allocation; here it is an allocation of the program that `main` writes.

The configuration is on the slides in part. `SRAM_SIZE_KIB` is there the size of one memory in the model, and of all
together in the pass schedule; here it is the latter. The slides' zelu is max with 0 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.passes import assert_same_meaning
from strategies.seed import LAYER_TEST7, layer_types
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.core.targets.template import fill
from tileir.passes.base import label_of, run
from tileir.passes.pipelines.catalog import load_pipeline, resolve_pipeline
from tileir.passes.pipelines.pipeline import to_json
from tileir.stripe.lower.lowering import lower
from tileir.stripe.nesting import main_of
from tileir.stripe.text.language import location_text
from tileir.stripe.text.printer import named, to_text
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Block, Program

SLIDE = """[
{ "name": "fuse_CONV_add", "fusion": { "a_reqs": ["CONV"], "b_reqs": ["eltwise_add"], "fused_set": ["CONV"] } },
{ "name": "fuse_CONV_zelu", "fusion": { "a_reqs": ["CONV"], "b_reqs": ["eltwise_zelu"], "fused_set": ["CONV"] } },
{ "name": "fuse_CONV", "fusion": { "parent_reqs": ["CONV"], "fused_set": ["CONV_inner"] } },
{ "name": "localize_main", "localize": { "reqs": ["main"] } },
{ "name": "scalarize_main", "scalarize": { "reqs": ["main"] } },
{ "name": "loc_CONV", "locate_block": { "reqs": ["CONV"], "loc": { "name": "CONV" } } },
{ "name": "loc_pool", "locate_block": { "reqs": ["agg_op_max"], "loc": { "name": "DSP" } } },
{ "name": "loc_eltwise", "locate_block": { "reqs": ["eltwise"], "loc": { "name": "DSP" } } },
{ "name": "deps_main", "compute_deps": { "reqs": ["main"] } },
{
    "name": "schedule_main",
    "schedule": {
        "reqs": ["main"],
        "mem_loc": { "name": "SRAM" },
        "mem_KiB": {{ SRAM_SIZE_KIB / NUM_SRAM }},
        "alignment": 16,
        "xfer_loc": { "name": "DMA" },
        "allow_out_of_range_accesses": true,
        "num_banks": {{ NUM_SRAM }}
    }
},
{ "name": "place_program", "memory_placement": { "reqs": ["program"], "locs": [ { "name": "DRAM" } ], "alignment": 4 } }
]"""

SMALL = (16, 16, 4, 8)
SLIDES = (1024, 1024, 32, 64)


def program(sizes: tuple[int, int, int, int], dtype: DType = DType.I8) -> Program:
    return lower(infer(parse(LAYER_TEST7), layer_types(*sizes, dtype)))


def target_passes(parameters: tuple[tuple[str, int], ...] = (), last: str = "place_program") -> tuple[Pass, ...]:
    """Return the passes of the target up to one of them."""
    passes = resolve_pipeline("dsp_conv", Target(pipeline="dsp_conv", parameters=parameters))
    names = [label_of(step) for step in passes]
    return passes[: names.index(last) + 1]


def outline(block: Block, depth: int = 0) -> str:
    """Return what stands where: dependencies, tags that the passes look for, location, loops, and allocations."""
    loops = ", ".join(f"{i.name}:{i.range}" for i in block.indices if i.affine is None and i.range > 1)
    tags = [f"#{name}" for name, _ in block.tags.items if name in ("CONV", "CONV_inner", "xfer")]
    own = [f"{r.name}{location_text(r.location)}@{r.offset}" for r in block.refinements if not r.source]
    words = (
        str(list(block.deps)) if block.deps else "",
        *tags,
        location_text(block.location),
        f"[{loops}]",
        block.name,
    )
    line = "  " * depth + " ".join((*filter(None, words), *(f"+{name}" for name in own)))
    return "\n".join((line, *(outline(inner, depth + 1) for inner in block.blocks)))


def test_stripe_top_is_that_of_the_slides(golden: Callable[[str], None]) -> None:
    golden(to_text(program(SLIDES)))


def test_the_configuration_of_the_slides_loads_as_it_stands() -> None:
    passes = load_pipeline(fill(SLIDE, {"SRAM_SIZE_KIB": 4096, "NUM_SRAM": 8}))
    assert [label_of(step) for step in passes][-3:] == ["deps_main", "schedule_main", "place_program"]
    assert_same_meaning(program(SMALL), run(passes, program(SMALL)))


def test_all_its_steps_are_in_the_target() -> None:
    slide = [label_of(step) for step in load_pipeline(fill(SLIDE, {"SRAM_SIZE_KIB": 4096, "NUM_SRAM": 8}))]
    ours = [label_of(step) for step in target_passes()]
    assert [name for name in ours if name in slide] == slide


def test_the_hardware_model_is_that_of_the_slides() -> None:
    parameters = (("NUM_SRAM", 4), ("SRAM_SIZE_KIB", 512), ("NUM_CONV", 2))
    model = hardware_of(Target(pipeline="dsp_conv", parameters=parameters))
    assert (model.memory("SRAM").count, model.size("SRAM")) == (4, 128 * 1024)
    assert model.execution("CONV").pipeline_depth == 2
    assert model.execution("DSP").rate(DType.I8) == 64
    assert model.bandwidth("DRAM[0]", "SRAM[3]") == 64 * 800e6
    assert [memory.name for memory in model.levels("CONV")] == ["DRAM", "SRAM"]


def test_small_layers_stay_in_the_inner_memory(golden: Callable[[str], None]) -> None:
    after = run(target_passes(), program(SMALL))
    assert_same_meaning(program(SMALL), after)
    golden(outline(main_of(after, named)) + "\n")


def test_layers_of_the_slides_come_in_by_tiles(golden: Callable[[str], None]) -> None:
    after = run(target_passes(), program(SLIDES))
    golden(outline(main_of(after, named)) + "\n")
    (swap,) = (block for block in after.main.blocks[0].blocks if block.name == "swap_in_I")
    assert "overrun" in swap.tags
    assert swap.constraints


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [SMALL, (12, 10, 3, 5), (8, 9, 2, 4)], ids=str)
@pytest.mark.parametrize("memory", [(4096, 8), (16, 2), (8, 1), (5, 1)], ids=str)
def test_the_target_preserves_meaning(sizes: tuple[int, int, int, int], memory: tuple[int, int]) -> None:
    parameters = (("SRAM_SIZE_KIB", memory[0]), ("NUM_SRAM", memory[1]))
    before = program(sizes, DType.I32)
    after = run(target_passes(parameters, "deps_of_loops"), before)
    assert_same_meaning(before, after)


def test_data_that_do_not_fit_are_named() -> None:
    with pytest.raises(TileError, match="'K1', but that has 2 banks of 1 KiB"):
        run(target_passes((("SRAM_SIZE_KIB", 2), ("NUM_SRAM", 2))), program((16, 16, 32, 64)))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("memory", [(4096, 8), (8, 2)], ids=str)
@pytest.mark.parametrize("dtype", [DType.I8, DType.I32], ids=str)
def test_processors_run_it_too(memory: tuple[int, int], dtype: DType) -> None:
    types = layer_types(*SMALL, dtype)
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-3, 4, t.shape).astype(dtype.numpy) for name, t in types.items()}
    parameters = (("SRAM_SIZE_KIB", memory[0]), ("NUM_SRAM", memory[1]))
    passes = to_json(target_passes(parameters, "deps_of_loops"))
    expected = tileir.compile(LAYER_TEST7, types)(**arrays)
    actual = tileir.compile(LAYER_TEST7, types, passes=passes)(**arrays)
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


def test_what_lacks_a_pass_says_so() -> None:
    types = layer_types(*SMALL)
    with pytest.raises(TileError, match="run the pass accumulate before lowering"):
        tileir.compile(LAYER_TEST7, types, passes=to_json(target_passes()))
