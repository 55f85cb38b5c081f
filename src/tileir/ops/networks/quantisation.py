"""Quantisation: floats as integers times a scale, less a zero point, and products of quantised numbers.

``real = (integer - zero_point) * scale``. Scales and zero points are scalars, or have an element for each position of
one axis, or for each block of positions, or the rank of the tensor, and broadcast. Integers are added up in i32, so
that results are exact; rounding is to the nearest integer, of two to the even one, within the limits of the dtype.
Source: ONNX' ``QuantizeLinear``, ``DequantizeLinear``, ``DynamicQuantizeLinear``, ``MatMulInteger``, ``ConvInteger``,
``QLinearMatMul`` and ``QLinearConv``.
"""

from __future__ import annotations

from tileir.core import DType, attrs
from tileir.ops.arithmetic import reductions
from tileir.ops.arithmetic.elementwise import cast
from tileir.ops.arrays.shaping import repeat
from tileir.ops.arrays.slicing import narrow
from tileir.ops.networks.convolution import conv
from tileir.ops.networks.linear import matmul
from tileir.ops.shared.foundation import (
    Tensor,
    axis_of,
    call,
    cast_to,
    chosen,
    dims_of,
    dtype_of,
    for_sums,
    integer_of,
    mistake,
    mistaken,
    rank_of,
)
from tileir.ops.shared.windows import Padding, PerAxis
from tileir.tile import builder_functions as tf


def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: DType | str = "u8",
    saturate: bool = True,
    precision: DType | str | None = None,
) -> Tensor:
    """Return ``round(x / scale) + zero_point`` in integers, or ``x / scale`` in floats of 8 bits.

    A scale of one axis belongs to ``axis``; with ``block_size`` it has as many axes as ``x``, and each of its elements
    along ``axis`` belongs to ``block_size`` elements of ``x``. The quotient has the dtype to which ``x`` and the scale
    are promoted, or ``precision``. ``saturate`` is that of :func:`tileir.ops.cast`, for floats. NaN becomes 0 in
    integers. Nothing here has a gradient.

    Raises:
        TileError: TIL206, there is no such dtype; TIL217, it is neither of integers nor of 8 bits, or ``block_size``
            is below 0; TIL305, a scale has another number of axes; TIL314, there is no such axis.
    """
    target, spread = dtype_of(dtype), _Spread(x, axis, block_size)
    quotient = _quotient(x, spread.over(scale), precision)
    if target.is_float and target.bits == DType.I8.bits:
        return cast(quotient, target, saturate=saturate)
    if not target.is_integer or target.bits > DType.I16.bits:
        raise mistaken(f"quantised numbers are integers of 8 or 16 bits, or floats of 8, not {target.value}")
    rounded = cast_to(tf.round(quotient), "f32")
    return cast_to(rounded if zero_point is None else rounded + cast_to(spread.over(zero_point), "f32"), target)


def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: DType | str | None = None,
) -> Tensor:
    """Return ``(x - zero_point) * scale``, computed in f32, in the dtype of the scale, or ``dtype``.

    Options and errors are those of :func:`quantize_linear`. The gradient goes to the scale.
    """
    spread = _Spread(x, axis, block_size)
    number = cast_to(x, "f32")
    if zero_point is not None:
        number = number - cast_to(spread.over(zero_point), "f32")
    result = number * for_sums(spread.over(scale))
    return call("as_like", result, scale) if dtype is None else cast_to(result, dtype)


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``x`` in u8, and the scale and zero point for a range with 0 and its least and greatest elements.

    ``scale = (max(x, 0) - min(x, 0)) / 255``, and 1 / 255 if all are 0; the zero point is ``round(-min / scale)``.
    """
    most, least = (tf.max(reductions.max(x), 0), tf.min(reductions.min(x), 0))
    scale = tf.where(most == least, tf.as_like(1, most), most - least) / 255
    point = tf.round(tf.min(tf.max((0 - least) / scale, 0), 255))
    return cast_to(tf.round(x / scale) + point, "u8"), scale, cast_to(point, "u8")


def requantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    dtype: DType | str = "u8",
    precision: DType | str = "f64",
) -> Tensor:
    """Return ``round(x * scale + zero_point)`` in integers: sums of products as quantised numbers of another scale.

    The operand of ``round`` is computed in ``precision``: f64 holds all of i32, f32 is faster on many devices. The
    scale of a product is ``x_scale * y_scale / scale``; ``axis`` is the axis of its or the zero point's elements.

    Raises:
        TileError: TIL206, there is no such dtype; TIL217, it is none of integers, or the precision another one;
            TIL305, a scale has another number of axes; TIL314, there is no such axis.

    Source: ONNX' ``QLinearMatMul`` and ``QLinearConv``, which requantise :func:`matmul_integer` and
    :func:`conv_integer`.
    """
    target, wide = dtype_of(dtype), chosen(dtype_of(precision), (DType.F32, DType.F64), "precision")
    if not target.is_integer:
        raise mistaken(f"quantised numbers are integers, not {target.value}")
    spread = _Spread(x, axis, 0)
    result = cast_to(x, wide) * cast_to(spread.over(scale), wide)
    if zero_point is not None:
        result = result + cast_to(spread.over(zero_point), wide)
    return cast_to(tf.round(result), target)


def matmul_integer(
    x: Tensor, y: Tensor, x_zero_point: Tensor | None = None, y_zero_point: Tensor | None = None
) -> Tensor:
    """Return the product of ``x - x_zero_point`` and ``y - y_zero_point`` over i32, as :func:`tileir.ops.matmul`.

    A zero point of ``x`` with one axis has an element for each row, one of ``y`` for each column; others broadcast.
    Sums wrap at 32 bits.

    Raises:
        TileError: As for :func:`tileir.ops.matmul`.

    """
    if x_zero_point is not None and rank_of(x_zero_point) == 1:
        x_zero_point = tf.reshape(x_zero_point, *dims_of(x_zero_point), 1)
    return matmul(_shifted(x, x_zero_point), _shifted(y, y_zero_point))


def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of ``x - x_zero_point`` and ``w - w_zero_point`` over i32, as :func:`tileir.ops.conv`.

    Layouts are PyTorch's. A zero point of ``w`` with one axis has an element for each channel of the result. The
    padding counts as ``x_zero_point``, and ``bias`` is i32. Sums wrap at 32 bits.

    Raises:
        TileError: As for :func:`tileir.ops.conv`; TIL305, a zero point of ``x`` has axes, or one of ``w`` two or more.

    """
    if x_zero_point is not None and rank_of(x_zero_point) > 1:
        raise mistake("TIL305", f"the zero point of images is one number, not a tensor of rank {rank_of(x_zero_point)}")
    return conv(
        _shifted(x, x_zero_point),
        _shifted(w, None if w_zero_point is None else _Spread(w, 0, 0).over(w_zero_point)),
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


@attrs.frozen(repr=False)
class _Spread:
    """The alignment of scales and zero points with the elements of a tensor: along one axis, or by blocks."""

    x: Tensor
    axis: int
    block: int

    def over(self, scale: Tensor) -> Tensor:
        """Return a scale or zero point in a shape that broadcasts with the tensor."""
        rank, block = rank_of(scale), integer_of(self.block, "block_size")
        if block < 0:
            raise mistaken(f"block_size is from 0 on, not {block}")
        if block:
            if rank != rank_of(self.x):
                raise mistake("TIL305", f"scales of blocks have {rank_of(self.x)} axes, as the tensor, not {rank}")
            place = axis_of(self.x, self.axis)
            return narrow(repeat(scale, block, place), place, 0, dims_of(self.x)[place])
        if rank == 0 or (rank > 1 and rank == rank_of(self.x)):
            return scale
        if rank > 1:
            raise mistake("TIL305", f"a scale or zero point has one axis, or as many as the tensor, not {rank}")
        if dims_of(scale)[0].value == 1:
            return tf.reshape(scale)
        place = axis_of(self.x, self.axis)
        return tf.reshape(scale, *dims_of(scale), *[1] * (rank_of(self.x) - place - 1))


def _quotient(x: Tensor, scale: Tensor, precision: DType | str | None) -> Tensor:
    return x / scale if precision is None else cast_to(x, precision) / cast_to(scale, precision)


def _shifted(x: Tensor, zero_point: Tensor | None) -> Tensor:
    return cast_to(x, "i32") if zero_point is None else cast_to(x, "i32") - cast_to(zero_point, "i32")
