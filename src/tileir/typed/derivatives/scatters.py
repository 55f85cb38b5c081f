"""How much updates move the rows that they are put into: all, or if extreme, or by the others' product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import Aggregation, Op, accumulator
from tileir.typed.ir import Gather, Scatter

if TYPE_CHECKING:
    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.inference.values import Tensor


def chosen(algebra: Algebra, operation: Scatter, value: Tensor) -> Tensor:
    """Return a value of each update times the derivative of its row by it.

    Of tied extrema each gets all, or with even ties its share. The product of the others is found by a division, and
    zeros are counted apart: so first derivatives are right at zeros, those of derivatives only elsewhere.
    """
    how = operation.aggregation
    if how in (Aggregation.SUM, Aggregation.ASSIGN):
        return value
    updates, zero = algebra.value(operation.updates), algebra.zero(value)
    if how is Aggregation.PROD:
        none, one = algebra.constant(0.0, updates), algebra.constant(1.0, updates)
        is_zero = algebra.compute(Op.CMP_EQ, updates, none)
        factors = algebra.choose(is_zero, one, updates)
        others = algebra.div(_met(algebra, operation, factors, how), factors)
        zeros = algebra.choose(is_zero, algebra.constant(1.0, value), zero)
        alone = algebra.compute(Op.CMP_EQ, _met(algebra, operation, zeros, Aggregation.SUM), zeros)
        return algebra.choose(alone, algebra.mul(value, algebra.emission.cast(others, value.dtype)), zero)
    extreme = _rows(algebra, operation, algebra.value(operation.name))
    tied = algebra.compute(Op.CMP_EQ, updates, extreme)
    if algebra.even_ties:
        one = algebra.constant(1.0, value)
        value = algebra.div(value, _met(algebra, operation, algebra.choose(tied, one, zero), Aggregation.SUM))
    return algebra.choose(tied, value, zero)


def replaced(algebra: Algebra, operation: Scatter, updates: Tensor | None, rows: Tensor | None) -> Tensor:
    """Return rows of which an operation replaces some by updates; None stands for zeros."""
    emission = algebra.emission
    zero = algebra.zero(algebra.value(operation.name))
    sizes = algebra.definition(operation.updates).shape
    wide = algebra.expanded(zero if rows is None else emission.cast(rows, zero.dtype), operation.shape)
    put = algebra.expanded(zero if updates is None else emission.cast(updates, zero.dtype), sizes)
    places, dtype, how = algebra.value(operation.indices).name, zero.dtype, Aggregation.ASSIGN
    return emission.add(Scatter(emission.fresh(), put.name, places, dtype, dtype, operation.shape, how, wide.name))


def added(algebra: Algebra, operation: Scatter, updates: Tensor) -> Tensor:
    """Return updates added up in the rows where an operation puts others."""
    return _put(algebra, operation, updates, Aggregation.SUM)


def _put(algebra: Algebra, operation: Scatter, updates: Tensor, how: Aggregation) -> Tensor:
    emission = algebra.emission
    wide = algebra.expanded(updates, algebra.definition(operation.updates).shape)
    dtype, places = wide.dtype, algebra.value(operation.indices).name
    name = emission.fresh()
    return emission.add(Scatter(name, wide.name, places, accumulator(dtype), dtype, operation.shape, how))


def _met(algebra: Algebra, operation: Scatter, updates: Tensor, how: Aggregation) -> Tensor:
    """Return for each update what all updates of its row make together."""
    return _rows(algebra, operation, _put(algebra, operation, updates, how))


def _rows(algebra: Algebra, operation: Scatter, table: Tensor) -> Tensor:
    places, shape = algebra.value(operation.indices), algebra.definition(operation.updates).shape
    return algebra.emission.add(Gather(algebra.emission.fresh(), table.name, places.name, table.dtype, shape))
