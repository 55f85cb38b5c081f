"""Operators that move elements: reshapes, slices, joins, padding, and tensors determined by sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call, Value
from tileir_onnx.rows.arguments import axes_of, like, number, sizes, somewhere
from tileir_onnx.rows.table import row
from tileir_onnx.symbols import integers

_FAR = 1 << 31
"""Bounds of slices beyond this mean the end of an axis."""
_SMALL = 1 << 16
"""Maximum number of elements of arrays determined by sizes alone."""


@row("Identity", raw=True)
def identity(call: Call, x: Value) -> Value:
    return x


@row("Constant")
def constant(
    call: Call,
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> Array:
    floats = value_float if value_floats is None else value_floats
    whole = value_int if value_ints is None else value_ints
    array = sparse_value if value is None else value
    if array is not None:
        return array
    return np.array(whole, np.int64) if floats is None else np.array(floats, np.float32)


@row("Shape")
def shape(call: Call, x: Tensor, *, start: int = 0, end: int | None = None) -> Array:
    return integers(x.shape[start:end])


@row("Size")
def size(call: Call, x: Tensor) -> Array:
    return integers([prod(x.shape)], ())


@row("ConstantOfShape", known=("shape",))
def constant_of_shape(call: Call, shape: Array, *, value: Array | None = None) -> Value:
    filling = np.zeros(1, np.float32) if value is None else value
    wanted = sizes(shape)
    if not any(isinstance(each, Dim) for each in wanted) and prod(wanted) <= _SMALL:
        return np.full(wanted, filling.reshape(()))
    element = call.importer.builder.constant(filling.reshape(()))
    return ops.broadcast_to(element, *wanted)


@row("Range", known=("start", "limit", "delta"))
def sequence(call: Call, start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Value:
    first, last, step = (each.reshape(()).item() for each in (start, limit, delta))
    if isinstance(step, Dim):
        raise call.fault("the distance of numbers in a range must be a number, and is a size that is open")
    if isinstance(first, Dim) or isinstance(last, Dim):
        return ops.arange(somewhere(call), first, last, int(step), dtype=DType.I64)
    count = max(ceil((last - first) / step), 0)
    dtype = DType.of(delta.dtype)
    if delta.dtype.kind in "iu" and count > _SMALL and dtype is not None:
        return ops.arange(somewhere(call), first, last, step, dtype=dtype)
    elements: Array = (np.arange(count) * step + first).astype(delta.dtype)
    return elements


@row("EyeLike")
def eye_like(call: Call, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    matrix = ops.eye(x, *x.shape, offset=k)
    return ops.cast(matrix, x.dtype if dtype is None else call.dtype(dtype))


@row("Reshape", until=5)
def reshape_before_5(call: Call, x: Tensor, *, shape: Sequence[int], consumed_inputs: Sequence[int] = ()) -> Tensor:
    return reshape(call, x, np.array(shape, np.int64))


@row("Reshape", since=5, known=("shape",))
def reshape(call: Call, x: Tensor, shape: Array, *, allowzero: int = 0) -> Tensor:
    wanted = sizes(shape)
    if not allowzero:
        wanted = [x.shape[at] if each == 0 else each for at, each in enumerate(wanted)]
    return ops.reshape(x, *wanted)


@row("Flatten")
def flatten(call: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    axis += x.rank * (axis < 0)
    return ops.reshape(x, prod(x.shape[:axis]), prod(x.shape[axis:]))


@row("Squeeze", until=13)
def squeeze_before_13(call: Call, x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    return _squeeze(call, x, axes_of(axes))


@row("Squeeze", since=13, known=("axes",))
def squeeze(call: Call, x: Tensor, axes: Array | None = None) -> Tensor:
    return _squeeze(call, x, axes_of(axes))


def _squeeze(call: Call, x: Tensor, axes: list[int] | None) -> Tensor:
    """Drop axes of size 1; without ``axes``, all sizes must be known."""
    if axes is None and any(isinstance(each, Dim) for each in x.shape):
        raise call.fault(f"whether sizes of {x} are 1 must be known: say its axes, or call the model with arrays")
    return ops.squeeze(x, axes)


@row("Unsqueeze", until=13)
def unsqueeze_before_13(call: Call, x: Tensor, *, axes: Sequence[int]) -> Tensor:
    return ops.expand_dims(x, list(axes))


@row("Unsqueeze", since=13, known=("axes",))
def unsqueeze(call: Call, x: Tensor, axes: Array) -> Tensor:
    return ops.expand_dims(x, sizes(axes))


@row("Transpose")
def transpose(call: Call, x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    return ops.transpose(x, perm) if x.rank else x


@row("Concat", until=4)
def concat_before_4(call: Call, *parts: Tensor, axis: int = 1) -> Tensor:
    return ops.concatenate(parts, axis)


@row("Concat", since=4)
def concat(call: Call, *parts: Tensor, axis: int) -> Tensor:
    return ops.concatenate(parts, axis)


@row("Split", until=13, known=("parts",))
def split_before_13(
    call: Call, x: Tensor, parts: Array | None = None, *, axis: int = 0, split: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    return _split(call, x, split if parts is None else sizes(parts), axis)


@row("Split", since=13, known=("parts",))
def split(
    call: Call, x: Tensor, parts: Array | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    return _split(call, x, None if parts is None else sizes(parts), axis)


def _split(call: Call, x: Tensor, parts: Sequence[Any] | None, axis: int) -> tuple[Tensor, ...]:
    """Split an axis into parts of the given sizes, or one per output, of which the last may be smaller."""
    if parts is None:
        count, whole = len(call.node.outputs), x.shape[axis]
        part = (whole + (count - 1)) // count
        if isinstance(whole, int):
            parts = [max(min(part, whole - at * part), 0) for at in range(count)]
        else:
            parts = [part] * (count - 1) + [whole - part * (count - 1)]
    return ops.split(x, parts, axis)


@row("Slice", until=10)
def slice_before_10(
    call: Call, x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Tensor:
    return _slice(x, starts, ends, axes, None)


@row("Slice", since=10, known=("starts", "ends", "axes", "steps"))
def slice_of(
    call: Call, x: Tensor, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Tensor:
    return _slice(x, sizes(starts), sizes(ends), axes_of(axes), None if steps is None else sizes(steps))


def _slice(
    x: Tensor, starts: Sequence[Any], ends: Sequence[Any], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Tensor:
    keys = [slice(None)] * x.rank
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = 1 if steps is None else steps[at]
        keys[at if axes is None else axes[at]] = _key(start, end, step)
    return ops.slice(x, *keys) if x.rank else x


def _key(start: Any, end: Any, step: int) -> slice:
    """Return the slice of an axis; far bounds, which exporters write for no bound, are None."""
    begins, ends = _side(start) * step, _side(end) * step
    if begins > 0 or ends < 0:  # it begins after the axis, or ends before it
        return slice(0, 0)
    return slice(None if begins else start, None if ends else end, step)


def _side(bound: Any) -> int:
    """Return the side of any axis on which a bound is: -1, 1, or 0 if it depends on the size of the axis."""
    return 0 if isinstance(bound, Dim) else (bound >= _FAR - 1) - (bound <= -_FAR)


@row("Pad", until=2)
def pad_before_2(
    call: Call, x: Tensor, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return _pad(x, paddings, mode, value)


@row("Pad", since=2, until=11)
def pad_before_11(call: Call, x: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    return _pad(x, pads, mode, value)


@row("Pad", since=11, known=("pads", "axes"))
def pad(
    call: Call,
    x: Tensor,
    pads: Array,
    value: Tensor | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    widths, chosen = sizes(pads), range(x.rank) if axes is None else sizes(axes)
    every = [0] * (2 * x.rank)
    for at, axis in enumerate(chosen):
        every[axis % x.rank] = widths[at]
        every[axis % x.rank + x.rank] = widths[at + len(chosen)]
    filling = 0 if value is None else number(call, 2, value)
    return _pad(x, every, mode, filling)


def _pad(x: Tensor, pads: Sequence[Any], mode: str, value: Any) -> Tensor:
    """Pad a tensor; negative padding is cropped before other padding repeats elements."""
    pairs = list(zip(pads[: x.rank], pads[x.rank :], strict=True))
    if mode == "constant":
        return ops.pad(x, pairs, value=value) if x.rank else x
    cut = [tuple(max(-each, 0) if isinstance(each, int) else 0 for each in pair) for pair in pairs]
    if any(map(any, cut)):
        x = ops.slice(x, *(slice(first, dim - last) for (first, last), dim in zip(cut, x.shape, strict=True)))
        pairs = [tuple(max(each, 0) if isinstance(each, int) else each for each in pair) for pair in pairs]  # type: ignore[misc]
    return ops.pad(x, pairs, mode=mode)


@row("Tile", until=6, known=("tiles", "axis"))
def tile_before_6(call: Call, x: Tensor, tiles: Array, axis: Array) -> Tensor:
    counts = [1] * x.rank
    counts[int(axis.reshape(()))] = sizes(tiles)[0]
    return ops.tile(x, *counts)


@row("Tile", since=6, known=("repeats",))
def tile(call: Call, x: Tensor, repeats: Array) -> Tensor:
    return ops.tile(x, *sizes(repeats)) if x.rank else x


@row("Expand", known=("shape",))
def expand(call: Call, x: Tensor, shape: Array) -> Tensor:
    wanted, own = sizes(shape), list[Any](x.shape)
    rank = max(len(wanted), len(own))
    own = [1] * (rank - len(own)) + own
    wanted = [1] * (rank - len(wanted)) + wanted
    return ops.broadcast_to(x, *map(_wider, own, wanted))


def _wider(own: Any, wanted: Any) -> Any:
    """Return the common size of two broadcast sizes of an axis."""
    if wanted == 1 or own == wanted:
        return own
    if own == 1 or (isinstance(own, Dim) and isinstance(wanted, int)):
        return wanted
    return own.call("broadcast", wanted) if isinstance(own, Dim) else own


@row("DepthToSpace")
def depth_to_space(call: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    return ops.depth_to_space(x, blocksize, order=_order(call, mode))


@row("SpaceToDepth")
def space_to_depth(call: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    return ops.space_to_depth(x, blocksize, order=_order(call, mode))


def _order(call: Call, mode: str) -> str:
    if mode not in ("DCR", "CRD"):
        raise call.fault(f"the mode is DCR or CRD, not {mode!r}")
    return "block_first" if mode == "DCR" else "channel_first"


@row("Trilu", known=("k",))
def trilu(call: Call, x: Tensor, k: Array | None = None, *, upper: int = 1) -> Tensor:
    offset = 0 if k is None else int(k.reshape(()))
    return like((ops.triu if upper else ops.tril)(x, offset=offset), x)


@row("CenterCropPad", known=("shape",))
def center_crop_pad(call: Call, x: Tensor, shape: Array, *, axes: Sequence[int] | None = None) -> Tensor:
    pairs: list[tuple[Any, Any]] = [(0, 0)] * x.rank
    for wanted, axis in zip(sizes(shape), range(x.rank) if axes is None else axes, strict=True):
        missing = wanted - x.shape[axis]
        first = missing // 2 if isinstance(missing, Dim) or missing >= 0 else -(-missing // 2)
        pairs[axis] = (first, missing - first)
    return ops.pad(x, pairs)


@row("ReverseSequence")
def reverse_sequence(call: Call, x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Reverse the first elements of each sequence, up to its length."""
    ends = ops.reshape(lengths, *(dim if axis == batch_axis else 1 for axis, dim in enumerate(x.shape)))
    places = ops.cast(ops.index(x, time_axis), lengths.dtype)
    return ops.take_along_axis(x, ops.where(places < ends, ends - 1 - places, places), time_axis)
