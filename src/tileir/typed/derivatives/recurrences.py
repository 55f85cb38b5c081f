"""Linear recurrences along an axis, and derivatives of running products by them.

``x[i] = b[i] + a[i]·x[i-1]`` is solved in steps, each of which doubles the distance d at which x[i] is a linear
function of x[i-d] (P. M. Kogge and H. S. Stone, "A parallel algorithm for the efficient solution of a general class of
recurrence equations", 1973). That is about n·log n work, nothing is divided, and derivatives of it are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import Aggregation, Combination, accumulator, contraction_types
from tileir.poly.affine import Affine
from tileir.typed.derivatives.summation import TensorAccess, spread
from tileir.typed.ir import Access, Contraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.extrema import RunningExtremum
    from tileir.typed.inference.values import Tensor


def selected(running: RunningExtremum, cotangent: Tensor) -> Tensor:
    """Return the cotangents of the factors of a running product.

    That is, for each of them, the product of those before it times ``x[i] = g[i] + a[i+1]·x[i+1]``, the sum of the
    cotangents of all results from there on, each multiplied by the factors up to it.
    """
    site, algebra = running.site, running.site.algebra
    algebra.emission.stem = f"D{site.operands[0].name}"
    factors = _wide(algebra, site.value(0))
    arriving = algebra.expanded(running.arriving(_wide(algebra, cotangent)), factors.shape)
    links = shifted(algebra, factors, running.axis, running.direction, 0.0)
    return algebra.mul(_before(running), _solved(algebra, links, arriving, running.axis, running.direction))


def tangent(running: RunningExtremum, given: Tensor) -> Tensor:
    """Return the tangent of a running product: ``x[i] = t[i] · (product before i) + a[i]·x[i-1]``."""
    site, algebra = running.site, running.site.algebra
    factors = _wide(algebra, site.value(0))
    moved = algebra.expanded(algebra.mul(_wide(algebra, given), _before(running)), factors.shape)
    return running.moved(_solved(algebra, factors, moved, running.axis, -running.direction))


def _wide(algebra: Algebra, value: Tensor) -> Tensor:
    return algebra.emission.cast(value, accumulator(value.dtype))


def _before(running: RunningExtremum) -> Tensor:
    """Return for each factor the product of those before it."""
    algebra = running.site.algebra
    return shifted(algebra, _wide(algebra, running.site.outcome().tensor), running.axis, -running.direction, 1.0)


def shifted(algebra: Algebra, value: Tensor, axis: int, distance: int, fill: float) -> Tensor:
    """Return the elements at this distance along an axis, and ``fill`` beyond its ends."""
    here, there = _places(value, axis, distance)
    default = spread(algebra.emission, algebra.constant(fill, value), value.shape) if fill else None
    return _assigned(algebra, here, [TensorAccess(value, there)], Combination.NONE, default)


def _solved(algebra: Algebra, links: Tensor, values: Tensor, axis: int, direction: int) -> Tensor:
    """Solve ``x[i] = values[i] + links[i] · x[i + direction]`` for x; beyond the end, nothing is added."""
    distance = 1
    while distance < values.shape[axis]:
        here, there = _places(values, axis, direction * distance)
        farther = _assigned(algebra, here, [TensorAccess(links, here), TensorAccess(values, there)], Combination.MUL)
        values = algebra.add(values, farther)
        distance *= 2
        if distance < values.shape[axis]:
            links = _assigned(algebra, here, [TensorAccess(links, here), TensorAccess(links, there)], Combination.MUL)
    return values


def _places(value: Tensor, axis: int, distance: int) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    here = tuple(Affine.index(f"x{k}") for k in range(len(value.shape)))
    return here, tuple(index + distance if k == axis else index for k, index in enumerate(here))


def _assigned(
    algebra: Algebra,
    here: tuple[Affine, ...],
    readings: Sequence[TensorAccess],
    combination: Combination,
    default: Tensor | None = None,
) -> Tensor:
    """Assign a combination to each element; all tensors that are read have the same dtype and shape."""
    like = readings[0].tensor
    types = contraction_types(Aggregation.ASSIGN, combination, [reading.tensor.dtype for reading in readings])
    return algebra.emission.add(
        Contraction(
            algebra.emission.fresh(),
            here,
            tuple(Access(reading.tensor.name, reading.indices) for reading in readings),
            Aggregation.ASSIGN,
            combination,
            types.operand,
            types.accumulator,
            types.result,
            like.shape,
            default=None if default is None else default.name,
        )
    )
