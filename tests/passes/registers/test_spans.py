"""Loops that constraints bound by the place of a tile: nothing is left out, nothing comes twice."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.block_sums import BlockSums
from tileir.passes.base import run
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

STEP: Final = RegisterTile(vector_bytes=16, registers=16)
FORMS: Final = {
    "rows": "function (P[S, T], V[T, E]) -> (Y) {{ Y[s, e : S, E] = +(P[s, t] * V[t, e]), {band}; }}",
    "columns": "function (P[T, S], V[T, E]) -> (Y) {{ Y[s, e : S, E] = +(P[t, s] * V[t, e]), {band}; }}",
    "turned": "function (P[S, T], V[E, T]) -> (Y) {{ Y[s, e : S, E] = +(P[s, t] * V[e, t]), {band}; }}",
}


def banded(form: str, band: str, rows: int, steps: int, columns: int) -> Program:
    text = FORMS[form].format(band=band)
    sizes = {"S": rows, "T": steps, "E": columns}
    types = {}
    for name, axes in (("P", text.split("P[")[1].split("]")[0]), ("V", text.split("V[")[1].split("]")[0])):
        types[name] = TensorType(DType.F32, tuple(sizes[axis] for axis in axes.split(", ")))
    return lower(infer(parse(text), types))


def whole_numbers(program: Program) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = {r.name: r.shape.sizes for r in program.memory if r.name in program.inputs}
    return {name: generator.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}


def blocks(program: Program) -> list[Block]:
    found, pending = [], list(program.main.blocks)
    while pending:
        block = pending.pop()
        found.append(block)
        pending.extend(block.blocks)
    return found


@examples(12)
@given(
    form=st.sampled_from(sorted(FORMS)),
    rows=st.sampled_from((1, 2, 7, 13, 40)),
    steps=st.sampled_from((31, 32, 33, 40, 65)),
    columns=st.sampled_from((4, 5, 8, 19)),
    step=st.sampled_from(("s", "2*s", "3*s")),
    offset=st.integers(-12, 40),
    width=st.sampled_from((1, 2, 3, 9, 30, 400)),
    high=st.sampled_from((0, 2, 4, 6)),
    blocked=st.booleans(),
)
def test_bands_add_what_lies_in_them(
    form: str, rows: int, steps: int, columns: int, step: str, offset: int, width: int, high: int, *, blocked: bool
) -> None:
    program = banded(form, f"{step} - t + {offset} < {width}", rows, steps, columns)
    more = (BlockSums(terms=4, coarse=8),) if blocked else ()
    after = run((Accumulate(), attrs.evolve(STEP, rows=high, columns=1 if high else 0), *more), program)
    assert_same_meaning(program, after, whole_numbers(program))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("band", ["s - t < 64", "s - t + 20 < 24", "t - s < 64", "s - t < 2", "2*s - t < 20"])
@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("rows", [24, 26])
def test_bands_in_tiles_of_four_rows(form: str, band: str, rows: int) -> None:
    program = banded(form, band, rows, 40, 8)
    after = run((Accumulate(), attrs.evolve(STEP, rows=4, columns=1)), program)
    assert_same_meaning(program, after, whole_numbers(program))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_lies_behind_the_diagonal_is_not_visited(form: str) -> None:
    """A loop without tests inside ends at the first row of a tile, and unrolled steps follow for the other rows."""
    after = run((Accumulate(), attrs.evolve(STEP, rows=4, columns=1)), banded(form, "s - t < 64", 64, 64, 8))
    (loop,) = [b for b in blocks(after) if b.constraints and any(i.name == "t" and i.is_plain for i in b.indices)]
    assert [str(c) for c in loop.constraints] == ["4*s_block - t"]
    assert not any(inner.constraints for inner in loop.blocks)
    edges = [i for b in blocks(after) for i in b.indices if i.name == "t_edge" and i.affine is None]
    assert [(i.range, i.binding) for i in edges] == [(3, Binding.UNROLL)]


def test_short_windows_keep_their_tests() -> None:
    after = run((Accumulate(), STEP), banded("rows", "s - t < 64", 64, 16, 8))
    assert not any(i.name.startswith("t_edge") for b in blocks(after) for i in b.indices)


def test_blocks_of_a_sum_that_no_row_needs_are_not_visited() -> None:
    steps = (Accumulate(), attrs.evolve(STEP, rows=4, columns=1), BlockSums(terms=4, coarse=8))
    after = run(steps, banded("rows", "s - t < 64", 64, 64, 8))
    outer = [b for b in blocks(after) if [str(c) for c in b.constraints] == ["4*s_block - 8*t"]]
    assert [i.range for b in outer for i in b.indices if i.name == "t"] == [8]
