"""Common arguments of rows: sizes, axes, numbers that may be known, and the broadcasting of old opsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call

BELOW_F32 = 32
"""Bits of floats with which multi-step formulas lose accuracy."""


def like(result: Tensor, x: Tensor) -> Tensor:
    """Return a result in the dtype of an input, which Tile's rules may have widened."""
    return result if result.dtype == x.dtype else ops.cast(result, x.dtype)


def wide(x: Tensor) -> Tensor:
    """Return a tensor in f32 if its floats are narrower, so that multi-step formulas round once."""
    return ops.cast(x, DType.F32) if x.dtype.is_float and x.dtype.bits < BELOW_F32 else x


def sizes(array: Array) -> list[Any]:
    """Return an array of sizes as integers and dimensions."""
    return [each if isinstance(each, Dim) else int(each) for each in array.flat]


def axes_of(axes: Array | Sequence[int] | int | None) -> list[int] | None:
    """Return axes, from an attribute or an input, as integers; None if omitted."""
    if axes is None:
        return None
    return [int(each) for each in np.asarray(axes).reshape(-1)]


def number(call: Call, position: int, x: Tensor | None) -> Any:
    """Return an input of one element as a number if it is known, else as a tensor of rank 0; None if omitted."""
    if x is None:
        return None
    known = call.known(position)
    if known is not None and known.size == 1 and known.dtype.kind in "fiub":
        return known.reshape(()).item()
    return ops.reshape(x) if x.rank else x


def somewhere(call: Call) -> Tensor:
    """Return any tensor, as the recorder for operations without inputs."""
    return call.tensor(np.array(0, np.int32))


def aligned(x: Tensor, y: Tensor, axis: int | None) -> Tensor:
    """Return ``y`` with its first axis at an axis of ``x``, for the broadcasting of opsets before 7."""
    if axis is None or not y.rank:
        return y
    axis += x.rank * (axis < 0)
    return ops.reshape(y, *y.shape, *[1] * (x.rank - axis - y.rank))


def padding_of(auto_pad: str, pads: Sequence[int] | None, axes: int) -> list[tuple[int, int]] | str:
    """Return the padding of each axis, before and after, or the rule that determines it."""
    if auto_pad != "NOTSET":
        return auto_pad.lower()
    return [(0, 0)] * axes if pads is None else list(zip(pads[:axes], pads[axes:], strict=True))
