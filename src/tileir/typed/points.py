"""The valid points of a contraction, found by trying all candidates: the definition in a form that can run.

A valid point binds every index to an integer such that each access polynomial is an integer inside its axis, and each
constraint polynomial an integer in ``[0, bound)``. The candidates come from linear algebra alone: of all
polynomials, as many independent ones are chosen as there are indices. Each takes finitely many values at
valid points, and each choice of such values gives one candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import lcm, prod
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine

Column: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_CHUNK: Final = 1 << 17
_SAFE: Final = 1 << 62


@attrs.frozen(repr=False)
class _Form:
    """``coefficients · point + offset``, at every valid point ``step`` times an integer in ``[0, count)``."""

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
    """Yield all candidates in chunks, as what the values of the forms are without their offsets.

    Of the last forms each has an axis of its own, so that what depends on few of them is computed for few numbers;
    those before, which have one value each, or too many candidates together for one chunk, share the first axis. So
    there are never more axes than NumPy allows.
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
    """Return the form that is ``polynomial`` times the common denominator of its coefficients and offset."""
    exact = [Fraction(polynomial.coefficient(name)) for name in names]
    offset = Fraction(polynomial.offset)
    scale = lcm(offset.denominator, *(c.denominator for c in exact))
    return _Form(tuple(int(c * scale) for c in exact), int(offset * scale), scale, count)


def _basis(forms: Sequence[_Form], rank: int) -> _Basis:
    """Choose independent forms, those of few values first, and invert their matrix by Gauss's and Jordan's method."""
    chosen: list[_Form] = []
    # A row is a form's coefficients, then those of the chosen forms that it is made of.
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
    """Return a bound of all numbers that the search computes."""
    widths = [form.step * form.count + abs(form.offset) for form in basis.forms]
    point = [sum(abs(c) * width for c, width in zip(row, widths, strict=True)) for row in basis.rows]
    return max(
        (abs(f.offset) + sum(abs(c) * x for c, x in zip(f.coefficients, point, strict=True)) for f in forms),
        default=0,
    )


def _candidates(basis: _Basis, deviations: Sequence[Column]) -> tuple[list[Column], Column | bool]:
    """Return the points that candidates stand for, and which of them are integral."""
    valid: Column | bool = True
    point = []
    for row in basis.rows:
        value = sum((c * d for c, d in zip(row, deviations, strict=True) if c != 0), np.zeros((), np.int64))
        quotient, integral = _quotient(value, basis.divisor)
        valid = valid & integral
        point.append(quotient)
    return point, valid


def _quotient(values: Column, divisor: int) -> tuple[Column, Column | bool]:
    """Divide, and tell where nothing remains; by one, as most often, at no cost."""
    if divisor == 1:
        return values, True
    quotient = values // divisor
    return quotient, np.asarray(quotient * divisor == values, np.bool_)


def _elements(
    columns: Sequence[Column], shapes: Sequence[Sequence[int]], points: tuple[int, ...], kept: Column | None
) -> Iterator[Column]:
    """Turn coordinates into row-major element numbers, tensor by tensor, of all points or of those that are kept."""
    position = 0
    for shape in shapes:
        number = np.zeros((), np.int64)
        for extent in shape:
            inside = np.minimum(np.maximum(columns[position], 0), extent - 1)  # what is not kept might overflow
            number = number * extent + inside.astype(np.int64)
            position += 1
        every = np.broadcast_to(number, points).reshape(-1)
        yield every if kept is None else every[kept]
