"""Equal scalars of a body, made once."""

from __future__ import annotations

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.passes.kernels.merge import made_once
from tileir.stripe.ir import Intrinsic, Load, Statement, Store


def double(value: str, into: str) -> Intrinsic:
    return Intrinsic(Op.ADD, (value, value), into, DType.F32)


def test_what_is_made_of_equal_scalars_is_equal() -> None:
    body: list[Statement] = [
        Load("A", "a"),
        double("a", "b"),
        Load("A", "c"),
        double("c", "d"),
        Store("b", "X"),
        Store("d", "Y"),
    ]
    assert made_once(body) == [Load("A", "a"), double("a", "b"), Store("b", "X"), Store("b", "Y")]


def test_after_a_store_elements_are_loaded_again() -> None:
    body: list[Statement] = [
        Load("A", "a"),
        double("a", "b"),
        Store("b", "A"),
        Load("A", "c"),
        double("a", "d"),
        Store("d", "B"),
    ]
    assert made_once(body) == [*body[:4], Store("b", "B")]
