"""Sizes as integers, compared with what compiled programs find them to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.tile_parts import Parts
from tileir.core.errors import TileError
from tileir.tile.builder import FunctionBuilder

if TYPE_CHECKING:
    from tileir.tile.builder import Dim


def drawn(draw: st.DrawFn, dims: list[Dim], depth: int) -> Dim:
    """Draw arithmetic over sizes."""
    if depth == 0:
        return dims[draw(st.integers(0, len(dims) - 1))]
    left = drawn(draw, dims, depth - 1)
    right: Dim | int = draw(st.sampled_from([*dims, *range(1, 4)]))
    match draw(st.integers(0, 6)):
        case 0:
            return left + right
        case 1:
            return left - right
        case 2:
            return left * right
        case 3:
            return left // right
        case 4:
            return left % right
        case 5:
            return left.max(right)
        case _:
            return -left.min(right)


@examples(60)
@given(st.data(), st.integers(1, 9), st.integers(1, 9))
def test_values_are_those_of_compiled_programs(data: st.DataObject, n: int, m: int) -> None:
    f = FunctionBuilder()
    dims = list(f.input("X", "N", "M").dims)
    size = data.draw(st.composite(lambda draw: drawn(draw, dims, 4))())
    value = size.at({"N": n, "M": int(np.int64(m))})
    assert type(value) is int
    assert int(tileir.evaluate(f.build(O=size), np.zeros((n, m)))) == value


def test_large_sizes_that_became_statements() -> None:
    p = Parts()
    size, right = p.n, 5
    for _ in range(5000):
        size, right = (size + p.m) % 1000, (right + 7) % 1000
    assert size.at({"N": 5, "M": 7}) == right


def test_inputs_that_are_integers() -> None:
    f = FunctionBuilder()
    n, (m,) = f.integer("Count"), f.input("X", "M").dims
    assert (n * m).at({"Count": 3, "M": 4}) == 12


def test_numbers_need_nothing() -> None:
    f = FunctionBuilder()
    (n, three) = f.input("X", "N", 3).dims
    assert (three + 1).at({}) == 4
    assert n.at({"N": 0}) == 0


@pytest.mark.parametrize(
    ("code", "message", "make"),
    [
        ("TIL306", "the size of 'M' is not given; pass it, as in at\\({'M': 4}\\)", lambda p: (p.n + p.m).at({"N": 1})),
        ("TIL308", "divides 1 by 0", lambda p: (p.n / p.m).at({"N": 1, "M": 0})),
        ("TIL308", "divides 1 by 0", lambda p: (p.n % p.m).at({"N": 1, "M": 0})),
        ("TIL312", "one size is 1 and the other 2", lambda p: p.n.call("match", p.m).at({"N": 1, "M": 2})),
        ("TIL301", "one size is 3 and the other 2", lambda p: p.n.call("broadcast", p.m).at({"N": 3, "M": 2})),
        ("TIL215", "the size of 'N' is an integer, not 1.5", lambda p: p.n.at({"N": 1.5})),
    ],
)
def test_faults(code: str, message: str, make: object) -> None:
    with pytest.raises(TileError, match=message) as caught:
        make(Parts())  # type: ignore[operator]
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].span is not None
