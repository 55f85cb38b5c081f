"""Blocks of register tiles inside of larger kernels; test_register_tile.py looks at whole kernels."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, run
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.regions.separate import Separate
from tileir.passes.schedules.registers.blocks import nested
from tileir.passes.schedules.registers.cost import Limits, choose
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.schedule.nest import Nest, Node, emit
from tileir.schedule.remarks import Refused
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Program

BATCHED = "function (A[Z, M, K], B[Z, K, N]) -> (O) { O[z, m, n : Z, M, N] = +(A[z, m, k] * B[z, k, n]); }"


def inside_of_a_loop(kernel: Block, limits: Limits) -> Block:
    """Tile all indices of a kernel but ``z``, in a loop over that."""
    nest = reduction_nest(kernel)
    assert isinstance(nest, Nest)
    batches = tuple(i for i in nest.indices if i.name == "z")
    part = attrs.evolve(nest, indices=tuple(i for i in nest.indices if i not in batches))
    plan = choose(part, limits, {})
    if isinstance(plan, Refused):
        return kernel
    return emit(Node(batches, children=nested(part, plan, nest.taken_names())), kernel)


def tags(block: Block) -> set[str]:
    own = {tag for index in block.indices for tag, _ in index.words.items}
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


def chosen(text: str, shapes: dict[str, tuple[int, ...]], registers: int) -> Block:
    """Return the one kernel of a contraction, with a tile of up to six rows and two vectors."""
    program = run((Accumulate(),), Case(text, DType.F32, shapes).program())
    step = RegisterTile(vector_bytes=16, registers=registers, cache_bytes=0, rows=6, columns=2)
    return run((step,), program).main.blocks[0]


def looped(block: Block) -> list[str]:
    """Return the names of all indices that are loops in the code."""
    own = [i.name for i in block.indices if not i.is_marked]
    return [*own, *(name for inner in block.blocks for name in looped(inner))]


def test_results_whose_lanes_are_apart_are_stored_in_a_loop_over_rows() -> None:
    kernel = chosen(
        "function (A[M, K], B[K, N]) -> (O) { O[n, m : N, M] = +(A[m, k] * B[k, n]); }", {"A": (3, 5), "B": (5, 8)}, 16
    )
    assert "m_row" in looped(kernel)


def test_results_whose_lanes_are_neighbours_are_not() -> None:
    kernel = chosen(
        "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }", {"A": (3, 5), "B": (5, 8)}, 16
    )
    assert "m_row" not in looped(kernel)


@pytest.mark.parametrize(("registers", "unrolled"), [(32, True), (16, False)])
def test_windows_are_unrolled_where_registers_hold_what_rows_share(registers: int, unrolled: bool) -> None:
    kernel = chosen(
        "function (A[C, X], W[C, K, N]) -> (O) { O[x, n : X - 2, N] = +(A[c, x + k] * W[c, k, n]), k < 3; }",
        {"A": (8, 14), "W": (8, 3, 8)},
        registers,
    )
    assert ("k" not in looped(kernel)) is unrolled


@pytest.mark.parametrize(("access", "unrolled"), [("x + k", True), ("2*x + k", True), ("x, k", False)])
def test_long_windows_are_unrolled_where_they_slide_along_rows(access: str, unrolled: bool) -> None:
    """Six rows of two vectors take 84 multiply-adds in seven steps, and load what one takes elsewhere."""
    kernel = chosen(
        f"function (A[{'X, K' if ',' in access else 'X'}, N], W[K, N]) -> (O) "
        f"{{ O[x, n : 12, N] = +(A[{access}, n] * W[k, n]); }}",
        {"A": (12, 7, 8) if "," in access else (30, 8), "W": (7, 8)},
        32,
    )
    assert ("k" not in looped(kernel)) is unrolled


def test_corners_of_a_convolution_have_lanes_along_the_features() -> None:
    text = "function (A[C, X], W[N, C, K]) -> (O) { O[n, x : N, X] = +(A[c, x + k - 1] * W[n, c, k]), k < 3; }"
    shapes = {"A": (4, 20), "W": (8, 4, 3)}
    program = run((Accumulate(), Separate(least=1, share=0, operations=0)), Case(text, DType.F32, shapes).program())
    sides = run((RegisterTile(vector_bytes=16),), program).main.blocks
    assert len(sides) > 1
    assert all("vector" in tags(kernel) for kernel in sides)
