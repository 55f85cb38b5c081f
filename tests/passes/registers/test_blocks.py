"""Blocks of register tiles inside of larger kernels; test_register_tile.py looks at whole kernels."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.accumulate import Accumulate
from tileir.passes.base import map_kernels, run
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.kernels.nest import Node, emit
from tileir.passes.registers.blocks import nested
from tileir.passes.registers.cost import Limits, choose
from tileir.stripe.ir import Block, Program
from tileir.stripe.verifier import verify

BATCHED = "function (A[Z, M, K], B[Z, K, N]) -> (O) { O[z, m, n : Z, M, N] = +(A[z, m, k] * B[z, k, n]); }"


def inside_of_a_loop(kernel: Block, limits: Limits) -> Block:
    """Tile all indices of a kernel but ``z``, in a loop over that."""
    nest = reduction_nest(kernel)
    assert nest is not None
    batches = tuple(i for i in nest.indices if i.name == "z")
    part = attrs.evolve(nest, indices=tuple(i for i in nest.indices if i not in batches))
    plan = choose(part, limits, {})
    if plan is None:
        return kernel
    return emit(Node(batches, children=nested(part, plan, nest.taken_names())), kernel)


def tags(block: Block) -> set[str]:
    own = {tag for index in block.indices for tag, _ in index.tags.items}
    return own.union(*map(tags, block.blocks))


@given(
    st.tuples(st.integers(2, 3), st.integers(1, 9), st.integers(2, 5), st.integers(4, 21)),
    st.sampled_from((4, 16)),
    st.sampled_from((1, 512)),
)
@examples(60)
def test_a_reduction_can_be_tiled_inside_of_a_loop(
    sizes: tuple[int, int, int, int], registers: int, reads: int
) -> None:
    batches, rows, depth, columns = sizes
    shapes = {"A": (batches, rows, depth), "B": (batches, depth, columns)}
    program = run((Accumulate(),), Case(BATCHED, DType.I32, shapes).program())
    limits = Limits(16, 0, registers, cache_bytes=0, panel_bytes=0, reads=reads, rows=0, columns=0)

    def inner(given_program: Program) -> Program:
        return map_kernels(given_program, lambda kernel: inside_of_a_loop(kernel, limits))

    after = inner(program)
    verify(after)
    assert_same_meaning(program, after)
    found = set().union(*map(tags, after.main.blocks))
    assert "grid" not in found
    assert "vector" in found
