"""Elements of pictures at positions that are computed: along one axis, or between pixels on two."""

from __future__ import annotations

from typing import Final

from tileir.core.dtype import DType
from tileir.ops.arrays.indexing import take
from tileir.ops.shared.foundation import Dim, Tensor, call, cast_to, dims_of
from tileir_formula.ir import Boundary

_FARTHEST: Final = 1e9
"""Positions beyond it are taken for it, so that they fit into i32."""


def picked(picture: Tensor, positions: Tensor, axis: int, boundary: Boundary) -> Tensor:
    """Return a picture whose places along an axis show what it has at whole positions, or what lies outside there.

    Args:
        picture: ``[rows, columns, channels]``.
        positions: A vector of whole numbers, of any dtype.
        axis: 0 for rows, 1 for columns.
        boundary: What lies outside.

    """
    size = dims_of(picture)[axis]
    whole = _whole(positions)
    taken = take(picture, _inside(whole, size, boundary), axis)
    if boundary is not Boundary.CONSTANT:
        return taken
    behind = len(dims_of(picture)) - axis - 1
    return call("cond", call("reshape", _exists(whole, size), *dims_of(positions), *(1,) * behind), taken, 0.0)


def sampled(picture: Tensor, rows: Tensor, columns: Tensor, boundary: Boundary) -> Tensor:
    """Return what a picture has at points between pixels, by linear interpolation on both axes.

    Args:
        picture: ``[rows, columns, channels]``.
        rows: The row of each point, ``[rows', columns']``.
        columns: The column of each point, alike.
        boundary: What the pixels outside are.

    """
    above, left = call("floor", rows), call("floor", columns)
    down, across = _weight(rows - above), _weight(columns - left)
    top, first = _whole(above), _whole(left)
    tap = _Taps(picture, boundary)
    upper = tap(top, first) * (1.0 - across) + tap(top, first + 1) * across
    lower = tap(top + 1, first) * (1.0 - across) + tap(top + 1, first + 1) * across
    return upper * (1.0 - down) + lower * down


class _Taps:
    """The pixels of one picture at whole points."""

    def __init__(self, picture: Tensor, boundary: Boundary) -> None:
        self.height, self.width, channels = dims_of(picture)
        self.flat = call("reshape", picture, self.height * self.width, channels)
        self.boundary = boundary

    def __call__(self, rows: Tensor, columns: Tensor) -> Tensor:
        inside = _inside(rows, self.height, self.boundary) * self.width + _inside(columns, self.width, self.boundary)
        taken = call("gather", self.flat, inside)
        if self.boundary is not Boundary.CONSTANT:
            return taken
        exists = call("logical_and", _exists(rows, self.height), _exists(columns, self.width))
        return call("cond", call("reshape", exists, *dims_of(rows), 1), taken, 0.0)


def _weight(fraction: Tensor) -> Tensor:
    return call("reshape", fraction, *dims_of(fraction), 1)


def _whole(positions: Tensor) -> Tensor:
    """Return positions as i32, of which the neighbours are i32 as well."""
    return cast_to(call("max", call("min", positions, _FARTHEST), -_FARTHEST), DType.I32)


def _exists(positions: Tensor, size: Dim) -> Tensor:
    return call("logical_and", positions >= 0, positions < size)


def _inside(positions: Tensor, size: Dim, boundary: Boundary) -> Tensor:
    """Return the positions inside of an axis whose elements stand at positions that may lie outside."""
    match boundary:
        case Boundary.MIRROR:
            period = (size * 2 - 2).max(1)
            folded = call("abs", call("mod", positions, period))
            return call("min", folded, period - folded)
        case Boundary.WRAP:
            rest = call("mod", positions, size)
            return call("cond", rest < 0, rest + size, rest)
        case Boundary.CLAMP | Boundary.CONSTANT:
            return call("max", call("min", positions, size - 1), 0)
