"""Rows of normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.pointwise import real
from fuzz.wide.reductions import Axes, mean, over, variance
from fuzz.wide.row import Arguments, Array, Draw, Row

CALM: Final = ("normal", "ties", "zeros", "tiny")
_NORMS: Final = (*CALM, "normal", "large")


def _vector(values: Array | None, axes: Any, rank: int) -> Array | float:
    if values is None:
        return np.longdouble(1)
    axes = [axis % rank for axis in ([axes] if isinstance(axes, int) else axes)]
    return values.reshape([values.shape[axes.index(axis)] if axis in axes else 1 for axis in range(rank)])


def _standard(x: Array, axes: Any, epsilon: float) -> Array:
    return (real(x) - mean(x, axes, True)) / np.sqrt(variance(x, axes, 0, True) + np.longdouble(epsilon))


def _scaled(y: Array, weight: Array | None, bias: Array | None, axes: Any) -> Array:
    y = y * _vector(weight, axes, y.ndim)
    return y if bias is None else y + _vector(bias, axes, y.ndim)


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, axes: Axes = -1, epsilon: float = 1e-5
) -> Array:
    """Return the layer normalisation."""
    return _scaled(_standard(x, axes, epsilon), weight, bias, axes)


def _instance(x: Array, weight: Array | None = None, bias: Array | None = None, epsilon: float = 1e-5) -> Array:
    return _scaled(_standard(x, list(range(2, x.ndim)), epsilon), weight, bias, 1)


def _group(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, epsilon: float = 1e-5
) -> Array:
    parts = x.reshape(len(x), groups, -1)
    return _scaled(_standard(parts, 2, epsilon).reshape(x.shape), weight, bias, 1)


def _batch(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    running: Any = None,
    momentum: float = 0.1,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    axes = [axis for axis in range(x.ndim) if axis != 1]
    y, middle, spread = _scaled(_standard(x, axes, epsilon), weight, bias, 1), mean(x, axes), variance(x, axes)
    if running is None:
        return y, middle, spread
    count = np.longdouble(x.size // x.shape[1])
    moved = [
        (1 - np.longdouble(momentum)) * old + momentum * new
        for old, new in zip(running, (middle, spread * count / (count - 1)), strict=True)
    ]
    return y, moved[0], moved[1]


def _batched(draw: Draw) -> Arguments:
    shape = (draw.integer(2, 4), draw.integer(1, 4), *draw.full(0, 2))
    arguments = [draw.tensor(shape)]
    if draw.flag():
        arguments += [draw.tensor(shape[1:2], "normal"), draw.tensor(shape[1:2], "normal")]
    options: dict[str, Any] = {}
    if draw.flag():
        several = [draw.tensor(shape[1:2], among) for among in ("normal", "positive")]
        options = {"running": {"tuple": several}, "momentum": draw.pick((0.25, 0.5))}
    return arguments, options


def _inferred(draw: Draw) -> Arguments:
    shape = (draw.integer(1, 4), draw.integer(1, 4), *draw.full(0, 2))
    kinds = ("normal", "positive", "normal", "normal")[: draw.pick((2, 4))]
    return [draw.tensor(shape), *(draw.tensor(shape[1:2], kind) for kind in kinds)], {}


def _inference(x: Array, middle: Array, spread: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
    m, v = (_vector(each, 1, x.ndim) for each in (middle, spread))
    return _scaled((x - m) / np.sqrt(v + np.longdouble(1e-5)), weight, bias, 1)


def _weighted(axes_of: Callable[[Draw, Any], Any], biased: bool = True, least: int = 1) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        shape = tuple(size + 1 for size in draw.full(least, least + 2))
        if draw.dtype in ("f16", "bf16") and draw.integer(0, 24) == 24 and least == 1:
            shape = (66_000,)
        own = axes_of(draw, shape)
        arguments = [draw.tensor(shape)]
        if draw.flag():
            sizes = [shape[axis] for axis in ([own] if isinstance(own, int) else own)]
            arguments += [draw.tensor(sizes, "normal") for _ in range(1 + biased)]
        return arguments, {"axes": own} if least == 1 else {}

    return draw


def _grouped(draw: Draw) -> Arguments:
    groups = draw.integer(1, 3)
    shape = (draw.integer(1, 3), groups * draw.integer(1, 3), *(size + 1 for size in draw.full(1, 2)))
    vectors = [draw.tensor(shape[1:2], "normal") for _ in range(2)] if draw.flag() else []
    return [draw.tensor(shape), groups, *vectors], {}


def _rms(x: Array, weight: Array | None = None, axes: Axes = -1) -> Array:
    scaled = x / np.sqrt((x * x).mean(over(axes), keepdims=True) + np.longdouble(1e-6))
    return scaled * _vector(weight, axes, x.ndim)


def _respond(draw: Draw) -> Arguments:
    shape = draw.full(2, 3)
    return [draw.tensor(shape), draw.integer(1, 4)], {"alpha": draw.pick((0.25, 1.0)), "beta": draw.pick((0.75, 0.5))}


def _responded(x: Array, size: int, alpha: float, beta: float) -> Array:
    total = np.zeros_like(x)
    for tap in range(size):
        shift = tap - size // 2
        for place in range(x.shape[1]):
            if 0 <= place + shift < x.shape[1]:
                total[:, place] += x[:, place + shift] ** 2
    return x / (1 + alpha * total / size) ** np.longdouble(beta)


def _mvn(draw: Draw) -> Arguments:
    shape = tuple(size + 1 for size in draw.full(1, 3))
    options = {
        "axes": draw.axes(shape),
        "epsilon": draw.pick((0.5, 0.001)),
        "epsilon_mode": draw.pick(("inside", "outside")),
    }
    return [draw.tensor(shape)], options


def _mean_variance(x: Array, axes: Axes, epsilon: float, epsilon_mode: str) -> Array:
    centred, spread = real(x) - mean(x, axes, True), variance(x, axes, 0, True)
    return centred / (np.sqrt(spread + epsilon) if epsilon_mode == "inside" else np.sqrt(spread) + epsilon)


def _l2(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape)], {"axes": draw.axis(shape), "epsilon": 0.25, "epsilon_mode": draw.pick(("max", "add"))}


def _normalised(x: Array, axes: int, epsilon: float, epsilon_mode: str) -> Array:
    total = (x * x).sum(axes, keepdims=True)
    return x / (np.maximum(np.sqrt(total), epsilon) if epsilon_mode == "max" else np.sqrt(total + epsilon))


def _around(oracle: Callable[..., Any]) -> Callable[..., Any]:
    """Return a sum of magnitudes for normalised values: what is subtracted is of their mean, in deviations."""

    def terms(x: Array, *arguments: Any, **options: Any) -> Any:
        return (
            8
            * (
                1
                + np.abs(
                    np.asarray(
                        oracle(x, *arguments, **options)[0] if oracle is _batch else oracle(x, *arguments, **options)
                    )
                )
            )
            * (1 + np.max(abs(x), initial=0) / max(np.std(x.astype(float)), 1e-3))
        )

    return terms


ROWS_NORMALISATION: Final = (
    Row("layer_norm", _weighted(lambda d, s: d.axis(s)), layer_norm, flavours=_NORMS, terms=_around(layer_norm)),
    Row("rms_norm", _weighted(lambda d, s: d.axis(s), biased=False), _rms, flavours=_NORMS, units=16),
    Row("instance_norm", _weighted(lambda d, s: 1, least=3), _instance, flavours=_NORMS, terms=_around(_instance)),
    Row("group_norm", _grouped, _group, flavours=_NORMS, terms=_around(_group)),
    Row(
        "batch_norm",
        _batched,
        _batch,
        flavours=CALM,
        terms=lambda x, *a, **o: 16 * (1 + np.max(abs(x), initial=0)) ** 2,
    ),
    Row(
        "batch_norm_inference",
        _inferred,
        _inference,
        flavours=CALM,
        terms=lambda x, m, *a: 16 * (np.max(abs(x), initial=0) + np.max(abs(m), initial=0) + 1),
    ),
    Row("local_response_norm", _respond, _responded, flavours=CALM, units=64),
    Row("mean_variance_norm", _mvn, _mean_variance, flavours=CALM, terms=_around(_mean_variance)),
    Row(
        "weight_standardisation",
        lambda d: ([d.tensor(tuple(s + 1 for s in d.full(2, 3)))], {}),
        lambda x: _standard(x, list(range(1, x.ndim)), 1e-5),
        flavours=CALM,
        terms=_around(lambda x: _standard(x, list(range(1, x.ndim)), 1e-5)),
    ),
    Row("l2_normalise", _l2, _normalised, flavours=CALM, units=16),
)
