"""Rows of operations that move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.row import ALL, FLOATS, INTEGERS, Arguments, Array, Draw, Row

FAR: Final = 1 << 33
"""Further than any axis reaches, and than 32 bits do."""


def _simple(draw_more: Callable[[Draw, tuple[int, ...]], list[Any]], least: int = 1, most: int = 4) -> Any:
    def draw(draw: Draw) -> Arguments:
        shape = draw.shape(least, most)
        return [draw.tensor(shape), *draw_more(draw, shape)], {}

    return draw


def _order(draw: Draw, shape: Sequence[int]) -> list[int]:
    left = list(range(len(shape)))
    return [left.pop(draw.integer(0, len(left) - 1)) for _ in shape]


def _moved(name: str, draw: Callable[[Draw], Arguments], oracle: Callable[..., Any], **more: Any) -> Row:
    return Row(name, draw, oracle, more.pop("dtypes", ALL), exact=True, **more)


def _broadcast(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3, axes=False)
    start = [1 if draw.integer(0, 2) == 2 else size for size in shape]
    return [draw.tensor(start), [draw.integer(1, 3)] * draw.integer(0, 1) + list(shape)], {}


def _concatenate(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    axis = draw.axis(shape)
    parts = [[*shape] for _ in range(draw.integer(1, 3))]
    for part in parts:
        part[axis] = draw.size()
    return [[draw.tensor(part) for part in parts], axis], {}


def _stack(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3)
    return [[draw.tensor(shape) for _ in range(draw.integer(1, 3))], draw.integer(-len(shape) - 1, len(shape))], {}


def _crop(draw: Draw) -> Arguments:
    shape = (draw.integer(1, 2), draw.integer(1, 3), *draw.full(1, 2))
    starts = [draw.integer(-2, size) for size in shape[2:]]
    return [draw.tensor(shape), starts, [draw.integer(0, 5) for _ in starts]], {}


def _cropped(x: Array, start: Sequence[int], size: Sequence[int]) -> Array:
    found = np.zeros((*x.shape[:2], *size), x.dtype)
    for place in np.ndindex(*size):
        there = tuple(a + b for a, b in zip(place, start, strict=True))
        if all(0 <= a < n for a, n in zip(there, x.shape[2:], strict=True)):
            found[(..., *place)] = x[(..., *there)]
    return found


def _blocks(deep: bool) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        block = draw.integer(1, 3)
        space = [draw.integer(1, 3) for _ in range(2)]
        channels = draw.integer(1, 3)
        shape = (1, channels * block**2, *space) if deep else (1, channels, *(block * s for s in space))
        return [draw.tensor(shape), block], {"order": draw.pick(("block_first", "channel_first"))}

    return draw


def _deeper(x: Array, block: int, order: str = "block_first") -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block)
    axes = (0, 3, 5, 1, 2, 4) if order == "block_first" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(axes).reshape(n, c * block**2, h // block, w // block)


def _shallower(x: Array, block: int, order: str = "block_first") -> Array:
    n, c, h, w = x.shape
    less = c // block**2
    if order == "block_first":
        return x.reshape(n, block, block, less, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, less, h * block, w * block)
    return x.reshape(n, less, block, block, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, less, h * block, w * block)


def _yolo(draw: Draw) -> Arguments:
    decrease = draw.flag()
    arguments, _ = _blocks(decrease)(draw)
    return arguments, {"decrease": decrease}


def _diagonal_magnitudes(x: Array, offset: int, first: int, second: int) -> Array:
    return np.asarray(np.trace(abs(x), offset, first, second))


def _diagonal(draw: Draw) -> Arguments:
    shape = draw.full(2, 3)
    first, second, *_ = _order(draw, shape)
    offset = draw.integer(-shape[first] + 1, shape[second] - 1)
    return [draw.tensor(shape)], {"offset": offset, "first": first, "second": second}


def _triangle(draw: Draw) -> Arguments:
    shape = draw.shape(2, 3, axes=False)
    return [draw.tensor(shape)], {"offset": draw.pick((0, 1, -1, 2, FAR, -FAR))}


def _diff(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.integer(1, 2), draw.axis(shape)], {}


def _flatten(draw: Draw) -> Arguments:
    shape = draw.shape(0, 4)
    first = draw.integer(0, max(0, len(shape) - 1))
    return [draw.tensor(shape)], {"first": first, "last": draw.integer(first, max(first, len(shape) - 1))}


def _flattened(x: Array, first: int, last: int) -> Array:
    if not x.ndim:
        return x.reshape(1)
    return x.reshape(*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :])


def _narrow(draw: Draw) -> Arguments:
    shape = draw.full()
    axis = draw.axis(shape)
    start = draw.integer(0, shape[axis] - 1)
    length = draw.integer(0, shape[axis] - start)
    return [draw.tensor(shape), axis, start - (shape[axis] if draw.flag() else 0), length], {}


def _pad(draw: Draw) -> Arguments:
    mode = draw.pick(("constant", "edge", "reflect", "symmetric", "wrap"))
    shape = draw.full() if mode != "constant" else draw.shape(1, 3)
    most = {"constant": 3, "edge": 3}.get(mode)
    pads = []
    for size in shape:
        limit = most if most is not None else size - (mode == "reflect")
        pads.append([draw.integer(0, limit), draw.integer(0, limit)])
    return [draw.tensor(shape), pads], {"mode": mode, **({"value": draw.pick((0, 2))} if mode == "constant" else {})}


def _padded(x: Array, pads: Any, mode: Any, value: float = 0) -> Array:
    options: Any = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, pads, mode, **options)


def _reshape(draw: Draw) -> Arguments:
    shape = draw.shape(1, 4)
    total = int(np.prod(shape))
    parts = [n for n in (2, 3, 4, 6) if total and total % n == 0]
    sizes = [total // parts[-1], parts[-1]] if parts else [total]
    if total and draw.flag():
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return [draw.tensor(shape), sizes], {}


def _roll(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.pick((1, -2, 0, 100, FAR + 1, -FAR)), draw.axis(shape)], {}


def _rolled(x: Array, shift: int, axis: int) -> Array:
    return np.roll(x, shift % max(1, x.shape[axis]), axis)


def _slice(draw: Draw) -> Arguments:
    shape = draw.shape(1, 4)
    keys: list[Any] = []
    for size in shape[: draw.integer(1, len(shape))]:
        if size and draw.integer(0, 3) == 3:
            keys.append(draw.integer(-size, size - 1))
            continue
        bounds = [draw.pick((None, 0, 1, -1, size, 2, -FAR, FAR)) for _ in range(2)]
        keys.append({"slice": [*bounds, draw.pick((None, 1, -1, 2, -3))]})
    if draw.integer(0, 3) == 3:
        keys.insert(draw.integer(0, len(keys)), None)
    return [draw.tensor(shape), *keys, *(["..."] if draw.flag() else [])], {}


def _split(draw: Draw) -> Arguments:
    shape = list(draw.shape(1, 3, axes=False))
    axis = draw.integer(0, len(shape) - 1)
    if draw.flag():
        parts: Any = draw.integer(1, 3)
        shape[axis] *= parts
    else:
        parts = [draw.integer(0, 4) for _ in range(draw.integer(1, 3))]
        shape[axis] = sum(parts)
    return [draw.tensor(shape), parts, axis], {}


def _parts(x: Array, parts: Any, axis: int) -> tuple[Array, ...]:
    return tuple(np.split(x, parts if isinstance(parts, int) else np.cumsum(parts)[:-1], axis))


def _squeeze(draw: Draw) -> Arguments:
    shape = [1 if draw.flag() else draw.size() for _ in range(draw.integer(1, 4))]
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    return [draw.tensor(shape), ones], {}


def _unsqueeze(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3)
    axes = sorted({draw.integer(0, len(shape)) for _ in range(draw.integer(1, 2))})
    return [draw.tensor(shape), axes], {}


def _unstack(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    axis = draw.axis(shape)
    return [draw.tensor(shape), shape[axis], axis], {}


def _patches(draw: Draw) -> Arguments:
    size, step, gap = (draw.integer(1, 3) for _ in range(3))
    shape = (draw.integer(1, 2), *(gap * (size - 1) + draw.integer(1, 4) for _ in range(draw.integer(1, 2))), 2)
    padding: Any = draw.pick(("valid", [[draw.integer(0, 2), draw.integer(0, 2)]] * (len(shape) - 2)))
    return [draw.tensor(shape), size], {"strides": step, "dilations": gap, "padding": padding}


def _windows(x: Array, size: int, strides: int, dilations: int, padding: Any) -> Array:
    rank = x.ndim - 2
    pads = [(0, 0)] * rank if padding == "valid" else padding
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    span = dilations * (size - 1) + 1
    counts = [(n - span) // strides + 1 for n in x.shape[1:-1]]
    found = np.zeros((len(x), *counts, size**rank * x.shape[-1]), x.dtype)
    for place in np.ndindex(*counts):
        taps = [slice(p * strides, p * strides + span, dilations) for p in place]
        found[(slice(None), *place)] = x[(slice(None), *taps)].reshape(len(x), -1)
    return found


def _repeat(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.integer(0, 3), draw.axis(shape)], {}


def _tile(draw: Draw) -> Arguments:
    return [draw.tensor(draw.shape(0, 3)), [draw.integer(0, 3) for _ in range(draw.integer(1, 4))]], {}


ROWS_MOVES: Final = (
    _moved("broadcast_to", _broadcast, lambda x, sizes: np.broadcast_to(x, sizes)),
    _moved("concatenate", _concatenate, lambda xs, axis: np.concatenate(xs, axis), shared=True),
    _moved("stack", _stack, lambda xs, axis: np.stack(xs, axis), shared=True),
    _moved("crop", _crop, _cropped),
    _moved("space_to_depth", _blocks(False), _deeper),
    _moved("depth_to_space", _blocks(True), _shallower),
    _moved("reorg_yolo", _yolo, lambda x, s, decrease: _shallower(x, s) if decrease else _deeper(x, s)),
    _moved("diag", lambda d: ([d.tensor(d.full(1, 2))], {"offset": 0}), lambda x, offset: np.diag(x, offset)),
    _moved("diagonal", _diagonal, lambda x, offset, first, second: np.diagonal(x, offset, first, second)),
    Row(
        "trace",
        _diagonal,
        lambda x, offset, first, second: np.trace(
            np.asarray(x, np.int64 if x.dtype == bool else x.dtype), offset, first, second
        ),
        ALL,
        terms=_diagonal_magnitudes,
        largest=_diagonal_magnitudes,
    ),
    Row(
        "diff",
        _diff,
        np.diff,
        FLOATS + INTEGERS,
        terms=lambda x, order, axis: 4 * np.max(np.where(np.isfinite(x), abs(x), 0), initial=0),
    ),
    _moved("unsqueeze", _unsqueeze, lambda x, axes: np.expand_dims(x, tuple(axes))),
    _moved("expand_dims", _unsqueeze, lambda x, axes: np.expand_dims(x, tuple(axes))),
    _moved("flatten", _flatten, _flattened),
    _moved(
        "flip",
        _simple(lambda d, s: [d.axes(s)]),
        lambda x, axes: np.flip(x, tuple(axes) if isinstance(axes, list) else axes),
    ),
    _moved("moveaxis", _simple(lambda d, s: [d.axis(s), d.axis(s)]), np.moveaxis),
    _moved("swapaxes", _simple(lambda d, s: [d.axis(s), d.axis(s)]), np.swapaxes),
    _moved("permute", _simple(lambda d, s: [_order(d, s)]), np.transpose),
    _moved("transpose", _simple(lambda d, s: [_order(d, s)]), np.transpose),
    _moved(
        "narrow",
        _narrow,
        lambda x, axis, start, length: np.take(x, range(start % x.shape[axis], start % x.shape[axis] + length), axis),
    ),
    _moved("pad", _pad, _padded),
    _moved("repeat", _repeat, np.repeat),
    _moved("reshape", _reshape, np.reshape),
    _moved("roll", _roll, _rolled),
    _moved("rot90", _simple(lambda d, s: [d.pick((1, 2, -1, FAR + 1))], 2, 3), np.rot90),
    _moved(
        "select",
        lambda d: (lambda s: (lambda a: ([d.tensor(s), a, d.integer(-s[a], s[a] - 1)], {}))(d.axis(s)))(d.full()),
        lambda x, axis, place: np.take(x, place, axis),
    ),
    _moved("slice", _slice, lambda x, *keys: x[keys]),
    _moved("split", _split, _parts),
    _moved("squeeze", _squeeze, lambda x, axes: np.squeeze(x, tuple(axes))),
    _moved("tile", _tile, lambda x, counts: np.tile(x, counts)),
    _moved("tril", _triangle, lambda x, offset: np.tril(x, max(-99, min(99, offset)))),
    _moved("triu", _triangle, lambda x, offset: np.triu(x, max(-99, min(99, offset)))),
    _moved("unstack", _unstack, lambda x, count, axis: tuple(np.moveaxis(x, axis, 0))),
    _moved("image_patches", _patches, _windows),
)
