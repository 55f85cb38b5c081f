from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.views import LANE, OffsetBuilder
from tileir.semtree.text.printer import expr_text

INDEX = sem.Type(DType.I64)
NAMES = ("i", "j", "k")


def builder() -> OffsetBuilder:
    offsets = OffsetBuilder(DType.I64)
    for name in NAMES:
        offsets.declare(sem.Var(name, INDEX))
    return offsets


@pytest.mark.parametrize(
    ("terms", "offset", "text"),
    [
        ({}, 0, "0"),
        ({}, -3, "-3"),
        ({"i": 1}, 0, "i"),
        ({"i": -1}, 0, "-i"),
        ({"i": 4}, 2, "i * 4 + 2"),
        ({"i": 4, "j": -1}, -2, "i * 4 - j - 2"),
        ({"j": -3, "k": 2}, 0, "-(j * 3) + k * 2"),
    ],
)
def test_affines_become_sums(terms: dict[str, int], offset: int, text: str) -> None:
    assert expr_text(builder().scalar(Affine.of(terms, offset))) == text


def value(expr: sem.Expr, values: dict[str, int]) -> int:
    match expr:
        case sem.Const(value=constant):
            return int(constant)
        case sem.Var(name=name):
            return values[name]
        case sem.Apply(op=op, args=args):
            numbers = [value(arg, values) for arg in args]
            table = {Op.ADD: sum, Op.SUB: lambda n: n[0] - n[1], Op.MUL: lambda n: n[0] * n[1], Op.NEG: lambda n: -n[0]}
            return int(table[op](numbers))
        case _:
            raise AssertionError(expr)


small = st.integers(-9, 9)


@given(st.dictionaries(st.sampled_from(NAMES), small), small, st.fixed_dictionaries(dict.fromkeys(NAMES, small)))
@examples(200)
def test_sums_have_the_value_of_the_affine(terms: dict[str, int], offset: int, values: dict[str, int]) -> None:
    expected = offset + sum(factor * values[name] for name, factor in terms.items())
    assert value(builder().scalar(Affine.of(terms, offset)), values) == expected


def test_lanes_become_a_ramp_where_they_move_the_offset() -> None:
    offsets = builder()
    assert offsets.lanes(Affine.of({"i": 2, LANE: 3}), 4) == sem.Ramp(offsets.scalar(Affine.of({"i": 2})), 3, 4)
    assert offsets.lanes(Affine.of({"i": 2}), 4) == offsets.scalar(Affine.of({"i": 2}))
    assert offsets.lanes(Affine.of({"i": 2, LANE: 3}), 1) == offsets.scalar(Affine.of({"i": 2}))


def test_bounds_are_nested_choices() -> None:
    offsets = builder()
    bound = offsets.bound([Affine.constant(0), Affine.index("i"), Affine.of({"j": -1}, 5)], Op.MAX)
    assert expr_text(bound) == "max(max(0, i), -j + 5)"


def test_only_variables_that_are_assigned_to_change() -> None:
    offsets = builder()
    variable = sem.Var("x", sem.Type(DType.F32))
    assert not offsets.is_mutable(variable)
    offsets.mark_mutable(variable)
    assert offsets.is_mutable(variable)
    assert not offsets.is_mutable(offsets.constant(3))
