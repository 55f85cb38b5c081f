"""Cases of blocks of pixels and crops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strategies.operations import Case, sample
from tileir import ops

if TYPE_CHECKING:
    from strategies.operations import Array

_WIDE: Final = {"X": sample(2, 3, 4, 6)}
_DEEP: Final = {"X": sample(2, 12, 2, 3)}


def to_depth(x: Array, rows: int, columns: int, *, block_first: bool) -> Array:
    """Return blocks of pixels as channels."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // rows, rows, w // columns, columns)
    order = (0, 3, 5, 1, 2, 4) if block_first else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(n, -1, h // rows, w // columns)


def to_space(x: Array, rows: int, columns: int, *, block_first: bool) -> Array:
    """Return channels as blocks of pixels."""
    n, c, h, w = x.shape
    count = c // (rows * columns)
    if block_first:
        parts = x.reshape(n, rows, columns, count, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, count, rows, columns, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, count, h * rows, w * columns)


CASES: Final = (
    Case(
        "space_to_depth",
        lambda x: ops.space_to_depth(x, (2, 3)),
        _WIDE,
        lambda x: to_depth(x, 2, 3, block_first=True),
    ),
    Case(
        "space_to_depth_channel_first",
        lambda x: ops.space_to_depth(x, 2, order="channel_first"),
        _WIDE,
        lambda x: to_depth(x, 2, 2, block_first=False),
        lambda t, x: t.nn.functional.pixel_unshuffle(x, 2),
    ),
    Case(
        "space_to_depth_channels_last",
        lambda x: ops.space_to_depth(x, 2, layout="nxc"),
        {"X": sample(1, 4, 2, 3)},
        lambda x: np.moveaxis(to_depth(np.moveaxis(x, 3, 1), 2, 2, block_first=True), 1, 3),
    ),
    Case(
        "depth_to_space",
        lambda x: ops.depth_to_space(x, (2, 3)),
        _DEEP,
        lambda x: to_space(x, 2, 3, block_first=True),
    ),
    Case(
        "depth_to_space_channel_first",
        lambda x: ops.depth_to_space(x, 2, order="channel_first"),
        _DEEP,
        lambda x: to_space(x, 2, 2, block_first=False),
        lambda t, x: t.nn.functional.pixel_shuffle(x, 2),
    ),
    Case(
        "reorg_to_fewer_channels", lambda x: ops.reorg_yolo(x, 2), _DEEP, lambda x: to_space(x, 2, 2, block_first=True)
    ),
    Case(
        "reorg_to_more_channels",
        lambda x: ops.reorg_yolo(x, 2, decrease=False),
        _WIDE,
        lambda x: to_depth(x, 2, 2, block_first=True),
    ),
    Case("crop", lambda x: ops.crop(x, (1, 2), (2, 3)), _WIDE, lambda x: x[:, :, 1:3, 2:5]),
    Case(
        "crop_beyond",
        lambda x: ops.crop(x, (-1, 4), 3),
        _WIDE,
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)))[:, :, :3, 4:7],
    ),
)
