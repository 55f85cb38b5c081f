from __future__ import annotations

from typing import TYPE_CHECKING

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
from tileir.passes.base import Pass, map_kernels, run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.regions.tile import Tile
from tileir.poly.affine import Affine
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Device, Tags
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.cache import Cache
from tileir_accelerators.placement.locate import Place
from tileir_accelerators.tiling.autotile import Autotile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

INNER = Autotile(memory_bytes=96, inner_set=("inner",))


def copies(program: Program) -> dict[str, int]:
    """Return how many copy blocks of each kind a program has, by name."""
    found: dict[str, int] = {}
    pending: list[Block] = [program.main]
    while pending:
        block = pending.pop()
        if "cache" in block.tags:
            found[block.name] = found.get(block.name, 0) + 1
        pending.extend(block.blocks)
    return found


def test_a_product_with_all_its_views_cached(golden: Callable[[str], None]) -> None:
    program = stripe_program("matmul")
    step = Cache(mem_loc=(Place("SRAM", (0,)),), xfer_loc=(Place("DMA"),), odd_size=True)
    after = run((Tile((8, 16, 4), inner_set=("inner",)), step), program)
    golden(to_text(after.main.blocks[0]))
    assert_same_meaning(program, after, inputs("matmul"))


@given(programs(6), st.sampled_from((16, 32, 64)), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@examples(80)
def test_copies_keep_the_meaning(program: Program, size: int, odd: bool, first: bool, again: bool, fixed: bool) -> None:
    tile: Pass = Autotile(memory_bytes=size, inner_set=("inner",))
    steps: list[Pass] = [Accumulate(), tile] if first else [tile]
    steps.append(Cache(odd_size=odd, add_constraints=not fixed))
    if again:
        steps += [Autotile(reqs=("inner",), memory_bytes=size // 2), Cache(reqs=("inner",), order=(1, 0))]
    after = run(steps, program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", ["accumulate first", "cache first"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_cached_kernels_can_be_lowered(name: str, order: str) -> None:
    program, values = stripe_program(name), inputs(name)
    middle: list[Pass] = [Accumulate(), Cache()] if order == "accumulate first" else [Cache(), Accumulate()]
    after = run((INNER, *middle), program)
    assert_same_meaning(program, after, values)
    found = run_program(lower(after, Target()), values)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


def test_results_that_are_summed_up_start_from_nothing_and_are_merged() -> None:
    after = run((Tile((8, 16, 4)), Accumulate(), Cache(dirs=("inout",))), stripe_program("matmul"))
    assert copies(after) == {"init_C": 1, "store_C": 1}
    tags = {
        b.name: {name for name, _ in b.tags.items}
        for kernel in after.main.blocks
        for b in kernel.blocks
        if "cache" in b.tags
    }
    assert tags == {"init_C": {"cache", "cache_init"}, "store_C": {"cache", "cache_store"}}


def test_one_view_and_some_directions() -> None:
    program = run((Tile((8, 16, 4)),), stripe_program("matmul"))
    assert copies(Cache(ref="B")(program)) == {"load_B": 1}
    assert copies(Cache(dirs=("in",))(program)) == {"load_A": 1, "load_B": 1}
    assert copies(Cache()(program)) == {"load_A": 1, "load_B": 1, "store_C": 1}
    assert Cache(ref="Z")(program) is program
    assert Cache(reqs=("elsewhere",))(program) is program
    once = Cache()(program)
    assert Cache()(once) is once


def test_units_may_go_by_the_indices_of_the_block() -> None:
    program = run((Tile((8, 16, 4)),), stripe_program("matmul"))
    tagged = map_kernels(
        program,
        lambda kernel: attrs.evolve(
            kernel, indices=tuple(attrs.evolve(i, tags=Tags.of("unit")) if i.name == "j" else i for i in kernel.indices)
        ),
    )
    step = Cache(mem_loc=(Place("SRAM", ("#unit",)),), xfer_loc=(Place("DMA", ("2*i + 1",)),))
    after = run((Accumulate(), step), tagged)
    (kernel,) = (block for block in after.main.blocks if block.blocks and "cache" in block.blocks[0].tags)
    assert kernel.refinement("A").location == (Device("SRAM", (Affine.index("j"),)),)
    for copy in kernel.blocks:
        if "cache" in copy.tags:
            assert len(copy.location[0].units[0].indices) == 1
    assert_same_meaning(program, after, inputs("matmul"))


def test_blocks_without_others_in_them_stay() -> None:
    program = stripe_program("matmul")
    assert Cache()(program) is program


def test_the_order_of_axes_and_the_padding() -> None:
    program = run((Tile((8, 16, 4)),), stripe_program("matmul"))

    def strides(step: Cache) -> tuple[int, ...]:
        return step(program).main.blocks[0].refinement("B").shape.strides

    assert strides(Cache(ref="B")) == (16, 1)
    assert strides(Cache(ref="B", order=(1, 0))) == (1, 4)
    assert strides(Cache(ref="B", order=(1, 1))) == (16, 1)
    assert strides(Cache(ref="B", odd_size=True)) == (17, 1)
    assert strides(Cache(ref="B", odd_size=True, odd_limit=1.01)) == (16, 1)


def test_views_that_may_hang_over_stay_where_copies_must_not_test() -> None:
    program = run((Tile((8, 16, 11)),), stripe_program("matmul"))
    assert copies(Cache(add_constraints=False)(program)) == {}
    even = run((Tile((19, 37, 4)),), stripe_program("matmul"))
    assert copies(Cache(add_constraints=False)(even)) == {"store_C": 1}


def test_results_that_are_not_surely_written_stay() -> None:
    program = run((Tile((4,)),), stripe_program("only even elements"))
    after = Cache(reqs=("contraction",))(program)
    assert copies(after) == {"load_A": 1}
    assert_same_meaning(program, after, inputs("only even elements"))


def test_deeper_blocks_know_where_they_are() -> None:
    """The last tile of a tile hangs over: its copies need the numbers of the outer tiles."""
    steps = (Tile((8, 16, 11), inner_set=("a",)), Tile((3, 5, 2, 1, 1), reqs=("a",), inner_set=("b",)))
    program = stripe_program("matmul")
    after = run((*steps, Cache(reqs=("a",))), program)
    assert copies(after)["load_A"] == 1
    assert_same_meaning(program, after, inputs("matmul"))
    assert_same_meaning(program, run((*steps, Cache(), Cache(reqs=("a",))), program), inputs("matmul"))


@pytest.mark.parametrize(
    "text", ["cache{dirs=none}", "cache{odd_limit=0.5}", 'cache{mem_loc="<"}', 'cache{xfer_loc="a b"}']
)
def test_options_are_checked(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "TIL543"
