"""Losses: distances of predictions from targets, and similarities of vectors.

For a loss with ``reduction``, "none" gives it for each element or example, "sum" their sum and "mean" their mean, as
tensors without axes. Unless stated otherwise, shapes broadcast. Integers are converted to floats; for f16 and bf16,
everything including the reduction is computed in f32, and rounded once.
"""

from __future__ import annotations

from typing import Final

from tileir.ops.arithmetic import reductions
from tileir.ops.arithmetic.elementwise import log1p
from tileir.ops.networks.activations import softplus
from tileir.ops.networks.attention import log_softmax
from tileir.ops.shared.foundation import (
    Operand,
    Tensor,
    axis_of,
    call,
    chosen,
    dim_like,
    dims_of,
    floating,
    mistaken,
    narrowed,
    rank_of,
    real,
    rounded_once,
    wide,
)
from tileir.ops.shared.positions import widened
from tileir.tile.building.recording import mistake

REDUCTIONS: Final = ("none", "mean", "sum")
_LEAST_LOG: Final = -100.0  # the least logarithm in a cross entropy, as in PyTorch


@rounded_once
def mse_loss(prediction: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return ``(prediction - target)**2``, reduced. Errors: TIL217, another reduction."""
    difference = floating(prediction) - target
    return _reduced(difference * difference, reduction)


@rounded_once
def l1_loss(prediction: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return ``|prediction - target|``, reduced; the gradient of equals is 0. Errors: TIL217, another reduction."""
    return _reduced(reductions.magnitude(floating(prediction) - target), reduction)


@rounded_once
def smooth_l1_loss(prediction: Tensor, target: Tensor, *, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """Return ``d * d / (2 * beta)`` where ``d = |prediction - target|`` is below ``beta``, else ``d - beta / 2``.

    With ``beta`` 0 it is the L1 loss. Source: Girshick, "Fast R-CNN", 2015.

    Raises:
        TileError: TIL217, another reduction, or ``beta`` is below 0.

    """
    if not beta >= 0:
        raise mistaken(f"beta is 0 or above; it was {beta!r}")
    if beta == 0:
        return l1_loss(prediction, target, reduction=reduction)
    distance = abs(floating(prediction) - target)
    inner = distance * distance * (0.5 / beta)
    return _reduced(call("cond", distance < beta, inner, distance - 0.5 * beta), reduction)


@rounded_once
def huber_loss(prediction: Tensor, target: Tensor, *, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """Return ``d * d / 2`` where ``d = |prediction - target|`` is at most ``delta``, else ``delta * (d - delta / 2)``.

    Source: Huber, "Robust estimation of a location parameter", 1964.

    Raises:
        TileError: TIL217, another reduction, or ``delta`` is not above 0.

    """
    if not delta > 0:
        raise mistaken(f"delta is above 0; it was {delta!r}")
    distance = abs(floating(prediction) - target)
    outer = (distance - 0.5 * delta) * float(delta)
    return _reduced(call("cond", distance <= delta, distance * distance * 0.5, outer), reduction)


@rounded_once
def binary_crossentropy(
    probability: Tensor, target: Tensor, *, weight: Operand | None = None, reduction: str = "mean"
) -> Tensor:
    """Return ``-weight * (t * log(p) + (1 - t) * log(1 - p))``, reduced; logarithms are at least -100.

    If a probability is 0 or 1 and the target the other one, the gradient is 0: use
    :func:`binary_crossentropy_with_logits` to train. Errors: TIL217, another reduction.
    """
    target = target * 1.0
    loss = -(target * _log(probability) + (1.0 - target) * _log(1.0 - probability))
    return _reduced(loss if weight is None else loss * weight, reduction)


@rounded_once
def binary_crossentropy_with_logits(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Operand | None = None,
    positive_weight: Operand | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``weight * (w * t * softplus(-z) + (1 - t) * softplus(z))``, reduced: that of ``p = sigmoid(z)``.

    ``w`` is ``positive_weight``, by default 1. Nothing overflows or cancels. Errors: TIL217, another reduction.
    """
    target = target * 1.0
    wanted = target if positive_weight is None else target * positive_weight
    unwanted = 1.0 - target
    above = call("max", logits, 0)
    rest = log1p(call("exp", -abs(logits)))  # softplus(z) = max(z, 0) + rest, softplus(-z) = max(z, 0) - z + rest
    loss = wanted * (above - logits) + unwanted * above + (wanted + unwanted) * rest
    return _reduced(loss if weight is None else loss * weight, reduction)


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    axis: int = 1,
    reduction: str = "mean",
) -> Tensor:
    """Return ``-weight[t] * log_softmax(logits)[t]`` for the class t of each example, reduced.

    Shapes: ``logits`` have an element for each class on ``axis``, which is 0 if there is no other. ``target`` has all
    other axes and holds classes, as integers; or it has the axes of ``logits`` and holds a probability for each class,
    and the loss is ``-sum(weight * target * log_softmax(logits))``. ``weight`` is a vector, an element for each class.

    The class ``ignore_index`` and classes out of range are ignored. ``label_smoothing`` s turns targets into ``(1 - s)
    * target + s / C``. The mean is weighted by the weights of the classes; with probabilities, it is that over the
    examples. All as PyTorch's ``cross_entropy``.

    Raises:
        TileError: TIL314, there is no such axis; TIL305, a rank differs; TIL217, the reduction is unknown, or
            ``label_smoothing`` is not from 0 to 1.
    """
    place = _class_axis(logits, axis)
    if not 0 <= label_smoothing <= 1:
        raise mistaken(f"label_smoothing is from 0 to 1; it was {label_smoothing!r}")
    likelihood = log_softmax(wide(logits), place)
    given, weight = weight, None if weight is None else wide(weight)
    rest = call("div", float(label_smoothing), dims_of(logits)[place])
    if rank_of(target) == rank_of(logits):
        smooth = wide(target) * (1.0 - label_smoothing) + rest if label_smoothing else wide(target)
        parts = call("cond", smooth == 0, 0, smooth * likelihood)
        return narrowed(
            _reduced(-reductions.sum(_weighted(parts, weight, place), place), reduction), logits, target, given
        )
    picked = _picked(likelihood, target, place)
    counted, weights = _weights(likelihood, target, weight, place, ignore_index)
    loss = -picked * weights
    if label_smoothing:
        everywhere = reductions.sum(_weighted(likelihood, weight, place), place)
        loss = loss * (1.0 - label_smoothing) - call("cond", counted, everywhere, 0) * rest
    return narrowed(_averaged(loss, weights, reduction), logits, given)


def nll_loss(
    likelihood: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    axis: int = 1,
    reduction: str = "mean",
) -> Tensor:
    """Return ``-weight[t] * likelihood[t]`` for the class t of each example, reduced, of logarithms of probabilities.

    Options and errors are those of :func:`cross_entropy` with classes.
    """
    place, wider = _class_axis(likelihood, axis), wide(likelihood)
    _, weights = _weights(wider, target, None if weight is None else wide(weight), place, ignore_index)
    return narrowed(_averaged(-_picked(wider, target, place) * weights, weights, reduction), likelihood, weight)


@rounded_once
def kl_divergence(likelihood: Tensor, target: Tensor, *, log_target: bool = False, reduction: str = "mean") -> Tensor:
    """Return ``target * (log(target) - likelihood)``, reduced: the divergence of a distribution from the target.

    ``likelihood`` holds logarithms of probabilities, and so does ``target`` with ``log_target``. There is a further
    reduction "batchmean", the sum divided by the first size, which is the divergence by its definition. As PyTorch's
    ``kl_div``; a probability of 0 in the target is ignored. Errors: TIL217, another reduction.
    """
    chosen(reduction, (*REDUCTIONS, "batchmean"), "reduction")
    if log_target:
        loss = call("exp", target) * (target - likelihood)
    else:
        something = target > 0
        loss = call("cond", something, target * (call("log", call("cond", something, target, 1)) - likelihood), 0)
    if reduction == "batchmean":
        return reductions.sum(loss) / real(dims_of(loss)[0])
    return _reduced(loss, reduction)


@rounded_once
def poisson_nll_loss(likelihood: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return ``exp(likelihood) - target * likelihood``, reduced: for counts, whose rates are ``exp(likelihood)``.

    Errors: TIL217, another reduction.
    """
    return _reduced(call("exp", likelihood) - target * floating(likelihood), reduction)


@rounded_once
def gaussian_nll_loss(
    prediction: Tensor, target: Tensor, variance: Tensor, *, epsilon: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return ``(log(v) + (prediction - target)**2 / v) / 2`` with ``v = max(variance, epsilon)``, reduced.

    The gradient with respect to a variance below ``epsilon`` is 0. Errors: TIL217, another reduction.
    """
    least = call("max", variance, epsilon)
    difference = floating(prediction) - target
    return _reduced(0.5 * (call("log", least) + difference * difference / least), reduction)


@rounded_once
def soft_margin_loss(prediction: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return ``log(1 + exp(-target * prediction))``, reduced; targets are -1 and 1.

    Nothing overflows. Errors: TIL217, another reduction.
    """
    return _reduced(softplus(-target * floating(prediction)), reduction)


@rounded_once
def hinge_loss(prediction: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return ``max(1 - target * prediction, 0)``, reduced; targets are -1 and 1. Errors: TIL217, another reduction."""
    return _reduced(call("max", 1.0 - target * floating(prediction), 0), reduction)


@rounded_once
def hinge_embedding_loss(distance: Tensor, target: Tensor, *, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Return ``distance`` where the target is 1, else ``max(margin - distance, 0)``, reduced.

    Errors: TIL217, another reduction.
    """
    return _reduced(call("cond", target == 1, distance, call("max", margin - floating(distance), 0)), reduction)


@rounded_once
def margin_ranking_loss(
    first: Tensor, second: Tensor, target: Tensor, *, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Return ``max(margin - target * (first - second), 0)``, reduced; the target is 1 where the first is to be greater.

    Errors: TIL217, another reduction.
    """
    return _reduced(call("max", margin - target * (floating(first) - second), 0), reduction)


@rounded_once
def cosine_similarity(first: Tensor, second: Tensor, *, axis: int = -1, epsilon: float = 1e-8) -> Tensor:
    """Return ``sum(x * y) / (max(|x|, epsilon) * max(|y|, epsilon))`` with sums and norms over ``axis``.

    Shape: that of the broadcast vectors without the axis. Norms of zero vectors have gradients of 0. Source: PyTorch's
    ``cosine_similarity``.

    Raises:
        TileError: TIL314, there is no such axis.
    """
    product = first * second
    place = axis_of(product, axis)
    behind = place - rank_of(product)
    norms = [call("sqrt", call("max", reductions.sum(x * x, behind), epsilon * epsilon)) for x in (first, second)]
    return reductions.sum(product, place) / (norms[0] * norms[1])


@rounded_once
def cosine_embedding_loss(
    first: Tensor,
    second: Tensor,
    target: Tensor,
    *,
    margin: float = 0.0,
    axis: int = -1,
    reduction: str = "mean",
) -> Tensor:
    """Return ``1 - similarity`` where the target is 1, else ``max(similarity - margin, 0)``, reduced.

    The similarity is that of :func:`cosine_similarity`, whose shape is that of the target. Errors: TIL217, another
    reduction; TIL314, there is no such axis.
    """
    similarity = cosine_similarity(first, second, axis=axis)
    apart = call("max", similarity - margin, 0)
    return _reduced(call("cond", target == 1, 1.0 - similarity, apart), reduction)


@rounded_once
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    order: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``, reduced, for vectors on the last axis.

    The distance is the norm of that order of ``x - y + epsilon``. With ``swap``, the distance of the positive from the
    negative is used if it is the lesser one. Sources: PyTorch's ``triplet_margin_loss``; Balntas et al., "Learning
    local feature descriptors with triplets and shallow convolutional neural networks", 2016.

    Raises:
        TileError: TIL217, another reduction.
    """

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return reductions.norm(floating(x) - y + epsilon, -1, order=order)

    far = distance(anchor, negative)
    if swap:
        far = call("min", far, distance(positive, negative))
    return _reduced(call("max", distance(anchor, positive) - far + margin, 0), reduction)


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    chosen(reduction, REDUCTIONS, "reduction")
    if reduction == "none":
        return loss
    return reductions.mean(loss) if reduction == "mean" else reductions.sum(loss)


def _log(x: Tensor) -> Tensor:
    """Return the logarithm, at least -100, without infinite derivatives at 0."""
    positive = x > 0
    return call("cond", positive, call("max", call("log", call("cond", positive, x, 1)), _LEAST_LOG), _LEAST_LOG)


def _class_axis(x: Tensor, axis: int) -> int:
    return axis_of(x, 0 if rank_of(x) == 1 and axis == 1 else axis)


def _picked(likelihood: Tensor, target: Tensor, axis: int) -> Tensor:
    """Return the element of the class of each example, 0 if it is out of range."""
    dims = dims_of(likelihood)
    if rank_of(target) != len(dims) - 1:
        raise mistake(
            "TIL305", f"classes have an axis less than the {len(dims)} of what is given for each, not {rank_of(target)}"
        )
    sizes = [dim if place != axis else dim_like(dim, 1) for place, dim in enumerate(dims)]
    hit = call("index", likelihood, axis) == call("reshape", target, *sizes)
    return reductions.sum(call("cond", hit, likelihood, 0), axis)


def _weights(
    likelihood: Tensor, target: Tensor, weight: Tensor | None, axis: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """Return a mask of the examples that count, and their weights."""
    classes = widened(target)
    counted = call("logical_and", classes >= 0, classes < dims_of(likelihood)[axis])
    if ignore_index >= 0:
        counted = call("logical_and", counted, classes != ignore_index)
    return counted, call("cond", counted, 1 if weight is None else call("gather", _vector(weight), target), 0)


def _weighted(x: Tensor, weight: Tensor | None, axis: int) -> Tensor:
    """Multiply by a weight for each class."""
    if weight is None:
        return x
    return x * call("reshape", _vector(weight), *dims_of(weight), *(1,) * (rank_of(x) - 1 - axis))


def _vector(weight: Tensor) -> Tensor:
    if rank_of(weight) != 1:
        raise mistake("TIL305", f"weights of classes have one axis, not {rank_of(weight)}")
    return weight


def _averaged(loss: Tensor, weights: Tensor, reduction: str) -> Tensor:
    """Reduce the loss, with a mean over weights: NaN with a gradient of 0 if nothing counts, as in PyTorch."""
    if reduction != "mean":
        return _reduced(loss, reduction)
    total = reductions.sum(weights)
    nothing = call("cmp_eq", total, 0)
    mean = reductions.sum(loss) / call("cond", nothing, 1, total)
    return mean + call("div", 0.0, call("cond", nothing, 0, 1))
