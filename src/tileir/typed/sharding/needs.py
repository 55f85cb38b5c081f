"""Elements of operands that a rank needs for its part of an operation: exact, from the accesses of contractions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from tileir.core import attrs
from tileir.poly.affine import Affine
from tileir.poly.bounds import solve
from tileir.typed.boxes import Box, Interval, elements, hull, sizes_of, whole_box
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Collective,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Shape,
    ShapeOf,
    Upstream,
    operands,
)

Terms: TypeAlias = "Sequence[tuple[Affine, Interval]]"
"""Polynomials whose values at the terms of an aggregate lie within intervals."""

Shapes: TypeAlias = "Mapping[str, Shape]"

ROWS: Final = "row"
"""Index of the rows of the table that a gather reads."""


REPEATED: Final = Contraction | Elementwise | Cast | Override
"""Operations of which some elements may be recomputed."""


def reads(operation: Operation) -> tuple[str, ...]:
    """Return the values that an operation reads at run time; gradients of overrides are for differentiation alone."""
    return (operation.input,) if isinstance(operation, Override) else operands(operation)


def live(function: Function) -> tuple[Operation, ...]:
    """Return the operations that results depend on, in order, without gradients of overrides."""
    names, kept = set(function.outputs), []
    for operation in reversed(function.operations):
        if operation.name in names:
            names.update(reads(operation))
            kept.append(operation)
    return tuple(kept[::-1])


def needed(operation: Operation, box: Box, terms: Terms, shapes: Shapes) -> dict[str, Box | None]:
    """Return for each operand the box of elements that are read for a box of the result; None if there are none."""
    found: dict[str, Box | None] = {}
    for name, part in boxes_read(operation, box, terms, shapes):
        before = found.get(name)
        found[name] = part if before is None else before if part is None else hull(before, part)
    return found


def boxes_read(operation: Operation, box: Box, terms: Terms, shapes: Shapes) -> Iterator[tuple[str, Box | None]]:
    """Yield the elements that are read for a box of the result, operand by operand; one value may be several operands.

    For gathers, these are the indices and the data; for scatters the updates, the indices, and the replaced rows.
    """
    limits = {str(polynomial): interval for polynomial, interval in terms}
    match operation:
        case Elementwise(inputs=names):
            for name in names:
                yield name, broadcast(box, operation.shape, shapes[name])
        case Cast(input=name) | Override(input=name) | Checkpoint(input=name) | Recall(input=name):
            yield name, box
        case Collective(inputs=names):
            yield from ((name, box) for name in names)
        case Reshape(input=name, shape=shape):
            yield name, reshaped(box, shape, shapes[name])
        case Argsort(input=name, axis=axis):
            yield name, (*box[:axis], (0, shapes[name][axis]), *box[axis + 1 :])
        case Gather(data=data, indices=indices):
            rank = len(shapes[indices])
            yield indices, box[:rank]
            yield data, (limits.get(ROWS, (0, shapes[data][0])), *box[rank:])
        case Scatter(updates=updates, indices=indices, into=into):
            places = shapes[indices]
            rows = tuple(limits.get(f"d{axis}", (0, size)) for axis, size in enumerate(places))
            yield updates, (*rows, *box[1:])
            yield indices, rows
            if into is not None:
                yield into, box
        case Reduce(input=name, axes=axes):
            kept = iter(box)
            sizes = enumerate(shapes[name])
            yield (
                name,
                tuple(limits.get(f"d{axis}", (0, size)) if axis in axes else next(kept) for axis, size in sizes),
            )
        case Contraction():
            yield from _contracted(operation, box, terms, shapes)
        case Scan():
            yield from ((name, whole_box(shapes[name])) for name in operands(operation))
        case Constant() | ArrayConstant() | Coordinate() | ShapeOf() | Upstream():
            return


def broadcast(box: Box, shape: Shape, operand: Shape) -> Box:
    """Return the box of an operand that is broadcast to a shape: its axes are aligned at the right."""
    skipped = len(shape) - len(operand)
    return tuple(
        (0, 1) if size == 1 != shape[skipped + axis] else box[skipped + axis] for axis, size in enumerate(operand)
    )


def _contracted(operation: Contraction, box: Box, terms: Terms, shapes: Shapes) -> Iterator[tuple[str, Box | None]]:
    """Yield the elements that are read by points that write into a box and have values of polynomials in intervals."""
    if operation.default is not None:
        yield operation.default, box
    output = tuple(each - low for each, (low, _) in zip(operation.output, box, strict=True))
    accesses = [output, *(access.indices for access in operation.inputs)]
    sizes = [sizes_of(box), *(shapes[access.tensor] for access in operation.inputs)]
    constraints = [(each.polynomial, each.bound) for each in operation.constraints]
    constraints += [(polynomial - low, high - low) for polynomial, (low, high) in terms]
    empty = 0 in (size for each in sizes for size in each) or any(bound <= 0 for _, bound in constraints)
    domain = None if empty else solve(accesses, sizes, constraints)
    if domain is None:
        yield from ((access.tensor, None) for access in operation.inputs)
        return
    ranges = dict(domain.ranges)
    for access, polynomials in zip(operation.inputs, domain.accesses[1:], strict=True):
        bounds = (polynomial.bounds(ranges) for polynomial in polynomials)
        yield (
            access.tensor,
            tuple(
                (max(0, math.floor(low)), min(size, math.floor(high) + 1))
                for (low, high), size in zip(bounds, shapes[access.tensor], strict=True)
            ),
        )


def points(operation: Operation, shapes: Shapes) -> int:
    """Return the approximate number of scalar operations: one for each operand of each point of a contraction."""
    if not isinstance(operation, Contraction):
        return max(math.prod(shape) for shape in (operation.shape, *(shapes[name] for name in reads(operation))))
    accesses = [operation.output, *(access.indices for access in operation.inputs)]
    sizes = [operation.shape, *(shapes[access.tensor] for access in operation.inputs)]
    domain = solve(accesses, sizes, [(each.polynomial, each.bound) for each in operation.constraints])
    return 0 if domain is None else math.prod(size for _, size in domain.ranges) * len(operation.inputs)


@attrs.frozen
class ReshapedAxes:
    """Axes of two shapes with equally many elements, and the first one of each that is longer than 1, or -1.

    ``inner`` is the number of elements of one position of that axis within the group.
    """

    axes: tuple[range, range]
    leading: tuple[int, int]
    inner: tuple[int, int]


def joined_axes(left: Shape, right: Shape) -> tuple[ReshapedAxes, ...]:
    """Return the smallest groups of axes that a reshape maps to each other, in order; none for empty tensors."""
    if 0 in left or 0 in right:
        return ()
    groups = []
    starts, stops, counts = [0, 0], [0, 0], [1, 1]
    shapes = (left, right)
    while stops[0] < len(left) or stops[1] < len(right):
        behind = int(counts[0] > counts[1]) if counts[0] != counts[1] else int(stops[0] == len(left))
        counts[behind] *= shapes[behind][stops[behind]]
        stops[behind] += 1
        if counts[0] == counts[1] and counts[0] > 1:
            groups.append(_joined(shapes, starts, stops))
            starts, counts = list(stops), [1, 1]
    if starts != stops:
        groups.append(_joined(shapes, starts, stops))
    return tuple(groups)


def _joined(shapes: tuple[Shape, Shape], starts: Sequence[int], stops: Sequence[int]) -> ReshapedAxes:
    axes = (range(starts[0], stops[0]), range(starts[1], stops[1]))
    leading, inner = [], []
    for shape, own in zip(shapes, axes, strict=True):
        first = next((axis for axis in own if shape[axis] > 1), -1)
        leading.append(first)
        inner.append(math.prod(shape[axis] for axis in own if axis > first))
    return ReshapedAxes(axes, (leading[0], leading[1]), (inner[0], inner[1]))


def reshaped(box: Box, shape: Shape, source: Shape) -> Box:
    """Return the smallest box of the source of a reshape that contains all elements of a box; it may contain more."""
    found = list(whole_box(source))
    if any(low == high for low, high in box):
        return tuple((0, 0) if axis == 0 else each for axis, each in enumerate(found))
    for group in joined_axes(source, shape):
        first = last = 0
        for axis in group.axes[1]:
            low, high = box[axis]
            first, last = first * shape[axis] + low, last * shape[axis] + high - 1
        size = math.prod(source[axis] for axis in group.axes[0])
        for axis in group.axes[0]:  # if both are at one position, only the elements of that are needed
            size //= source[axis]
            (low, first), (high, last) = divmod(first, size), divmod(last, size)
            found[axis] = (low, high + 1)
            if low < high:
                break
    return tuple(found)


def is_exact(operation: Operation, boxes: Sequence[Box], shapes: Shapes) -> bool:
    """Return whether each rank can compute its box from exactly a box of the operand; only reshapes may fail."""
    if not isinstance(operation, Reshape):
        return True
    source = shapes[operation.input]
    return all(elements(box) == elements(reshaped(box, operation.shape, source)) for box in boxes)
