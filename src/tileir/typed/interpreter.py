"""Interpreter of typed functions: the oracle for all later stages.

Contractions follow the definition and share nothing with :mod:`tileir.poly.bounds`: all candidate points are enumerated
and tested.

A valid point binds every index to an integer such that each access polynomial is an integer within its axis, and each
constraint polynomial an integer in ``[0, bound)``. The candidates come from linear algebra alone: as many independent
polynomials are chosen as there are indices. Each takes finitely many values at valid points, and each choice of values
gives one candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm, prod
from typing import Any, Final, TypeAlias, assert_never

import numpy as np

from tileir.core import ArgumentError, Combination, Diagnostic, DType, Op, attrs
from tileir.core.combines import reduce_elements
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.poly.affine import Affine
from tileir.typed.dataflow import loop_of, result_type, results_of
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
    ScanPart,
    ScanResult,
    Scatter,
    ShapeOf,
    TensorType,
    Upstream,
)
from tileir.typed.reductions import positions_in

Column: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_CHUNK: Final = 1 << 17
_SAFE: Final = 1 << 62


@attrs.frozen(repr=False)
class _Form:
    """A form ``coefficients · point + offset``: at valid points, ``step`` times an integer in ``[0, count)``."""

    coefficients: tuple[int, ...]
    offset: int
    step: int
    count: int


@attrs.frozen(repr=False)
class _Basis:
    """Independent forms that determine a point: ``point = rows · (values - offsets) / divisor``."""

    forms: tuple[_Form, ...]
    rows: tuple[tuple[int, ...], ...]
    divisor: int


def valid_points(
    accesses: Sequence[Sequence[Affine]],
    shapes: Sequence[Sequence[int]],
    constraints: Sequence[tuple[Affine, int]] = (),
) -> Iterator[tuple[Column, ...]]:
    """Yield the valid points in chunks: for each tensor, the row-major numbers of the elements that they access.

    Raises:
        ValueError: Some index has no bounds.

    """
    polynomials = [p for access in accesses for p in access]
    names = sorted({i for p in (*polynomials, *(p for p, _ in constraints)) for i in p.indices})
    extents = [extent for shape in shapes for extent in shape]
    conditions = [*zip(polynomials, extents, strict=True), *constraints]
    forms = [_form(polynomial, names, bound) for polynomial, bound in conditions]
    basis = _basis(forms, len(names))
    if any(form.count <= 0 for form in forms):
        return
    dtype = np.dtype(np.int64 if _reach(basis, forms) < _SAFE else object)
    for deviations in _deviations(basis.forms, dtype):
        points = np.broadcast_shapes(*(each.shape for each in deviations))
        point, valid = _candidates(basis, deviations)
        columns = []
        for form in forms:
            value = sum((c * x for c, x in zip(form.coefficients, point, strict=True) if c != 0), np.array(form.offset))
            column, integral = _quotient(value, form.step)
            valid = valid & integral & (column >= 0) & (column < form.count)
            columns.append(column)
        kept = None if np.all(valid) else np.flatnonzero(np.broadcast_to(valid, points))
        yield tuple(_elements(columns, shapes, points, kept))


def _deviations(forms: Sequence[_Form], dtype: np.dtype[Any]) -> Iterator[tuple[Column, ...]]:
    """Yield the values of the forms at all candidates, without their offsets, in chunks.

    Each of the last forms has an axis of its own, so that expressions of few forms are computed for few numbers.
    Earlier forms, which have one value or would exceed a chunk, share the first axis. This bounds the number of axes,
    as NumPy requires.
    """
    inner, points = len(forms), 1
    while inner and forms[inner - 1].count > 1 and points * forms[inner - 1].count <= _CHUNK:
        inner -= 1
        points *= forms[inner].count
    axes = len(forms) - inner
    own = [
        np.arange(form.count).reshape(-1, *[1] * (axes - axis - 1)).astype(dtype) * form.step - form.offset
        for axis, form in enumerate(forms[inner:])
    ]
    total = prod(form.count for form in forms[:inner])
    length = max(1, _CHUNK // points)
    for start in range(0, total, length):
        numbers = np.arange(start, min(start + length, total)).reshape(-1, *[1] * axes)
        shared = []
        for form in reversed(forms[:inner]):
            rest = numbers // form.count
            shared.append((numbers - rest * form.count).astype(dtype) * form.step - form.offset)
            numbers = rest
        yield *reversed(shared), *own


def _form(polynomial: Affine, names: Sequence[str], count: int) -> _Form:
    """Return ``polynomial`` times the common denominator of its coefficients and offset, as a form."""
    exact = [Fraction(polynomial.coefficient(name)) for name in names]
    offset = Fraction(polynomial.offset)
    scale = lcm(offset.denominator, *(c.denominator for c in exact))
    return _Form(tuple(int(c * scale) for c in exact), int(offset * scale), scale, count)


def _basis(forms: Sequence[_Form], rank: int) -> _Basis:
    """Choose independent forms, preferring forms of few values, and invert their matrix by Gauss-Jordan elimination."""
    chosen: list[_Form] = []
    # A row consists of a form's coefficients and those of the chosen forms in its linear combination.
    reduced: list[tuple[int, list[Fraction]]] = []
    for form in sorted(forms, key=lambda form: form.count):
        if len(chosen) == rank:
            break
        unit = [Fraction(int(k == len(chosen))) for k in range(rank)]
        row = [*map(Fraction, form.coefficients), *unit]
        for pivot, other in reduced:
            row = _less(row, other, row[pivot])
        lead = next((k for k in range(rank) if row[k] != 0), None)
        if lead is None:
            continue
        row = [x / row[lead] for x in row]
        reduced = [(pivot, _less(other, row, other[lead])) for pivot, other in reduced]
        reduced.append((lead, row))
        chosen.append(form)
    if len(chosen) < rank:
        raise ValueError("some index has no bounds")
    inverse = [row[rank:] for _, row in sorted(reduced, key=lambda entry: entry[0])]
    divisor = lcm(*(x.denominator for row in inverse for x in row))
    return _Basis(tuple(chosen), tuple(tuple(int(x * divisor) for x in row) for row in inverse), divisor)


def _less(row: list[Fraction], other: list[Fraction], factor: Fraction) -> list[Fraction]:
    return [x - factor * y for x, y in zip(row, other, strict=True)] if factor != 0 else row


def _reach(basis: _Basis, forms: Sequence[_Form]) -> int:
    """Return a bound of the absolute values of all numbers in the search."""
    widths = [form.step * form.count + abs(form.offset) for form in basis.forms]
    point = [sum(abs(c) * width for c, width in zip(row, widths, strict=True)) for row in basis.rows]
    return max(
        (abs(f.offset) + sum(abs(c) * x for c, x in zip(f.coefficients, point, strict=True)) for f in forms),
        default=0,
    )


def _candidates(basis: _Basis, deviations: Sequence[Column]) -> tuple[list[Column], Column | bool]:
    """Return the points of candidates, and a mask of the integral points."""
    valid: Column | bool = True
    point = []
    for row in basis.rows:
        value = sum((c * d for c, d in zip(row, deviations, strict=True) if c != 0), np.zeros((), np.int64))
        quotient, integral = _quotient(value, basis.divisor)
        valid = valid & integral
        point.append(quotient)
    return point, valid


def _quotient(values: Column, divisor: int) -> tuple[Column, Column | bool]:
    """Divide, and return a mask of exact quotients; division by 1, the most frequent case, is free."""
    if divisor == 1:
        return values, True
    quotient = values // divisor
    return quotient, np.asarray(quotient * divisor == values, np.bool_)


def _elements(
    columns: Sequence[Column], shapes: Sequence[Sequence[int]], points: tuple[int, ...], kept: Column | None
) -> Iterator[Column]:
    """Turn coordinates into row-major element numbers, tensor by tensor, of all points or of those in ``kept``."""
    position = 0
    for shape in shapes:
        number = np.zeros((), np.int64)
        for extent in shape:
            inside = np.minimum(np.maximum(columns[position], 0), extent - 1)  # points that are not kept might overflow
            number = number * extent + inside.astype(np.int64)
            position += 1
        every = np.broadcast_to(number, points).reshape(-1)
        yield every if kept is None else every[kept]


Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def interpret(function: Function, inputs: Mapping[str, Array], *, numbers: NumberSystem = REAL) -> dict[str, Array]:
    """Return the outputs of ``function`` by name, in its order.

    Args:
        function: The function to run.
        inputs: An array for each parameter, of its shape and of the storage dtype of ``numbers``.
        numbers: The number system of the computation.

    Raises:
        ArgumentError: TIL701, an input is missing, or has another dtype or shape than its parameter.
    """
    faults = tuple(_faults(function, inputs, numbers))
    if faults:
        raise ArgumentError(faults)
    return _run(function, {value.name: np.asarray(inputs[value.name]) for value in function.inputs}, numbers)


def _run(function: Function, values: dict[str, Array], numbers: NumberSystem) -> dict[str, Array]:
    """Evaluate all operations into ``values``, and return the outputs; a loop runs once for all of its results."""
    loops: dict[Scan, Mapping[ScanResult, Array]] = {}
    dtypes = {each.name: each.dtype for each in (*function.inputs, *function.operations)}
    for operation in function.operations:
        values[operation.name] = _evaluate(operation, values, loops, dtypes, numbers)
    return {name: values[name] for name in function.outputs}


def _loop(scan: Scan, values: Mapping[str, Array], numbers: NumberSystem) -> dict[ScanResult, Array]:
    """Run all steps of a loop, and return all of its results."""
    body = scan.body
    names = [value.name for value in body.inputs]
    state = [values[name] for name in scan.carries]
    if scan.count is None:
        return _while(scan, state, values, numbers)
    kinds = {result: result_type(body, len(state), scan.count, result) for result in results_of(body, len(state))}
    results = {result: np.zeros(kind.shape, numbers.storage(kind.dtype)) for result, kind in kinds.items()}
    for step in reversed(range(scan.count)) if scan.reverse else range(scan.count):
        for number, value in enumerate(state):
            results[ScanResult(ScanPart.HISTORY, number)][step] = value
        slices = [values[name][step] for name in scan.sequences]
        constants = [values[name] for name in scan.constants]
        made = list(_run(body, dict(zip(names, (*state, *slices, *constants), strict=True)), numbers).values())
        state = made[: len(state)]
        for number, value in enumerate(made[len(state) :]):
            results[ScanResult(ScanPart.OUTPUT, number)][step] = value
    results.update((ScanResult(ScanPart.FINAL, number), value) for number, value in enumerate(state))
    return results


def _while(
    scan: Scan, state: list[Array], values: Mapping[str, Array], numbers: NumberSystem
) -> dict[ScanResult, Array]:
    """Run steps as long as the first carry is true, and return the last carries."""
    names = [value.name for value in scan.body.inputs]
    constants = [values[name] for name in scan.constants]
    while bool(state[0]):
        state = list(_run(scan.body, dict(zip(names, (*state, *constants), strict=True)), numbers).values())
    return {ScanResult(ScanPart.FINAL, number): value for number, value in enumerate(state)}


def _faults(function: Function, inputs: Mapping[str, Array], numbers: NumberSystem) -> Iterator[Diagnostic]:
    for value in function.inputs:
        given = inputs.get(value.name)
        if given is None:
            yield Diagnostic("TIL701", f"input {value.name!r} has no array", value.span)
        elif given.dtype != numbers.storage(value.dtype) or given.shape != value.shape:
            type_ = TensorType(value.dtype, value.shape)
            message = f"input {value.name!r} is {given.dtype}{list(given.shape)}, but its parameter is {type_}"
            yield Diagnostic("TIL701", message, value.span)


def _evaluate(
    operation: Operation,
    values: Mapping[str, Array],
    loops: dict[Scan, Mapping[ScanResult, Array]],
    dtypes: Mapping[str, DType],
    numbers: NumberSystem,
) -> Array:
    match operation:
        case Constant(dtype=dtype, value=value):
            return numbers.constant(value, dtype)
        case Elementwise(op=op, inputs=names, dtype=dtype, shape=shape):
            return np.broadcast_to(numbers.apply(op, dtype, *(values[name] for name in names)), shape)
        case Cast(input=name, dtype=dtype):
            return numbers.cast(values[name], dtype)
        case Coordinate(axis=axis, dtype=dtype, shape=shape):
            along = [1] * len(shape)
            along[axis] = shape[axis]
            return np.broadcast_to(np.arange(shape[axis], dtype=dtype.numpy).reshape(along), shape)
        case ShapeOf(dims=dims, dtype=dtype):
            return np.array(dims, dtype.numpy)
        case ArrayConstant(value=value):
            return numbers.encoded(value.numpy())
        case Reshape(input=name, shape=shape):
            return values[name].reshape(shape)
        case Argsort(input=name, axis=axis, descending=descending, dtype=dtype, shape=shape):
            places = numbers.order(values[name], axis, descending=descending)
            return places.take(range(shape[axis]), axis).astype(dtype.numpy)
        case Gather(data=data, indices=indices):
            return _gather(values[data], values[indices])
        case Scatter():
            return _scatter(operation, values, numbers)
        case Contraction():
            return _contract(operation, values, numbers)
        case Reduce(input=name):
            return _reduce(operation, values[name], dtypes[name], numbers)
        case Override(input=name) | Checkpoint(input=name) | Recall(input=name) | Collective(input=name):
            return values[name]
        case Upstream(dtype=dtype, shape=shape):
            return np.broadcast_to(np.zeros((), numbers.storage(dtype)), shape)
        case Scan():
            return _of_loop(operation, values, loops, numbers)
        case _:
            assert_never(operation)


def _of_loop(
    operation: Scan, values: Mapping[str, Array], loops: dict[Scan, Mapping[ScanResult, Array]], numbers: NumberSystem
) -> Array:
    """Return one result of a loop, which runs once for all of them."""
    loop = loop_of(operation)
    if loop not in loops:
        loops[loop] = _loop(operation, values, numbers)
    return loops[loop][operation.result]


def _gather(data: Array, indices: Array) -> Array:
    if indices.size == 0 or data.size == 0:
        return np.zeros(indices.shape + data.shape[1:], data.dtype)
    return np.asarray(data[np.clip(indices, 0, data.shape[0] - 1)])


def _scatter(operation: Scatter, values: Mapping[str, Array], numbers: NumberSystem) -> Array:
    updates, indices, how = values[operation.updates], values[operation.indices], operation.aggregation
    identity = numbers.constant(how.identity(operation.accumulator), operation.accumulator)
    out = np.full(operation.shape, identity, numbers.storage(operation.accumulator))
    if operation.into is not None:
        out[...] = values[operation.into]
    if updates.size > 0:
        rows = out.size // operation.shape[0]
        place = np.clip(indices, 0, operation.shape[0] - 1).astype(np.int64).reshape(-1, 1) * rows + np.arange(rows)
        terms = numbers.cast(updates, operation.accumulator).reshape(-1)
        numbers.merge_at(how, operation.accumulator, out.reshape(-1), place.reshape(-1), terms)
    return numbers.cast(out, operation.dtype)


def _contract(operation: Contraction, values: Mapping[str, Array], numbers: NumberSystem) -> Array:
    """Aggregate over the valid points; elements without points come from the default, or are 0."""
    inputs = [values[access.tensor] for access in operation.inputs]
    size = int(np.prod(operation.shape, dtype=np.int64))
    neutral = numbers.constant(operation.aggregation.identity(operation.accumulator), operation.accumulator)
    aggregate = np.full(size, neutral)
    written = np.zeros(size, np.bool_)
    accesses = [operation.output, *(access.indices for access in operation.inputs)]
    shapes = [operation.shape, *(array.shape for array in inputs)]
    constraints = [(c.polynomial, c.bound) for c in operation.constraints]
    for target, *sources in valid_points(accesses, shapes, constraints):
        elements = [array.reshape(-1)[place] for array, place in zip(inputs, sources, strict=True)]
        combined = numbers.cast(_combine(operation, elements, numbers), operation.accumulator)
        numbers.merge_at(operation.aggregation, operation.accumulator, aggregate, target, combined)
        written[target] = True
    result = numbers.cast(aggregate, operation.dtype)
    rest = np.zeros(size, result.dtype) if operation.default is None else values[operation.default].reshape(-1)
    return np.where(written, result, rest).reshape(operation.shape)


def _reduce(operation: Reduce, array: Array, dtype: DType, numbers: NumberSystem) -> Array:
    """Reduce the elements in row-major order of the axes, which are moved to the front."""
    sizes = tuple(array.shape[axis] for axis in operation.axes)
    count, counter = int(np.prod(sizes, dtype=np.int64)), positions_in(sizes)
    first = np.moveaxis(array, operation.axes, range(len(sizes))).reshape(count, *operation.shape)
    positions = np.arange(count, dtype=counter.numpy).reshape(count, *[1] * len(operation.shape))
    state = reduce_elements(operation.combine.rule(dtype, counter), first, positions, numbers)
    return np.asarray(state[operation.result])


def _combine(operation: Contraction, elements: list[Array], numbers: NumberSystem) -> Array:
    operand = operation.operand_dtype
    match operation.combination:
        case Combination.NONE:
            return elements[0]
        case Combination.ADD:
            return numbers.apply(Op.ADD, operand, *(numbers.cast(e, operand) for e in elements))
        case Combination.MUL:
            return numbers.apply(Op.MUL, operand, *(numbers.cast(e, operand) for e in elements))
        case Combination.EQ:
            return numbers.apply(Op.CMP_EQ, DType.BOOL, *(numbers.cast(e, operand) for e in elements))
        case Combination.COND:
            same = numbers.apply(Op.CMP_EQ, DType.BOOL, *(numbers.cast(e, operand) for e in elements[:2]))
            return np.where(same, elements[2], np.zeros_like(elements[2]))
        case _:
            assert_never(operation.combination)
