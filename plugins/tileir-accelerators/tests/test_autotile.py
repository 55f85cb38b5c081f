from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, programs
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.search import best_tiles

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

SMALL = 1024


def block(name: str = "matmul") -> Block:
    return stripe_program(name).main.blocks[0]


def best(options: Autotile, name: str = "matmul") -> dict[str, int]:
    found = best_tiles(block(name), options)
    return dict(zip((i.name for i in block(name).indices), found[0].sizes, strict=True)) if found else {}


def test_a_block_that_fits_stays() -> None:
    program = stripe_program("matmul")
    assert Autotile()(program) is program
    assert Autotile(memory_bytes=0)(program) is program


def test_tiles_fit_the_memory() -> None:
    for size in (64, 256, SMALL):
        for depth in (1, 2):
            for choice in best_tiles(block(), Autotile(memory_bytes=size, pipeline_depth=depth), 9):
                assert choice.footprint * depth <= size


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({"only_po2": True}, lambda s: all(v & (v - 1) == 0 for v in s.values())),
        ({"only_even": True}, lambda s: all(r % v == 0 for r, v in zip((19, 37, 11), s.values(), strict=True))),
        ({"only_multiples": 8}, lambda s: all(v % 8 == 0 or v in (19, 37, 11) for v in s.values())),
        ({"acc_idxs": False}, lambda s: s["k"] == 11),
        ({"max_sizes_product": 64}, lambda s: s["i"] * s["j"] * s["k"] <= 64),
        ({"max_output_size": 64}, lambda s: 4 * s["i"] * s["j"] <= 64),
        ({"max_input_size": 128}, lambda s: 4 * s["k"] * (s["i"] + s["j"]) <= 128),
        ({"max_count": 20}, lambda s: -(-19 // s["i"]) * -(-37 // s["j"]) * -(-11 // s["k"]) <= 20),
        ({"max_total_size": 96}, lambda s: 4 * (s["k"] * (s["i"] + s["j"]) + s["i"] * s["j"]) <= 96),
        ({"split_factor": -100.0, "acc_idxs": False}, lambda s: (s["i"], s["j"]) == (1, 1)),
        ({"input_cost": 0.0, "output_cost": 0.0, "min_out_count": 703}, lambda s: s["i"] * s["j"] < 19 * 37),
        ({"fast": True}, lambda s: s["i"] * s["j"] * s["k"] > 64),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options(options: dict[str, Any], holds: Any) -> None:
    found = best(Autotile(memory_bytes=SMALL, **options))
    assert found
    assert holds(found)


def test_wanted_sizes_raise_the_cost_of_smaller_tiles() -> None:
    plain, wanted = (Autotile(memory_bytes=SMALL, min_size=least) for least in (0, 4096))
    first, second = (best_tiles(block(), options)[0] for options in (plain, wanted))
    assert first.cost < second.cost


def test_impossible_limits_find_nothing() -> None:
    assert best_tiles(block(), Autotile(memory_bytes=1)) == ()
    program = stripe_program("matmul")
    assert Autotile(memory_bytes=1)(program) is program
    assert Autotile(candidates=((1, 2),))(program) is program


def test_candidates_are_clipped_to_the_block() -> None:
    options = Autotile(memory_bytes=0, candidates=((99, 99, 99), (4, 8, 11)))
    assert {choice.sizes for choice in best_tiles(block(), options, 9)} == {(19, 37, 11), (4, 8, 11)}


def test_the_refined_search_of_a_large_box_is_no_worse_than_powers_of_two() -> None:
    small = block("padded convolution")
    large = attrs.evolve(small, indices=tuple(attrs.evolve(i, range=200) for i in small.indices))
    options = Autotile(memory_bytes=4096)
    powers = best_tiles(large, attrs.evolve(options, only_po2=True))[0]
    assert best_tiles(large, options)[0].cost <= powers.cost


@given(
    programs(6),
    st.sampled_from((16, 64, 256)),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 2, 3)),
    st.booleans(),
)
@examples(80)
def test_tiles_keep_the_meaning(program: Program, size: int, po2: bool, even: bool, multiples: int, fast: bool) -> None:
    step = Autotile(memory_bytes=size, only_po2=po2, only_even=even, only_multiples=multiples, fast=fast)
    after = run((step,), program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tiled_kernels_can_be_lowered(name: str) -> None:
    program, values = stripe_program(name), inputs(name)
    after = run((Autotile(memory_bytes=128), Accumulate()), program)
    found = run_program(lower(after, Target()), values)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


@pytest.mark.parametrize("text", ["autotile{pipeline_depth=0}", 'autotile{memory="SRAM["}', "autotile{max_count=-1}"])
def test_options_are_checked(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "TIL543"


def test_candidates_must_be_sizes() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Autotile(candidates=((0, 1),))
