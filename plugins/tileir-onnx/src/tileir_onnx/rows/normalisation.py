"""Normalisation by means and deviations of channels, layers, groups or windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import like, wide
from tileir_onnx.rows.table import row

_LEAST: Final = 1e-38
"""Minimum norm for divisions, so that zeros stay zeros."""


@row("BatchNormalization", until=14)
def batch_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    consumed_inputs: Sequence[int] = (),
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Tensor, ...]:
    given = [scale, bias, mean, variance]
    if not spatial:  # each element of an example has separate statistics
        flat, given = ops.reshape(x, x.shape[0], -1), [ops.reshape(each, -1) for each in given]
        y, *rest = batch_norm(call, flat, *given, epsilon=epsilon, is_test=is_test, momentum=momentum)
        return (ops.reshape(y, *x.shape), *(ops.reshape(each, *x.shape[1:]) for each in rest))
    training = not is_test and len(call.outputs) > 1
    results: tuple[Tensor, ...] = batch_norm_14(
        call, x, *given, epsilon=epsilon, momentum=momentum, training_mode=int(training)
    )
    if not training:
        return results
    _, *saved = ops.batch_norm(x, epsilon=epsilon)
    return (*results, *(ops.cast(each, mean.dtype) for each in saved))


@row("BatchNormalization", since=14)
def batch_norm_14(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Tensor, ...]:
    if not training_mode:
        if (known := _by_known_statistics(call, x, epsilon)) is not None:
            return (known,)
        y = ops.batch_norm_inference(x, mean, variance, scale, bias, epsilon=epsilon)
        return (like(y, x),)
    y, *batch = ops.batch_norm(x, scale, bias, epsilon=epsilon)
    running = (old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), batch, strict=True))
    return (like(y, x), *(ops.cast(each, mean.dtype) for each in running))


def _by_known_statistics(call: Call, x: Tensor, epsilon: float) -> Tensor | None:
    """Return the normalised elements if the vectors are known, with factors computed now, in f64.

    A network has hundreds of these nodes, and three operations of each are left. None if a vector is not known.
    """
    known = [call.known(position) for position in range(1, 5)]
    given = [each for each in known if each is not None and each.dtype == x.dtype.numpy]
    if len(given) < 4 or call.in_loop or x.rank < 2 or x.dtype not in (DType.F32, DType.F64):
        return None
    if any(each.shape != (x.shape[1],) for each in given):
        return None
    scale, bias, mean, variance = given
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance.astype(np.float64) + epsilon)
        arrays = (each.astype(mean.dtype, copy=False) for each in (mean, factor, bias))
    middle, factors, offset = (call.tensor(each.reshape(-1, *[1] * (x.rank - 2))) for each in arrays)
    return (x - middle) * factors + offset


@row("InstanceNormalization")
def instance_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    consumed_inputs: Sequence[int] = (),
    epsilon: float = 1e-5,
) -> Tensor:
    return ops.instance_norm(x, scale, bias, epsilon=epsilon)


@row("GroupNormalization", since=18, until=21)
def group_norm_18(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    groups = ops.reshape(x, x.shape[0], num_groups, -1)
    return ops.reshape(ops.instance_norm(groups, scale, bias, epsilon=epsilon), *x.shape)


@row("GroupNormalization", since=21)
def group_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    return ops.group_norm(x, num_groups, scale, bias, epsilon=epsilon)


@row("LayerNormalization")
def layer_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    axes = tuple(range(axis % x.rank, x.rank))
    if all(each is None or each.rank == len(axes) for each in (scale, bias)):
        y = ops.layer_norm(x, scale, bias, axes=axes, epsilon=epsilon)
    else:  # they broadcast
        y = ops.layer_norm(x, axes=axes, epsilon=epsilon) * scale
        y = y if bias is None else y + bias
    if len(call.outputs) == 1:
        return (like(y, x),)
    stashed = ops.cast(x, call.dtype(stash_type))
    deviation = ops.sqrt(ops.variance(stashed, axes, keepdims=True) + epsilon)
    return like(y, x), ops.mean(stashed, axes, keepdims=True), ops.reciprocal(deviation)


@row("RMSNormalization")
def rms_norm(
    call: Call, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    axes = tuple(range(axis % x.rank, x.rank))
    x = ops.cast(x, scale.dtype) if x.dtype.bits < scale.dtype.bits else x
    if scale.rank == len(axes):
        return ops.cast(ops.rms_norm(x, scale, axes=axes, epsilon=epsilon), scale.dtype)
    return ops.cast(ops.rms_norm(x, axes=axes, epsilon=epsilon), scale.dtype) * scale


@row("LRN")
def lrn(call: Call, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    if size % 2:
        return ops.local_response_norm(x, size, alpha=alpha, beta=beta, k=bias)
    # a window that cannot be centred extends further to the end here, and to the front there
    return ops.flip(ops.local_response_norm(ops.flip(x, 1), size, alpha=alpha, beta=beta, k=bias), 1)


@row("LpNormalization")
def lp_norm(call: Call, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    if p == 2:
        return ops.l2_normalise(x, axes=axis, epsilon=_LEAST)
    norm = ops.norm(wide(x), axis, order=p, keepdims=True)
    return like(ops.where(norm == 0, 0, wide(x) / norm), x)


@row("MeanVarianceNormalization")
def mean_variance_norm(call: Call, x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    return ops.mean_variance_norm(x, axes=tuple(axes), epsilon=1e-9, epsilon_mode="outside")


@row("Dropout", until=7)
def dropout_1(
    call: Call, x: Tensor, *, consumed_inputs: Sequence[int] = (), is_test: int = 0, ratio: float = 0.5
) -> tuple[Tensor, ...]:
    y, stays = _dropped(call, x, 0.0 if is_test else ratio, 0)
    return y, ops.cast(stays, x.dtype)


@row("Dropout", since=7, until=12)
def dropout_7(call: Call, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, ...]:
    y, stays = _dropped(call, x, 0.0, 0)
    return y, stays if call.version >= 10 else ops.cast(stays, x.dtype)


@row("Dropout", since=12, known=("ratio", "training_mode"))
def dropout(
    call: Call, x: Tensor, ratio: Array | None = None, training_mode: Array | None = None, *, seed: int = 0
) -> tuple[Tensor, ...]:
    rate = 0.5 if ratio is None else float(ratio)
    return _dropped(call, x, rate if training_mode is not None and training_mode else 0.0, seed)


def _dropped(call: Call, x: Tensor, rate: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return elements, some of which are set to 0 at random, and the mask of the kept elements."""
    if rate == 0:
        return x, ops.full_like(x, 1) == 1
    stays, _ = ops.bernoulli(call.tensor(ops.random_state(seed)), 1 - rate, x.dims)
    return ops.where(stays, ops.cast(x * (1 / (1 - rate)), x.dtype), 0), stays
