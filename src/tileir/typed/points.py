"""The valid points of a contraction, found by trying all candidates: the definition in a form that can run.

A valid point binds every index to an integer such that each access polynomial is an integer inside its axis, and each
constraint polynomial an integer in ``[0, bound)``. The candidates come from linear algebra alone: of all
polynomials, as many independent ones are chosen as there are indices. Each takes finitely many values at
valid points, and each choice of such values gives one candidate.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm, prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    total = prod(form.count for form in basis.forms)
    for start in range(0, total, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, total))
        point, valid = _candidates(basis, numbers, dtype)
        columns = []
        for form in forms:
            value = sum((c * x for c, x in zip(form.coefficients, point, strict=True) if c != 0), np.array(form.offset))
            column = np.broadcast_to(value // form.step, numbers.shape)
            valid = valid & (value % form.step == 0) & (column >= 0) & (column < form.count)
            columns.append(column)
        kept = np.flatnonzero(valid)
        yield tuple(_elements(columns, shapes, kept))


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


def _candidates(basis: _Basis, numbers: Column, dtype: np.dtype[Any]) -> tuple[list[Column], Column]:
    """Return the points that candidates of these numbers stand for, and which of them are integral."""
    deviations = []
    for form in reversed(basis.forms):
        numbers, digit = np.divmod(numbers, form.count)
        deviations.append(digit.astype(dtype) * form.step - form.offset)
    deviations.reverse()
    valid = np.ones(numbers.shape, np.bool_)
    point = []
    for row in basis.rows:
        value = sum((c * d for c, d in zip(row, deviations, strict=True) if c != 0), np.zeros((), dtype))
        valid &= np.asarray(value % basis.divisor == 0, np.bool_)
        point.append(value // basis.divisor)
    return point, valid


def _elements(columns: Sequence[Column], shapes: Sequence[Sequence[int]], kept: Column) -> Iterator[Column]:
    """Turn coordinates into row-major element numbers, tensor by tensor."""
    position = 0
    for shape in shapes:
        number = np.zeros(kept.shape, np.int64)
        for extent in shape:
            number = number * extent + columns[position][kept].astype(np.int64)
            position += 1
        yield number
