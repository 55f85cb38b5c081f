"""Memory of the results of a call: where each of them lies, and tensors for all of them, the small ones in one piece.

A step of a deep network makes some hundred small tensors, and to allocate one takes longer than to compute it.
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
"""Bytes up to which a tensor shares memory with others: who keeps one of them keeps little more."""
_FEWEST: Final = 4
"""Tensors from which on sharing takes less time."""

_QUICK: Final[dict[str, Callable[..., torch.Tensor]]] = {
    kind: made
    for kind in ("cpu", "cuda")
    if (made := getattr(torch._C._dynamo.guards, f"_empty_strided_{kind}", None)) is not None
}
"""Functions that make tensors of a kind of device in half the time of ``empty_strided``, where PyTorch has them."""
_SHOWN: Final[Any] = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", None)
"""The function that makes a tensor over a part of another one's memory, and of nothing else of it."""


class Room(NamedTuple):
    """Layout of a tensor in memory.

    Attributes:
        dtype: Its elements.
        sizes: Its sizes.
        strides: Its strides.
        order: Its axes in the order in which they lie in memory; None where they do as they are.
        shape: Its sizes in that order.

    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: Order | None
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dtype: torch.dtype, shape: tuple[int, ...], axes: Order) -> Room:
        """Return what lies in memory without gaps, whose axes are those of a shape in an order."""
        strides = [1]
        for size in reversed(shape[1:]):
            strides.append(strides[-1] * max(size, 1))
        strides.reverse()
        order = None if axes == tuple(range(len(axes))) else inverse(axes)
        return cls(dtype, tuple(shape[n] for n in axes), tuple(strides[n] for n in axes), order, shape)

    @classmethod
    def of_bytes(cls, count: int) -> Room:
        """Return bytes."""
        return cls(torch.uint8, (count,), (1,), None, (count,))

    def within(self, whole: torch.Tensor, offset: int | None) -> torch.Tensor:
        """Return the tensor that lies so within bytes, or all that is there, with axes as they lie in memory."""
        found = whole if offset is None else part_of(whole, offset, self.sizes, self.strides, self.dtype)
        return found if self.order is None else found.permute(self.order)


def inverse(order: Order) -> Order:
    """Return the order of axes that undoes another one."""
    return tuple(int(axis) for axis in np.argsort(order))


@frozen
class Rooms:
    """Tensors that each call makes.

    Attributes:
        rows: Their sizes, strides and dtypes, and the element of the memory that they share where each begins; None
            for memory of its own.
        lengths: Elements of the memory that those of a dtype share.

    """

    rows: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype, int | None], ...]
    lengths: tuple[tuple[torch.dtype, int], ...]

    @classmethod
    def of(cls, rooms: Sequence[Room], sharing: Collection[int]) -> Rooms:
        """Return them for layouts; those with the numbers ``sharing`` share memory, where they are small and many."""
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
    """Return the function that takes what stands at some positions."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[at] for at in positions)
