"""Constants of rank one: each element is the product of two factors, one for each of two groups of axes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, prod
from typing import Final

import numpy as np

from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType

MOST_ELEMENTS: Final = 4096
"""Of a constant that is looked at: windows have fewer."""

_WHOLE: Final = 1 << 24

_ROUNDINGS: Final = 5
"""A float is a product where the two are so many roundings apart: those of the elements of a row and a column, of what
divides them, of their quotient, and of the product itself."""


def factors_of(value: ArrayValue, axes: Sequence[int]) -> tuple[ArrayValue, ArrayValue] | None:
    """Return the factors of a constant over some of its axes and over the others; None where it is no such product.

    Products of whole numbers are equal to the elements, those of other floats as good as rounding lets them be.
    """
    size = prod(value.shape)
    if not 0 < size <= MOST_ELEMENTS or value.dtype not in (DType.F32, DType.F64, DType.I32, DType.I64):
        return None
    others = [axis for axis in range(len(value.shape)) if axis not in axes]
    shapes = [value.shape[axis] for axis in axes], [value.shape[axis] for axis in others]
    matrix = value.numpy().transpose([*axes, *others]).reshape(prod(shapes[0]), prod(shapes[1]))
    exact = not value.dtype.is_float or _is_whole(matrix)
    pair = _of_integers(matrix) if exact else _of_floats(matrix, value.dtype)
    if pair is None:
        return None
    first, second = (np.array(each, value.dtype.numpy).reshape(shape) for each, shape in zip(pair, shapes, strict=True))
    return ArrayValue.of(first), ArrayValue.of(second)


def _is_whole(matrix: np.ndarray) -> bool:
    """Return whether floats are small whole numbers, as the weights of most windows: their factors are, too."""
    return bool((np.abs(matrix) < _WHOLE).all() and (matrix == np.rint(matrix)).all())


def _of_floats(matrix: np.ndarray, dtype: DType) -> tuple[list[float], list[float]] | None:
    """Return the column and the row of the largest element, the latter divided by that, if they are factors."""
    if not np.isfinite(matrix).all() or not matrix.any():
        return None
    row, column = np.unravel_index(np.abs(matrix).argmax(), matrix.shape)
    left = matrix[:, column]
    right = matrix[row] / matrix[row, column]
    # Most windows are no products, which doubles tell at once; exact arithmetic decides about the others.
    if np.abs(np.outer(left, right) - matrix).max() > 1e-5 * np.abs(matrix).max():
        return None
    unit = Fraction(float(np.finfo(dtype.numpy).eps)) / 2 * _ROUNDINGS
    rights = [Fraction(float(each)) for each in right]
    for factor, elements in zip(left, matrix, strict=True):
        exact = Fraction(float(factor))
        for other, element in zip(rights, elements, strict=True):
            wanted = Fraction(float(element))
            if abs(exact * other - wanted) > unit * abs(wanted):
                return None
    return [float(each) for each in left], [float(each) for each in right]


def _of_integers(matrix: np.ndarray) -> tuple[list[int], list[int]] | None:
    """Return a column and a row without common divisors whose products are the elements."""
    rows = [[int(element) for element in row] for row in matrix]
    pivot = next((row for row in rows if any(row)), None)
    if pivot is None:
        return None
    divisor = gcd(*pivot)
    right = [element // divisor for element in pivot]
    place = next(number for number, element in enumerate(right) if element)
    left = [row[place] // right[place] for row in rows]
    products = [[factor * other for other in right] for factor in left]
    return (left, right) if products == rows else None
