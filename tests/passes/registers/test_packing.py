"""Panels are packed whole where the kernel reads at both ends of all that moves them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pytest

from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.kernels.schedule import constrained_indices
from tileir.passes.register_tile import RegisterTile
from tileir.passes.registers.packing import whole_uses
from tileir.passes.separate import Separate
from tileir.stripe.ir import Program
from tileir.stripe.lowering import lower
from tileir.tile.parser import parse
from tileir.typed.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKWARD: Final = """function (G[Y, D], K[I, C, D], X[Y, C]) -> (DX) {
    DX[y + i - 1, c : Y, C] = +(G[y, d] * K[i, c, d]);
}"""
SKEWED: Final = "function (A[N, J], B[K, J]) -> (O) { O[n, j : N, J] = +(A[n, j] * B[k, j]), n + k < 3; }"


def accumulated(text: str, shapes: dict[str, tuple[int, ...]]) -> Program:
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    return run((Accumulate(),), lower(infer(parse(text), types)))


def whole(program: Program, sizes: Mapping[str, tuple[int, ...]] = MappingProxyType({})) -> set[str]:
    nest = reduction_nest(program.main.blocks[-1])
    assert nest is not None
    return {use.name for use in whole_uses(nest, constrained_indices(nest), sizes)}


@pytest.mark.parametrize(("rows", "expected"), [(9, True), (1, False)])
def test_weights_are_whole_where_some_row_reads_all_of_them(rows: int, expected: bool) -> None:
    program = accumulated(BACKWARD, {"G": (rows, 4), "K": (3, 16, 4), "X": (rows, 16)})
    names = whole(program)
    assert ("K" in names) is (expected or not constrained(program))
    assert not constrained(program) or "G" not in names  # two constrained indices move one of its axes


def constrained(program: Program) -> bool:
    nest = reduction_nest(program.main.blocks[-1])
    assert nest is not None
    return bool(constrained_indices(nest))


def test_an_axis_that_one_constrained_index_moves_is_whole() -> None:
    assert whole(accumulated(SKEWED, {"A": (3, 8), "B": (3, 8)})) >= {"A", "B"}


def test_bounds_decide_where_sizes_are_known() -> None:
    text = "function (X[C, H], F[D, C, I]) -> (O) { O[d, y : D, H / 2] = +(X[c, 2*y + i - 1] * F[d, c, i]); }"
    program = run((Separate(operations=0),), accumulated(text, {"X": (3, 16), "F": (8, 3, 3)}))
    assert len(program.main.blocks) == 2
    sizes = {view.name: view.shape.sizes for view in program.main.refinements}
    assert "F" not in whole(program)  # the first row does not meet the first weight
    assert "F" in whole(program, sizes)
    assert "X" not in whole(program, sizes)
    after = run((RegisterTile(vector_bytes=16),), program)
    assert all(kernel is not old for kernel, old in zip(after.main.blocks, program.main.blocks, strict=False))
    assert_same_meaning(program, after)


def test_the_gradient_of_a_convolution_gets_register_tiles() -> None:
    program = accumulated(BACKWARD, {"G": (9, 4), "K": (3, 16, 4), "X": (9, 16)})
    after = run((RegisterTile(vector_bytes=16),), program)
    assert after is not program
    assert_same_meaning(program, after)
