"""Tiles of which a comparison of coordinates chooses nothing skip their reduction, and others do not."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

FUSED: Final = "inline,accumulate,dead_code,fuse,forward,localise,scalarise,dead_code"
TILED: Final = f"{FUSED},register_tile{{vector_bytes=16,rows=2,columns=1}}"
SCORES: Final = """function (Q[S, D], K[D, T]) -> (Y) {{
    X[s, t : S, T] = +(Q[s, d] * K[d, t]);
    I = index(X, 0);
    J = index(X, 1);
    Y = {value};
}}"""


def scores(value: str, rows: int = 6, columns: int = 8) -> Program:
    types = {"Q": TensorType(DType.F32, (rows, 5)), "K": TensorType(DType.F32, (5, columns))}
    return lower(prepared(infer(parse(SCORES.format(value=value)), types)))


def reduction_tests(program: Program) -> list[list[str]]:
    """Return the constraints of each block that reduces over d, without those of the blocks around it."""
    found, pending = [], list(program.main.blocks)
    while pending:
        block: Block = pending.pop()
        pending.extend(block.blocks)
        if any(index.name == "d" and index.affine is None for index in block.indices):
            found.append([str(constraint) for constraint in block.constraints])
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("J <= I ? X : -1.0", ["1 + 2*s_block - 4*t_panel"]),
        ("J <= I ? 0.5 * X + 1.0 : -1.0", ["1 + 2*s_block - 4*t_panel"]),
        ("J > I ? -1.0 : X", ["1 + 2*s_block - 4*t_panel"]),
        ("J <= I ? X : -X", []),
        ("X <= 0.0 ? X : 1.0", []),
        ("(J <= I ? X : 0.0) + X", []),
    ],
)
def test_which_sums_matter(value: str, expected: list[str]) -> None:
    found = reduction_tests(run(parse_pipeline(TILED), scores(value)))
    assert found
    assert all(tests == expected for tests in found)


def test_a_window_is_two_tests() -> None:
    (found,) = reduction_tests(run(parse_pipeline(TILED), scores("J <= I ? (I - J < 2 ? X : -1.0) : -1.0")))
    assert sorted(found) == ["1 + 2*s_block - 4*t_panel", "4 - 2*s_block + 4*t_panel"]


@examples(12)
@given(
    rows=st.integers(2, 9),
    columns=st.integers(4, 17),
    least=st.integers(-4, 6),
    most=st.integers(-4, 6),
    inner=st.sampled_from(("X", "2.0 * X", "max(X, 0.0)")),
    other=st.sampled_from(("0.0", "-1.0", "as_float(J, 32)")),
)
def test_tiles_that_skip_store_what_is_chosen(
    rows: int, columns: int, least: int, most: int, inner: str, other: str
) -> None:
    program = scores(f"J - I <= {most} ? (I - J <= {least} ? {inner} : {other}) : {other}", rows, columns)
    generator = np.random.default_rng(0)
    shapes = {"Q": (rows, 5), "K": (5, columns)}
    arrays = {name: generator.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    assert_same_meaning(program, run(parse_pipeline(TILED), program), arrays)
