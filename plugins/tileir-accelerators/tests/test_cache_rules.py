"""Legality of copies of views in memory of their own, in blocks that are one step from legal ones."""

from __future__ import annotations

import pytest

from strategies.passes import program_of
from tileir.core.dtype import DType
from tileir.passes.analysis.places import Level
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Refinement, TensorShape
from tileir_accelerators.placement.cache import may_cache

NEST = """
block [i:4]:4 (
  {guard}
  in X[2*i, 0] fp32:I(2, 8):(8, 1):64 B
  {outer} O[2*i, 0]{merges} fp32:I(2, 8):(8, 1):64 B
) {{
  0: block [r:{rows}, c:8, k:2]:{points} (
    {test}
    in X[r, c] fp32:I(1, 1):(8, 1):4 B
    {inner}
    out O[r, c]{merges} fp32:I(1, 1):(8, 1):4 B
  ) {{
    0: {read}
    1: $x = load(X)
    2: O = store($x)
  }}
}}
"""
USUAL = {"guard": "", "outer": "out", "merges": "", "rows": "2", "test": "", "inner": "", "read": "$p = (fp32)1.0"}


def allowed(name: str, size: int = 8, *, tests: bool = False, **changes: str) -> bool:
    """Return whether a view of the outer block may be cached, with some parts of the text changed."""
    words = {**USUAL, **changes}
    text = NEST.format(**words, points=int(words["rows"]) * 16)
    program = program_of([text], {"X": (8, 8), "O": (size, 8)})
    kernel = program.main.blocks[0]
    level = Level(kernel, Level(program.main, Level(program.entry)))
    return may_cache(level, kernel.refinement(name), tests=tests)


def test_tiles_that_are_read_or_written_as_a_whole_may() -> None:
    assert allowed("X")
    assert allowed("O")
    assert allowed("O", merges=":add", outer="inout")


def test_results_that_not_every_point_stores_as_a_whole_may_not() -> None:
    assert not allowed("O", rows="1")
    assert not allowed("O", test="-r >= 0")
    assert allowed("O", test="-k >= 0"), "the other value of k stores the same"
    assert allowed("X", rows="1")


@pytest.mark.parametrize("size", [7, 8, 9])
def test_tiles_that_pass_an_edge_may_where_copies_test_it(size: int) -> None:
    assert allowed("O", size) is (size >= 8)
    assert allowed("O", size, tests=True)


def test_sums_that_are_read_meanwhile_may_not() -> None:
    inner, read = "in P = O[r, c] fp32:I(1, 1):(8, 1):4 B", "$p = load(P)"
    assert not allowed("O", merges=":add", outer="inout", inner=inner, read=read)
    assert allowed("X", merges=":add", outer="inout", inner=inner, read=read)


@pytest.mark.parametrize(
    ("sizes", "may"), [((2, 8), True), ((1, 8), True), ((2, 1), True), ((0, 8), False), ((), False)]
)
def test_views_have_axes_and_elements(sizes: tuple[int, ...], may: bool) -> None:
    shape = TensorShape.dense(DType.F32, sizes)
    view = Refinement("X", Direction.IN, "X", (Affine(),) * len(sizes), shape)
    level = Level(Block("b", refinements=(view,)))
    assert may_cache(level, view, tests=False) is may
