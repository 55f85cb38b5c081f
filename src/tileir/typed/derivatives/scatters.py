"""Derivatives of scatters by their updates: 1, the choice of the extreme update, or the product of the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tileir.core import Aggregation, Op, accumulator
from tileir.typed.ir import Coordinate, Gather, Scatter, counting

if TYPE_CHECKING:
    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.inference.values import Tensor


def chosen(algebra: Algebra, operation: Scatter, value: Tensor) -> Tensor:
    """Return a value of each update times the derivative of its row by it.

    Of tied extrema each gets all of it, or with even ties its share.
    """
    how = operation.aggregation
    if operation.ordered:
        return algebra.choose(_is_last(algebra, operation), value, algebra.zero(value))
    if how in (Aggregation.SUM, Aggregation.ASSIGN):
        return value
    updates, zero = algebra.value(operation.updates), algebra.zero(value)
    if how is Aggregation.PROD:
        return algebra.mul(value, algebra.emission.cast(_others(algebra, operation, updates), value.dtype))
    extreme = _rows(algebra, operation, algebra.value(operation.name))
    tied = algebra.compute(Op.CMP_EQ, updates, extreme)
    if algebra.even_ties:
        one = algebra.constant(1.0, value)
        value = algebra.div(value, _met(algebra, operation, algebra.choose(tied, one, zero), Aggregation.SUM))
    return algebra.choose(tied, value, zero)


def _is_last(algebra: Algebra, operation: Scatter) -> Tensor:
    """Return a mask, in a shape that broadcasts to the updates', of the last update of each row."""
    emission, places = algebra.emission, algebra.value(operation.indices)
    count = math.prod(places.shape)
    dtype = counting(count)
    numbers = emission.add(Coordinate(emission.fresh(), 0, dtype, (count,)))
    own = algebra.reshaped(numbers, places.shape)
    how, rows = Aggregation.MAX, operation.shape[:1]
    last = emission.add(Scatter(emission.fresh(), own.name, places.name, dtype, dtype, rows, how))
    met = emission.add(Gather(emission.fresh(), last.name, places.name, dtype, places.shape))
    return algebra.reshaped(algebra.compute(Op.CMP_EQ, met, own), (*places.shape, *[1] * (len(operation.shape) - 1)))


def _others(algebra: Algebra, operation: Scatter, updates: Tensor) -> Tensor:
    """Return for each update the product of the other updates of its row.

    Updates other than 0 are divided out of the row's product. A single 0 enters as the sum of the zeros, so that
    derivatives of the result are right at it; the product of two or more zeros is taken for the constant 0, so that
    third derivatives of the row are wrong there.
    """
    none, one = algebra.constant(0.0, updates), algebra.constant(1.0, updates)
    is_zero = algebra.compute(Op.CMP_EQ, updates, none)
    factors = algebra.choose(is_zero, one, updates)
    quotient = algebra.div(_met(algebra, operation, factors, Aggregation.PROD), factors)
    count = _less_own(algebra, operation, algebra.choose(is_zero, one, none))
    single = _less_own(algebra, operation, algebra.choose(is_zero, updates, none))
    is_single = algebra.compute(Op.CMP_EQ, count, one)
    zeros = algebra.choose(is_single, single, algebra.choose(algebra.compute(Op.CMP_EQ, count, none), one, none))
    return algebra.mul(quotient, zeros)


def _less_own(algebra: Algebra, operation: Scatter, values: Tensor) -> Tensor:
    """Return for each update the sum of the values of the other updates of its row."""
    return algebra.compute(Op.SUB, _met(algebra, operation, values, Aggregation.SUM), values)


def replaced(algebra: Algebra, operation: Scatter, updates: Tensor | None, rows: Tensor | None) -> Tensor:
    """Return rows, some of which are replaced by updates; None stands for zeros."""
    emission = algebra.emission
    zero = algebra.zero(algebra.value(operation.name))
    sizes = algebra.definition(operation.updates).shape
    wide = algebra.expanded(zero if rows is None else emission.cast(rows, zero.dtype), operation.shape)
    put = algebra.expanded(zero if updates is None else emission.cast(updates, zero.dtype), sizes)
    places, dtype, how = algebra.value(operation.indices).name, zero.dtype, Aggregation.ASSIGN
    name = emission.fresh()
    is_ordered = operation.ordered and updates is not None  # zeros are equal, so that their order does not matter
    return emission.add(Scatter(name, put.name, places, dtype, dtype, operation.shape, how, wide.name, is_ordered))


def added(algebra: Algebra, operation: Scatter, updates: Tensor) -> Tensor:
    """Return updates added up in the rows in which an operation puts others."""
    return _put(algebra, operation, updates, Aggregation.SUM)


def _put(algebra: Algebra, operation: Scatter, updates: Tensor, how: Aggregation) -> Tensor:
    emission = algebra.emission
    wide = algebra.expanded(updates, algebra.definition(operation.updates).shape)
    dtype, places = wide.dtype, algebra.value(operation.indices).name
    name = emission.fresh()
    return emission.add(Scatter(name, wide.name, places, accumulator(dtype), dtype, operation.shape, how))


def _met(algebra: Algebra, operation: Scatter, updates: Tensor, how: Aggregation) -> Tensor:
    return _rows(algebra, operation, _put(algebra, operation, updates, how))


def _rows(algebra: Algebra, operation: Scatter, table: Tensor) -> Tensor:
    places, shape = algebra.value(operation.indices), algebra.definition(operation.updates).shape
    return algebra.emission.add(Gather(algebra.emission.fresh(), table.name, places.name, table.dtype, shape))
