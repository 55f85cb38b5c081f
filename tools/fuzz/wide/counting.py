"""Rows of results whose number elements decide."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.wide.row import ALL, Arguments, Array, Draw, Row


def padded(found: Array, size: int, fill: int, axis: int = 0) -> Array:
    """Return what was found with something behind it, so many along an axis."""
    widths = [(0, size - n if place == axis % found.ndim else 0) for place, n in enumerate(found.shape)]
    return np.pad(found, widths, constant_values=fill)


def positions(x: Array) -> tuple[Array, Array]:
    """Return where elements are not 0."""
    found = np.array(np.nonzero(x), np.int64)
    return padded(found, x.size, -1, 1), np.array(found.shape[1])


def compressed(x: Array, condition: Array, axis: int | None = None) -> tuple[Array, Array]:
    """Return the slices where a condition holds."""
    source, place = (x.ravel(), 0) if axis is None else (x, axis)
    kept = condition.astype(bool)[: source.shape[place]]
    return padded(np.compress(kept, source, place), source.shape[place], 0, place), np.array(kept.sum())


def distinct(x: Array, axis: int | None = None, ordered: bool = True) -> tuple[Array, ...]:
    """Return each element or slice once, by comparing their texts of numbers one by one."""
    rows = [(each,) for each in x.ravel()] if axis is None else [tuple(row.ravel()) for row in np.moveaxis(x, axis, 0)]

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((value != value, 0 if value != value else value + 0) for value in row)

    firsts: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        firsts.setdefault(key(row), number)
    found = sorted(firsts) if ordered else list(firsts)
    first = np.array([firsts[each] for each in found], np.int64)
    inverse = np.array([found.index(key(row)) for row in rows], np.int64)
    often = np.bincount(inverse, minlength=len(found)) if rows else np.zeros(0, np.int64)
    source, place = (x.ravel(), 0) if axis is None else (x, axis)
    values = padded(np.take(source, first, place), len(rows), 0, place)
    return values, padded(first, len(rows), -1), padded(often, len(rows), 0), inverse, np.array(len(found))


def _compress(draw: Draw) -> Arguments:
    shape = draw.full()
    axis = draw.axis(shape) if draw.flag() else None
    whole = int(np.prod(shape)) if axis is None else shape[axis]
    condition = draw.tensor((draw.integer(1, whole),), "zeros", draw.pick(("bool", "i32")))
    return [draw.tensor(shape), condition, *([] if axis is None else [axis])], {}


def _unique(draw: Draw) -> Arguments:
    shape = draw.full(1, 2)
    return [draw.tensor(shape), *([draw.axis(shape)] if draw.flag() else [])], {"ordered": draw.flag()}


_VALUES: Final = ("ties", "zeros", "normal", "special")
ROWS_COUNTING: Final = (
    Row("nonzero", lambda d: ([d.tensor(d.full())], {}), positions, ALL, _VALUES, exact=True, constant="*"),
    Row("compress", _compress, compressed, ALL, exact=True),
    Row("unique", _unique, distinct, ALL, _VALUES, exact=True, constant="*"),
)
