"""Rows of optimisers, and of schedules of their rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.pointwise import PI, real
from fuzz.wide.row import Arguments, Array, Draw, Row


def _stepped(count: int, **values: tuple[Any, ...]) -> Callable[[Draw], Arguments]:
    """Return what draws a parameter, its gradient, and what an optimiser keeps of each element."""

    def draw(draw: Draw) -> Arguments:
        shape = draw.full(1, 2)
        kinds = ("normal", "any", "normal", "positive")[:count] if count > 3 else ("normal", "any", "positive")[:count]
        return [draw.tensor(shape, kind) for kind in kinds], {
            name: draw.pick(several) for name, several in values.items()
        }

    return draw


def _with_step(count: int, **values: tuple[Any, ...]) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        arguments, options = _stepped(count, **values)(draw)
        return [*arguments, draw.tensor((), "count", "i32", below=9)], options

    return draw


def _momentum(
    w: Array, g: Array, m: Array, lr: float, momentum: float, dampening: float, nesterov: bool, weight_decay: float
) -> Any:
    d = g + weight_decay * w
    m = momentum * m + (1 - np.longdouble(dampening)) * d
    return w - lr * (d + momentum * m if nesterov else m), m


def _adagrad(w: Array, g: Array, s: Array, lr: float, weight_decay: float) -> Any:
    d = g + weight_decay * w
    s = s + d * d
    return w - lr * d / (np.sqrt(s) + np.longdouble(1e-10)), s


def _rmsprop(w: Array, g: Array, s: Array, lr: float, alpha: float, weight_decay: float) -> Any:
    d = g + weight_decay * w
    s = alpha * s + (1 - np.longdouble(alpha)) * d * d
    return w - lr * d / (np.sqrt(s) + np.longdouble(1e-8)), s


def _direction(d: Array, m: Array, v: Array, step: Array, eps: float = 1e-8) -> tuple[Array, Array, Array]:
    one, two = np.longdouble(0.9), np.longdouble(0.999)
    m, v, n = one * m + (1 - one) * d, two * v + (1 - two) * d * d, int(step)
    return m / (1 - one**n) / (np.sqrt(v / (1 - two**n)) + np.longdouble(eps)), m, v


def _adam(w: Array, g: Array, m: Array, v: Array, step: Array, lr: float, weight_decay: float) -> Any:
    r, m, v = _direction(g + weight_decay * w, m, v, step)
    return w - lr * r, m, v


def _adamw(w: Array, g: Array, m: Array, v: Array, step: Array, lr: float, weight_decay: float) -> Any:
    r, m, v = _direction(g, m, v, step)
    return w - lr * (r + weight_decay * w), m, v


def _size(x: Array) -> Array:
    return np.asarray(np.sqrt((x * x).sum()))


def _lamb(w: Array, g: Array, m: Array, v: Array, step: Array, lr: float, weight_decay: float) -> Any:
    r, m, v = _direction(g, m, v, step, 1e-6)
    r = r + weight_decay * w
    ratio = _size(w) / _size(r) if _size(w) and _size(r) else 1
    return w - lr * ratio * r, m, v


def _lars(w: Array, g: Array, m: Array, lr: float, weight_decay: float, trust: float) -> Any:
    rate = trust * _size(w) / (_size(g) + weight_decay * _size(w) + np.longdouble(1e-8)) if _size(w) and _size(g) else 1
    m = np.longdouble(0.9) * m + lr * rate * (g + weight_decay * w)
    return w - m, m


def _clipped(g: Array, limit: float) -> Array:
    return g * np.minimum(1, limit / (_size(g) + np.longdouble(1e-6)))


def _together(gradients: list[Array], limit: float) -> list[Array]:
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    return [*(g * np.minimum(1, limit / (norm + np.longdouble(1e-6))) for g in gradients), np.asarray(norm)]


def _moved(*tensors: Array, **options: Any) -> Any:
    """Return a bound on what is added up in a step: of constants that f32 rounds, of whole tensors."""
    return np.asarray(64 * sum(np.max(abs(t), initial=0) for t in tensors if t.dtype == np.longdouble) + 0.0)


_OPTIMISING: Final[dict[str, Any]] = {
    "constant": "*",
    "shared": True,
    "flavours": CALM,
    "units": 64,
    "terms": _moved,
}
_DECAY: Final = {"lr": (0.5, 0.25), "weight_decay": (0, 0.125)}
_OPTIMISERS: Final = (
    Row("sgd", _stepped(2, **_DECAY), lambda w, g, lr, weight_decay: w - lr * (g + weight_decay * w), **_OPTIMISING),
    Row(
        "momentum",
        _stepped(3, **_DECAY, momentum=(0.5, 0.75), dampening=(0, 0.25), nesterov=(False, True)),
        _momentum,
        **_OPTIMISING,
    ),
    Row("adagrad", _stepped(3, **_DECAY), _adagrad, **_OPTIMISING),
    Row("rmsprop", _stepped(3, **_DECAY, alpha=(0.5, 0.75)), _rmsprop, **_OPTIMISING),
    Row("adam", _with_step(4, **_DECAY), _adam, **_OPTIMISING),
    Row("adamw", _with_step(4, **_DECAY), _adamw, **_OPTIMISING),
    Row("lamb", _with_step(4, **_DECAY), _lamb, **{**_OPTIMISING, "flavours": CALM[:3]}),
    Row("lars", _stepped(3, **_DECAY, trust=(0.5, 0.25)), _lars, **{**_OPTIMISING, "flavours": CALM[:3]}),
    Row(
        "clip_by_norm", lambda d: ([d.tensor(d.full()), d.pick((1, 0.25, 100))], {}), _clipped, flavours=CALM, units=32
    ),
    Row(
        "clip_by_global_norm",
        lambda d: ([[d.tensor(d.full(1, 2)) for _ in range(d.integer(1, 3))], d.pick((1, 100))], {}),
        _together,
        flavours=CALM[:3],
        units=32,
        constant="*",
    ),
)


def _schedule(name: str, oracle: Callable[..., Any], **values: tuple[Any, ...]) -> Row:
    def draw(draw: Draw) -> Arguments:
        step = draw.tensor(draw.shape(0, 1), "index", draw.pick(("i32", "i64")), below=draw.pick((20, 2**24 + 9)))
        return [step], {name: draw.pick(several) for name, several in values.items()}

    return Row(name, draw, oracle, ("f32",), constant="*", units=64, terms=lambda *a, **o: np.longdouble(8))


def _cosine(s: Array, lr: float, steps: int, end: float) -> Array:
    return end + (lr - end) * (1 + np.cos(PI * np.minimum(real(s) / steps, 1))) / 2


_RATES: Final = (
    _schedule(
        "step_decay",
        lambda s, lr, every, factor: lr * np.longdouble(factor) ** (s // every),
        lr=(0.5,),
        every=(3, 7),
        factor=(0.5, 0.75),
    ),
    _schedule(
        "exponential_decay",
        lambda s, lr, every, factor: lr * np.longdouble(factor) ** (real(s) / every),
        lr=(0.5,),
        every=(1, 3),
        factor=(0.5, 0.75),
    ),
    _schedule(
        "inverse_time_decay",
        lambda s, lr, every, factor: lr / (1 + factor * real(s) / every),
        lr=(0.5,),
        every=(1, 3),
        factor=(0.5, 2.0),
    ),
    _schedule(
        "polynomial_decay",
        lambda s, lr, steps, power, end: (lr - end) * (1 - np.minimum(real(s) / steps, 1)) ** power + end,
        lr=(0.5,),
        steps=(10, 4),
        power=(1.0, 2.0),
        end=(0, 0.25),
    ),
    _schedule("cosine_decay", _cosine, lr=(0.5,), steps=(10, 4), end=(0, 0.25)),
    _schedule(
        "inverse_sqrt_decay",
        lambda s, lr, warmup: lr * np.minimum(np.sqrt(warmup / (real(s) + 1)), (real(s) + 1) / warmup),
        lr=(0.5,),
        warmup=(4, 10),
    ),
    Row(
        "linear_warmup",
        lambda d: (
            [d.tensor(d.shape(0, 1), "index", "i32", below=20), 0.5],
            {"steps": d.pick((10, 4)), "start": d.pick((0.0, 0.25))},
        ),
        lambda s, lr, steps, start: lr * np.minimum(start + (1 - start) * real(s) / steps, 1),
        ("f32",),
        constant="*",
        units=16,
    ),
)
ROWS_TRAINING: Final = (*_OPTIMISERS, *_RATES)
