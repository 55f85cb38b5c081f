"""Operators that move elements: reshapes, slices, joins."""

from __future__ import annotations

from math import prod

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.folding import integers
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row


@row("Shape")
def shape(call: Call, x: Tensor, *, start: int = 0, end: int | None = None) -> Array:
    return integers(x.shape[start:end])


@row("Size")
def size(call: Call, x: Tensor) -> Array:
    return integers([prod(x.shape)], ())


@row("Gather")
def gather(call: Call, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.take(x, indices, axis, mode="wrap")


@row("Reshape", known=("shape",))
def reshape(call: Call, x: Tensor, shape: Array, *, allowzero: int = 0) -> Tensor:
    sizes = [x.shape[at] if size == 0 and not allowzero else size for at, size in enumerate(shape)]
    return ops.reshape(x, *(size if not isinstance(size, np.integer) else int(size) for size in sizes))


@row("Flatten")
def flatten(call: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    axis += x.rank * (axis < 0)
    return ops.reshape(x, prod(x.shape[:axis]), prod(x.shape[axis:]))


@row("Concat", since=4)
def concat(call: Call, *parts: Tensor, axis: int) -> Tensor:
    return ops.concatenate(parts, axis)


@row("Transpose")
def transpose(call: Call, x: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    return ops.transpose(x, perm)
