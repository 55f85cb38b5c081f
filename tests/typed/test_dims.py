"""Constant arithmetic against Python's and NumPy's."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Op
from tileir.typed.dims import divide, fold, known_integer, size
from tileir.typed.inference.values import Group, Known, Operand, Tensor

numbers = st.integers(-40, 40)


@given(numbers, numbers.filter(bool))
def test_division_truncates(left: int, right: int) -> None:
    assert divide(left, right) == math.trunc(left / right)
    assert fold(Op.MOD, [Known(left), Known(right)], None, None) == Known(int(math.fmod(left, right)))


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
    assert fold(op, [Known(left), Known(right)], None, None) == Known(expected, dtype)


def test_literals_are_exact_and_typed_constants_wrap() -> None:
    large = Known(100)
    assert fold(Op.ADD, [large, large], None, None) == Known(200)
    assert fold(Op.ADD, [large, large], DType.I8, None) == Known(-56, DType.I8)
    assert fold(Op.DIV, [large, Known(0)], DType.I8, None) == Known(0, DType.I8)


@pytest.mark.parametrize(("count", "expected"), [(3, 40), (-1, 0), (64, 5 << 64)])
def test_left_shift(count: int, expected: int) -> None:
    if expected > 1 << 64:
        with pytest.raises(TileError):
            fold(Op.BIT_LEFT, [Known(5), Known(count)], None, None)
    else:
        assert fold(Op.BIT_LEFT, [Known(5), Known(count)], None, None) == Known(expected)


@pytest.mark.parametrize(
    ("value", "count", "expected"), [(40, 3, 5), (-40, 100, -1), (40, 100, 0), (-5, -1, -1), (5, -1, 0)]
)
def test_right_shift(value: int, count: int, expected: int) -> None:
    assert fold(Op.BIT_RIGHT, [Known(value), Known(count)], None, None) == Known(expected)


def test_floats_are_f64() -> None:
    assert fold(Op.ADD, [Known(0.1), Known(0.2)], None, None) == Known(0.1 + 0.2)
    assert fold(Op.DIV, [Known(1.0), Known(0)], None, None) == Known(math.inf)
    assert fold(Op.CEIL, [Known(2.5)], None, None) == Known(3.0)
    assert fold(Op.EXP, [Known(1)], None, None).value == math.exp(1)
    assert fold(Op.CMP_NE, [Known(0.5), Known(1)], None, None) == Known(True, DType.BOOL)


def test_known_integers() -> None:
    assert known_integer(Operand(Known(3.0), None), "a size") == 3
    for value, code in (
        (Known(2.5), "TIL307"),
        (Known(math.inf), "TIL307"),
        (Known(math.nan), "TIL307"),
        (Tensor("A", DType.I32, ()), "TIL306"),
        (Group(()), "TIL306"),
    ):
        with pytest.raises(TileError) as caught:
            known_integer(Operand(value, None), "a size")
        assert caught.value.diagnostics[0].code == code


def test_sizes() -> None:
    assert size(Operand(Known(0), None), "a size") == 0
    assert size(Operand(Known((1 << 63) - 1), None), "a size") == (1 << 63) - 1
    for number in (-1, 1 << 63):
        with pytest.raises(TileError, match="a size is"):
            size(Operand(Known(number), None), "a size")
