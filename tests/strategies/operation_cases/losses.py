"""Cases of losses: of values, probabilities, classes, distances and margins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from strategies.operations import Array

_PAIR: Final = {"P": sample(3, 5), "T": sample(3, 5, seed=1)}
_PROBABILITY: Final = {"P": sample(3, 4, low=0.05, high=0.95), "T": sample(3, 4, low=0.0, high=1.0, seed=1)}
_LOGITS: Final = {"Z": sample(3, 4, low=-30, high=30), "T": sample(3, 4, low=0.0, high=1.0, seed=1)}
_SINGLE: Final = {"Z": sample(4), "T": np.array(2)}
_CLASSES: Final = {"Z": sample(6, 4), "T": np.array([0, 3, 1, -100, 3, 2], np.int64)}
_WEIGHTED: Final = _CLASSES | {"W": sample(4, low=0.5, seed=2)}
_DISTRIBUTION: Final = {"Z": sample(3, 4), "T": sample(3, 4, low=0.1, high=0.4, seed=1)}
_SIGNS: Final = np.array([1, -1, 1], np.int32)
_VECTORS: Final = {"X": sample(3, 4), "Y": sample(3, 4, seed=1)}


def huber(d: Array, delta: float) -> Array:
    return np.where(np.abs(d) <= delta, d * d / 2, delta * (np.abs(d) - delta / 2))


def softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def logarithms(z: Array) -> Array:
    shifted = z - z.max(1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return result


def picked(likelihood: Array, target: Array, weight: Array | None = None, smoothing: float = 0.0) -> Any:
    """Return the losses of examples and their weights; classes lie on axis 1, and -100 is none."""
    counts = target >= 0
    classes = np.where(counts, target, 0)
    of_class = np.ones(likelihood.shape[1]) if weight is None else weight
    weights = np.where(counts, of_class[classes], 0.0)
    loss = -np.take_along_axis(likelihood, classes[:, None], 1)[:, 0] * weights
    everywhere = -np.tensordot(of_class, likelihood, (0, 1)) * counts
    return loss * (1 - smoothing) + everywhere * smoothing / likelihood.shape[1], weights


def averaged(likelihood: Array, target: Array, weight: Array | None = None, smoothing: float = 0.0) -> Any:
    loss, weights = picked(likelihood, target, weight, smoothing)
    return loss.sum() / weights.sum()


def similarity(x: Array, y: Array) -> Any:
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def _of_values(
    name: str, operation: Callable[..., Any], numpy: Callable[..., Array], torch: str, **options: Any
) -> tuple[Case, ...]:
    """Return the cases of one loss with all reductions."""
    reductions: dict[str, Callable[[Array], Any]] = {"none": np.asarray, "mean": np.mean, "sum": np.sum}

    def case(reduction: str, reduce: Callable[[Array], Any]) -> Case:
        return Case(
            f"{name}_{reduction}",
            lambda p, t: operation(p, t, reduction=reduction, **options),
            _PAIR,
            lambda p, t: reduce(numpy(p - t)),
            lambda module, p, t: getattr(module.nn.functional, torch)(p, t, reduction=reduction, **options),
        )

    return tuple(case(reduction, reduce) for reduction, reduce in reductions.items())


_VALUES: Final = (
    *_of_values("squares", ops.mse_loss, np.square, "mse_loss"),
    *_of_values("distances", ops.l1_loss, np.abs, "l1_loss"),
    Case(
        "distances_of_equals",
        ops.l1_loss,
        {"P": sample(3, 5), "T": np.where(np.arange(15).reshape(3, 5) % 4 == 0, sample(3, 5), 0.3)},
        lambda p, t: np.abs(p - t).mean(),
        lambda module, p, t: module.nn.functional.l1_loss(p, t),
    ),
    *_of_values("smooth", ops.smooth_l1_loss, lambda d: huber(d, 0.5) / 0.5, "smooth_l1_loss", beta=0.5),
    *_of_values("huber", ops.huber_loss, lambda d: huber(d, 0.75), "huber_loss", delta=0.75),
    Case(
        "smooth_without_beta",
        lambda p, t: ops.smooth_l1_loss(p, t, beta=0),
        _PAIR,
        lambda p, t: np.abs(p - t).mean(),
        lambda module, p, t: module.nn.functional.smooth_l1_loss(p, t, beta=0.0),
    ),
)

_BINARY: Final = (
    Case(
        "probabilities",
        ops.binary_crossentropy,
        _PROBABILITY,
        lambda p, t: -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean(),
        lambda module, p, t: module.nn.functional.binary_cross_entropy(p, t),
        wrt=("P",),
    ),
    Case(
        "weighted_probabilities",
        lambda p, t, w: ops.binary_crossentropy(p, t, weight=w, reduction="none"),
        _PROBABILITY | {"W": sample(4, low=0.5)},
        lambda p, t, w: -w * (t * np.log(p) + (1 - t) * np.log(1 - p)),
        lambda module, p, t, w: module.nn.functional.binary_cross_entropy(p, t, w, reduction="none"),
        wrt=("P",),
    ),
    Case(
        "certain_probabilities",
        lambda p, t: ops.binary_crossentropy(p, t, reduction="none"),
        {"P": np.array([0.0, 0.0, 1.0, 1.0, 0.5]), "T": np.array([0, 1, 0, 1, 1], np.int32)},
        lambda p, t: np.where(p == t, 0, np.where(p == 0.5, np.log(2), 100)),
        wrt=(),
    ),
    Case(
        "logits",
        lambda z, t: ops.binary_crossentropy_with_logits(z, t, reduction="none"),
        _LOGITS,
        lambda z, t: t * softplus(-z) + (1 - t) * softplus(z),
        lambda module, z, t: module.nn.functional.binary_cross_entropy_with_logits(z, t, reduction="none"),
    ),
    Case(
        "weighted_logits",
        lambda z, t, w, p: ops.binary_crossentropy_with_logits(z, t, weight=w, positive_weight=p),
        _LOGITS | {"W": sample(4, low=0.5, seed=2), "P": sample(4, low=0.5, seed=3)},
        lambda z, t, w, p: (w * (p * t * softplus(-z) + (1 - t) * softplus(z))).mean(),
        lambda module, z, t, w, p: module.nn.functional.binary_cross_entropy_with_logits(z, t, w, pos_weight=p),
        wrt=("Z", "T"),
    ),
)

_MULTIPLE: Final = (
    Case(
        "classes",
        ops.cross_entropy,
        _CLASSES,
        lambda z, t: averaged(logarithms(z), t),
        lambda module, z, t: module.nn.functional.cross_entropy(z, t),
    ),
    Case(
        "class_of_one_example",
        lambda z, t: (ops.cross_entropy(z, t), ops.nll_loss(z, t)),
        _SINGLE,
        lambda z, t: (-logarithms(z[None])[0, int(t)], -z[int(t)]),
        lambda module, z, t: (module.nn.functional.cross_entropy(z, t), module.nn.functional.nll_loss(z, t)),
    ),
    Case(
        "classes_none",
        lambda z, t: ops.cross_entropy(100 * z, t, reduction="none"),
        _CLASSES,
        lambda z, t: picked(logarithms(100 * z), t)[0],
        lambda module, z, t: module.nn.functional.cross_entropy(100 * z, t, reduction="none"),
        tolerance=50,
    ),
    Case(
        "classes_weighted_and_smoothed",
        lambda z, t, w: ops.cross_entropy(z, t, weight=w, label_smoothing=0.25),
        _WEIGHTED,
        lambda z, t, w: averaged(logarithms(z), t, w, 0.25),
        lambda module, z, t, w: module.nn.functional.cross_entropy(z, t, w, label_smoothing=0.25),
        wrt=("Z",),
    ),
    Case(
        "classes_of_pixels",
        lambda z, t: ops.cross_entropy(z, t, reduction="sum"),
        {"Z": sample(2, 3, 2, 2), "T": integers(2, 2, 2, low=0, high=3)},
        lambda z, t: picked(logarithms(z), t)[0].sum(),
        lambda module, z, t: module.nn.functional.cross_entropy(z, t.long(), reduction="sum"),
    ),
    Case(
        "classes_in_bytes",
        lambda z, t: ops.cross_entropy(z, t, ignore_index=3),
        {"Z": sample(5, 4), "T": np.array([0, 3, 1, 2, 3], np.uint8)},
        lambda z, t: averaged(logarithms(z), np.where(t == 3, -100, t.astype(np.int32))),
        lambda module, z, t: module.nn.functional.cross_entropy(z, t.long(), ignore_index=3),
    ),
    Case(
        "distributions",
        lambda z, t: ops.cross_entropy(z, t, label_smoothing=0.1),
        _DISTRIBUTION,
        lambda z, t: -((0.9 * t + 0.1 / 4) * logarithms(z)).sum(1).mean(),
        lambda module, z, t: module.nn.functional.cross_entropy(z, t, label_smoothing=0.1),
    ),
    Case(
        "distributions_weighted",
        lambda z, t, w: ops.cross_entropy(z, t, weight=w, reduction="none"),
        _DISTRIBUTION | {"W": sample(4, low=0.5, seed=2)},
        lambda z, t, w: -(w * t * logarithms(z)).sum(1),
        lambda module, z, t, w: module.nn.functional.cross_entropy(z, t, w, reduction="none"),
        wrt=("Z", "T"),
    ),
    Case(
        "likelihoods",
        ops.nll_loss,
        _CLASSES,
        lambda z, t: averaged(z, t),
        lambda module, z, t: module.nn.functional.nll_loss(z, t),
    ),
    Case(
        "likelihoods_weighted",
        lambda z, t, w: ops.nll_loss(z, t, weight=w, reduction="none"),
        _WEIGHTED,
        lambda z, t, w: picked(z, t, w)[0],
        lambda module, z, t, w: module.nn.functional.nll_loss(z, t, w, reduction="none"),
        wrt=("Z",),
    ),
)

_DENSITIES: Final = (
    Case(
        "divergence",
        lambda z, t: ops.kl_divergence(z, t, reduction="batchmean"),
        _DISTRIBUTION,
        lambda z, t: (t * (np.log(t) - z)).sum() / 3,
        lambda module, z, t: module.nn.functional.kl_div(z, t, reduction="batchmean"),
    ),
    Case(
        "divergence_from_nothing",
        lambda z, t: ops.kl_divergence(z, t, reduction="none"),
        {"Z": sample(4), "T": np.array([0.0, 0.25, 0.75, 0.0])},
        lambda z, t: np.where(t == 0, 0, t * (np.log(np.where(t == 0, 1, t)) - z)),
        lambda module, z, t: module.nn.functional.kl_div(z, t, reduction="none"),
        wrt=("Z",),
    ),
    Case(
        "divergence_of_logarithms",
        lambda z, t: ops.kl_divergence(z, t, log_target=True, reduction="sum"),
        _DISTRIBUTION,
        lambda z, t: (np.exp(t) * (t - z)).sum(),
        lambda module, z, t: module.nn.functional.kl_div(z, t, log_target=True, reduction="sum"),
    ),
    Case(
        "poisson",
        ops.poisson_nll_loss,
        _PAIR,
        lambda p, t: (np.exp(p) - t * p).mean(),
        lambda module, p, t: module.nn.functional.poisson_nll_loss(p, t),
    ),
    Case(
        "gaussian",
        ops.gaussian_nll_loss,
        _PAIR | {"V": sample(3, 5, low=0.5, seed=2)},
        lambda p, t, v: ((np.log(v) + (p - t) ** 2 / v) / 2).mean(),
        lambda module, p, t, v: module.nn.functional.gaussian_nll_loss(p, t, v),
    ),
)

_MARGINS: Final = (
    Case(
        "soft_margin",
        lambda p, t: ops.soft_margin_loss(100 * p, t),
        {"P": sample(3), "T": _SIGNS},
        lambda p, t: softplus(-100 * p * t).mean(),
        lambda module, p, t: module.nn.functional.softplus(-100 * p * t).mean(),
    ),
    Case(
        "hinge",
        lambda p, t: ops.hinge_loss(p, t, reduction="none"),
        {"P": sample(3), "T": _SIGNS},
        lambda p, t: np.maximum(1 - p * t, 0),
    ),
    Case(
        "hinge_embedding",
        lambda d, t: ops.hinge_embedding_loss(d, t, margin=1.5),
        {"D": sample(3, low=0), "T": _SIGNS},
        lambda d, t: np.where(t == 1, d, np.maximum(1.5 - d, 0)).mean(),
        lambda module, d, t: module.nn.functional.hinge_embedding_loss(d, t, margin=1.5),
    ),
    Case(
        "ranking",
        lambda x, y, t: ops.margin_ranking_loss(x, y, t, margin=0.5),
        {"X": sample(3), "Y": sample(3, seed=1), "T": _SIGNS},
        lambda x, y, t: np.maximum(0.5 - t * (x - y), 0).mean(),
        lambda module, x, y, t: module.nn.functional.margin_ranking_loss(x, y, t, margin=0.5),
    ),
    Case(
        "similarity",
        lambda x, y: ops.cosine_similarity(x, y, axis=1),
        _VECTORS,
        similarity,
        lambda module, x, y: module.nn.functional.cosine_similarity(x, y),
    ),
    Case(
        "similarity_to_one",
        lambda x, y: ops.cosine_similarity(x, y),
        {"X": sample(3, 4), "Y": sample(4, seed=1)},
        similarity,
        lambda module, x, y: module.nn.functional.cosine_similarity(x, y, dim=-1),
    ),
    Case(
        "cosine_embedding",
        lambda x, y, t: ops.cosine_embedding_loss(x, y, t, margin=-0.5),
        _VECTORS | {"T": _SIGNS},
        lambda x, y, t: np.where(t == 1, 1 - similarity(x, y), np.maximum(similarity(x, y) + 0.5, 0)).mean(),
        lambda module, x, y, t: module.nn.functional.cosine_embedding_loss(x, y, t, margin=-0.5),
    ),
    Case(
        "triplet",
        lambda x, y, z: ops.triplet_margin_loss(x, y, z, swap=True, reduction="none"),
        _VECTORS | {"Z": sample(3, 4, seed=2)},
        lambda x, y, z: np.maximum(
            np.linalg.norm(x - y + 1e-6, axis=1)
            - np.minimum(np.linalg.norm(x - z + 1e-6, axis=1), np.linalg.norm(y - z + 1e-6, axis=1))
            + 1,
            0,
        ),
        lambda module, x, y, z: module.nn.functional.triplet_margin_loss(x, y, z, swap=True, reduction="none"),
        tolerance=2,
    ),
)

CASES: Final = (*_VALUES, *_BINARY, *_MULTIPLE, *_DENSITIES, *_MARGINS)
