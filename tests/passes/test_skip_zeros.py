"""Masks become constraints of the products that they make 0, and only where that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from strategies.schedules import remarked
from tileir import ops
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.regions.skip_zeros import SkipZeros
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

SKIP: Final = SkipZeros(least=1)
MASKED: Final = """function (X[S, T], V[T, E]) -> (Y) {{
    I = index(X, 0);
    J = index(X, 1);
    W = {weights};
    {promise} Y[s, e : S, E] = +(W[s, t] * V[t, e]);
}}"""


def masked(weights: str, rows: int = 6, steps: int = 6, promise: str = "[[finite]]", columns: int = 3) -> Program:
    text = MASKED.format(weights=weights, promise=promise)
    types = {"X": TensorType(DType.F32, (rows, steps)), "V": TensorType(DType.F32, (steps, columns))}
    return lower(prepared(infer(parse(text), types)))


def constraints(program: Program) -> list[str]:
    """Return the constraints of the last kernel, the contraction."""
    return [str(constraint) for constraint in program.main.blocks[-1].constraints]


def codes(program: Program, step: SkipZeros = SKIP) -> list[str]:
    ((_, _, remarks),) = remarked((step,), program)
    return [remark.code for remark in remarks]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("J <= I ? X : 0.0", ["s - t"]),
        ("J > I ? 0.0 : X", ["s - t"]),
        ("2.0 * (J <= I ? X : 0.0)", ["s - t"]),
        ("J <= I ? (I - J < 3 ? X : 0.0) : 0.0", ["2 - s + t", "s - t"]),
        ("(J <= I ? X : 0.0) / (X + 1.0)", ["s - t"]),
        ("exp((J <= I ? X : -1.0 / 0.0) - X)", ["s - t"]),
        ("exp(2.0 * (J <= I ? X : -1.0 / 0.0))", ["s - t"]),
        ("J <= I ? X : 1.0", []),
        ("exp(-2.0 * (J <= I ? X : -1.0 / 0.0))", []),
        ("exp(J <= I ? X : 0.0)", []),
        ("(J <= I ? X : 0.0) + X", []),
        ("X <= 0.0 ? X : 0.0", []),
    ],
)
def test_weights_that_a_mask_makes_zero(weights: str, expected: list[str]) -> None:
    assert constraints(run((SKIP,), masked(weights))) == expected


def test_without_a_promise_all_points_are_visited() -> None:
    program = masked("J <= I ? X : 0.0", promise="")
    assert run((SKIP,), program) is program
    assert codes(program)[-1] == "TR641"


def test_an_output_without_a_step_would_not_be_written() -> None:
    program = masked("J <= I - 3 ? X : 0.0")
    assert run((SKIP,), program) is program
    assert codes(program)[-1] == "TR644"


def test_a_short_reduction_is_not_worth_constraints() -> None:
    assert codes(masked("J <= I ? X : 0.0"), SkipZeros(least=7))[-1] == "TR643"


def test_weights_that_no_comparison_decides() -> None:
    assert codes(masked("X * X"))[-1] == "TR642"


@examples(15)
@given(
    rows=st.integers(1, 12),
    steps=st.integers(1, 12),
    least=st.integers(-3, 6),
    most=st.integers(-3, 6),
    slope=st.sampled_from((1, 1, 2)),
    wraps=st.sampled_from(("{}", "2.0 * {}", "{} / 4.0", "0.0 - (0.0 - {})")),
)
def test_what_is_left_out_adds_nothing(rows: int, steps: int, least: int, most: int, slope: int, wraps: str) -> None:
    choice = f"({slope} * I - J >= {-least} ? (I - J <= {most} ? X : 0.0) : 0.0)"
    program = masked(wraps.format(choice), rows, steps)
    generator = np.random.default_rng(0)
    arrays = {
        "X": generator.integers(-4, 5, (rows, steps)).astype(np.float32),
        "V": generator.integers(-4, 5, (steps, 3)).astype(np.float32),
    }
    after = run((SKIP,), program)
    assert_same_meaning(program, after, arrays)
    assert_same_meaning(program, run(parse_pipeline("accumulate,register_tile{vector_bytes=16}"), after), arrays)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 20])
def test_windows_narrower_than_tiles(width: int) -> None:
    """Steps that rows at both ends of a tile leave out come once."""
    program = masked(f"J <= I ? (I - J < {width} ? X : 0.0) : 0.0", 12, 40, columns=8)
    generator = np.random.default_rng(0)
    arrays = {
        "X": generator.integers(-4, 5, (12, 40)).astype(np.float32),
        "V": generator.integers(-4, 5, (40, 8)).astype(np.float32),
    }
    after = run((SKIP, *parse_pipeline("accumulate,register_tile{vector_bytes=16,rows=4,columns=1}")), program)
    edges = [b for b in blocks_of(after) if any(i.name.startswith("t_edge") for i in b.indices)]
    assert edges
    assert_same_meaning(program, after, arrays)


def blocks_of(program: Program) -> list[Block]:
    found, pending = [], list(program.main.blocks)
    while pending:
        block = pending.pop()
        found.append(block)
        pending.extend(block.blocks)
    return found


def test_gradients_of_attention_skip_what_queries_do_not_see() -> None:
    """Those of queries, keys and values; what arrives at the weights is needed before it is known to be 0."""
    builder = tileir.FunctionBuilder()
    query, key, value = (builder.input(name, "H", "S", "D") for name in "QKV")
    result = ops.scaled_dot_product_attention(query, key, value, causal=True)
    gradient = tileir.gradient(builder.build(L=ops.sum(result * result)), wrt=["Q", "K", "V"])
    types = {name: TensorType(DType.F32, (2, 5, 3)) for name in "QKV"}
    program = lower(prepared(infer(gradient, types)))
    after = run((SKIP,), program)
    cut = [
        kernel.constraints != old.constraints
        for kernel, old in zip(after.main.blocks, program.main.blocks, strict=True)
    ]
    assert cut.count(True) == 4  # of five products, with the result itself
    arrays = {name: np.random.default_rng(1).standard_normal((2, 5, 3)).astype(np.float32) for name in "QKV"}
    found, expected = interpret(after, arrays), interpret(program, arrays)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


@examples(8)
@given(
    rows=st.integers(1, 9),
    heads=st.sampled_from(((2, 2), (4, 2))),
    window=st.none() | st.integers(1, 9),
    causal=st.booleans(),
)
def test_attention_visits_what_queries_see(
    rows: int, heads: tuple[int, int], window: int | None, *, causal: bool
) -> None:
    """Its mask may be said by the option, or computed of coordinates by whoever calls it."""
    builder = tileir.FunctionBuilder()
    query, key, value = (builder.input(name, f"{name}H", "S", f"{name}D") for name in "QKV")
    mask = None
    if window is not None:
        scores = builder.input("M", "S", "S")
        mask = ops.index(scores, 0) - ops.index(scores, 1) < window
    result = ops.scaled_dot_product_attention(query, key, value, mask=mask, causal=causal)
    shapes: dict[str, tuple[int, ...]] = {"Q": (heads[0], rows, 4), "K": (heads[1], rows, 4), "V": (heads[1], rows, 3)}
    if window is not None:
        shapes["M"] = (rows, rows)
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    program = lower(prepared(infer(builder.build(Y=result), types)))
    after = run((SKIP,), program)
    arrays = {
        name: np.random.default_rng(1).standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    found, expected = interpret(after, arrays)["Y"], interpret(program, arrays)["Y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    cuts = (causal and rows > 1) + (window is not None and window < rows)
    assert len(after.main.blocks[-1].constraints) == cuts
