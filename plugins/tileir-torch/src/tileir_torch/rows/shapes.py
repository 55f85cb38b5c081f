"""Views, parts and joints of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call, memory_of, strided_places
from tileir_torch.rows.arguments import axes_of
from tileir_torch.rows.table import row


@row("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default", "squeeze.dim", "squeeze.dims")
@row("squeeze.default", "unsqueeze.default", "_reshape_alias.default", "flatten.using_ints", "unsqueeze_copy.default")
@row("squeeze_copy.dim", "squeeze_copy.default", "squeeze_copy.dims", "unflatten.int", "_reshape_copy.default")
@row("view_as.default", "reshape_as.default")
def reshape(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return ops.reshape(x, *call.sizes) if call.sizes else ops.reshape(x)


@row("permute.default", "permute_copy.default")
def permute(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    return ops.transpose(x, axes_of(dims, x.rank)) if x.rank else x


@row("t.default", "t_copy.default", "numpy_T.default")
def transposed(call: Call, x: Tensor) -> Tensor:
    return ops.transpose(x) if x.rank > 1 else x


@row("mT.default")
def transposed_matrices(call: Call, x: Tensor) -> Tensor:
    return ops.swapaxes(x, -2, -1)


@row("transpose.int", "transpose_copy.int", "swapaxes.default", "swapdims.default")
def transpose(call: Call, x: Tensor, first: int, second: int) -> Tensor:
    return ops.swapaxes(x, first, second) if x.rank else x


@row("expand.default", "expand_copy.default", "broadcast_to.default", "expand_as.default")
def expand(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return ops.broadcast_to(x, *call.sizes) if call.sizes else x


@row("slice.Tensor", "slice_copy.Tensor")
def part(call: Call, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    size = int(x.shape[dim])
    first, last, _ = slice(start, end, step).indices(size)
    last = max(first, last)
    keys: list[Any] = [slice(None)] * x.rank
    keys[dim] = slice(first, last, step)
    return x if (first, last, step) == (0, size, 1) else ops.slice(x, *keys)


@row("slice_scatter.default")
def slice_scatter(
    call: Call, x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    dim %= x.rank
    size = int(x.shape[dim])
    first, last, _ = slice(start, end, step).indices(size)
    count = len(range(first, last, step))
    source = ops.cast(source, x.dtype)
    if count == size:
        return source
    if count == 0:
        return x
    if step == 1:
        keys: list[Any] = [slice(None)] * x.rank
        parts = []
        for low, high in ((0, first), (last, size)):
            keys[dim] = slice(low, high)
            parts.append(ops.slice(x, *keys) if low < high else None)
        return ops.concatenate([each for each in (parts[0], source, parts[1]) if each is not None], dim)
    places = call.tensor(np.arange(first, last, step, dtype=np.int64))
    return ops.scatter(x, places, source, axis=dim, mode="set", unique=True)


@row("select.int", "select_copy.int")
def select(call: Call, x: Tensor, dim: int, index: int) -> Tensor:
    return ops.select(x, dim, index % int(x.shape[dim]))


@row("select_scatter.default")
def select_scatter(call: Call, x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    index %= int(x.shape[dim])
    return slice_scatter(call, x, ops.expand_dims(source, dim % x.rank), dim, index, index + 1)


@row("cat.default", "concat.default")
def concatenate(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    rank = len(call.sizes)
    kept = [ops.cast(each, call.dtype) for each in tensors if each.rank == rank]
    if len(kept) == 1:
        return kept[0]
    return ops.concatenate(kept, dim % rank)


@row("stack.default")
def stack(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return ops.stack([ops.cast(each, call.dtype) for each in tensors], dim % len(call.sizes))


@row("split_with_sizes.default", "split.sizes", "split.Tensor", "split_with_sizes_copy.default", "chunk.default")
@row("split_copy.Tensor", "unsafe_split.Tensor", "tensor_split.sections")
def split(call: Call, x: Tensor, _: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim %= x.rank
    found, first = [], 0
    for value in call.value:
        size = call.importer.sizes(value)[dim]
        found.append(part(call, x, dim, first, first + size))
        first += size
    return tuple(found)


@row("unbind.int", "unbind_copy.int")
def unbind(call: Call, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(ops.select(x, dim, at) for at in range(int(x.shape[dim])))


@row("flip.default")
def flip(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    return ops.flip(x, axes_of(dims, x.rank)) if dims and x.rank else x


@row("roll.default")
def roll(call: Call, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shifts, dims = ([each] if isinstance(each, int) else list(each) for each in (shifts, dims))
    if not dims:
        return ops.reshape(ops.roll(ops.reshape(x, x.size), shifts[0], 0), *call.sizes)
    for shift, dim in zip(shifts, dims, strict=True):
        if x.shape[dim]:
            x = ops.roll(x, shift % int(x.shape[dim]), dim)
    return x


@row("repeat.default")
def repeat(call: Call, x: Tensor, repeats: Sequence[int]) -> Tensor:
    x = ops.reshape(x, *[1] * (len(repeats) - x.rank), *x.shape)
    return ops.tile(x, *repeats) if repeats else x


@row("diagonal.default", "diagonal_copy.default")
def diagonal(call: Call, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return ops.diagonal(x, offset=offset, first=dim1 % x.rank, second=dim2 % x.rank)


@row("tril.default", "triu.default")
def triangle(call: Call, x: Tensor, diagonal: int = 0) -> Tensor:
    function = ops.tril if "tril" in str(call.node.target) else ops.triu
    return function(x, offset=diagonal)


@row("constant_pad_nd.default")
def pad(call: Call, x: Tensor, pads: Sequence[int], value: Any = 0) -> Tensor:
    return _padded(call, x, pads, "constant", value)


def _padded(call: Call, x: Tensor, pads: Sequence[int], mode: str, value: Any = 0) -> Tensor:
    """Return a padded tensor, cropped for negative padding; pads come from the last axis, in pairs."""
    pairs = [(0, 0)] * (x.rank - len(pads) // 2)
    pairs += [(pads[at], pads[at + 1]) for at in range(len(pads) - 2, -1, -2)]
    keys = [slice(max(-a, 0), int(n) - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True)]
    if any(min(pair) < 0 for pair in pairs):
        x = ops.slice(x, *keys)
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return ops.pad(x, pairs, mode=mode, value=call.number(value, x.dtype)) if any(map(any, pairs)) else x


@row("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(call: Call, x: Tensor, pads: Sequence[int]) -> Tensor:
    return _padded(call, x, pads, "reflect")


@row("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(call: Call, x: Tensor, pads: Sequence[int]) -> Tensor:
    for at in range(0, len(pads), 2):
        axis = x.rank - 1 - at // 2
        size = int(x.shape[axis])
        places = np.clip(np.arange(-pads[at], size + pads[at + 1]), 0, size - 1)
        if min(pads[at : at + 2]) < 0:  # cropped elements do not count as the border
            x = ops.take(x, call.tensor(places), axis)
    return _padded(
        call, x, [0 if min(pads[at // 2 * 2 : at // 2 * 2 + 2]) < 0 else each for at, each in enumerate(pads)], "edge"
    )


@row("pad.default")
def pad_by_mode(call: Call, x: Tensor, pads: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    if mode == "constant":
        return _padded(call, x, pads, mode, value or 0)
    if mode not in ("reflect", "replicate"):
        raise call.refuse(f"its borders are {mode}")
    return (reflection_pad if mode == "reflect" else replication_pad)(call, x, pads)


@row("diff.default")
def differences(
    call: Call, x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    dim %= x.rank
    parts = [ops.cast(each, call.dtype) for each in (prepend, x, append) if each is not None]
    x = ops.concatenate(parts, dim) if len(parts) > 1 else parts[0]
    for _ in range(min(n, int(x.shape[dim]))):
        low, high = part(call, x, dim, 0, -1), part(call, x, dim, 1)
        x = high ^ low if x.dtype.is_bool else high - low
    return x


@row("unfold.default", "unfold_copy.default")
def unfold(call: Call, x: Tensor, dim: int, size: int, step: int) -> Tensor:
    if not x.rank:
        return ops.reshape(x, 1)
    dim %= x.rank
    count = call.sizes[dim]
    places = np.arange(count)[:, None] * step + np.arange(size)[None]
    taken = ops.take(x, call.tensor(places.astype(np.int64)), dim)
    return ops.moveaxis(taken, dim + 1, x.rank)


@row("pixel_shuffle.default")
def pixel_shuffle(call: Call, x: Tensor, factor: int) -> Tensor:
    *batch, channels, height, width = x.shape
    depth = int(channels) // (factor * factor)
    y = ops.reshape(x, *batch, depth, factor, factor, height, width)
    count = len(batch)
    axes = (*range(count), *(count + axis for axis in (0, 3, 1, 4, 2)))
    return ops.reshape(ops.transpose(y, axes), *call.sizes)


@row("pixel_unshuffle.default")
def pixel_unshuffle(call: Call, x: Tensor, factor: int) -> Tensor:
    *batch, channels, height, width = x.shape
    y = ops.reshape(x, *batch, channels, int(height) // factor, factor, int(width) // factor, factor)
    count = len(batch)
    axes = (*range(count), *(count + axis for axis in (0, 2, 4, 1, 3)))
    return ops.reshape(ops.transpose(y, axes), *call.sizes)


def _flat(call: Call, x: Tensor) -> Tensor:
    """Return the elements of contiguous memory in order."""
    value = call.given(0)
    if not value.is_contiguous() or value.storage_offset():
        raise call.refuse("its input lies in memory with gaps or in another order")
    return ops.reshape(x, x.size)


@row("as_strided.default", "as_strided_copy.default")
def as_strided(call: Call, x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    places = strided_places(size, stride, call.given(0).storage_offset() if offset is None else offset)
    if not places.size:
        return call.full(0, call.sizes, call.dtype)
    memory = memory_of(call.importer, call.node.args[0])
    if memory is None:
        raise call.refuse("other elements of the memory of its input are not in the graph")
    if places.max() >= int(memory.size):
        raise call.refuse("it reads behind the end of its memory")
    return ops.take(memory, call.tensor(places), 0)


@row("as_strided_scatter.default")
def as_strided_scatter(
    call: Call, x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    places = strided_places(size, stride, offset or 0)
    if len(np.unique(places)) != places.size or places.max(initial=0) >= int(x.size):
        raise call.refuse("some of its places are written to twice, or not there")
    updates = ops.reshape(ops.cast(source, x.dtype), places.size)
    found = ops.scatter(_flat(call, x), call.tensor(places.reshape(-1)), updates, mode="set", unique=True)
    return ops.reshape(found, *x.shape)


@row("diagonal_scatter.default")
def diagonal_scatter(call: Call, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    sizes = [int(size) for size in x.shape]
    places = np.arange(int(np.prod(sizes))).reshape(sizes).diagonal(offset, dim1, dim2)
    updates = ops.reshape(ops.cast(source, x.dtype), places.size)
    found = ops.scatter(
        ops.reshape(x, x.size), call.tensor(places.reshape(-1).copy()), updates, mode="set", unique=True
    )
    return ops.reshape(found, *x.shape)


@row("narrow_copy.default")
def narrow_copy(call: Call, x: Tensor, dim: int, start: int, length: int) -> Tensor:
    start %= max(int(x.shape[dim]), 1)
    return part(call, x, dim, start, start + length)
