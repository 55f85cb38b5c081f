"""Ways to spread an operation over ranks whose operands are already spread: the indices that ranks divide.

An index of the output splits the result. An index that is summed over, or another aggregation's, leaves each rank with
a partial aggregate. Everything follows from the position of an index in the accesses of a contraction; axes of other
operations correspond as in contractions with known accesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import permutations
from typing import TypeAlias

from tileir.core import Aggregation
from tileir.poly.affine import Affine
from tileir.poly.bounds import solve
from tileir.poly.coverage import covers as reaches
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scatter,
    Shape,
)
from tileir.typed.sharding.collective_operations import CollectiveSharding, collective_axes, collective_sharding
from tileir.typed.sharding.mesh import Mesh, Split, balanced
from tileir.typed.sharding.needs import ROWS, joined_axes
from tileir.typed.sharding.partitioned import Share

Way: TypeAlias = "tuple[int, Split] | Share | CollectiveSharding"
"""A split of an axis of the result, a division of terms, or a split of an axis while ranks meet."""


def may_cut(operation: Operation, axis: int) -> bool:
    """Return whether each rank can compute its own positions along an axis of the result."""
    match operation:
        case Elementwise() | Cast() | Override() | Checkpoint() | Recall() | Contraction() | Gather() | Scatter():
            return True
        case Coordinate() | ArrayConstant() | Reduce() | Reshape():
            return True
        case Argsort(axis=sorted_axis):
            return axis != sorted_axis
        case _:
            return False


def ways(operation: Operation, name: str, axis: int, split: Split, shapes: Mapping[str, Shape]) -> Iterator[Way]:
    """Yield ways to spread an operation like an operand that is split along an axis, the nearest one first."""
    match operation:
        case Elementwise(shape=shape):
            if shapes[name][axis] > 1 or shape[len(shape) - len(shapes[name]) + axis] == 1:
                yield axis + len(shape) - len(shapes[name]), split
        case Cast() | Override() | Checkpoint() | Recall():
            yield axis, split
        case Argsort(axis=sorted_axis):
            if axis != sorted_axis:
                yield axis, split
            yield from _met(operation, axis, split, shapes)
        case Gather():
            yield from _gathered(operation, name, axis, split, shapes)
        case Scatter():
            yield from _scattered(operation, name, axis, split, shapes)
        case Reduce(axes=axes):
            if axis not in axes:
                yield axis - sum(each < axis for each in axes), split
            elif not operation.combine.is_extremum or axis == axes[0]:  # positions are counted from the first axis
                yield Share(Affine.index(f"d{axis}"), split)
        case Reshape(shape=shape):
            yield from _reshaped(shapes[name], shape, axis, split)
        case Contraction():
            yield from _contracted(operation, name, axis, split, shapes)
        case _:
            return


def free_ways(operation: Operation, axes: tuple[str, ...], mesh: Mesh, shapes: Mapping[str, Shape]) -> Iterator[Way]:
    """Yield ways to spread an operation along axes of a mesh, regardless of the layouts of its operands.

    Operands are exchanged for that: to split a sorted axis, an array is first split along another one.
    """
    parts = mesh.extent(axes)
    for axis, size in enumerate(operation.shape):
        step = 1
        if isinstance(operation, Reshape):
            groups = (each for each in joined_axes(shapes[operation.input], operation.shape) if each.leading[1] == axis)
            step = next((each.inner[0] // math.gcd(*each.inner) for each in groups), 1)
        if size > step:
            cuts = [min(size, high * step) for _, high in balanced(-(-size // step), parts)]
            yield axis, Split(axes, tuple(zip([0, *cuts], cuts, strict=False)))
    for axis in collective_axes(operation, shapes):
        if operation.shape[axis] > 1:
            yield collective_sharding(operation, axis, axes, parts, shapes)
    if isinstance(operation, Reshape):
        for order in permutations(axes) if len(axes) > 1 else ():
            yield from _merged(shapes[operation.input], operation.shape, order, mesh)


def _met(operation: Operation, axis: int, split: Split, shapes: Mapping[str, Shape]) -> Iterator[CollectiveSharding]:
    if axis in collective_axes(operation, shapes):
        yield collective_sharding(operation, axis, split.axes, len(split.intervals), shapes)


def _gathered(operation: Gather, name: str, axis: int, split: Split, shapes: Mapping[str, Shape]) -> Iterator[Way]:
    rank = len(shapes[operation.indices])
    if name == operation.indices:
        yield axis, split
        yield from _met(operation, axis, split, shapes)
    if name == operation.data and axis > 0:
        yield axis + rank - 1, split
    elif name == operation.data and not operation.dtype.is_bool:  # partial results are summed
        yield Share(Affine.index(ROWS), split)


def _scattered(operation: Scatter, name: str, axis: int, split: Split, shapes: Mapping[str, Shape]) -> Iterator[Way]:
    rank = len(shapes[operation.indices])
    if name in (operation.updates, operation.indices) and axis < rank:
        if operation.aggregation is not Aggregation.ASSIGN:
            yield Share(Affine.index(f"d{axis}"), split)
    elif name == operation.updates:
        yield axis - rank + 1, split
    elif name == operation.into:
        yield axis, split
    if name in (operation.updates, operation.indices):
        yield from _met(operation, axis, split, shapes)


def _reshaped(source: Shape, shape: Shape, axis: int, split: Split) -> Iterator[Way]:
    """Yield the split of the leading axis of a group, with cuts at whole positions of both shapes."""
    for group in joined_axes(source, shape):
        if group.leading[0] == axis and group.leading[1] >= 0:
            lead, inner = group.inner
            step = lead // math.gcd(lead, inner)
            size = shape[group.leading[1]]
            if step < size:
                ends = {
                    place: min(size, round(place * lead / (inner * step)) * step)
                    for i in split.intervals
                    for place in i
                }
                yield group.leading[1], _moved(split, ends)


def _merged(source: Shape, shape: Shape, axes: tuple[str, ...], mesh: Mesh) -> Iterator[Way]:
    """Yield splits of an axis that joins several axes, which mesh axes split one by one, so that all ranks differ."""
    for group in joined_axes(source, shape):
        long = [axis for axis in group.axes[0] if source[axis] > 1]
        if group.leading[1] >= 0 and group.inner[1] == 1 and len(long) >= len(axes):
            size = shape[group.leading[1]]
            intervals = [(0, size)]
            for axis, name in zip(long, axes, strict=False):
                size //= source[axis]
                parts = balanced(source[axis], mesh.extent([name]))
                intervals = [
                    (start + low * size, start + high * size) if stop - start == source[axis] * size else (start, stop)
                    for start, stop in intervals
                    for low, high in parts
                ]
            if all(intervals.count(each) == 1 for each in intervals if each[0] < each[1]):
                yield group.leading[1], Split(axes, tuple(intervals))


def _moved(split: Split, ends: Mapping[int, int]) -> Split:
    """Return a split of another axis, with the ends of intervals mapped by ``ends``."""
    intervals = ((ends[low], ends[high]) for low, high in split.intervals)
    return Split(split.axes, tuple((min(pair), max(pair)) for pair in intervals))


def _contracted(
    operation: Contraction, name: str, axis: int, split: Split, shapes: Mapping[str, Shape]
) -> Iterator[Way]:
    """Yield splits of axes of the output that share an index with the operand's axis, then a division of the terms."""
    if name == operation.default:
        yield axis, split
    read = [access.indices[axis] for access in operation.inputs if access.tensor == name]
    for polynomial in dict.fromkeys(read):
        for number, written in enumerate(operation.output):
            if set(written.indices) & set(polynomial.indices):
                size = operation.shape[number]
                yield number, _alongside(written, size, polynomial, shapes[name][axis], split)
    if may_share(operation, shapes):
        yield from (Share(polynomial, split) for polynomial in dict.fromkeys(read) if polynomial.indices)


def _alongside(written: Affine, size: int, read: Affine, extent: int, split: Split) -> Split:
    """Return the split of an output axis that corresponds to that of an operand.

    One position of the output corresponds to ``scale`` positions of the operand; with a single common index, exactly.
    """
    if extent == 0:
        return Split(split.axes, balanced(size, len(split.intervals)))
    scale, start = Fraction(extent, max(1, size)), Fraction(0)
    if len(written.terms) == len(read.terms) == 1:
        scale = Fraction(read.terms[0][1]) / written.terms[0][1]
        start = read.offset - scale * written.offset
    ends = {0: 0, extent: size} if scale > 0 else {0: size, extent: 0}
    for place in {place for interval in split.intervals for place in interval} - {0, extent}:
        end = (place - start) / scale
        ends[place] = min(size, max(0, math.ceil(end) if scale > 0 else math.floor(end) + 1))
    return _moved(split, ends)


def may_share(operation: Contraction, shapes: Mapping[str, Shape]) -> bool:
    """Return whether partial aggregates can be merged: no element is left to its default.

    For sums without a default this always holds, since elements without terms are 0.
    """
    how = operation.aggregation
    if how is Aggregation.ASSIGN or operation.default is not None:
        return False
    if how is Aggregation.SUM:
        return True
    accesses = [operation.output, *(access.indices for access in operation.inputs)]
    sizes = [operation.shape, *(shapes[access.tensor] for access in operation.inputs)]
    constraints = [(each.polynomial, each.bound) for each in operation.constraints]
    domain = solve(accesses, sizes, constraints, operation.reduce)
    return domain is not None and reaches(domain, operation.shape)
