from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.regions.tile import Tile
from tileir.passes.schedules.vectors.thread import Thread
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.cache import Cache
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.vectorise_inner import VectoriseInner

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

OUTER_PRODUCT: Final = """
tensorise{inner_set=micro,stencils=({idxs=(
  {name=m,size=4,outs=-1,ins=(-1,0)},{name=n,size=16,outs=1,ins=(0,1)},{name=k,outs=0,ins=(-1,-1)}),name=outer_product})},
tensorise{reqs=micro,inner_set=leaf,stencils=({idxs=(
  {name=m,outs=-1,ins=(-1,0)},{name=n,outs=1,ins=(0,1)},{name=k,size=1,outs=0,ins=(-1,-1)})})},
accumulate,cache{reqs=kernel,dirs=inout,mem_loc=REGISTER},canonicalise,
vectorise_inner{vector_bytes=64},unroll{reqs=leaf,mark=true},unroll{reqs=cache,mark=true},thread
"""
"""An outer product with its sums in registers, said by passes that know nothing of products."""


def test_an_outer_product_in_registers(golden: Callable[[str], None]) -> None:
    text = "block [i:32, j:48, k:8]:1 (\n in A[i, k] fp32:I(1, 1):(8, 1)\n in B[k, j] fp32:I(1, 1):(48, 1)\n"
    text += " out C[i, j]:add fp32:I(1, 1):(48, 1)\n) {\n 0: $a = load(A)\n 1: $b = load(B)\n 2: $c = mul($a, $b)\n"
    text = f"#agg_op_add #comb_op_mul {text} 3: C = store($c)\n}}"
    program = program_of([text], {"A": (32, 8), "B": (8, 48), "C": (32, 48)}, ("C",))
    after = run(parse_pipeline(OUTER_PRODUCT), program)
    golden(to_text(after.main.blocks[-1]))
    random = np.random.default_rng(5)
    arrays = {
        name: random.integers(-3, 4, shape).astype(np.float32) for name, shape in (("A", (32, 8)), ("B", (8, 48)))
    }
    found = run_program(lower(after, Target(vector_bytes=64)), arrays)
    np.testing.assert_array_equal(found["C"], arrays["A"] @ arrays["B"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_of_kernels_with_lanes_can_be_lowered(name: str) -> None:
    program, values = stripe_program(name), inputs(name)
    steps = (
        Autotile(memory_bytes=512, only_po2=True),
        Accumulate(),
        Cache(),
        VectoriseInner(vector_bytes=16),
        Thread(),
    )
    after = run(steps, program)
    assert_same_meaning(program, after, values)
    found = run_program(lower(after, Target()), values)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


@given(programs(6), st.sampled_from((8, 16)), st.booleans())
@examples(60)
def test_lanes_keep_the_meaning(program: Program, width: int, first: bool) -> None:
    tile = Autotile(memory_bytes=64, only_po2=True)
    steps = (Accumulate(), tile) if first else (tile,)
    after = run((*steps, Cache(), VectoriseInner(vector_bytes=width), Thread()), program)
    verify(after)
    assert_same_meaning(program, after)


def test_flat_kernels_and_blocks_without_the_tags_stay() -> None:
    program = stripe_program("chain")
    assert VectoriseInner()(program) is program
    tiled = run((Tile((1, 8)),), program)
    assert VectoriseInner(reqs=("elsewhere",))(tiled) is tiled
    once = VectoriseInner(vector_bytes=16)(run((Tile((1, 41)),), program))
    assert VectoriseInner(vector_bytes=16)(once) is once


def test_few_lanes_are_not_worth_it() -> None:
    tiled = run((Tile((1, 41)),), stripe_program("chain"))
    assert VectoriseInner(vector_bytes=16)(tiled) is tiled  # 41 has no even divisor


def test_tiles_of_sums_run_side_by_side_along_the_indices_of_the_result() -> None:
    after = run((Tile((8, 16, 4)), Accumulate(), Thread()), stripe_program("matmul"))
    kernel = after.main.blocks[-1]
    assert [index.name for index in kernel.indices if index.binding is Binding.GRID] == ["i", "j"]


@pytest.mark.parametrize("text", ["vectorise_inner{least=1}", "vectorise_inner{vector_bytes=0}"])
def test_options_are_checked(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "TIL543"
