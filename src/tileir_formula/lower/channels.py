"""Channels of pictures, and boundaries: the nearest pixel, a mirror image, wrap-around, or 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.ops.arrays.padding import pad
from tileir.ops.shared.foundation import Aggregation, Dim, Tensor, aggregate, call, dims_of, full, indices_of
from tileir_formula.ir import Boundary


def channel(picture: Tensor, number: Dim | int) -> Tensor:
    """Return ``[rows, columns, 1]``: one channel, counted from 0, or the last one where there are fewer."""
    row, column, _ = indices_of(picture)
    height, width, channels = dims_of(picture)
    place = (channels - 1).min(number)
    return aggregate(Aggregation.ASSIGN, picture[row, column, place], [row, column, 0], [height, width, 1])


def coloured(picture: Tensor, planes: Sequence[Tensor], least: Dim) -> Tensor:
    """Return a picture whose first channels are others, each ``[rows, columns, 1]``.

    It has as many channels as the picture, but at least ``least``; where that is fewer than there are planes, the last
    ones are left out.
    """
    row, column, place = indices_of(picture)
    height, width, channels = dims_of(picture)
    count = channels.max(least)
    result = aggregate(Aggregation.ASSIGN, picture[row, column, place], [row, column, place], [height, width, count])
    number = call("index", full(picture, [count], 0), 0)
    for chosen, plane in enumerate(planes):
        result = call("cond", call("cmp_eq", number, chosen), plane, result)
    return result


_MODES: Final[Mapping[Boundary, str]] = {
    Boundary.CLAMP: "edge",
    Boundary.MIRROR: "reflect",
    Boundary.WRAP: "wrap",
    Boundary.CONSTANT: "constant",
}


def bordered(picture: Tensor, widths: Sequence[Dim], boundary: Boundary) -> Tensor:
    """Return a picture with a border of this width on both sides of its first axes."""
    others = [0] * (len(picture.dims) - len(widths))
    return pad(picture, [*widths, *others], mode=_MODES[boundary])
