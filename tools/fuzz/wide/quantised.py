"""Rows of quantised numbers, and of products of integers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.wide.pointwise import real
from fuzz.wide.row import FLOATS, TAME, Arguments, Array, Draw, Row
from fuzz.wide.windows import convolved
from tileir.core import DType

_NARROW: Final = ("i8", "u8", "i16", "u16")


def _scales(draw: Draw, shape: tuple[int, ...], point: str, scale: str = "") -> tuple[list[str], dict[str, Any]]:
    """Choose a scale, a power of two, and a zero point, and how they belong to a tensor."""
    axis, form = draw.axis(shape), draw.integer(0, 2)
    place = axis % len(shape)
    block = draw.integer(1, 3)
    own = [(), (shape[place],), tuple(-(-n // block) if a == place else n for a, n in enumerate(shape))][form]
    options: dict[str, Any] = {"axis": axis, **({"block_size": block} if form == 2 else {})}
    return [draw.tensor(own, "units", scale), *([draw.tensor(own, "any", point)] if draw.flag() else [])], options


def _spread(x: Array, own: Array | None, axis: int, block: int) -> Any:
    """Return scales for each element."""
    if own is None:
        return 0
    if block:
        return np.repeat(own, block, axis).take(range(x.shape[axis]), axis)
    return own if own.ndim == 0 else own.reshape(-1, *[1] * (x.ndim - axis % x.ndim - 1))


def _quantize(draw: Draw) -> Arguments:
    dtype, shape = draw.pick((*_NARROW, "f8e4m3fn", "f8e5m2")), draw.full()
    x = draw.tensor(shape)
    scales, options = _scales(draw, shape, "i8" if dtype.startswith("f") else dtype)
    return [x, *(scales[:1] if dtype.startswith("f") else scales)], {**options, "dtype": dtype}


def _quantized(
    x: Array, scale: Array, point: Array | None = None, *, axis: int, dtype: str, block_size: int = 0
) -> Array:
    to, quotient = DType(dtype), x / _spread(x, scale, axis, block_size)
    if to.is_float:
        return np.clip(quotient, -to.format.largest, to.format.largest)
    number = np.rint(quotient) + _spread(x, point, axis, block_size)
    return np.clip(np.where(np.isnan(number), 0, number), to.minimum, to.maximum).astype(np.int64)


def _dequantize(draw: Draw) -> Arguments:
    shape = draw.full()
    x = draw.tensor(shape)
    scales, options = _scales(draw, shape, draw.dtype, draw.pick(("f32", "bf16")))
    return [x, *scales], options


def _dequantized(x: Array, scale: Array, point: Array | None = None, *, axis: int, block_size: int = 0) -> Array:
    return (real(x) - _spread(x, point, axis, block_size)) * _spread(x, scale, axis, block_size)


def _dynamic(found: Any, x: Array) -> None:
    number, scale, point = found
    most, least = max(x.max(), 0), min(x.min(), 0)
    wanted = (most - least if most > least else 1) / np.longdouble(255)
    assert abs(scale - wanted) <= 4 * np.finfo(np.float32).eps * wanted, f"the scale is {scale}, not {wanted}"
    wide = np.longdouble(scale)
    assert abs(np.longdouble(point) + least / wide) <= 0.5001, f"the zero point is {point}"
    off = np.abs(number.astype(np.longdouble) - np.clip(x / wide + point, 0, 255))
    assert np.all(off <= 0.5001), f"numbers are off by {off.max()}"


def _requantize(draw: Draw) -> Arguments:
    shape = draw.full(2, 3)
    x, axis = draw.tensor(shape), draw.axis(shape)
    dtype, own = draw.pick(_NARROW), draw.pick(((), (shape[axis],)))
    points = [draw.tensor((), "any", dtype)] if draw.flag() else []
    return [x, draw.tensor(own, "inside", "f32"), *points], {"axis": axis, "dtype": dtype}


def _requantized(x: Array, scale: Array, point: Any = 0, *, axis: int, dtype: str) -> Array:
    to = DType(dtype)
    number = np.rint(x * _spread(x, scale, axis, 0) + point)
    return np.clip(number, to.minimum, to.maximum).astype(np.int64)


def _products(draw: Draw) -> Arguments:
    rows, depth, columns = draw.full(3, 3)
    batch, other = draw.full(0, 1), draw.pick(_NARROW)
    x, y = draw.tensor((*batch, rows, depth)), draw.tensor((depth, columns), "any", other)
    points = [draw.tensor(draw.pick(((), (rows,))), "any", draw.dtype), draw.tensor((columns,), "any", other)]
    return [x, y, *points[: draw.integer(0, 2)]], {}


def _product(x: Array, y: Array, x_point: Any = 0, y_point: Any = 0) -> Array:
    return (x - (x_point[:, None] if np.ndim(x_point) else x_point)) @ (y - y_point)


def _conv(draw: Draw) -> Arguments:
    rank, channels, outputs = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3)
    kernel = [draw.integer(1, 3) for _ in range(rank)]
    options: dict[str, Any] = {name: [draw.integer(1, 2) for _ in kernel] for name in ("stride", "dilation")}
    options["padding"] = [draw.integer(0, 2) for _ in kernel]
    sizes = [d * (k - 1) + 1 + draw.integer(0, 4) for d, k in zip(options["dilation"], kernel, strict=True)]
    other = draw.pick(("i8", "u8"))
    x, w = draw.tensor((1, channels, *sizes)), draw.tensor((outputs, channels, *kernel), "any", other)
    points = [draw.tensor((), "any", draw.dtype), draw.tensor(draw.pick(((), (outputs,))), "any", other)]
    return [x, w, *points[: draw.integer(0, 2)]], options


def _convolved(x: Array, w: Array, x_point: Any = 0, w_point: Any = 0, **options: Any) -> Array:
    point = w_point.reshape(-1, *[1] * (w.ndim - 1)) if np.ndim(w_point) else w_point
    return convolved(x - x_point, w - point, **options)


ROWS_QUANTISED: Final = (
    Row("quantize_linear", _quantize, _quantized, FLOATS, TAME, exact=True, constant="*"),
    Row("dequantize_linear", _dequantize, _dequantized, _NARROW, constant="*"),
    Row(
        "dynamic_quantize_linear",
        lambda d: ([d.tensor(d.full())], {}),
        lambda x: (x, x, x),
        ("f32",),
        ("normal", "ties", "zeros"),
        constant="*",
        holds=_dynamic,
    ),
    Row("requantize_linear", _requantize, _requantized, ("i32",), exact=True, constant="*"),
    Row("matmul_integer", _products, _product, _NARROW, exact=True, constant="*"),
    Row("conv_integer", _conv, _convolved, ("i8", "u8"), exact=True, constant="*"),
)
