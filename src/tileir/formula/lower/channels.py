"""Channels of pictures: one of them, and pictures of which some are others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.ops.shared.foundation import Aggregation, Tensor, aggregate, call, dims_of, full, indices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.ops.shared.foundation import Dim


def channel(picture: Tensor, number: Dim | int) -> Tensor:
    """Return ``[rows, columns, 1]``, one channel, counted from 0, or the last one where there are not so many."""
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
