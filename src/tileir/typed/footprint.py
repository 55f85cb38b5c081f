"""Which elements of its inputs a function reads for some elements of a result: boxes, found backwards.

What is found holds all elements that are read; it may hold more where an element is chosen by data, where indices of
an access depend on each other, or where there are very many boxes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from tileir.core.errors import fail
from tileir.core.text.names import nearest
from tileir.poly.affine import Affine
from tileir.poly.bounds import solve
from tileir.typed.interpreter import interpret
from tileir.typed.ir import (
    Argsort,
    Contraction,
    Elementwise,
    Function,
    Gather,
    Reshape,
    Scan,
    ScanPart,
    operands,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tileir.typed.ir import Operation, Shape

Box: TypeAlias = tuple[tuple[int, int], ...]
"""For each axis the first element, and the one after the last."""

MOST_BOXES: Final = 32
"""Of one value: more become the box around all of them."""

MOST_KNOWN: Final = 1 << 20
"""Elements of a value that is computed to find out which elements it chooses."""


Steps: TypeAlias = "list[tuple[str, Box]]"
"""What operations read, one after the other: the names of their operands, and one box of each."""


def footprint(function: Function, output: str, box: Box, steps: Steps | None = None) -> dict[str, tuple[Box, ...]]:
    """Return which elements of the inputs are read for a box of elements of a result.

    Args:
        function: Prepared or not.
        output: The name of a result.
        box: Elements of it; not empty.
        steps: Where to note what each operation reads. There is one box of each value then, which is found faster.

    Returns:
        Boxes by the names of inputs; inputs of which nothing is read are left out.

    Raises:
        TileError: TIL311, there is no such result; TIL314, it has no such elements.

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
    """Return the boxes of every value that is read for those of some."""
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
    """Yield which boxes of its operands an operation reads for those of its value."""
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
                    yield name, box if shapes[name] == operation.shape else _whole(shapes[name])


def _whole(shape: Shape) -> Box:
    return tuple((0, size) for size in shape)


def _broadcast(box: Box, shape: Shape) -> Box:
    """Return the box of an operand that is broadcast: its axes are aligned at the right."""
    own = box[len(box) - len(shape) :]
    return tuple((0, 1) if size == 1 else sides for sides, size in zip(own, shape, strict=True))


def _of_contraction(contraction: Contraction, box: Box, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Box]]:
    """Yield what the points that write into a box read: those of the contraction under further constraints."""
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

    The box may have points that the contraction has not: of skewed indices they lie outside of the tensor.
    """
    ends = [factor * last.get(name, 0) for name, factor in polynomial.terms]
    low = polynomial.offset + sum(min(end, 0) for end in ends)
    high = polynomial.offset + sum(max(end, 0) for end in ends)
    return max(0, int(low)), min(size, int(high) + 1)


def _reshaped(box: Box, shape: Shape, source: Shape) -> Box:
    """Return the elements of a value before it was reshaped: those between the first and the last in memory."""
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


@attrs.define(repr=False)
class _Known:
    """Values that do not depend on inputs, computed where they choose elements."""

    function: Function
    values: dict[str, np.ndarray[Any, Any] | None] = attrs.field(factory=dict, init=False)

    def range_of(self, gather: Gather, box: Box, size: int) -> tuple[int, int]:
        """Return which elements along the first axis of its data a gather chooses."""
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
        reached: dict[str, None] = {}
        pending = [name]
        while pending:
            each = pending.pop()
            if each in inputs:
                return None
            if each not in reached:
                reached[each] = None
                pending.extend(operands(definitions[each]))
        if any(prod(definitions[each].shape) > MOST_KNOWN for each in reached):
            return None
        part = tuple(each for each in self.function.operations if each.name in reached)
        return np.asarray(interpret(Function((), (name,), part), {})[name])


def _of_loop(
    loop: Scan, boxes: tuple[Box, ...], shapes: Mapping[str, Shape], steps: Steps | None
) -> Iterator[tuple[str, Box]]:
    """Yield what a loop reads: step by step from the last one, where only its last values are wanted."""
    if not boxes:
        return
    if loop.result.part is not ScanPart.FINAL or loop.sequences:
        for name in operands(loop):
            yield name, _whole(shapes[name])
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
    """Return boxes without those that others hold; the box around them where there are too many."""
    kept: list[Box] = []
    for box in boxes:
        if any(_holds(other, box) for other in kept):
            continue
        kept = [other for other in kept if not _holds(box, other)]
        kept.append(box)
    return tuple(sorted(kept)) if len(kept) <= MOST_BOXES else (hull(kept),)


def _holds(outer: Box, inner: Box) -> bool:
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def hull(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around some, of which there is one at least."""
    return tuple((min(low for low, _ in sides), max(high for _, high in sides)) for sides in zip(*boxes, strict=True))
