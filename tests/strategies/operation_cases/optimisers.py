"""Cases of single steps of optimisers; several steps are compared with PyTorch's elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor

_W: Final = sample(3, 4)
_G: Final = sample(3, 4, seed=1)
_M: Final = sample(3, 4, seed=2)
_V: Final = sample(3, 4, low=0.5, high=2.0, seed=3)
_STEP: Final = np.array(3, np.int32)
_DIMS: Final = dict.fromkeys(("W", "G", "M", "V"), "A B")
_ADAM: Final = {"W": _W, "G": _G, "M": _M, "V": _V, "S": _STEP}


def _direction(d: Array, m: Array, v: Array, eps: float = 1e-8) -> tuple[Array, Array, Array]:
    """Return the direction of Adam, and its moments, after step 3 with the usual factors."""
    m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
    return m / (1 - 0.9**3) / (np.sqrt(v / (1 - 0.999**3)) + eps), m, v


def _adam(w: Array, g: Array, m: Array, v: Array, _: Array) -> tuple[Array, Array, Array]:
    r, m, v = _direction(g + 0.1 * w, m, v)
    return w - 0.01 * r, m, v


def _adamw(w: Array, g: Array, m: Array, v: Array, _: Array) -> tuple[Array, Array, Array]:
    r, m, v = _direction(g, m, v)
    return w - 0.01 * (r + 0.1 * w), m, v


def _lamb(w: Array, g: Array, m: Array, v: Array, _: Array) -> tuple[Array, Array, Array]:
    r, m, v = _direction(g, m, v, 1e-6)
    r = r + 0.01 * w
    return w - 0.01 * np.linalg.norm(w) / np.linalg.norm(r) * r, m, v


def _lars(w: Array, g: Array, m: Array) -> tuple[Array, Array]:
    rate = 0.1 * np.linalg.norm(w) / (np.linalg.norm(g) + 0.01 * np.linalg.norm(w) + 1e-8)
    m = 0.9 * m + 0.5 * rate * (g + 0.01 * w)
    return w - m, m


def _rmsprop(w: Array, g: Array, s: Array, mean: Array, m: Array) -> tuple[Array, ...]:
    s, mean = 0.99 * s + 0.01 * g * g, 0.99 * mean + 0.01 * g
    m = 0.5 * m + g / (np.sqrt(s - mean * mean) + 1e-8)
    return w - 0.01 * m, s, mean, m


def _clip(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    clipped, norm = ops.clip_by_global_norm([a, b], 1)
    return *clipped, norm


def _clipped(a: Array, b: Array) -> tuple[Array, Array, Array]:
    norm = np.sqrt((a * a).sum() + (b * b).sum())
    return a / (norm + 1e-6), b / (norm + 1e-6), norm


CASES: Final = (
    Case("sgd", lambda w, g: ops.sgd(w, g, lr=0.1), {"W": _W, "G": _G}, lambda w, g: w - 0.1 * g, dims=_DIMS),
    Case(
        "sgd_with_decay",
        lambda w, g, rate: ops.sgd(w, g, lr=rate, weight_decay=0.5),
        {"W": _W, "G": _G, "R": np.array(0.25)},
        lambda w, g, rate: w - rate * (g + 0.5 * w),
        dims=_DIMS,
    ),
    Case(
        "momentum",
        lambda w, g, m: ops.momentum(w, g, m, lr=0.1, dampening=0.25),
        {"W": _W, "G": _G, "M": _M},
        lambda w, g, m: (w - 0.1 * (0.9 * m + 0.75 * g), 0.9 * m + 0.75 * g),
        wrt=(),
        dims=_DIMS,
    ),
    Case(
        "momentum_nesterov",
        lambda w, g, m: ops.momentum(w, g, m, lr=0.1, momentum=0.5, nesterov=True),
        {"W": _W, "G": _G, "M": _M},
        lambda w, g, m: (w - 0.1 * (g + 0.25 * m + 0.5 * g), 0.5 * m + g),
        wrt=(),
        dims=_DIMS,
    ),
    Case(
        "adagrad",
        lambda w, g, v: ops.adagrad(w, g, v, lr=0.1),
        {"W": _W, "G": _G, "V": _V},
        lambda w, g, v: (w - 0.1 * g / (np.sqrt(v + g * g) + 1e-10), v + g * g),
        wrt=(),
        dims=_DIMS,
    ),
    Case(
        "rmsprop",
        lambda w, g, v: ops.rmsprop(w, g, v, lr=0.1, alpha=0.75),
        {"W": _W, "G": _G, "V": _V},
        lambda w, g, v: (w - 0.1 * g / (np.sqrt(0.75 * v + 0.25 * g * g) + 1e-8), 0.75 * v + 0.25 * g * g),
        wrt=(),
        dims=_DIMS,
    ),
    Case(
        "rmsprop_centred",
        lambda w, g, v, mean, m: ops.rmsprop(w, g, v, mean=mean, m=m, momentum=0.5),
        {"W": _W, "G": _G, "V": _V, "E": sample(3, 4, low=-0.5, high=0.5), "M": _M},
        _rmsprop,
        wrt=(),
        dims={**_DIMS, "E": "A B"},
    ),
    Case("adam", lambda *a: ops.adam(*a, lr=0.01, weight_decay=0.1), _ADAM, _adam, wrt=("W", "G"), dims=_DIMS),
    Case("adamw", lambda *a: ops.adamw(*a, lr=0.01, weight_decay=0.1), _ADAM, _adamw, wrt=(), dims=_DIMS),
    Case("lamb", lambda *a: ops.lamb(*a, lr=0.01), _ADAM, _lamb, wrt=("G",), dims=_DIMS),
    Case(
        "lars",
        lambda w, g, m: ops.lars(w, g, m, lr=0.5, weight_decay=0.01, trust=0.1),
        {"W": _W, "G": _G, "M": _M},
        _lars,
        wrt=(),
        dims=_DIMS,
    ),
    Case(
        "clip_by_value",
        lambda g: ops.clip_by_value(g, -0.5, 1),
        {"G": _G},
        lambda g: np.clip(g, -0.5, 1),
        lambda torch, g: torch.clamp(g, -0.5, 1),
    ),
    Case("clip_by_norm", lambda g: ops.clip_by_norm(g, 100.0), {"G": _G}, lambda g: g),
    Case(
        "clip_by_global_norm",
        _clip,
        {"A": _G, "B": sample(5)},
        _clipped,
    ),
)
