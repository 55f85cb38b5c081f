from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import pytest

from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.block_sums import BlockSums
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Direction, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

SUM = "function (A[N]) -> (O) { O[] = +(A[n]); }"
SQUARES = "function (A[N]) -> (O) { O[] = +(A[n] * A[n]); }"
DOT = "function (A[N], B[N]) -> (O) { O[] = +(A[n] * B[n]); }"
PRODUCT = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TRIANGLE = "function (A[N, M]) -> (O) { O[i : N] = +(A[i, j]), j - i < M; }"
FUNNELS: Final = (
    "accumulate",
    "accumulate,vectorise_reduction{vector_bytes=16}",
    "accumulate,stream_reduction{vector_bytes=8,stretch_bytes=16,unroll=2}",
    "accumulate,register_tile{vector_bytes=16,rows=2,columns=1}",
)
"""Ways to loops over sums."""


def program_of(text: str, dtype: DType = DType.F32, **shapes: tuple[int, ...]) -> Program:
    return lower(infer(parse(text), {name: TensorType(dtype, shape) for name, shape in shapes.items()}))


def loops(program: Program) -> list[list[int]]:
    """Return, for each store to a sum inside a loop, the ranges of the loops around it."""
    found: list[list[int]] = []

    def visit(block: Block, around: list[int]) -> None:
        inside = [*around, *(i.range for i in block.indices if i.is_plain and i.range > 1)]
        if not block.blocks and any(r.aggregation is not None for r in block.refinements):
            found.append(inside)
        for inner in block.blocks:
            visit(inner, inside)

    for kernel in program.main.blocks:
        visit(kernel, [])
    return found


def blocked(text: str, step: BlockSums, dtype: DType = DType.F32, **shapes: tuple[int, ...]) -> Program:
    return run((*parse_pipeline("accumulate"), step), program_of(text, dtype, **shapes))


SMALL: Final = [name for name, (_, shapes) in PROGRAMS.items() if sum(map(prod, shapes.values())) < 300]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("funnel", FUNNELS)
@pytest.mark.parametrize("name", SMALL)
def test_sums_in_blocks_are_the_same_sums(name: str, funnel: str) -> None:
    """Of whole numbers, so that nothing is rounded."""
    program = stripe_program(name)
    after = run((*parse_pipeline(funnel), BlockSums(terms=2, coarse=3)), program)
    arrays = {key: np.rint(value * 4).astype(value.dtype) for key, value in inputs(name).items()}
    assert_same_meaning(program, after, arrays)
    verify_program(lower_to_semtree(after, Target()))


def test_a_long_loop_becomes_loops_over_blocks() -> None:
    assert loops(blocked(SUM, BlockSums(terms=4), A=(64,))) == [[4, 4, 4], [4, 4], [4]]


def test_blocks_of_a_ragged_loop_are_of_equal_length_and_the_last_is_cut() -> None:
    program = blocked(SUM, BlockSums(terms=16), A=(103,))
    assert loops(program) == [[7, 15], [7]]
    array = np.arange(103, dtype=np.float32)
    np.testing.assert_array_equal(interpret(program, {"A": array})["O"], array.sum())


@pytest.mark.parametrize(("length", "is_cut"), [(32, False), (33, True)])
def test_a_loop_of_twice_the_terms_stays(length: int, is_cut: bool) -> None:
    accumulated = run(parse_pipeline("accumulate"), program_of(SUM, A=(length,)))
    assert (BlockSums()(accumulated) is not accumulated) == is_cut


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        (SUM, DType.I32),  # nothing is rounded
        (SUM.replace("+(", ">("), DType.F32),  # no sum
        (SUM.replace("+(", "*("), DType.F32),  # products round by as much in any order
    ],
)
def test_what_is_no_sum_of_floats_stays(text: str, dtype: DType) -> None:
    accumulated = run(parse_pipeline("accumulate"), program_of(text, dtype, A=(5000,)))
    assert BlockSums()(accumulated) is accumulated


@pytest.mark.parametrize(
    ("text", "shapes", "is_coarse"),
    [
        (SUM, {"A": (400,)}, False),
        (SQUARES, {"A": (400,)}, False),
        (DOT, {"A": (400,), "B": (400,)}, False),  # no factor is used twice
        (PRODUCT, {"A": (8, 400), "B": (400, 64)}, True),
    ],
)
def test_contractions_are_cut_coarsely(text: str, shapes: dict[str, tuple[int, ...]], is_coarse: bool) -> None:
    tiled = run(parse_pipeline("accumulate,register_tile{vector_bytes=16}"), program_of(text, DType.F32, **shapes))
    assert (BlockSums(terms=16, coarse=256)(tiled) is tiled) == is_coarse


def test_stretches_of_sums_in_a_cache_are_cut_coarsely() -> None:
    text = "function (A[M, N]) -> (O) { O[n : N] = +(A[m, n]); }"
    streamed = run(parse_pipeline("accumulate,stream_reduction"), program_of(text, A=(400, 1024)))
    assert BlockSums(terms=16, coarse=256)(streamed) is streamed
    assert BlockSums(terms=16, coarse=32)(streamed) is not streamed


def test_constraints_hold_inside_of_blocks() -> None:
    program = blocked(TRIANGLE, BlockSums(terms=2), A=(3, 20))
    array = np.arange(60, dtype=np.float32).reshape(3, 20)
    expected = [sum(array[i, j] for j in range(20) if 0 <= j - i < 20) for i in range(3)]
    np.testing.assert_array_equal(interpret(program, {"A": array})["O"], np.asarray(expected, np.float32))


def test_each_block_has_sums_of_its_own() -> None:
    program = blocked(SUM, BlockSums(terms=4), A=(16,))
    (kernel,) = program.main.blocks
    (outer,) = [block for block in kernel.blocks if block.indices]
    (own,) = [r for r in outer.refinements if r.direction is Direction.NONE]
    assert (own.name, own.shape.elements) == ("O_acc_block", 1)
    assert [len(block.indices) for block in outer.blocks] == [0, 1, 0]  # zero, the terms of a block, its sum


def test_rows_with_tests_of_their_own_are_summed_in_blocks_too() -> None:
    text = "function (A[N, C], B[K, C, M]) -> (O) { O[n, m : N, M] = +(A[n + k - 1, c] * B[k, c, m]); }"
    tile = "accumulate,register_tile{vector_bytes=16,rows=4,columns=1,edges=1000}"
    program = program_of(text, A=(8, 40), B=(3, 40, 4))
    tiled = run(parse_pipeline(tile), program)
    after = run((BlockSums(terms=4, coarse=5),), tiled)
    assert loops(tiled) == [[2, 3, 40]] * 3
    assert max(max(ranges[2:]) for ranges in loops(after)) == 5
    arrays = {"A": np.arange(320, dtype=np.float32).reshape(8, 40), "B": np.ones((3, 40, 4), np.float32)}
    assert_same_meaning(program, after, arrays)
