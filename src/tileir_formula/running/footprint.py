"""Footprint of a function: the elements of its inputs that some elements of a result read, as boxes, found backwards.

The boxes hold all elements that are read. They may hold more where data choose an element, where indices of an access
depend on each other, or where there are very many boxes.

The reach of a function of pictures: the distance around each element at which it reads, if that is alike at all places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import attrs, fail, nearest, reached
from tileir.poly.affine import Affine
from tileir.poly.bounds import solve
from tileir.typed.boxes import Box, holds, whole_box
from tileir.typed.interpreter import interpret
from tileir.typed.ir import (
    Argsort,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Reshape,
    Scan,
    ScanPart,
    Shape,
    operands,
)

MOST_BOXES: Final = 32
"""The greatest number of boxes of a value; more become the box around all."""

MOST_KNOWN: Final = 1 << 20
"""The most elements of a value that is computed to know the indices of a gather."""


Steps: TypeAlias = "list[tuple[str, Box]]"
"""The operands of operations, in order: names, with one box each."""


def footprint(function: Function, output: str, box: Box, steps: Steps | None = None) -> dict[str, tuple[Box, ...]]:
    """Return the elements of the inputs that are read for a box of elements of a result.

    Args:
        function: Prepared or not.
        output: The name of a result.
        box: Elements of it; not empty.
        steps: A list to which the operands of each operation are added. Each value then has one box, which is found
            faster.

    Returns:
        Boxes by the names of inputs; inputs that are not read are left out.

    Raises:
        TileError: TIL311, there is no result of this name; TIL314, it has no elements of this box.
    """
    shapes = _shapes(function)
    if output not in function.outputs:
        raise fail("TIL311", f"there is no result {output[:64]!r}{nearest(output, function.outputs)}")
    shape = shapes[output]
    if len(box) != len(shape) or not all(0 <= low < high <= size for (low, high), size in zip(box, shape, strict=True)):
        raise fail("TIL314", f"{output} has the shape {list(shape)}, and no elements {list(box)}")
    needed = _read(function, {output: (box,)}, steps)
    return {value.name: needed[value.name] for value in function.inputs if needed.get(value.name)}


def _shapes(function: Function) -> dict[str, Shape]:
    return {each.name: each.shape for each in (*function.inputs, *function.operations)}


def _read(function: Function, wanted: Mapping[str, tuple[Box, ...]], steps: Steps | None) -> dict[str, tuple[Box, ...]]:
    """Return the boxes of all values that the boxes of some values need."""
    shapes = _shapes(function)
    known = _Known(function)
    found: dict[str, tuple[Box, ...]] = dict(wanted)
    for operation in reversed(function.operations):
        boxes = found.get(operation.name, ())
        for name, box in _of_operation(operation, boxes, shapes, known, steps):
            if steps is None:
                found[name] = _joined((*found.get(name, ()), box))
            else:
                steps.append((name, box))
                found[name] = (hull((*found.get(name, ()), box)),)
    return found


def _of_operation(
    operation: Operation,
    boxes: tuple[Box, ...],
    shapes: Mapping[str, Shape],
    known: _Known,
    steps: Steps | None,
) -> Iterator[tuple[str, Box]]:
    """Yield the boxes of its operands that an operation reads for boxes of its value."""
    if isinstance(operation, Scan):
        yield from _of_loop(operation, boxes, shapes, steps)
        return
    for box in boxes:
        match operation:
            case Elementwise():
                for name in operation.inputs:
                    yield name, _broadcast(box, shapes[name])
            case Contraction():
                yield from _of_contraction(operation, box, shapes)
            case Reshape():
                yield operation.input, _reshaped(box, operation.shape, shapes[operation.input])
            case Argsort(input=name, axis=axis):
                yield name, (*box[:axis], (0, shapes[name][axis]), *box[axis + 1 :])
            case Gather():
                rank = len(shapes[operation.indices])
                yield operation.indices, box[:rank]
                yield operation.data, (known.range_of(operation, box[:rank], shapes[operation.data][0]), *box[rank:])
            case _:
                for name in operands(operation):
                    yield name, box if shapes[name] == operation.shape else whole_box(shapes[name])


def _broadcast(box: Box, shape: Shape) -> Box:
    """Return the box of an operand that is broadcast: its axes are aligned at the right."""
    own = box[len(box) - len(shape) :]
    return tuple((0, 1) if size == 1 else sides for sides, size in zip(own, shape, strict=True))


def _of_contraction(contraction: Contraction, box: Box, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Box]]:
    """Yield the operands of the points that write into a box, as further constraints of the contraction."""
    if contraction.default is not None:
        yield contraction.default, box
    inside = [
        (polynomial - Affine.constant(low), high - low)
        for polynomial, (low, high) in zip(contraction.output, box, strict=True)
        if polynomial.indices
    ]
    if any(
        not p.indices and not low <= p.offset < high for p, (low, high) in zip(contraction.output, box, strict=True)
    ):
        return
    accesses = [contraction.output, *(access.indices for access in contraction.inputs)]
    sizes = [contraction.shape, *(shapes[access.tensor] for access in contraction.inputs)]
    constraints = [(each.polynomial, each.bound) for each in contraction.constraints]
    domain = solve(accesses, sizes, [*constraints, *inside])
    if domain is None:
        return
    last = {name: extent - 1 for name, extent in domain.ranges}
    for access, polynomials in zip(contraction.inputs, domain.accesses[1:], strict=True):
        shape = shapes[access.tensor]
        yield access.tensor, tuple(_interval(p, last, size) for p, size in zip(polynomials, shape, strict=True))


def _interval(polynomial: Affine, last: Mapping[str, int], size: int) -> tuple[int, int]:
    """Return the values of a polynomial over a box of indices, each from 0 to its last value, within an axis.

    The box may have points that the contraction lacks: with skewed indices they lie outside of the tensor.
    """
    ends = [factor * last.get(name, 0) for name, factor in polynomial.terms]
    low = polynomial.offset + sum(min(end, 0) for end in ends)
    high = polynomial.offset + sum(max(end, 0) for end in ends)
    return max(0, int(low)), min(size, int(high) + 1)


def _reshaped(box: Box, shape: Shape, source: Shape) -> Box:
    """Return the box of a value before its reshape: the elements between the first and the last in memory."""
    if [size for size in shape if size != 1] == [size for size in source if size != 1]:
        sides = iter([side for side, size in zip(box, shape, strict=True) if size != 1])
        return tuple((0, 1) if size == 1 else next(sides) for size in source)
    first = np.ravel_multi_index([low for low, _ in box], shape) if shape else 0
    last = np.ravel_multi_index([high - 1 for _, high in box], shape) if shape else 0
    found: list[tuple[int, int]] = []
    for axis in range(len(source)):
        below = prod(source[axis + 1 :])
        low, high = int(first) // below, int(last) // below
        found.append(
            (low % source[axis], high % source[axis] + 1)
            if low // source[axis] == high // source[axis]
            else (0, source[axis])
        )
    return tuple(found)


@attrs.define(eq=False, repr=False)
class _Known:
    """Values that do not depend on inputs, computed where they choose elements."""

    function: Function
    values: dict[str, np.ndarray[Any, Any] | None] = attrs.field(factory=dict, init=False)

    def range_of(self, gather: Gather, box: Box, size: int) -> tuple[int, int]:
        """Return the elements along the first axis of its data that a gather chooses."""
        name = gather.indices
        if name not in self.values:
            self.values[name] = self._computed(name)
        chosen = self.values[name]
        if chosen is None:
            return 0, size
        part = np.clip(chosen[tuple(slice(*sides) for sides in box)], 0, size - 1)
        return int(part.min()), int(part.max()) + 1

    def _computed(self, name: str) -> np.ndarray[Any, Any] | None:
        definitions = {each.name: each for each in self.function.operations}
        inputs = {each.name for each in self.function.inputs}
        made = reached((name,), lambda each: () if each in inputs else operands(definitions[each]))
        if not inputs.isdisjoint(made) or any(prod(definitions[each].shape) > MOST_KNOWN for each in made):
            return None
        part = tuple(each for each in self.function.operations if each.name in made)
        return np.asarray(interpret(Function((), (name,), part), {})[name])


def _of_loop(
    loop: Scan, boxes: tuple[Box, ...], shapes: Mapping[str, Shape], steps: Steps | None
) -> Iterator[tuple[str, Box]]:
    """Yield the operands of a loop: backwards from its last step, where only its last values are wanted."""
    if not boxes:
        return
    if loop.result.part is not ScanPart.FINAL or loop.sequences or loop.count is None:
        for name in operands(loop):
            yield name, whole_box(shapes[name])
        return
    parameters = [value.name for value in loop.body.inputs]
    carries = len(loop.carries)
    wanted: list[tuple[Box, ...]] = [boxes if number == loop.result.number else () for number in range(carries)]
    for _ in range(loop.count):
        outputs = dict(zip(loop.body.outputs, wanted, strict=False))
        read = _read(loop.body, {name: each for name, each in outputs.items() if each}, steps)
        for name, parameter in zip(loop.constants, parameters[carries:], strict=True):
            yield from ((name, box) for box in read.get(parameter, ()))
        before = wanted
        wanted = [read.get(parameter, ()) for parameter in parameters[:carries]]
        if wanted == before:
            break
    for name, found in zip(loop.carries, wanted, strict=True):
        yield from ((name, box) for box in found)


def _joined(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Return boxes without those inside others; the box around all where there are too many."""
    kept: list[Box] = []
    for box in boxes:
        if any(holds(other, box) for other in kept):
            continue
        kept = [other for other in kept if not holds(box, other)]
        kept.append(box)
    return tuple(sorted(kept)) if len(kept) <= MOST_BOXES else (hull(kept),)


def hull(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around one or more boxes."""
    return tuple((min(low for low, _ in sides), max(high for _, high in sides)) for sides in zip(*boxes, strict=True))


Pair: TypeAlias = tuple[int, int]

_SPARE: Final = 16
"""A reach that leaves fewer rows or columns than these counts as the whole picture."""

_SHIFTS: Final = ((1, 2), (7, 5))
"""Shifts in rows and columns from the middle to the places compared with it: no period divides all of either.

They stay inside of pictures of ``_SPARE`` rows and columns.
"""


@attrs.frozen
class Reach:
    """Rows that are read above and below the place of an element, and columns left and right of it."""

    above: int
    below: int
    left: int
    right: int


def reach_of(function: Function, pictures: Sequence[str]) -> Reach | None:
    """Return how far a function reads around the place of each element of its results.

    Args:
        function: Prepared or not.
        pictures: Inputs whose first two axes are the rows and columns of the results.

    Returns:
        None where results have other sizes, where an element depends on its place, or where it may depend on elements
            anywhere.
    """
    shapes = {each.name: each.shape for each in (*function.inputs, *function.operations)}
    sizes = {shapes[name][:2] for name in (*pictures, *function.outputs)}
    if len(sizes) != 1 or any(len(shapes[name]) != 3 for name in function.outputs):
        return None
    rows, columns = sizes.pop()
    if min(rows, columns) < _SPARE or _knows_places(function, min(rows, columns)):
        return None
    middle = (rows // 2, columns // 2)
    here, spans = _around(function, pictures, middle)
    for shift in _SHIFTS:
        there, spans_there = _around(function, pictures, (middle[0] + shift[0], middle[1] + shift[1]))
        if spans_there != spans or not _alike(here, there, shift, pictures):
            return None
    for end in ((0, 0), (rows - 1, columns - 1)):
        spans = spans | _around(function, pictures, end)[1]
    above, left = (max(0, -min((box[axis][0] for box in spans), default=0)) for axis in range(2))
    below, right = (max(0, max((box[axis][1] for box in spans), default=1) - 1) for axis in range(2))
    whole = above + below + _SPARE > rows or left + right + _SPARE > columns
    return None if whole else Reach(above, below, left, right)


def _knows_places(function: Function, size: int) -> bool:
    """Return whether a coordinate along a long axis, the rows or columns of pictures, is computed."""
    for operation in function.operations:
        if isinstance(operation, Coordinate) and operation.shape[operation.axis] >= size:
            return True
        if isinstance(operation, Scan) and _knows_places(operation.body, size):
            return True
    return False


def _around(function: Function, pictures: Sequence[str], place: Pair) -> tuple[Steps, frozenset[Box]]:
    """Return the operands of all operations for all channels of a place, and the rows and columns read around it."""
    row, column = place
    shapes = {each.name: each.shape for each in function.operations}
    steps: Steps = []
    spans: set[Box] = set()
    for output in function.outputs:
        box = ((row, row + 1), (column, column + 1), (0, shapes[output][2]))
        for name, boxes in footprint(function, output, box, steps).items():
            if name in pictures:
                spans.update(
                    tuple((low - start, high - start) for (low, high), start in zip(each, place, strict=False))
                    for each in boxes
                )
    return steps, frozenset(spans)


def _alike(here: Steps, there: Steps, shift: Pair, pictures: Sequence[str]) -> bool:
    """Return whether the boxes of all operations are equal, moved by a shift, or not moved at all.

    Every step is compared, since a box of the inputs can hide a dependence on the place among its neighbours.
    """
    if [name for name, _ in here] != [name for name, _ in there]:
        return False
    for (name, box), (_, moved) in zip(here, there, strict=True):
        by = [now[0] - before[0] for before, now in zip(box, moved, strict=True)]
        if by != [now[1] - before[1] for before, now in zip(box, moved, strict=True)]:
            return False
        if not set(by) <= {0, *shift} or (name in pictures and tuple(by[:2]) != shift):
            return False
    return True
