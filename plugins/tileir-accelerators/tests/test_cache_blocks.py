from __future__ import annotations

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.passes.kernels.walk import refitted
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Constant, Dim, Direction, Refinement, TensorShape
from tileir_accelerators.placement.cache_blocks import packed_shape


def view(*dims: tuple[int, int], name: str = "X", source: str = "X") -> Refinement:
    shape = TensorShape(DType.F32, tuple(Dim(size, stride) for size, stride in dims))
    return Refinement(name, Direction.IN, source, (Affine(),) * len(dims), shape)


@pytest.mark.parametrize(
    ("dims", "order", "odd_limit", "strides"),
    [
        (((4, 60), (6, 1)), (), 0.0, (6, 1)),
        (((4, 1), (6, 40)), (), 0.0, (1, 4)),
        (((4, -60), (6, 1)), (), 0.0, (6, 1)),
        (((4, 60), (6, 1)), (1, 0), 0.0, (1, 4)),
        (((4, 60), (6, 1)), (0, 1), 0.0, (6, 1)),
        (((4, 60), (6, 1)), (1, 1), 0.0, (6, 1)),
        (((4, 60), (6, 1)), (1,), 0.0, (6, 1)),
        (((4, 60), (6, 1)), (), 2.0, (7, 1)),
        (((4, 60), (6, 1)), (), 27 / 24, (7, 1)),
        (((4, 60), (6, 1)), (), 26.9 / 24, (6, 1)),
        (((4, 60), (5, 1)), (), 2.0, (5, 1)),
        (((3, 90), (4, 9), (2, 1)), (), 2.0, (13, 3, 1)),
        (((3, 90), (1, 9), (2, 1)), (), 2.0, (3, 3, 1)),
        (((3, 90), (4, 9), (2, 1)), (2, 0, 1), 0.0, (4, 1, 12)),
    ],
)
def test_copies_are_packed_in_an_order_and_with_odd_distances_where_that_is_cheap(
    dims: tuple[tuple[int, int], ...], order: tuple[int, ...], odd_limit: float, strides: tuple[int, ...]
) -> None:
    packed = packed_shape(view(*dims), order, odd_limit)
    assert packed.strides == strides
    assert (packed.sizes, packed.dtype) == (tuple(size for size, _ in dims), DType.F32)


def test_views_of_a_copy_have_its_distances_at_any_depth() -> None:
    inner = Block(
        "inner", refinements=(view((1, 60), (1, 1), name="P", source="X"), view((1, 7), name="Z", source="Z"))
    )
    local = attrs.evolve(view((1, 60), (1, 1)), direction=Direction.NONE, source="X", name="T")
    outer = Block("outer", refinements=(view((2, 60), (6, 1)), local), statements=(inner,))
    copy = view((4, 7), (6, 1))
    done = refitted(outer, {"X": copy})
    assert isinstance(done, Block)
    assert done.refinement("X").shape.dims == (Dim(2, 7), Dim(6, 1))
    assert done.refinement("T") is local
    assert done.blocks[0].refinement("P").shape.dims == (Dim(1, 7), Dim(1, 1))
    assert done.blocks[0].refinement("Z") is inner.refinement("Z")
    assert refitted(outer, {"Y": copy}) is outer
    constant = Constant("c", DType.F32, 1.0)
    assert refitted(constant, {"X": copy}) is constant
