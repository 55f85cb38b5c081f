"""Cases of activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(3, 5, low=-4, high=4)
_ENDS: Final = np.array([0.0, 6.0, -1.0, 1.0, 3.0, -3.0, 0.5, -0.5, 2.0, 7.0, -7.0, 0.25])
_EDGES: Final = np.concatenate([_X.ravel(), np.array([0.0, 100.0, -100.0, 1e-6, -1e-6])])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _erf(x: Array) -> Array:
    return np.array([math.erf(value) for value in x.ravel()]).reshape(x.shape)


def _case(
    name: str, build: Callable[..., Any], numpy: Callable[..., Any], torch: Callable[..., Any], x: Array = _EDGES
) -> Case:
    return Case(name, build, {"X": x}, numpy, lambda module, x: torch(module.nn.functional, x))


CASES: Final = (
    _case("relu", ops.relu, lambda x: np.maximum(x, 0), lambda f, x: f.relu(x), _X),
    _case("relu6_at_its_ends", ops.relu6, lambda x: np.clip(x, 0, 6), lambda f, x: f.relu6(x), _ENDS),
    _case("hard_tanh_at_its_ends", ops.hard_tanh, lambda x: np.clip(x, -1, 1), lambda f, x: f.hardtanh(x), _ENDS),
    _case(
        "hard_sigmoid_at_its_ends",
        ops.hard_sigmoid,
        lambda x: np.clip(x / 6 + 0.5, 0, 1),
        lambda f, x: f.relu6(x + 3) / 6,
        _ENDS,
    ),
    _case("relu6", ops.relu6, lambda x: np.clip(x, 0, 6), lambda f, x: f.relu6(x), sample(9, low=-3, high=9)),
    _case(
        "relu_with_all_options",
        lambda x: ops.relu(x, alpha=0.3, threshold=0.5, max_value=2.0),
        lambda x: np.minimum(np.where(x < 0.5, 0.3 * (x - 0.5), x), 2.0),
        lambda f, x: (f.leaky_relu(x - 0.5, 0.3) + 0.5 * (x >= 0.5)).clamp(max=2.0),
        _X,
    ),
    _case(
        "leaky_relu",
        lambda x: ops.leaky_relu(x, negative_slope=0.2),
        lambda x: np.where(x > 0, x, 0.2 * x),
        lambda f, x: f.leaky_relu(x, 0.2),
    ),
    Case(
        "prelu",
        ops.prelu,
        {"X": sample(2, 3, 4), "W": sample(3, low=0.1, high=0.9)},
        lambda x, w: np.where(x > 0, x, x * w[:, None]),
        lambda torch, x, w: torch.nn.functional.prelu(x, w),
    ),
    Case(
        "prelu_of_one_weight",
        ops.prelu,
        {"X": sample(2, 3), "W": np.array(0.25)},
        lambda x, w: np.where(x > 0, x, x * w),
        lambda torch, x, w: torch.where(x > 0, x, x * w),
    ),
    _case("elu", lambda x: ops.elu(x, alpha=0.7), lambda x: _elu(x, 0.7), lambda f, x: f.elu(x, 0.7)),
    _case(
        "celu", lambda x: ops.celu(x, alpha=0.7), lambda x: _elu(x / 0.7, 1.0) * 0.7, lambda f, x: f.elu(x / 0.7) * 0.7
    ),
    _case(
        "selu",
        ops.selu,
        lambda x: 1.0507009873554804934193349852946 * _elu(x, 1.6732632423543772848170429916717),
        lambda f, x: f.selu(x),
    ),
    _case("gelu", ops.gelu, lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), lambda f, x: f.gelu(x)),
    _case(
        "gelu_tanh",
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        lambda f, x: f.gelu(x, approximate="tanh"),
    ),
    _case(
        "gelu_sigmoid",
        lambda x: ops.gelu(x, approximate="sigmoid"),
        lambda x: x * _sigmoid(1.702 * x),
        lambda _, x: x * (1.702 * x).sigmoid(),
    ),
    _case("sigmoid", ops.sigmoid, _sigmoid, lambda _, x: x.sigmoid()),
    _case("log_sigmoid", ops.log_sigmoid, lambda x: -_softplus(-x), lambda f, x: f.logsigmoid(x)),
    _case("softplus", ops.softplus, _softplus, lambda _, x: x.logaddexp(x * 0)),
    _case(
        "softplus_beta",
        lambda x: ops.softplus(x, beta=2.5),
        lambda x: _softplus(2.5 * x) / 2.5,
        lambda _, x: (2.5 * x).logaddexp(x * 0) / 2.5,
    ),
    _case("softsign", ops.softsign, lambda x: x / (1 + abs(x)), lambda f, x: f.softsign(x)),
    _case("silu", ops.silu, lambda x: x * _sigmoid(x), lambda f, x: f.silu(x)),
    _case("mish", ops.mish, lambda x: x * np.tanh(_softplus(x)), lambda f, x: f.mish(x)),
    _case("hard_sigmoid", ops.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), lambda f, x: f.relu6(x + 3) / 6),
    _case(
        "hard_sigmoid_slope",
        lambda x: ops.hard_sigmoid(x, slope=0.2),
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
        lambda _, x: (0.2 * x + 0.5).clamp(0, 1),
    ),
    _case("hard_swish", ops.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), lambda f, x: f.hardswish(x)),
    _case(
        "hard_tanh",
        lambda x: ops.hard_tanh(x, -0.5, 1.5),
        lambda x: np.clip(x, -0.5, 1.5),
        lambda f, x: f.hardtanh(x, -0.5, 1.5),
        _X,
    ),
    _case("tanh_shrink", ops.tanh_shrink, lambda x: x - np.tanh(x), lambda f, x: f.tanhshrink(x)),
    _case(
        "soft_shrink", ops.soft_shrink, lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0), lambda f, x: f.softshrink(x)
    ),
    _case("hard_shrink", ops.hard_shrink, lambda x: np.where(abs(x) > 0.5, x, 0), lambda f, x: f.hardshrink(x)),
    _case(
        "threshold",
        lambda x: ops.threshold(x, 0.7, -3),
        lambda x: np.where(x > 0.7, x, -3.0),
        lambda f, x: f.threshold(x, 0.7, -3),
    ),
    Case(
        "glu",
        lambda x: ops.glu(x, axis=1),
        {"X": sample(2, 6, 3)},
        lambda x: x[:, :3] * _sigmoid(x[:, 3:]),
        lambda torch, x: torch.nn.functional.glu(x, 1),
    ),
)
