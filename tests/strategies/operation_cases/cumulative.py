"""Cases of running aggregates."""

from __future__ import annotations

from typing import Final

import numpy as np

from strategies.operations import Case, integers, sample
from tileir import ops

_X: Final = sample(2, 5, 3)
_NAN: Final = np.array([[1, np.nan, 3, -np.inf], [np.inf, -2, 0.5, np.nan]])
_TIED: Final = np.array([1, 1, 3, 2, 3, 3, 0, 5, 5], np.int32)


def _shifted(x: np.ndarray, fill: float) -> np.ndarray:
    """Move the elements along axis 1 by one, with ``fill`` for the first."""
    return np.concatenate([np.full_like(x[:, :1], fill), x[:, :-1]], 1)


def _places(x: np.ndarray) -> np.ndarray:
    """Return the places of the running maxima along the last axis, the latest of equal ones."""
    best = np.maximum.accumulate(x, -1)
    return np.maximum.accumulate(np.where((x == best) | (x != x), np.arange(x.shape[-1]), 0), -1)


CASES: Final = (
    Case("cumsum", ops.cumsum, {"X": _X}, lambda x: x.cumsum(-1), lambda _, x: x.cumsum(-1)),
    Case("cumsum_axis", lambda x: ops.cumsum(x, 1), {"X": _X}, lambda x: x.cumsum(1), lambda _, x: x.cumsum(1)),
    Case(
        "cumsum_exclusive",
        lambda x: ops.cumsum(x, -2, exclusive=True),
        {"X": _X},
        lambda x: _shifted(x, 0).cumsum(1),
        lambda _, x: x.cumsum(1) - x,
    ),
    Case(
        "cumsum_reverse",
        lambda x: ops.cumsum(x, 0, reverse=True),
        {"X": _X},
        lambda x: x[::-1].cumsum(0)[::-1],
        lambda _, x: x.flip(0).cumsum(0).flip(0),
    ),
    Case("cumsum_of_bools", lambda x: ops.cumsum(x > 0), {"X": _X}, lambda x: (x > 0).cumsum(-1), wrt=()),
    Case("cumprod", ops.cumprod, {"X": _X}, lambda x: x.cumprod(-1), lambda _, x: x.cumprod(-1)),
    Case(
        "cumprod_exclusive_reverse",
        lambda x: ops.cumprod(x, 1, exclusive=True, reverse=True),
        {"X": _X},
        lambda x: _shifted(x[:, ::-1], 1).cumprod(1)[:, ::-1],
    ),
    Case(
        "cummax",
        lambda x: ops.cummax(x, 1),
        {"X": _X},
        lambda x: (np.maximum.accumulate(x, 1), _places(x.swapaxes(1, 2)).swapaxes(1, 2)),
        lambda _, x: tuple(x.cummax(1)),
    ),
    Case(
        "cummax_of_nan",
        ops.cummax,
        {"X": _NAN},
        lambda x: (np.maximum.accumulate(x, 1), _places(x)),
        lambda _, x: tuple(x.cummax(1)),
        wrt=(),
    ),
    Case("cummax_of_equals", ops.cummax, {"X": _TIED}, lambda x: (np.maximum.accumulate(x), _places(x)), wrt=()),
    Case(
        "cummin",
        lambda x: ops.cummin(x, 0),
        {"X": sample(4, 3, seed=1)},
        lambda x: (np.minimum.accumulate(x, 0), _places(-x.T).T),
        lambda _, x: tuple(x.cummin(0)),
    ),
    Case(
        "cummin_reverse",
        lambda x: ops.cummin(x, reverse=True),
        {"X": integers(3, 7)},
        lambda x: (np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1], 6 - _places(-x[:, ::-1])[:, ::-1]),
    ),
    Case(
        "logcumsumexp",
        lambda x: ops.logcumsumexp(x, 1),
        {"X": _X * 30},
        lambda x: np.logaddexp.accumulate(x, 1),
        lambda torch, x: torch.logcumsumexp(x, 1),
    ),
    Case(
        "logcumsumexp_of_infinities",
        ops.logcumsumexp,
        {"X": np.array([[-np.inf, -np.inf, 3, -np.inf], [1, np.inf, 2, -1000]])},
        lambda x: np.logaddexp.accumulate(x, 1),
        wrt=(),
    ),
)
