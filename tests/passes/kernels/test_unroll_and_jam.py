"""Windows beside each other, which merge once what they have in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.unroll_window import UnrollWindow
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Constant, Intrinsic, Load, Program, scalar_inputs, scalar_output
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

AGGREGATIONS = {"+": Op.ADD, "*": Op.MUL, ">": Op.MAX, "<": Op.MIN}


def windows(text: str, shape: tuple[int, ...], dtype: DType, rows: int) -> tuple[Program, Program]:
    """Return a program of windows before and after its rows were put together."""
    graph = infer(parse(text), {"X": TensorType(dtype, shape)})
    before = run((UnrollWindow(), Accumulate(), Fuse(), Localise(), Scalarise()), lower(graph))
    after = run((Vectorise(vector_bytes=16, chunk=8, rows=rows, terms=99),), before)
    verify(after)
    return before, after


def column(aggregation: str, height: int, rows: int) -> str:
    return f"function (X[M, N]) -> (O) {{ O[i, j : {rows}, N] = {aggregation}(X[i + k, j]), k < {height}; }}"


def merged(block: Block, op: Op) -> int:
    own = sum(isinstance(s, Intrinsic) and s.op is op for s in block.statements)
    return own + sum(merged(inner, op) for inner in block.blocks)


def loads(block: Block) -> int:
    return sum(isinstance(s, Load) for s in block.statements) + sum(map(loads, block.blocks))


def element(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return elements among which floats are not finite here and there, and integers wrap when they are added up."""
    random = np.random.default_rng(seed)
    if dtype.is_float:
        values = random.choice([0.0, -0.0, 1.0, 2.0, 0.5, -3.0], shape)
        values[random.random(shape) < 0.05] = random.choice([np.nan, np.inf, -np.inf])
        return values.astype(dtype.numpy)
    return random.integers(0, 256, shape).astype(dtype.numpy)


@examples(60)
@given(
    aggregation=st.sampled_from(sorted(AGGREGATIONS)),
    dtype=st.sampled_from([DType.F32, DType.F64, DType.F16, DType.U8, DType.I32]),
    height=st.integers(2, 12),
    rows=st.sampled_from([2, 3, 4, 8]),
    width=st.sampled_from([8, 9, 17]),
    seed=st.integers(0, 99),
)
def test_windows_keep_their_meaning(
    aggregation: str, dtype: DType, height: int, rows: int, width: int, seed: int
) -> None:
    # Sums and products of these floats are exact, so that no order of them makes a difference.
    count = 4 * rows + 1
    shape = (count + height - 1, width)
    before, after = windows(column(aggregation, height, count), shape, dtype, rows)
    picture = {"X": element(dtype, shape, seed)}
    for name, result in interpret(before, picture).items():
        np.testing.assert_array_equal(interpret(after, picture)[name], result)


@pytest.mark.parametrize(("aggregation", "op"), sorted(AGGREGATIONS.items()))
def test_what_windows_share_is_merged_once(aggregation: str, op: Op) -> None:
    before, after = windows(column(aggregation, 12, 32), (43, 8), DType.F32, 8)
    (plain,), (together,) = before.main.blocks, after.main.blocks
    assert (merged(plain, op), loads(plain)) == (11, 12)
    assert loads(together) == 12 + 7  # for eight windows
    assert merged(together, op) <= 4 + 6 + 6 + 8 * 2  # the rows of all, those above and below, and three parts each


def test_sums_that_were_written_down_keep_their_order() -> None:
    text = """function (X[M, N]) -> (O) {
        A[i, j : 32, N] = =(X[i, j]);
        B[i, j : 32, N] = =(X[i + 1, j]);
        C[i, j : 32, N] = =(X[i + 2, j]);
        O = A + B + C;
    }"""
    before, after = windows(text, (34, 8), DType.F32, 4)
    picture = {"X": np.random.default_rng(0).standard_normal((34, 8)).astype(np.float32) * np.float32(1e8)}
    np.testing.assert_array_equal(interpret(before, picture)["O"], interpret(after, picture)["O"])


def test_what_is_not_finite_stays_in_its_windows() -> None:
    height, rows = 5, 16
    before, after = windows(column("+", height, rows), (rows + height - 1, 8), DType.F32, 4)
    picture = np.full((rows + height - 1, 8), 1e-3, np.float32)
    picture[4], picture[9], picture[15] = np.inf, np.nan, 1e30
    result = interpret(after, {"X": picture})["O"]
    expected = interpret(before, {"X": picture})["O"]
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_windows_of_several_rows_share_the_aggregates_of_rows() -> None:
    text = "function (X[M, N]) -> (O) { O[i, j : 32, 8] = >(X[i + k, j + l]), k < 3, l < 3; }"
    before, after = windows(text, (34, 10), DType.F32, 4)
    (together,) = after.main.blocks
    assert merged(together, Op.MAX) < 4 * merged(before.main.blocks[0], Op.MAX)
    picture = {"X": element(DType.F32, (34, 10), 3)}
    np.testing.assert_array_equal(interpret(before, picture)["O"], interpret(after, picture)["O"])


def weighted(terms: list[tuple[int, int, float, str]], rows: int, outputs: int) -> str:
    """Return a chain of weighted elements of a window, each row, column, weight and operation, and results of parts."""
    read = [f"T{n}[i, j : {rows}, N - 2] = =(X[i + {y}, j + {x}]), j < N - 2;" for n, (y, x, _, _) in enumerate(terms)]
    chain = ["S0 = T0 * 1.5;"]
    for n, (_, _, weight, kind) in enumerate(terms[1:], 1):
        term = f"T{n} * {weight!r}"
        chain.append(f"S{n} = max(S{n - 1}, {term});" if kind == "max" else f"S{n} = S{n - 1} {kind} {term};")
    last = len(terms) - 1
    results = [f"O{n} = S{last - n % len(terms)} + {n}.5;" for n in range(outputs)]
    names = ", ".join(f"O{n}" for n in range(outputs))
    return f"function (X[M, N]) -> ({names}) {{ {' '.join([*read, *chain, *results])} }}"


@examples(60)
@given(
    terms=st.lists(
        st.tuples(
            st.integers(0, 8), st.integers(0, 2), st.sampled_from([0.25, -3.0, 0.1]), st.sampled_from(["+", "-", "max"])
        ),
        min_size=2,
        max_size=17,
    ),
    rows=st.sampled_from([2, 3, 4, 8]),
    outputs=st.integers(1, 2),
    dtype=st.sampled_from([DType.F32, DType.F64, DType.F16]),
    seed=st.integers(0, 99),
)
def test_rows_side_by_side_compute_the_same_bits(
    terms: list[tuple[int, int, float, str]], rows: int, outputs: int, dtype: DType, seed: int
) -> None:
    count = 4 * rows + 1
    before, after = windows(weighted(terms, count, outputs), (count + 8, 13), dtype, rows)
    picture = {"X": np.random.default_rng(seed).standard_normal((count + 8, 13)).astype(dtype.numpy)}
    found = interpret(after, picture)
    for name, result in interpret(before, picture).items():
        np.testing.assert_array_equal(found[name], result)


def innermost(block: Block) -> Block:
    return innermost(block.blocks[0]) if block.blocks else block


def most_live(block: Block) -> int:
    """Return how many loaded or computed values are needed after some statement, by its definition."""
    counts = []
    for number in range(len(block.statements)):
        made = {scalar_output(s) for s in block.statements[: number + 1] if not isinstance(s, Constant)} - {None}
        counts.append(len(made & {name for s in block.statements[number + 1 :] for name in scalar_inputs(s)}))
    return max(counts)


def test_rows_of_weighted_windows_use_each_load_at_once() -> None:
    terms = [(k, 0, 0.25 + k, "+") for k in range(9)]
    before, after = windows(weighted(terms, 32, 1), (40, 10), DType.F32, 4)
    (plain,), (together,) = before.main.blocks, map(innermost, after.main.blocks)
    assert (loads(plain), loads(together)) == (9, 9 + 3)
    assert most_live(together) <= 4 + 2  # sums, an element, and a product


def test_rows_stay_one_after_the_other_where_that_takes_no_more_registers() -> None:
    before, after = windows(weighted([(0, 0, 1.0, "+"), (1, 0, 2.0, "+")], 32, 1), (40, 10), DType.F32, 4)
    assert loads(innermost(after.main.blocks[0])) == loads(before.main.blocks[0])
