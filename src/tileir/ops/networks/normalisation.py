"""Normalisation: shifting and scaling to a mean of 0 and a variance of 1, over batches, layers, groups or windows.

Variances are computed in two passes, from differences to the mean, because the sum of squares less the square of the
sum cancels. All results have the shape of ``x`` and its dtype, or f32 if that is an integer. They are computed in f32
at least, weights and biases included, and rounded to f16 or bf16 once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from tileir.ops.arithmetic.reductions import root, sum as summed
from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Dim,
    Operand,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    call,
    chosen,
    dim_like,
    dims_of,
    indices_of,
    mistaken,
    narrowed,
    rank_of,
    real,
    rounded_once,
    wide,
)
from tileir.ops.shared.windows import is_integer
from tileir.tile.building.recording import mistake


def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    running: tuple[Tensor, Tensor] | None = None,
    momentum: float = 0.1,
    epsilon: Operand = 1e-5,
    axis: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``x`` normalised over all axes but ``axis``, and two statistics: batch normalisation in training.

    ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias`` with the mean and the (biased) variance of each
    channel of this batch. The statistics are these two; or if ``running``, a mean and a variance, is given, the next
    running ones: ``(1 - momentum) * running + momentum * batch``, with the unbiased variance.

    Shapes: all but ``x`` and ``y`` are vectors with an element for each channel. Source: Ioffe and Szegedy, "Batch
    normalization", 2015; the running statistics are PyTorch's.

    Raises:
        TileError: TIL314, there is no such axis; TIL305, the rank of a vector is not 1.
    """
    channel = axis_of(x, axis)
    others = [other for other in range(rank_of(x)) if other != channel]
    mean, centred, variance = moments(x, others)
    y = narrowed(_scaled(centred * call("rsqrt", variance + epsilon), weight, bias, (channel,)), x)
    size = dims_of(x)[channel]
    statistics = call("reshape", narrowed(mean, x), size), call("reshape", narrowed(variance, x), size)
    if running is None:
        return (y, *statistics)
    count = _count(x, others)
    unbiased = variance * real(count) / (count - 1)
    first, second = (
        narrowed(_moved(wide(old), call("reshape", new, size), momentum), old, x)
        for old, new in zip(running, (mean, unbiased), strict=True)
    )
    return y, first, second


@rounded_once
def batch_norm_inference(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: Operand = 1e-5,
    axis: int = 1,
) -> Tensor:
    """Return ``(x - mean) / sqrt(variance + epsilon) * weight + bias``, with given statistics of each channel.

    Shapes: all but ``x`` are vectors with an element for each channel, on axis ``axis`` of ``x``.
    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    Raises:
        TileError: TIL314, there is no such axis; TIL305, the rank of a vector is not 1.

    """
    channel = (axis_of(x, axis),)
    rank = rank_of(x)
    scale = call("rsqrt", variance + epsilon)
    scale = scale if weight is None else scale * weight
    y = (x - _placed(mean, channel, rank)) * _placed(scale, channel, rank)
    return y if bias is None else y + _placed(bias, channel, rank)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes = -1,
    epsilon: Operand = 1e-5,
) -> Tensor:
    """Return ``(x - mean) / sqrt(variance + epsilon) * weight + bias`` with mean and variance over ``axes``.

    Shapes: ``weight`` and ``bias`` have the normalised axes. To normalise over a shape as PyTorch does, give its axes:
    ``axes=(-2, -1)``. Source: Ba, Kiros and Hinton, "Layer normalization", 2016.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, one is given twice; TIL305, a rank differs.
    """
    over = axes_of(x, axes)
    _, centred, variance = moments(x, over)
    return narrowed(_scaled(centred * call("rsqrt", variance + epsilon), weight, bias, over), x)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, axes: Axes = -1, epsilon: Operand = 1e-6) -> Tensor:
    """Return ``x / sqrt(mean(x * x) + epsilon) * weight`` with the mean over ``axes``.

    Shapes and errors as for :func:`layer_norm`. Source: Zhang and Sennrich, "Root mean square layer normalization",
    2019.
    """
    over = axes_of(x, axes)
    wider = wide(x)
    return narrowed(_scaled(wider * call("rsqrt", _mean(wider * wider, over) + epsilon), weight, None, over), x)


def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axis: int = 1,
    epsilon: Operand = 1e-5,
) -> Tensor:
    """Return ``x`` with each of the groups of channels of each example normalised.

    The groups are equal parts of axis ``axis``; axis 0 counts the examples. When compiling, TIL310 if the number of
    channels is no multiple of ``groups``. Shapes: ``weight`` and ``bias`` have an element for each channel. Source: Wu
    and He, "Group normalization", 2018.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, it is the first one, ``groups`` is no positive integer;
            TIL305,
            the rank of a vector is not 1.
    """
    channel = axis_of(x, axis)
    if channel == 0 or not is_integer(groups, 1):
        raise mistaken("groups is an integer from 1 on, and axis is not that of the examples, 0")
    dims = dims_of(x)
    parts = call("reshape", x, *dims[:channel], groups, dims[channel] // groups, *dims[channel + 1 :])
    over = [other for other in range(1, len(dims) + 1) if other != channel]
    _, centred, variance = moments(parts, over)
    y = call("reshape", centred * call("rsqrt", variance + epsilon), *dims)
    return narrowed(_scaled(y, weight, bias, (channel,)), x)


def instance_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, axis: int = 1, epsilon: Operand = 1e-5
) -> Tensor:
    """Return ``x`` with each channel of each example normalised over the other axes.

    Shapes: ``weight`` and ``bias`` are vectors with an element for each channel, on axis ``axis``; axis 0 counts the
    examples. Source: Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, it is the first one; TIL305, the rank of a vector is not 1.

    """
    channel = axis_of(x, axis)
    if channel == 0:
        raise mistaken("axis is that of the channels, and not that of the examples, 0")
    _, centred, variance = moments(x, [other for other in range(1, rank_of(x)) if other != channel])
    return narrowed(_scaled(centred * call("rsqrt", variance + epsilon), weight, bias, (channel,)), x)


def local_response_norm(
    x: Tensor, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, axes: Axes = 1
) -> Tensor:
    """Return ``x / (k + alpha * mean(x * x))**beta`` with the mean over a window of ``size`` around each element.

    The window lies along ``axes``; it begins ``size // 2`` before the element, and its parts outside count as 0.
    Source: Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural networks", 2012,
    with the division of PyTorch.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, ``size`` is no positive integer.
    """
    if not is_integer(size, 1):
        raise mistaken(f"size is an integer from 1 on; it was {size!r}")
    over = axes_of(x, axes)
    wider, output, taps = wide(x), indices_of(x), indices_of(x, "t")
    squares = wider * wider
    source = [place + taps[axis] - size // 2 if axis in over else place for axis, place in enumerate(output)]
    value = squares[tuple(source)].given(*(taps[axis] < size for axis in over))
    total = aggregate(Aggregation.SUM, value, output, dims_of(x))
    return narrowed(wider / call("pow", k + total * (alpha / size ** len(over)), beta), x)


def mean_variance_norm(
    x: Tensor,
    *,
    axes: Axes = None,
    normalise_variance: bool = True,
    epsilon: Operand = 1e-9,
    epsilon_mode: str = "inside",
) -> Tensor:
    """Return ``x - mean``, divided by the standard deviation if ``normalise_variance``; both over ``axes``.

    The divisor is ``sqrt(variance + epsilon)`` if ``epsilon_mode`` is "inside", or ``sqrt(variance) + epsilon`` with
    "outside". Source: ``mvn`` of PlaidML and ONNX.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, another mode, or an axis is given twice.
    """
    mode = chosen(epsilon_mode, ("inside", "outside"), "epsilon_mode")
    _, centred, variance = moments(x, axes_of(x, axes))
    if not normalise_variance:
        return narrowed(centred, x)
    if mode == "inside":
        return narrowed(centred * call("rsqrt", variance + epsilon), x)
    return narrowed(centred / (root(variance) + epsilon), x)


def weight_standardisation(w: Tensor, *, axes: Axes = None, epsilon: Operand = 1e-5) -> Tensor:
    """Return kernels with mean 0 and variance 1 over ``axes``; by default all but the first, that of the results.

    Source: Qiao, Wang, Liu, Shen and Yuille, "Micro-batch training with batch-channel normalization and weight
    standardization", 2019. Raises TIL314 if there is no such axis.
    """
    over = axes_of(w, tuple(range(1, rank_of(w))) if axes is None else axes)
    return mean_variance_norm(w, axes=over, epsilon=epsilon)


def l2_normalise(x: Tensor, *, axes: Axes = -1, epsilon: Operand = 1e-12, epsilon_mode: str = "max") -> Tensor:
    """Return ``x`` divided by its Euclidean norm over ``axes``.

    The divisor is ``max(norm, epsilon)`` if ``epsilon_mode`` is "max" (as in PyTorch's ``normalize``), or
    ``sqrt(norm**2 + epsilon)`` with "add" (PlaidML's ``l2norm``). The norm of zeros has the gradient 0.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, another mode, or an axis is given twice.
    """
    mode = chosen(epsilon_mode, ("max", "add"), "epsilon_mode")
    wider = wide(x)
    total = summed(wider * wider, axes_of(x, axes), keepdims=True)
    if mode == "add":
        return narrowed(wider * call("rsqrt", total + epsilon), x)
    return narrowed(wider / call("max", root(total), epsilon), x)


def moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean over ``axes``, the differences to it, and the mean of their squares; means keep their axes.

    The axes are counted from the front. All are floats of 32 bits at least.
    """
    wider = wide(x)
    mean = _mean(wider, axes)
    centred = wider - mean
    return mean, centred, _mean(centred * centred, axes)


def _moved(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    return (1.0 - momentum) * old + momentum * new


def _mean(x: Tensor, axes: Sequence[int]) -> Tensor:
    return summed(x, tuple(axes), keepdims=True) / real(_count(x, axes))


def _count(x: Tensor, axes: Sequence[int]) -> Dim:
    dims = dims_of(x)
    return functools.reduce(operator.mul, (dims[axis] for axis in axes), dim_like(x, 1))


def _scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None, axes: Sequence[int]) -> Tensor:
    """Multiply by a weight and add a bias, which have some of the axes."""
    rank = rank_of(y)
    scaled = y if weight is None else y * _placed(weight, axes, rank)
    return scaled if bias is None else scaled + _placed(bias, axes, rank)


def _placed(x: Tensor, axes: Sequence[int], rank: int) -> Tensor:
    """Return a tensor whose axes become ``axes`` of a tensor of ``rank`` axes, without leading axes of size 1."""
    dims = dims_of(x)
    if len(dims) != len(axes):
        raise mistake("TIL305", f"what is given for {len(axes)} axes has as many axes, not {len(dims)}")
    sizes: list[Dim | int] = [1] * (rank - axes[0])
    for axis, size in zip(axes, dims, strict=True):
        sizes[axis - rank] = size
    return x if len(sizes) == len(dims) else call("reshape", x, *sizes)
