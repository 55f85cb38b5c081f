"""Windows of weights of rank one: the sum goes over one of their axes at a time.

``O[y, x] = +(I[y + i, x + j] * K[i, j])`` with a constant ``K[i, j] = U[i] * V[j]`` is
``P[y, x] = +(I[y, x + j] * V[j])`` and then ``O[y, x] = +(P[y + i, x] * U[i])``: M + N products for each element
instead of M·N. The factors of floats are rounded, and sums are associated in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, prod
from typing import Final

import numpy as np

from tileir.core import Aggregation, ArrayValue, Combination, DType, NameScope, attrs
from tileir.poly.affine import Affine
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, ArrayConstant, Constraint, Contraction, Function, Operation, Shape
from tileir.typed.simplify.replacement import with_replaced
from tileir.typed.simplify.separation import domain_of, index_factors, points_of, without_factor

INTERMEDIATE: Final = 8
"""What an element of the result between costs, in products: it is written and read again."""


def factorised(function: Function) -> Function:
    """Return an equivalent function in which sums of products with constants of rank one are two sums, where that pays.

    ``function`` itself is returned where it pays nowhere.
    """
    function = with_bodies(function, factorised)
    values = {each.name: each for each in function.operations if isinstance(each, ArrayConstant)}
    if not values:
        return function

    def parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> Sequence[Operation]:
        return _parts(operation, values, shapes, names) if isinstance(operation, Contraction) else [operation]

    return with_replaced(function, parts)


def _parts(
    whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape], names: NameScope
) -> Sequence[Operation]:
    """Return operations that compute a contraction together, the last one under its name."""
    best: tuple[int, list[Operation]] | None = None
    for place in _weights(whole, values):
        cost = _products(whole, values, shapes)
        for attempt in _attempts(whole, place, values, shapes, names):
            constants = {**values, **{each.name: each for each in attempt if isinstance(each, ArrayConstant)}}
            known = {**shapes, **{each.name: each.shape for each in attempt}}
            sums = [each for each in attempt if isinstance(each, Contraction)]
            less = sum(_products(each, constants, known) for each in sums) + INTERMEDIATE * prod(sums[0].shape)
            if less < cost and (best is None or less < best[0]):
                best = less, attempt
    if best is None:
        return [whole]
    taken = best[1]
    values = {**values, **{each.name: each for each in taken if isinstance(each, ArrayConstant)}}
    shapes = {**shapes, **{each.name: each.shape for each in taken}}
    return [
        part
        for each in taken
        for part in (_parts(each, values, shapes, names) if isinstance(each, Contraction) else [each])
    ]


def _weights(whole: Contraction, values: Mapping[str, ArrayConstant]) -> Iterator[int]:
    """Yield which inputs of a sum of products are windows: constants whose axes are indices that are summed over."""
    if whole.aggregation is not Aggregation.SUM or whole.combination is not Combination.MUL:
        return
    if not whole.operand_dtype == whole.dtype == whole.accumulator or whole.default is not None:
        return
    written = {name for polynomial in whole.output for name in polynomial.indices}
    for place, access in enumerate(whole.inputs):
        if access.tensor not in values or values[access.tensor].value.dtype is not whole.operand_dtype:
            continue
        names = [polynomial.indices[0] for polynomial in access.indices if polynomial.indices]
        bare = tuple(map(Affine.index, names)) == access.indices
        if bare and len(names) == len(set(names)) >= 2 and not written & set(names):
            yield place


def _attempts(
    whole: Contraction,
    place: int,
    values: Mapping[str, ArrayConstant],
    shapes: Mapping[str, Shape],
    names: NameScope,
) -> Iterator[list[Operation]]:
    """Yield two sums with the factors of a window, for each way to take its axes apart."""
    window, other = whole.inputs[place], whole.inputs[1 - place]
    value = values[window.tensor].value
    axes = {polynomial.indices[0]: axis for axis, polynomial in enumerate(window.indices)}
    within = [Constraint(Affine.index(name), value.shape[axis]) for name, axis in axes.items()]
    plain = attrs.evolve(
        whole, inputs=(other,), combination=Combination.NONE, constraints=(*whole.constraints, *within)
    )
    for factor in index_factors(plain):
        own = [name for name in axes if name in factor]
        rest = [name for name in axes if name not in factor]
        pair = factors_of(value, [axes[name] for name in own]) if own and rest else None
        if pair is None:
            continue
        first, last = without_factor(plain, factor, shapes, names)
        weights = [
            ArrayConstant(names.fresh(f"{window.tensor}_factor"), each, span=values[window.tensor].span)
            for each in pair
        ]
        yield [
            weights[0],
            _weighted(first, weights[0].name, own, whole),
            weights[1],
            _weighted(last, weights[1].name, rest, whole),
        ]


def _weighted(part: Contraction, weights: str, indices: Sequence[str], whole: Contraction) -> Contraction:
    """Return a sum with its terms multiplied by weights."""
    access = Access(weights, tuple(map(Affine.index, indices)))
    return attrs.evolve(
        part, inputs=(*part.inputs, access), combination=Combination.MUL, operand_dtype=whole.operand_dtype
    )


def _products(whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape]) -> int:
    """Return how many products a sum takes: none with a weight of 0."""
    domain = domain_of(whole, shapes)
    if domain is None:
        return 0
    points = points_of(domain)
    for access in whole.inputs:
        if access.tensor in values:
            array = values[access.tensor].value.numpy()
            points = points * int(np.count_nonzero(array)) // max(1, array.size)
    return points


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
