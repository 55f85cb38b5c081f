"""Cases of learning rates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS: Final = np.array([0, 1, 2, 5, 8, 9, 20], np.float64)


def _case(name: str, operation: Callable[..., Any], expected: Callable[..., Any]) -> Case:
    return Case(name, operation, {"S": _STEPS}, expected, wrt=())


CASES: Final = (
    _case("step_decay", partial(ops.step_decay, lr=2, every=3), lambda s: 2 * 0.1 ** np.floor(s / 3)),
    _case("exponential_decay", partial(ops.exponential_decay, lr=0.5, factor=0.9), lambda s: 0.5 * 0.9**s),
    _case("inverse_time_decay", partial(ops.inverse_time_decay, lr=0.5, every=4), lambda s: 0.5 / (1 + s / 4)),
    _case("linear_decay", partial(ops.polynomial_decay, lr=0.5, steps=8), lambda s: 0.5 * (1 - np.minimum(s / 8, 1))),
    _case(
        "polynomial_decay",
        partial(ops.polynomial_decay, lr=0.5, steps=8, power=2, end=0.1),
        lambda s: 0.1 + 0.4 * (1 - np.minimum(s / 8, 1)) ** 2,
    ),
    _case(
        "cosine_decay",
        partial(ops.cosine_decay, lr=0.5, steps=9, end=0.1),
        lambda s: 0.1 + 0.2 * (1 + np.cos(np.pi * np.minimum(s / 9, 1))),
    ),
    _case(
        "inverse_sqrt_decay",
        partial(ops.inverse_sqrt_decay, lr=0.5, warmup=4),
        lambda s: 0.5 * np.minimum((s + 1) / 4, np.sqrt(4 / (s + 1))),
    ),
    _case(
        "linear_warmup",
        lambda s: ops.linear_warmup(s, ops.exponential_decay(s, lr=0.5, factor=0.9), steps=4, start=0.25),
        lambda s: 0.5 * 0.9**s * (0.25 + 0.75 * np.minimum(s / 4, 1)),
    ),
)
