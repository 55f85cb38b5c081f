from __future__ import annotations

from typing import TYPE_CHECKING

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
from tileir.passes.regions.tile import Tile
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.text.printer import to_text
from tileir_accelerators.placement.cache import Cache
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.thread_inner import ThreadInner

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

GROUPS = Target("groups", vector_bytes=16, local_bytes=1 << 16, group_threads=32)


def test_a_product_of_tiles_in_local_memory(golden: Callable[[str], None]) -> None:
    program = stripe_program("matmul")
    steps = (Tile((8, 16, 4)), Accumulate(), Cache(dirs=("in",), odd_size=True), ThreadInner(threads=32))
    after = run(steps, program)
    golden(to_text(after.main.blocks[-1]))
    assert_same_meaning(program, after, inputs("matmul"))


STEPPED = """
tensorise{inner_set=tile,stencils=({idxs=(
  {name=m,size=8,outs=-1,ins=(-1,0)},{name=n,size=16,outs=1,ins=(0,1)},{name=k,outs=0,ins=(-1,-1)})})},
tensorise{reqs=tile,inner_set=step,stencils=({idxs=(
  {name=m,outs=-1,ins=(-1,0)},{name=n,outs=1,ins=(0,1)},{name=k,size=4,outs=0,ins=(-1,-1)})})},
accumulate,cache{reqs=kernel,dirs=inout},cache{reqs=tile,dirs=in},canonicalise,thread_inner{threads=32}
"""


def test_sums_stay_while_the_operands_come_in_step_by_step(golden: Callable[[str], None]) -> None:
    program, values = stripe_program("matmul"), inputs("matmul")
    after = run(parse_pipeline(STEPPED), program)
    golden(to_text(after.main.blocks[-1]))
    assert_same_meaning(program, after, values)
    found = run_program(lower(run((Distribute(threads=32),), after), GROUPS), values, ALL_CHECKS)
    np.testing.assert_array_equal(found["C"], values["A"] @ values["B"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_do_not_race(name: str) -> None:
    program, values = stripe_program(name), inputs(name)
    steps = (Autotile(memory_bytes=256), Accumulate(), Cache(), ThreadInner(threads=16), Distribute(threads=16))
    after = run(steps, program)
    assert_same_meaning(program, after, values)
    found = run_program(lower(after, GROUPS), values, ALL_CHECKS)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


@given(programs(6), st.sampled_from((3, 8)), st.booleans())
@examples(60)
def test_threads_keep_the_meaning(program: Program, threads: int, first: bool) -> None:
    tile = Autotile(memory_bytes=64)
    steps = (Accumulate(), tile) if first else (tile, Accumulate())
    after = run((*steps, Cache(), ThreadInner(threads=threads)), program)
    verify(after)
    assert_same_meaning(program, after)


def test_kernels_that_cannot_have_threads_stay() -> None:
    program = stripe_program("matmul")
    step = ThreadInner()
    assert step(program) is program
    cached = run((Tile((8, 16, 4)), Accumulate(), Cache()), program)
    assert ThreadInner(local_bytes=64)(cached).main.blocks[-1] is cached.main.blocks[-1]
    assert ThreadInner(reqs=("elsewhere",))(cached) is cached
    assert ThreadInner(threads=1)(cached) is cached
    once = step(cached)
    assert step(once) is once


@pytest.mark.parametrize("text", ["thread_inner{threads=0}", "thread_inner{local_bytes=-1}"])
def test_options_are_checked(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "TIL543"
