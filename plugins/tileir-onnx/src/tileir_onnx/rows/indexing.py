"""Operators with tensors of positions: gathers, scatters, one-hot vectors."""

from __future__ import annotations

from typing import Final

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import sizes
from tileir_onnx.rows.table import row

_MODES: Final = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}
"""Reductions of several updates at one place, by ONNX's names."""


@row("Gather")
def gather(call: Call, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.take(x, indices, axis, mode="wrap")


@row("GatherElements")
def gather_elements(call: Call, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis += x.rank * (axis < 0)
    corner = [slice(None) if at == axis else slice(0, each) for at, each in enumerate(indices.shape)]
    return ops.take_along_axis(ops.slice(x, *corner), indices, axis, mode="wrap")


@row("GatherND")
def gather_nd(call: Call, x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return ops.gather_nd(x, indices, batch_dims=batch_dims, mode="wrap")


@row("Scatter", "ScatterElements")
def scatter_elements(
    call: Call, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Update elements along an axis; elements beyond the indices along other axes are unchanged."""
    axis += x.rank * (axis < 0)
    mode = _mode(call, reduction)
    points = [ops.cast(indices if at == axis else ops.index(indices, at), DType.I64) for at in range(x.rank)]
    return ops.scatter_nd(x, ops.stack(points, -1), updates, mode=mode, bounds="wrap")


@row("ScatterND")
def scatter_nd(call: Call, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    return ops.scatter_nd(x, indices, updates, mode=_mode(call, reduction), bounds="wrap")


def _mode(call: Call, reduction: str) -> str:
    if reduction not in _MODES:
        raise call.fault(f"the reduction is one of {', '.join(_MODES)}, not {reduction!r}")
    return _MODES[reduction]


@row("TensorScatter")
def tensor_scatter(
    call: Call, cache: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """Write new elements of sequences into a cache, from a place for each sequence on."""
    axis += cache.rank * (axis < 0)
    places = ops.cast(ops.index(update, axis), DType.I64)
    if starts is not None:
        places = places + ops.reshape(starts, starts.shape[0], *[1] * (cache.rank - 1))
    bounds = "wrap" if mode == "circular" else "clamp"
    if mode == "circular":
        places = places % cache.shape[axis]
    return ops.scatter_along_axis(cache, places, update, axis, mode="set", bounds=bounds, unique=True)


@row("OneHot", known=("depth",))
def one_hot(call: Call, indices: Tensor, depth: Array, values: Tensor, *, axis: int = -1) -> Tensor:
    (count,) = sizes(depth)
    whole = ops.cast(indices, DType.I64)
    off, on = (ops.select(values, 0, at) for at in (0, 1))
    places = ops.where(whole < 0, whole + count, whole)
    return ops.one_hot(places, count, axis=axis, on=on, off=off, dtype=values.dtype)


@row("Compress", known=("condition",))
def compress(call: Call, x: Tensor, condition: Array, *, axis: int | None = None) -> Tensor:
    """Select the slices for which a condition holds, whose number depends on its value."""
    flat = ops.reshape(x, -1) if axis is None else x
    places = call.tensor(np.flatnonzero(condition))
    return ops.take(flat, places, 0 if axis is None else axis)
