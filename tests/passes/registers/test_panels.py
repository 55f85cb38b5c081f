"""Copies of strided panels: by tiles that are transposed in registers, and their remainders."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Program, Special

TRANSPOSED = "function (A[M, K], B[N, K]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[n, k]); }"
FIRST = (
    "function (X[C, H, W], F[D, C, I, J]) -> (O) "
    "{ O[d, y, x : D, H - I + 1, W - J + 1] = +(X[c, y + i, x + j] * F[d, c, i, j]); }"
)
BACKWARD = (
    "function (G[D, H, W], F[D, C, I, J]) -> (O) "
    "{ O[c, y, x : C, H + I - 1, W + J - 1] = +(G[d, y - i, x - j] * F[d, c, i, j]); }"
)


def scheduled(case: Case) -> Program:
    return run((Accumulate(), RegisterTile(vector_bytes=16)), case.program())


def tiles(program: Program) -> list[tuple[int, int]]:
    """Return rows and repetitions of all tiles that are turned, in order."""
    found: list[tuple[int, int]] = []
    pending: list[tuple[Block, Block]] = [(program.main, program.main)]
    while pending:
        block, parent = pending.pop()
        if any(isinstance(s, Special) and s.name == "transpose" for s in block.statements):
            repeated = 1
            for index in parent.indices:
                repeated *= index.range
            found.append((block.refinements[0].shape.sizes[0], repeated))
        pending.extend((inner, block) for inner in reversed(block.blocks))
    return found


@pytest.mark.parametrize(("depth", "expected"), [(3, []), (4, [(4, 2)]), (11, [(4, 4)]), (16, [(4, 8)])])
def test_rows_that_fill_tiles_are_turned(depth: int, expected: list[tuple[int, int]]) -> None:
    case = Case(TRANSPOSED, DType.F32, {"A": (9, depth), "B": (8, depth)})
    assert tiles(scheduled(case)) == expected


def test_loops_that_are_one_run_of_memory_are_turned_together() -> None:
    program = scheduled(Case(FIRST, DType.F32, {"X": (4, 6, 5), "F": (8, 4, 3, 3)}))
    assert tiles(program) == [(4, 9 * 2)]  # 36 neighbours of each of 8 kernels


@given(
    st.sampled_from((TRANSPOSED, FIRST, BACKWARD)),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(4, 21),
    st.sampled_from((DType.F32, DType.F64, DType.I8)),
)
@examples(60)
def test_panels_keep_the_meaning(text: str, sizes: list[int], lanes: int, dtype: DType) -> None:
    depth, rows, *window = sizes
    window = [min(size, 3) for size in window]
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        TRANSPOSED: {"A": (rows, depth), "B": (lanes, depth)},
        FIRST: {"X": (depth, rows + 2, 5), "F": (lanes, depth, *window)},
        BACKWARD: {"G": (depth, rows, 3), "F": (depth, lanes, *window)},
    }
    program = Case(text, dtype, shapes[text]).program()
    after = run((Accumulate(), RegisterTile(vector_bytes=16)), program)
    verify(after)
    assert_same_meaning(program, after)
