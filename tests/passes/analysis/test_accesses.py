from __future__ import annotations

from tileir.core.dtype import DType
from tileir.passes.analysis.accesses import address, always_reached, is_element, known_ranges
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Dim, Direction, Index, Refinement, TensorShape

X, K = Affine.index("x"), Affine.index("k")


def test_addresses_add_up_all_axes() -> None:
    shape = TensorShape(DType.F32, (Dim(1, 8), Dim(1, 1)))
    view = Refinement("A", Direction.IN, "A", (X + 1, X + K * 2), shape)
    assert address(view) == X * 9 + K * 2 + 8
    assert is_element(view)


def test_a_padded_window_always_has_a_valid_point() -> None:
    padded = (X + K - 1, 16 - X - K)
    assert always_reached(padded, {"x": 16}, {"k": 3})
    assert not always_reached((X + K - 3, 16 - X - K), {"x": 16}, {"k": 3})
    assert not always_reached((), {"x": 16}, {"k": 0})


def test_only_indices_without_affine_start_at_0() -> None:
    block = Block("", (Index("x", 4), Index("k", 3, X)))
    assert known_ranges(block) == {"x": 4}
