from __future__ import annotations

import attrs
import pytest

from strategies.kernels import PROGRAMS, stripe_program
from strategies.passes import assert_same_meaning, program_of
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, run
from tileir.passes.schedules.vectors.thread import Thread
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, analyse, emit, leaf, product
from tileir.schedule.remarks import Refused, refused
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Special

TOTAL = """
block [i:3]:3 (
  in X[i, 0] fp32:I(1, 5):(5, 1):20 B
  in S[0] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 T<REGISTER>[0] fp32:I(1):(1):4 B
) {
  0: $z = (fp32)0.0
  1: T = store($z)
  2: block [k:5, i = i]:5 (
    7 - k - 2*i >= 0
    in X[0, k] fp32:I(1, 1):(5, 1):4 B
    inout T[0]:add fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
  3: $t = load(T)
  4: $s = load(S)
  5: $y = mul($t, $s)
  6: O = store($y)
}
"""
SIZES: dict[str, tuple[int, ...]] = {"X": (3, 5), "S": (1,), "O": (3,)}


def kernel(text: str) -> Block:
    (block,) = program_of([text.strip()], SIZES).main.blocks
    return block


def nest() -> Nest:
    found = analyse(kernel(TOTAL))
    assert isinstance(found, Nest)
    return found


def test_a_kernel_is_outer_indices_and_segments() -> None:
    found = nest()
    assert [index.name for index in found.indices] == ["i"]
    assert [[index.name for index in segment.loops] for segment in found.segments] == [[], ["k"], []]
    assert [r.name for r in found.allocations] == ["T"]


def test_accesses_and_constraints_are_absolute() -> None:
    segment = nest().segments[1]
    assert segment.use("X").access == (Affine.index("i"), Affine.index("k"))
    assert segment.use("X").root == "X"
    assert (segment.use("X").stride("i"), segment.use("X").stride("k")) == (5, 1)
    assert segment.constraints == (7 - Affine.index("k") - Affine.index("i") * 2,)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[i:3]", "[(#grid i:3)]", refused("TR101")),  # a launch grid is there already
        ("[k:5, i = i]", "[k = i:5, i = i]", refused("TR102", index="k")),  # a loop that starts elsewhere each time
    ],
)
def test_other_kernels_are_left_alone(old: str, new: str, expected: Refused) -> None:
    assert old in TOTAL
    assert analyse(kernel(TOTAL.replace(old, new))) == expected


def test_a_kernel_with_specials_is_left_alone() -> None:
    block = kernel(TOTAL)
    found = analyse(attrs.evolve(block, statements=(Special("zero", (), ("T",)), *block.statements)))
    assert found == refused("TR106", special="zero")


def test_a_kernel_with_blocks_inside_blocks_is_left_alone() -> None:
    block = kernel(TOTAL)
    deeper = attrs.evolve(block, statements=(attrs.evolve(block, refinements=(), statements=(block,)),))
    assert analyse(deeper) == refused("TR107")
    lane = block.indices[0].bound(Binding.LANE)
    lanes = attrs.evolve(deeper.blocks[0], statements=(attrs.evolve(block, indices=(lane,)),))
    assert analyse(attrs.evolve(deeper, statements=(lanes,))) == refused("TR101")


def test_a_segment_gets_the_scalars_that_it_takes_from_those_before() -> None:
    block = kernel(TOTAL)
    load = block.statements[4]
    found = analyse(attrs.evolve(block, statements=(load, *(s for s in block.statements if s is not load))))
    assert isinstance(found, Nest)
    assert [type(s).__name__ for s in found.segments[2].statements] == ["Load", "Load", "Intrinsic", "Store"]
    assert found.segments[2].use("S").root == "S"


def _rebuilt(block: Block) -> Block:
    found = analyse(block)
    if isinstance(found, Refused):
        return block
    children = tuple(leaf(segment, {}, segment.loops) for segment in found.segments)
    return emit(Node(found.indices, found.allocations, children), block)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_taken_apart_means_the_same_when_put_together(name: str) -> None:
    program = run((Accumulate(),), stripe_program(name))
    after = map_kernels(program, _rebuilt)
    verify(after)
    assert_same_meaning(program, after)


def test_a_view_starts_at_the_least_element_below_it() -> None:
    text = TOTAL.replace("in X[i, 0]", "in X[2 - i, 0]").replace("in X[0, k]", "in X[0, 4 - k]")
    program = program_of([text.strip()], SIZES)
    after = map_kernels(program, _rebuilt)
    assert_same_meaning(program, after)
    (block,) = after.main.blocks
    view = next(r for r in block.refinements if r.source == "X")
    assert (view.access, view.shape.sizes) == ((2 - Affine.index("i"), Affine()), (1, 5))


def test_grids_are_made_once() -> None:
    program = run((Thread(),), program_of([TOTAL.strip()], SIZES))
    assert [index.binding for index in program.main.blocks[0].indices] == [Binding.GRID]
    assert run((Thread(),), program) is program


def test_helpers() -> None:
    assert product([]) == 1
    assert product([3, 4]) == 12


def test_an_unknown_use_is_a_defect_of_the_caller() -> None:
    with pytest.raises(KeyError):
        nest().segments[0].use("X")
    assert not attrs.evolve(nest(), segments=()).uses
