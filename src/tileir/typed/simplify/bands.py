"""Masks that depend on no input, as comparisons of coordinates, which later stages understand.

Libraries compute the mask of causal attention by gathers, running sums and comparisons of positions, or keep it as an
array. Its elements are known when compiling. If the visible elements are a band of two axes, ``k <= q + after`` and ``q
<= k + before``, comparisons of coordinates replace the mask, and hidden elements need not be computed.

Masks that are added to scores hold 0 and minus infinity. ``x + where(t, 0, -inf)`` is ``where(t, x, -inf)`` unless x is
infinite or NaN, which ``finite`` excludes for sums of products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, NameScope, Op, attrs
from tileir.poly.affine import Affine
from tileir.typed.dataflow import with_bodies, without_dead
from tileir.typed.ir import (
    ArrayConstant,
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Reshape,
    ShapeOf,
    Value,
    operands,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MOST: Final = 1 << 26
"""Greatest number of elements computed when compiling, over all steps that lead to masks."""

_FIRST: Final = 64
"""Elements of which weights nearly always have more than two values, so that the others need not be read."""

_PLAIN: Final = (Constant, Coordinate, Elementwise, Cast)
"""Operations that later stages can analyse."""

_KNOWN: Final = (*_PLAIN, ArrayConstant, Contraction, Gather, Reshape, ShapeOf)


@attrs.frozen
class Band:
    """A band of two axes of a tensor, with one value inside and another one outside.

    Attributes:
        rows: The number of an axis.
        columns: The number of a later axis.
        before: The greatest distance of a column before its row; None if unbounded.
        after: The greatest distance of a column after its row; None if unbounded.
        inside: The value in the band.
        outside: The value elsewhere.
    """

    rows: int
    columns: int
    before: int | None
    after: int | None
    inside: float
    outside: float


def with_bands(function: Function) -> Function:
    """Return ``function`` with comparisons of coordinates for masks that are bands; itself if there are none."""
    function = with_bodies(function, with_bands)
    bands = _bands(function)
    names = NameScope.of(value.name for value in (*function.inputs, *function.operations))
    definitions: dict[str, Value | Operation] = {value.name: value for value in function.inputs}
    operations: list[Operation] = []
    is_changed = bool(bands)
    for operation in function.operations:
        band = bands.get(operation.name)
        made = [_hidden(operation, definitions, names)] if band is None else [_compared(operation, band, names)]
        steps = [step for each in made for step in (each or (operation,))]
        is_changed = is_changed or steps[-1] is not operation
        operations += steps
        definitions.update((step.name, step) for step in steps)
    return without_dead(attrs.evolve(function, operations=tuple(operations))) if is_changed else function


def _bands(function: Function) -> dict[str, Band]:
    """Return the bands of masks that depend on no input and do not consist of plain operations already."""
    known: dict[str, Operation] = {}
    for operation in function.operations:
        if isinstance(operation, _KNOWN) and known.keys() >= {*operands(operation)}:
            known[operation.name] = operation
    read = {name for each in function.operations if each.name not in known for name in operands(each)}
    masks = [each for name, each in known.items() if name in read and _may_be_mask(each, known)]
    if not masks:
        return {}
    names = tuple(each.name for each in masks)
    values = _evaluated(without_dead(Function((), names, tuple(known.values()))))
    found = {name: band_of(values[name]) for name in names if name in values}
    return {name: band for name, band in found.items() if band is not None}


def _evaluated(function: Function) -> dict[str, Array]:
    """Return values by name, up to a total size; values have size 1 along axes along which they are constant."""
    from tileir.typed.interpreter import interpret  # few programs have masks

    values: dict[str, Array] = {}
    definitions = {each.name: each for each in function.operations}
    left = _MOST
    for operation in function.operations:
        sources = [definitions[name] for name in dict.fromkeys(operands(operation))]
        moved = _moved(operation, values, sources)
        if moved is None and not isinstance(operation, Elementwise | Cast | Coordinate):
            values.update((each.name, np.broadcast_to(values[each.name], each.shape)) for each in sources)
        elif moved is None:
            shapes = [values[each.name].shape for each in sources]
            small = np.broadcast_shapes(*shapes) if shapes else operation.shape
            operation = attrs.evolve(operation, shape=small)  # type: ignore[arg-type]  # one of those classes
        left -= 0 if moved is not None else _elements(operation)
        if left < 0:
            break
        if moved is None:
            inputs = tuple(Value(each.name, each.dtype, values[each.name].shape) for each in sources)
            given = {each.name: values[each.name] for each in inputs}
            moved = interpret(Function(inputs, (operation.name,), (operation,)), given)[operation.name]
        values[operation.name] = moved
    return values


def _moved(operation: Operation, values: Mapping[str, Array], sources: list[Operation]) -> Array | None:
    """Return the elements of an operation that repeats, permutes or adds axes of its operand; otherwise None."""
    match operation:
        case Reshape(input=name, shape=shape) if [n for n in sources[0].shape if n > 1] == [n for n in shape if n > 1]:
            kept = iter([n for n, whole in zip(values[name].shape, sources[0].shape, strict=True) if whole > 1])
            return values[name].reshape([next(kept) if size > 1 else 1 for size in shape])
        case Contraction(
            aggregation=Aggregation.ASSIGN, inputs=(access,), output=output, constraints=(), default=None, shape=shape
        ):
            array, whole = values[access.tensor], sources[0].shape
        case _:
            return None
    places = {each: axis for axis, each in enumerate(output) if each in map(Affine.index, each.indices)}
    read = [each for each, size in zip(access.indices, whole, strict=True) if size > 1 or each in places]
    sizes = [shape[places[each]] for each in read if each in places]
    known = [size for each, size in zip(access.indices, whole, strict=True) if size > 1 or each in places]
    if len(places) < len(output) or sizes != known or len({*read}) < len(read):
        return None
    gone = tuple(n for n, each in enumerate(access.indices) if each not in places)
    array = array.squeeze(gone).transpose(np.argsort([places[each] for each in read]))
    return np.expand_dims(array, sorted({*range(len(shape))} - {places[each] for each in read}))


def _may_be_mask(operation: Operation, known: Mapping[str, Operation]) -> bool:
    if sum(size > 1 for size in operation.shape) < 2 or not (operation.dtype.is_bool or operation.dtype.is_float):
        return False
    pending, seen = [operation], {operation.name}
    while pending:
        step = pending.pop()
        if not isinstance(step, _PLAIN):
            return True
        more = [known[name] for name in operands(step) if name not in seen]
        seen.update(each.name for each in more)
        pending += more
    return False


def _elements(operation: Operation) -> int:
    """Return the approximate number of elements read for a value."""
    count = math.prod(operation.shape)
    if not isinstance(operation, Contraction):
        return count
    free = {index for each in operation.output for index in each.indices}
    reduced = {i for access in operation.inputs for each in access.indices for i in each.indices} - free
    return count * math.prod([_bound(operation, index) for index in reduced])


def _bound(operation: Contraction, index: str) -> int:
    """Return the greatest number of values of an index; without a constraint on it, more than a mask may take."""
    bounds = [c.bound for c in operation.constraints if c.polynomial.indices == (index,)]
    return min(bounds, default=_MOST)


def band_of(array: Array) -> Band | None:
    """Return the band of an array of two values; the greater one is inside if both are bands."""
    if not array.size or len({*array.flat[:_FIRST].tolist()}) > 2:  # np.unique would load masked arrays
        return None
    low, high = array.min(), array.max()
    if low == high or not ((array == low) | (array == high)).all():
        return None
    inside = array == high
    varying = [a for a, size in enumerate(array.shape) if size > 1 and (inside != inside.take([0], a)).any()]
    if len(varying) != 2:
        return None
    rows, columns = varying
    plane = inside[tuple(slice(None) if axis in varying else 0 for axis in range(array.ndim))]
    for seen, (value, other) in ((plane, (high, low)), (~plane, (low, high))):
        bounds = _bounds(seen)
        if bounds is not None:
            return Band(rows, columns, *bounds, float(value), float(other))
    return None


def _bounds(seen: Array) -> tuple[int | None, int | None] | None:
    """Return the greatest distances of visible columns before and after their row; None if they are no band."""
    row, column = np.ogrid[: seen.shape[0], : seen.shape[1]]
    ahead = (column - row)[seen]
    first, last = int(ahead.min()), int(ahead.max())
    if not np.array_equal(seen, (column - row >= first) & (column - row <= last)):
        return None
    return None if -first >= seen.shape[0] - 1 else -first, None if last >= seen.shape[1] - 1 else last


def _compared(operation: Operation, band: Band, names: NameScope) -> list[Operation]:
    """Return comparisons of coordinates, and the values that they select."""
    shape, span, made = operation.shape, operation.span, []

    def add(step: Operation) -> str:
        made.append(step)
        return step.name

    def call(op: Op, *inputs: str, dtype: DType = DType.BOOL) -> str:
        return add(Elementwise(names.fresh(operation.name), op, inputs, dtype, shape, span=span))

    def number(value: float, dtype: DType) -> str:
        kind: type[bool] | type[int] | type[float] = bool if dtype.is_bool else float if dtype.is_float else int
        return add(Constant(names.fresh(operation.name), dtype, kind(value), span=span))

    places = [names.fresh(operation.name) for _ in range(2)]
    for place, axis in zip(places, (band.rows, band.columns), strict=True):
        add(Coordinate(place, axis, DType.I32, shape, span=span))
    row, column = places
    tests = []
    for least, most, reach in ((row, column, band.before), (column, row, band.after)):
        if reach is not None:
            bound = call(Op.ADD, most, number(reach, DType.I32), dtype=DType.I32) if reach else most
            tests.append(call(Op.CMP_LE, least, bound))
    if operation.dtype.is_bool and band.inside:
        last = Elementwise(operation.name, Op.BIT_AND, (tests[0], tests[-1]), operation.dtype, shape, span=span)
        return [*made, last] if len(tests) > 1 else [*made[:-1], attrs.evolve(made[-1], name=operation.name)]
    test = tests[0] if len(tests) < 2 else call(Op.BIT_AND, *tests)
    values = [number(value, operation.dtype) for value in (band.inside, band.outside)]
    made.append(Elementwise(operation.name, Op.COND, (test, *values), operation.dtype, shape, span=span))
    return made


def _hidden(
    operation: Operation, definitions: Mapping[str, Value | Operation], names: NameScope
) -> list[Operation] | None:
    """Return the selection that replaces a sum of scores and a mask, or the operand that a selection always takes."""
    match operation:
        case Elementwise(op=Op.COND, inputs=(always, taken, _)):
            is_taken = _is_always(definitions[always], definitions) and definitions[taken].shape == operation.shape
            return [attrs.evolve(operation, op=Op.IDENT, inputs=(taken,))] if is_taken else None
        case Elementwise(op=Op.ADD, inputs=(left, right)):
            pass
        case _:
            return None
    for scores, mask in ((left, right), (right, left)):
        test = _test_of(mask, definitions)
        if test is not None and _is_finite(scores, definitions):
            blind = Constant(names.fresh(operation.name), operation.dtype, -math.inf, span=operation.span)
            chosen = attrs.evolve(operation, op=Op.COND, inputs=(test, scores, blind.name))
            return [blind, chosen]
    return None


def _is_always(test: Value | Operation, definitions: Mapping[str, Value | Operation]) -> bool:
    """Return whether a test is always true: a coordinate is below the size of its axis or a greater number."""
    match test:
        case Elementwise(op=Op.CMP_LT, inputs=(left, right)):
            place, bound = definitions[left], _number(definitions[right])
            return isinstance(place, Coordinate) and bound is not None and bound >= place.shape[place.axis]
        case _:
            return False


def _test_of(mask: str, definitions: Mapping[str, Value | Operation]) -> str | None:
    """Return the test of a mask that is 0 where it is true, and minus infinity elsewhere."""
    found = definitions[mask]
    while isinstance(found, Cast) and found.dtype.is_float:
        found = definitions[found.input]
    match found:
        case Elementwise(op=Op.COND, inputs=(test, seen, other)):
            values = [_number(definitions[name]) for name in (seen, other)]
            return test if values == [0.0, -math.inf] else None
        case _:
            return None


def _number(value: Value | Operation) -> float | None:
    return float(value.value) if isinstance(value, Constant) else None


def _is_finite(name: str, definitions: Mapping[str, Value | Operation]) -> bool:
    """Return whether a value consists of sums under ``finite``, and is no greater than these."""
    value = definitions[name]
    while True:
        match value:
            case Contraction(finite=finite):
                return finite
            case Cast(input=name, dtype=dtype) if dtype.holds(definitions[name].dtype):
                value = definitions[name]
            case Reshape(input=name) | Elementwise(op=Op.IDENT, inputs=(name,)):
                value = definitions[name]
            case Elementwise(op=Op.MUL, inputs=(left, right)):
                factors = [_number(definitions[each]) for each in (left, right)]
                if all(factor is None or not abs(factor) <= 1.0 for factor in factors):
                    return False
                value = definitions[left if factors[0] is None else right]
            case Elementwise(op=Op.DIV, inputs=(left, right)):
                divisor = _number(definitions[right])
                if divisor is None or not abs(divisor) >= 1.0:
                    return False
                value = definitions[left]
            case _:
                return False
