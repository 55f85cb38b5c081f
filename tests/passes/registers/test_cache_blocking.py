"""Products whose reduction is cut into blocks that are packed, while the sums wait in memory."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

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

SMALL = RegisterTile(vector_bytes=16, registers=16, cache_bytes=2048, panel_bytes=4096)
PRODUCT = "function (A[M, K], B[K, N]) -> (R) { O[m, n : M, N] = +(A[m, k] * B[k, n]); R = O; }"


def names(block: Block) -> set[str]:
    return {r.name for r in block.refinements}.union(*map(names, block.blocks))


def is_blocked(program: Program) -> bool:
    """Return whether sums wait in memory, and panels are packed."""
    found = names(program.main)
    return any("_sums" in name for name in found) and any("_panel" in name for name in found)


def tiled(text: str, dtype: DType, shapes: dict[str, tuple[int, ...]], step: RegisterTile = SMALL) -> Program:
    return run((Accumulate(), step), Case(text, dtype, shapes).program())


@given(
    st.tuples(st.integers(1, 2), st.integers(25, 29), st.integers(65, 133), st.integers(31, 70)),
    st.sampled_from((DType.I32, DType.F32, DType.F64, DType.F16, DType.I8)),
    st.sampled_from(("m, k", "k, m")),
    st.sampled_from(("z, k, n", "z, n, k")),
    st.sampled_from(("+", ">", "<")),
    st.sampled_from(FOLLOWING),
    st.integers(1, 3),
    st.sampled_from((0, 2, 3)),
)
@example((2, 25, 65, 31), DType.F64, "m, k", "z, k, n", "+", FOLLOWING[0], 1, 0)  # rows along two indices
@examples(40)
def test_blocks_keep_the_meaning(
    sizes: tuple[int, int, int, int],
    dtype: DType,
    left: str,
    right: str,
    how: str,
    following: str,
    threads: int,
    height: int,
) -> None:
    size = dict(zip("zmkn", sizes, strict=True))
    text = (
        f"function (A[{left.upper()}], B[{right.upper()}]) -> (R) "
        f"{{ O[z, m, n : Z, M, N] = {how}(A[{left}] * B[{right}]); {following} }}"
    )
    shapes = {"A": tuple(size[i] for i in left.split(", ")), "B": tuple(size[i] for i in right.split(", "))}
    before = run((Accumulate(),), Case(text, dtype, shapes).program())
    after = run((attrs.evolve(SMALL, threads=threads, operations=0, rows=height),), before)
    verify(after)
    assert_same_meaning(before, after)


@given(
    st.tuples(st.integers(24, 27), st.integers(5, 9), st.integers(9, 15), st.integers(17, 40)),
    st.sampled_from(("k, l, n", "l, k, n", "n, k, l", "k, n, l")),
    st.integers(1, 2),
)
@examples(20)
def test_reductions_with_two_loops_keep_the_meaning(sizes: tuple[int, int, int, int], right: str, threads: int) -> None:
    size = dict(zip("mkln", sizes, strict=True))
    text = f"function (A[M, K, L], B[{right.upper()}]) -> (R) {{ R[m, n : M, N] = +(A[m, k, l] * B[{right}]); }}"
    shapes = {"A": (size["m"], size["k"], size["l"]), "B": tuple(size[i] for i in right.split(", "))}
    before = run((Accumulate(),), Case(text, DType.F32, shapes).program())
    after = run((attrs.evolve(SMALL, threads=threads, operations=0),), before)
    verify(after)
    assert_same_meaning(before, after)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "expected"),
    [
        (28, 128, 64, True),
        (30, 1200, 64, True),
        (40, 128, 64, False),  # no cache has the sums of so many rows
        (1000, 1200, 64, False),
        (1000, 128, 64, False),  # as many rows as steps amortise the copy of a whole panel
        (40, 16, 64, False),  # too few steps for a block
        (4, 128, 64, False),  # too few rows for packing
    ],
)
def test_long_reductions_of_many_rows_are_cut(rows: int, depth: int, columns: int, *, expected: bool) -> None:
    program = tiled(PRODUCT, DType.F32, {"A": (rows, depth), "B": (depth, columns)})
    assert is_blocked(program) == expected


def test_a_block_that_is_the_whole_reduction_leaves_its_sums_in_registers() -> None:
    program = tiled(PRODUCT, DType.F32, {"A": (40, 64), "B": (64, 64)}, attrs.evolve(SMALL, cache_bytes=8192))
    assert not any("_sums" in name for name in names(program.main))
    assert any("_panel" in name for name in names(program.main))


def test_operands_that_a_cache_holds_are_not_cut() -> None:
    roomy = attrs.evolve(SMALL, panel_bytes=1 << 20)
    assert not is_blocked(tiled(PRODUCT, DType.F32, {"A": (40, 128), "B": (128, 64)}, roomy))


def test_windows_that_overlap_are_not_cut() -> None:
    text = "function (A[M, K], B[L]) -> (R) { R[m, n : 40, 600] = +(A[m, k] * B[n + k]); }"
    assert not is_blocked(tiled(text, DType.F32, {"A": (40, 128), "B": (727,)}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((64, 1201, 1003), "NN"),
        ((64, 1201, 1003), "TT"),
        ((37, 2055, 773), "NT"),
        ((37, 2055, 773), "TN"),
        ((150, 700, 1050), "NN"),
        ((150, 700, 1050), "TT"),
        ((131, 300, 2000), "NT"),
        ((131, 300, 2000), "TN"),
    ],
)
def test_compiled_products(shape: tuple[int, int, int], kind: str) -> None:
    rows, depth, columns = shape
    generator = np.random.default_rng(3)
    a = generator.standard_normal((rows, depth) if kind[0] == "N" else (depth, rows)).astype(np.float32)
    b = generator.standard_normal((depth, columns) if kind[1] == "N" else (columns, depth)).astype(np.float32)
    left, right = ("m, k" if kind[0] == "N" else "k, m"), ("k, n" if kind[1] == "N" else "n, k")
    text = (
        f"function (A[{left.upper()}], B[{right.upper()}], C[N]) -> (R) "
        f"{{ O[m, n : M, N] = +(A[{left}] * B[{right}]); R = O + C; }}"
    )
    c = generator.standard_normal(columns).astype(np.float32)
    results = []
    for threads in (1, 2):
        context = tileir.Context(options=tileir.Options(threads=threads), disk_cache=None)
        results.append(tileir.compile(text, [a, b, c], context=context)(a, b, c))
    first, second = (a if kind[0] == "N" else a.T), (b if kind[1] == "N" else b.T)
    exact = first.astype(np.float64) @ second.astype(np.float64) + c
    np.testing.assert_allclose(results[0], exact, atol=2e-4)
    np.testing.assert_array_equal(*results)
