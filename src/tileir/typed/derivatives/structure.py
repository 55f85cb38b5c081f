"""Derivatives of operations that move elements: casts, reshape, gather and scatter, each the other's transpose."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tileir.core.dtype import accumulator
from tileir.typed.ir import Gather, Scatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.sweep import Sweep
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Cast, Reshape, Shape


def pull_cast(sweep: Sweep, operation: Cast, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent itself, which is cast back; what went through an integer type has none."""
    if sweep.wanted(operation.input):
        sweep.toward(operation.input)
        yield operation.input, cotangent


def pull_reshape(sweep: Sweep, operation: Reshape, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent under the shape of the operand."""
    if sweep.wanted(operation.input):
        sweep.toward(operation.input)
        yield operation.input, reshaped(sweep, cotangent, operation.shape, sweep.definition(operation.input).shape)


def pull_gather(sweep: Sweep, operation: Gather, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield what arrives at each element of the data, added up: rows that were read twice get two contributions."""
    if not sweep.wanted(operation.data):
        return
    sweep.toward(operation.data)
    emission = sweep.emission
    updates, indices = sweep.expanded(cotangent, operation.shape), sweep.value(operation.indices)
    shape, dtype = sweep.definition(operation.data).shape, updates.dtype
    scattered = Scatter(emission.fresh(), updates.name, indices.name, accumulator(dtype), dtype, shape)
    yield operation.data, emission.add(scattered)


def pull_scatter(sweep: Sweep, operation: Scatter, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield for each update what arrives at the row that it was added to."""
    if not sweep.wanted(operation.updates):
        return
    sweep.toward(operation.updates)
    yield operation.updates, gathered(sweep, cotangent, operation.shape, operation.indices)


def gathered(algebra: Algebra, value: Tensor, full: Shape, indices: str) -> Tensor:
    """Return the rows of ``value``, which stands for its broadcast to ``full``, at ``indices``."""
    if len(value.shape) < len(full):
        return value
    if value.shape[0] == 1:
        return algebra.reshaped(value, value.shape[1:])
    emission, places = algebra.emission, algebra.value(indices)
    return emission.add(Gather(emission.fresh(), value.name, places.name, value.dtype, places.shape + value.shape[1:]))


def reshaped(algebra: Algebra, value: Tensor, full: Shape, shape: Shape) -> Tensor:
    """Return ``value``, which stands for its broadcast to ``full``, under another shape of as many elements."""
    if math.prod(value.shape) == 1:
        return algebra.reshaped(value, ())
    return algebra.reshaped(algebra.expanded(value, full), shape)
