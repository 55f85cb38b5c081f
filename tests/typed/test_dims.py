"""Constant arithmetic against Python's and NumPy's."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Op
from tileir.typed.dims import divide, fold, known_integer, size
from tileir.typed.inference.values import ConstantScalar, Group, Operand, Tensor

numbers = st.integers(-40, 40)


@given(numbers, numbers.filter(bool))
def test_division_truncates(left: int, right: int) -> None:
    assert divide(left, right) == math.trunc(left / right)
    assert fold(Op.MOD, [ConstantScalar(left), ConstantScalar(right)], None, None) == ConstantScalar(
        int(math.fmod(left, right))
    )


EXACT: list[tuple[Op, Callable[..., int | bool]]] = [
    (Op.ADD, lambda a, b: a + b),
    (Op.SUB, lambda a, b: a - b),
    (Op.MUL, lambda a, b: a * b),
    (Op.MAX, max),
    (Op.MIN, min),
    (Op.BIT_AND, lambda a, b: a & b),
    (Op.BIT_OR, lambda a, b: a | b),
    (Op.BIT_XOR, lambda a, b: a ^ b),
    (Op.CMP_LT, lambda a, b: a < b),
    (Op.CMP_EQ, lambda a, b: a == b),
]


@pytest.mark.parametrize(("op", "function"), EXACT)
@given(left=numbers, right=numbers)
def test_integers(op: Op, function: Callable[..., int | bool], left: int, right: int) -> None:
    expected = function(left, right)
    dtype = DType.BOOL if isinstance(expected, bool) else None
    assert fold(op, [ConstantScalar(left), ConstantScalar(right)], None, None) == ConstantScalar(expected, dtype)


def test_literals_are_exact_and_typed_constants_wrap() -> None:
    large = ConstantScalar(100)
    assert fold(Op.ADD, [large, large], None, None) == ConstantScalar(200)
    assert fold(Op.ADD, [large, large], DType.I8, None) == ConstantScalar(-56, DType.I8)
    assert fold(Op.DIV, [large, ConstantScalar(0)], DType.I8, None) == ConstantScalar(0, DType.I8)


@pytest.mark.parametrize(("count", "expected"), [(3, 40), (-1, 0), (64, 5 << 64)])
def test_left_shift(count: int, expected: int) -> None:
    if expected > 1 << 64:
        with pytest.raises(TileError):
            fold(Op.BIT_LEFT, [ConstantScalar(5), ConstantScalar(count)], None, None)
    else:
        assert fold(Op.BIT_LEFT, [ConstantScalar(5), ConstantScalar(count)], None, None) == ConstantScalar(expected)


@pytest.mark.parametrize(
    ("value", "count", "expected"), [(40, 3, 5), (-40, 100, -1), (40, 100, 0), (-5, -1, -1), (5, -1, 0)]
)
def test_right_shift(value: int, count: int, expected: int) -> None:
    assert fold(Op.BIT_RIGHT, [ConstantScalar(value), ConstantScalar(count)], None, None) == ConstantScalar(expected)


def test_floats_are_f64() -> None:
    assert fold(Op.ADD, [ConstantScalar(0.1), ConstantScalar(0.2)], None, None) == ConstantScalar(0.1 + 0.2)
    assert fold(Op.DIV, [ConstantScalar(1.0), ConstantScalar(0)], None, None) == ConstantScalar(math.inf)
    assert fold(Op.CEIL, [ConstantScalar(2.5)], None, None) == ConstantScalar(3.0)
    assert fold(Op.EXP, [ConstantScalar(1)], None, None).value == math.exp(1)
    assert fold(Op.CMP_NE, [ConstantScalar(0.5), ConstantScalar(1)], None, None) == ConstantScalar(True, DType.BOOL)


def test_known_integers() -> None:
    assert known_integer(Operand(ConstantScalar(3.0), None), "a size") == 3
    for value, code in (
        (ConstantScalar(2.5), "TIL307"),
        (ConstantScalar(math.inf), "TIL307"),
        (ConstantScalar(math.nan), "TIL307"),
        (Tensor("A", DType.I32, ()), "TIL306"),
        (Group(()), "TIL306"),
    ):
        with pytest.raises(TileError) as caught:
            known_integer(Operand(value, None), "a size")
        assert caught.value.diagnostics[0].code == code


def test_sizes() -> None:
    assert size(Operand(ConstantScalar(0), None), "a size") == 0
    assert size(Operand(ConstantScalar((1 << 63) - 1), None), "a size") == (1 << 63) - 1
    for number in (-1, 1 << 63):
        with pytest.raises(TileError, match="a size is"):
            size(Operand(ConstantScalar(number), None), "a size")
