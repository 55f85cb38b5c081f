"""Memory of the results of a call: their layouts, and their allocation, with small tensors in one piece.

A step of a deep network makes some hundred small tensors, and allocating one takes longer than computing it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from attrs import frozen

from tileir_torch.importing import Order
from tileir_torch.packing import ALIGNMENT, part_of

SMALL: Final = 1 << 15
"""Maximum size in bytes of tensors that share memory, so that keeping one of them keeps little more."""
_FEWEST: Final = 4
"""Minimum number of tensors from which sharing is faster."""

_QUICK: Final[dict[str, Callable[..., torch.Tensor]]] = {
    kind: made
    for kind in ("cpu", "cuda")
    if (made := getattr(torch._C._dynamo.guards, f"_empty_strided_{kind}", None)) is not None
}
"""Functions that allocate tensors on a device in half the time of ``empty_strided``, if PyTorch has them."""
_SHOWN: Final[Any] = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", None)
"""Function that makes a tensor over a part of another one's memory, without other metadata."""


class Room(NamedTuple):
    """Layout of a tensor in memory.

    Attributes:
        dtype: Its dtype.
        sizes: Its sizes.
        strides: Its strides.
        order: Its axes in memory order; None for the natural order.
        shape: Its sizes in memory order.
    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: Order | None
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dtype: torch.dtype, shape: tuple[int, ...], axes: Order) -> Room:
        """Return a contiguous layout with the axes of a shape in an order."""
        strides = [1]
        for size in reversed(shape[1:]):
            strides.append(strides[-1] * max(size, 1))
        strides.reverse()
        order = None if axes == tuple(range(len(axes))) else inverse(axes)
        return cls(dtype, tuple(shape[n] for n in axes), tuple(strides[n] for n in axes), order, shape)

    @classmethod
    def of_bytes(cls, count: int) -> Room:
        """Return a layout of bytes."""
        return cls(torch.uint8, (count,), (1,), None, (count,))

    def within(self, whole: torch.Tensor, offset: int | None) -> torch.Tensor:
        """Return the tensor with this layout in bytes, or in all memory, with axes in memory order."""
        found = whole if offset is None else part_of(whole, offset, self.sizes, self.strides, self.dtype)
        return found if self.order is None else found.permute(self.order)


def inverse(order: Order) -> Order:
    """Return the inverse permutation of axes."""
    return tuple(int(axis) for axis in np.argsort(order))


@frozen
class Rooms:
    """Tensors that each call makes.

    Attributes:
        rows: Their sizes, strides and dtypes, and their offsets in elements of shared memory; None for separate memory.
        lengths: Elements of shared memory for each dtype.
    """

    rows: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype, int | None], ...]
    lengths: tuple[tuple[torch.dtype, int], ...]

    @classmethod
    def of(cls, rooms: Sequence[Room], sharing: Collection[int]) -> Rooms:
        """Return the tensors of layouts; those numbered in ``sharing`` share memory, if they are small and many."""
        lengths: dict[torch.dtype, int] = {}
        offsets: list[int | None] = []
        for number, (dtype, sizes, *_) in enumerate(rooms):
            count = torch.Size(sizes).numel()
            if number not in sharing or not 0 < count * dtype.itemsize <= SMALL:
                offsets.append(None)
                continue
            offsets.append(lengths.get(dtype, 0))
            step = ALIGNMENT // dtype.itemsize
            lengths[dtype] = lengths.get(dtype, 0) + -(-count // step) * step
        if _SHOWN is None or sum(each is not None for each in offsets) < _FEWEST:
            offsets, lengths = [None] * len(rooms), {}
        pairs = zip(rooms, offsets, strict=True)
        rows = tuple((room.sizes, room.strides, room.dtype, offset) for room, offset in pairs)
        return cls(rows, tuple(lengths.items()))

    def made(self, device: torch.device | None) -> list[torch.Tensor]:
        """Return tensors with undefined content."""
        kind = "cpu" if device is None else device.type
        make = _QUICK.get(kind) or (lambda *room: torch.empty_strided(*room[:2], dtype=room[2], device=device))
        with torch.cuda.device(device) if kind == "cuda" else nullcontext():
            whole = {dtype: make((length,), (1,), dtype) for dtype, length in self.lengths}
            return [
                make(sizes, strides, dtype) if offset is None else _SHOWN(whole[dtype], sizes, strides, offset)
                for sizes, strides, dtype, offset in self.rows
            ]


def chosen(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that selects the items at some positions."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[at] for at in positions)
