"""Rows of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.pointwise import softplus
from fuzz.wide.reductions import log_softmax
from fuzz.wide.row import Arguments, Array, Draw, Row


def reduced(loss: Array, reduction: str) -> Array:
    """Return a loss as it is, its sum or its mean."""
    return loss if reduction == "none" else np.asarray(loss.sum() if reduction == "sum" else loss.mean())


def _loss(
    name: str,
    loss: Callable[..., Any],
    among: str = "any",
    target: str = "any",
    *,
    parts: int = 2,
    options: Callable[[Draw], dict[str, Any]] = lambda _: {},
    **more: Any,
) -> Row:
    def draw(draw: Draw) -> Arguments:
        shape = draw.full(1, 3)
        if draw.dtype in ("f16", "bf16") and draw.integer(0, 24) == 24:
            shape = (66_000,)
        kinds = [among] * (parts - 1) + [target]
        return [draw.tensor(shape, kind) for kind in kinds], {
            **options(draw),
            "reduction": draw.pick(("mean", "sum", "none")),
        }

    def oracle(*tensors: Array, reduction: str, **chosen: Any) -> Array:
        return reduced(loss(*tensors, **chosen), reduction)

    def terms(*tensors: Array, reduction: str, **chosen: Any) -> Array:
        size = sum(np.max(np.where(np.isfinite(t), abs(t), 0), initial=0) for t in tensors) + 1
        each = np.abs(np.asarray(loss(*tensors, **chosen))) + 4 * size
        return reduced(np.where(np.isfinite(each), each, 0), reduction)

    return Row(name, draw, oracle, **{"terms": terms, "flavours": CALM, "units": 16, **more})


def _picked(**values: tuple[Any, ...]) -> Callable[[Draw], dict[str, Any]]:
    return lambda draw: {name: draw.pick(several) for name, several in values.items()}


def _smooth(x: Array, t: Array, beta: float) -> Array:
    d = abs(x - t)
    return d if not beta else np.where(d < beta, d * d / (2 * beta), d - beta / 2)


def _bounded_log(x: Array) -> Array:
    return np.maximum(np.where(x > 0, np.log(np.where(x > 0, x, 1)), -np.inf), -100)


def _divergence(x: Array, t: Array, log_target: bool) -> Array:
    if log_target:
        return np.exp(t) * (t - x)
    return np.where(t > 0, t * np.log(np.where(t > 0, t, 1)), 0) - t * x


def _gaussian(x: Array, t: Array, v: Array) -> Array:
    v = np.maximum(v, np.longdouble(1e-6))
    return (np.log(v) + (x - t) ** 2 / v) / 2


def _classes(draw: Draw) -> Arguments:
    classes, rest = draw.integer(1, 6), draw.full(0, 2)
    if draw.dtype in ("f16", "bf16") and draw.integer(0, 24) == 24:
        classes, rest = 66_000, ()
    shape = (draw.integer(1, 3), classes, *rest)
    options = {"reduction": draw.pick(("mean", "sum", "none"))}
    if draw.flag():
        options["ignore_index"] = draw.integer(0, 2)
    target = draw.tensor(
        (shape[0], *rest), "index", draw.pick(("i64", "i32", "u8") if classes < 255 else ("i64",)), below=classes
    )
    logits = draw.tensor(shape, draw.pick(("any", "normal")))
    if draw.flag():
        options["weight"] = draw.tensor((classes,), "positive")
    return [logits, target], options


def _smoothed(draw: Draw) -> Arguments:
    arguments, options = _classes(draw)
    return arguments, {**options, **({"label_smoothing": draw.pick((0.25, 0.5))} if draw.flag() else {})}


def _nll(
    x: Array, t: Array, reduction: str, weight: Array | None = None, ignore_index: int = -100, smoothing: float = 0
) -> Array:
    classes = x.shape[1]
    counted = (t != ignore_index) & (t >= 0) & (t < classes)
    weights = np.ones(classes, np.longdouble) if weight is None else weight
    place = t.astype(np.int64).clip(0, classes - 1)
    own = np.where(counted, weights[place], 0)
    at = np.take_along_axis(x, place[:, None], 1)[:, 0]
    loss = np.where(own == 0, 0, -at * own)
    if smoothing:
        spread = weights.reshape(-1, *(1,) * (x.ndim - 2))
        loss = (1 - smoothing) * loss + smoothing / classes * np.where(counted, -(x * spread).sum(1), 0)
    if reduction == "mean":
        return np.asarray(loss.sum() / own.sum())
    return reduced(loss, reduction)


def _cross(x: Array, t: Array, reduction: str, label_smoothing: float = 0, **options: Any) -> Array:
    return _nll(log_softmax(x, 1), t, reduction, smoothing=label_smoothing, **options)


def _class_terms(x: Array, t: Array, reduction: str, **_: Any) -> Array:
    size = 4 * (np.max(np.where(np.isfinite(x), abs(x), 0), initial=0) + np.log(np.longdouble(x.shape[1] + 1)))
    return size * (t.size if reduction == "sum" else 1) * 4


def similarity(x: Array, y: Array, axis: int = -1, epsilon: float = 1e-8) -> Array:
    """Return the cosine of the angle between vectors."""
    sizes = [np.maximum(np.sqrt((each * each).sum(axis)), epsilon) for each in (x, y)]
    return np.asarray((x * y).sum(axis) / (sizes[0] * sizes[1]))


def _similar(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape), draw.tensor(shape)], {"axis": draw.axis(shape)}


def _embedded(draw: Draw) -> Arguments:
    shape = draw.full(2, 2)
    options = {"margin": draw.pick((0.0, 0.25)), "reduction": draw.pick(("mean", "sum", "none"))}
    return [draw.tensor(shape, "normal"), draw.tensor(shape, "normal"), draw.tensor(shape[:1], "signs")], options


def _embedding(x: Array, y: Array, t: Array, margin: float, reduction: str) -> Array:
    near = similarity(x, y)
    return reduced(np.where(t == 1, 1 - near, np.maximum(near - margin, 0)), reduction)


def _triplet(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    options = {"margin": draw.pick((1.0, 0.5)), "swap": draw.flag(), "reduction": draw.pick(("mean", "sum", "none"))}
    return [draw.tensor(shape, "normal") for _ in range(3)], options


def _triple(a: Array, p: Array, n: Array, margin: float, swap: bool, reduction: str) -> Array:
    def distance(x: Array, y: Array) -> Array:
        return np.sqrt(((x - y + np.longdouble(1e-6)) ** 2).sum(-1))

    far = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return reduced(np.maximum(distance(a, p) - far + margin, 0), reduction)


def _count_terms(*tensors: Any, **options: Any) -> Array:
    return np.asarray(16 * (1 + sum(np.abs(t).sum() for t in tensors if isinstance(t, np.ndarray))))


ROWS_LOSSES: Final = (
    _loss("mse_loss", lambda x, t: (x - t) ** 2, flavours=(*CALM, "large"), terms=None),
    _loss("l1_loss", lambda x, t: abs(x - t), flavours=(*CALM, "large")),
    _loss("smooth_l1_loss", _smooth, options=_picked(beta=(1.0, 0.5, 0.0))),
    _loss(
        "huber_loss",
        lambda x, t, delta: np.where(abs(x - t) <= delta, (x - t) ** 2 / 2, delta * (abs(x - t) - delta / 2)),
        options=_picked(delta=(1.0, 0.25)),
    ),
    _loss(
        "binary_crossentropy",
        lambda p, t: -(t * _bounded_log(p) + (1 - t) * _bounded_log(1 - p)),
        "probability",
        "probability",
        constant="B",
    ),
    _loss(
        "binary_crossentropy_with_logits", lambda z, t: t * softplus(-z) + (1 - t) * softplus(z), target="probability"
    ),
    _loss("kl_divergence", _divergence, target="probability", options=_picked(log_target=(False, True)), constant="B"),
    _loss("poisson_nll_loss", lambda x, t: np.exp(x) - t * x, target="positive"),
    _loss("gaussian_nll_loss", _gaussian, target="positive", parts=3),
    _loss("soft_margin_loss", lambda x, t: softplus(-t * x), target="signs"),
    _loss("hinge_loss", lambda x, t: np.maximum(1 - t * x, 0), target="signs"),
    _loss(
        "hinge_embedding_loss",
        lambda x, t, margin: np.where(t == 1, x, np.maximum(margin - x, 0)),
        target="signs",
        options=_picked(margin=(1.0, 0.5)),
        constant="B",
    ),
    _loss(
        "margin_ranking_loss",
        lambda x, y, t, margin: np.maximum(margin - t * (x - y), 0),
        target="signs",
        parts=3,
        options=_picked(margin=(0.0, 0.5)),
    ),
    Row("cross_entropy", _smoothed, _cross, flavours=CALM, terms=_class_terms, constant="W"),
    Row("nll_loss", _classes, lambda x, t, **o: _nll(x, t, **o), flavours=CALM, terms=_class_terms),
    Row(
        "cosine_similarity",
        _similar,
        similarity,
        flavours=("normal", "ties"),
        units=16,
        terms=lambda x, y, axis: 0 * similarity(x, y, axis) + 8,
    ),
    Row("cosine_embedding_loss", _embedded, _embedding, terms=_count_terms, constant="C"),
    Row("triplet_margin_loss", _triplet, _triple, terms=_count_terms),
)
