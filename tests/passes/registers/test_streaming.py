"""Products with few rows, whose sums wait in memory while the larger operand is read in its own order."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.contractions import FOLLOWING, Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Program

SMALL = RegisterTile(vector_bytes=16, registers=16, panel_bytes=1024)
PRODUCT = "function (A[M, K], B[K, N]) -> (R) { O[m, n : M, N] = +(A[m, k] * B[k, n]); R = O; }"


def is_streamed(program: Program) -> bool:
    def names(block: Block) -> set[str]:
        return {r.name for r in block.refinements}.union(*map(names, block.blocks))

    return any(name.endswith("_sums") for name in names(program.main))


def tiled(text: str, dtype: DType, shapes: dict[str, tuple[int, ...]], step: RegisterTile = SMALL) -> Program:
    return run((Accumulate(), step), Case(text, dtype, shapes).program())


@given(
    st.tuples(st.integers(1, 2), st.integers(2, 7), st.integers(32, 53), st.integers(64, 101)),
    st.sampled_from((DType.I32, DType.F32, DType.F64, DType.F16, DType.I8)),
    st.sampled_from(("m, k", "k, m")),
    st.sampled_from(("+", ">", "<")),
    st.sampled_from(FOLLOWING),
    st.integers(1, 3),
)
@examples(40)
def test_streaming_keeps_the_meaning(
    sizes: tuple[int, int, int, int], dtype: DType, left: str, how: str, following: str, threads: int
) -> None:
    batches, rows, depth, columns = sizes
    text = (
        f"function (A[{left.upper()}], B[Z, K, N]) -> (R) "
        f"{{ O[z, m, n : Z, M, N] = {how}(A[{left}] * B[z, k, n]); {following} }}"
    )
    shapes = {"A": (rows, depth) if left == "m, k" else (depth, rows), "B": (batches, depth, columns)}
    before = run((Accumulate(),), Case(text, dtype, shapes).program())
    after = run((attrs.evolve(SMALL, threads=threads, operations=0, rows=2, columns=2),), before)
    verify(after)
    assert_same_meaning(before, after)
    assert is_streamed(after) or dtype in (DType.F16, DType.I8)  # whose rows may be nearer than four cache lines


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "expected"),
    [
        (4, 48, 256, True),
        (2, 48, 256, True),
        (1, 48, 256, False),  # tiles of one row are wide
        (4, 31, 256, False),  # two visits are the least
        (4, 48, 60, False),  # steps are three cache lines apart
        (2000, 48, 256, False),  # sums of a panel are too many for the nearest cache
        (4, 9000, 64, False),  # too many visits
    ],
)
def test_large_operands_that_are_read_for_few_rows_are_streamed(
    rows: int, depth: int, columns: int, *, expected: bool
) -> None:
    assert is_streamed(tiled(PRODUCT, DType.F32, {"A": (rows, depth), "B": (depth, columns)})) == expected


def test_operands_that_a_cache_holds_are_not_streamed() -> None:
    roomy = attrs.evolve(SMALL, panel_bytes=1 << 20)
    assert not is_streamed(tiled(PRODUCT, DType.F32, {"A": (4, 48), "B": (48, 256)}, roomy))


def test_how_many_threads_there_are_does_not_decide() -> None:
    shapes: dict[str, tuple[int, ...]] = {"A": (4, 48), "B": (48, 256)}
    assert all(is_streamed(tiled(PRODUCT, DType.F32, shapes, attrs.evolve(SMALL, threads=n))) for n in (1, 2, 64))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(1, 1200, 1111), (5, 1201, 1003), (17, 2055, 773), (33, 700, 2050)])
def test_compiled_products_of_few_rows(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    generator = np.random.default_rng(3)
    a = generator.standard_normal((rows, depth)).astype(np.float32)
    b = generator.standard_normal((depth, columns)).astype(np.float32)
    results = []
    for threads in (1, 2):
        context = tileir.Context(options=tileir.Options(threads=threads), disk_cache=None)
        results.append(tileir.compile(PRODUCT, [a, b], context=context)(a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(results[0], exact, atol=2e-4)
    np.testing.assert_array_equal(*results)
