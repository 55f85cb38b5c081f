"""Cases of reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(3, 4, 5)
_WHOLE: Final = integers(3, 4, 5, low=-1, high=2)
_ZEROS: Final = np.where(np.arange(12).reshape(3, 4, 1) == 7, 0.0, _X)
_NAN: Final = np.where(np.arange(60).reshape(3, 4, 5) == 33, np.nan, _X)


def _one(
    name: str,
    build: Callable[..., Any],
    numpy: Callable[..., Any],
    torch: Callable[..., Any] | None = None,
    x: Array = _X,
    wrt: tuple[str, ...] | None = None,
) -> Case:
    return Case(name, build, {"X": x}, numpy, torch, wrt)


def _positions(name: str, best: Callable[..., Any]) -> tuple[Case, ...]:
    operation, torch = getattr(ops, name), lambda _, x: getattr(x, name)(1).int()
    return (
        _one(f"{name}_of_an_axis", lambda x: operation(x, 1), lambda x: best(x, 1), torch, wrt=()),
        _one(f"{name}_of_all", operation, best, lambda _, x: getattr(x, name)().int(), wrt=()),
        _one(f"{name}_of_ties", lambda x: operation(x, 1), lambda x: best(x, 1), torch, _WHOLE),
        _one(
            f"{name}_of_last_ties",
            lambda x: operation(x, -2, ties="last", keepdims=True),
            lambda x: 3 - best(x[:, ::-1], 1, keepdims=True),
            None,
            _WHOLE,
        ),
        _one(f"{name}_with_nan", lambda x: operation(x, 0), lambda x: best(x, 0), None, _NAN, ()),
    )


def _norm(order: float) -> Case:
    return _one(
        f"norm_of_order_{order}".replace(".", "_").replace("-", "minus_"),
        lambda x: ops.norm(x, 2, order=order),
        lambda x: np.linalg.norm(x, order, 2),
        lambda torch, x: torch.linalg.vector_norm(x, order, 2),
        _ZEROS,
        wrt=() if order == 0 else None,
    )


CASES: Final = (
    _one("sum", ops.sum, np.sum, lambda _, x: x.sum()),
    _one(
        "sum_of_two_axes",
        lambda x: ops.sum(x, (0, -1), keepdims=True),
        lambda x: x.sum((0, 2), keepdims=True),
        lambda _, x: x.sum((0, 2), keepdim=True),
    ),
    _one("sum_of_no_axes", lambda x: ops.sum(x, ()), lambda x: x),
    _one("sum_of_bool", lambda x: ops.sum(x > 0, 1), lambda x: (x > 0).sum(1), None, _X, ()),
    _one("mean", lambda x: ops.mean(x, 1), lambda x: x.mean(1), lambda _, x: x.mean(1)),
    _one("mean_of_integers", lambda x: ops.cast(ops.mean(x) * 60, "i32"), lambda x: np.array(x.sum()), None, _WHOLE),
    _one("prod", lambda x: ops.prod(x, 2), lambda x: x.prod(2), lambda _, x: x.prod(2)),
    _one("max", lambda x: ops.max(x, 1), lambda x: x.max(1), lambda _, x: x.amax(1)),
    _one("min", lambda x: ops.min(x, (0, 1)), lambda x: x.min((0, 1)), lambda _, x: x.amin((0, 1))),
    _one("max_with_nan", lambda x: ops.max(x, 0), lambda x: x.max(0), None, _NAN, ()),
    _one("all", lambda x: ops.all(x, 2), lambda x: x.all(2), lambda _, x: x.bool().all(2), _WHOLE),
    _one("any", lambda x: ops.any(x, 2), lambda x: x.any(2), lambda _, x: x.bool().any(2), _WHOLE * (_WHOLE > 0)),
    _one("count_nonzero", lambda x: ops.count_nonzero(x, 0), lambda x: np.count_nonzero(x, 0), None, _WHOLE),
    _one(
        "variance",
        lambda x: ops.variance(x, (0, 2)),
        lambda x: x.var((0, 2)),
        lambda _, x: x.var((0, 2), correction=0),
    ),
    _one(
        "std",
        lambda x: ops.std(x, 1, correction=1, keepdims=True),
        lambda x: x.std(1, ddof=1, keepdims=True),
        lambda _, x: x.std(1, keepdim=True),
    ),
    _one("std_of_equals", lambda x: ops.std(x, 2), lambda x: x.std(2), lambda _, x: x.std(2, correction=0), _ZEROS),
    _one(
        "hardmax",
        lambda x: ops.cast(ops.hardmax(x, 1), "i32"),
        lambda x: (x.argmax(1)[:, None] == np.arange(4)[:, None]) * 1,
        None,
        _WHOLE,
    ),
    _one("var", lambda x: ops.var(x, 2, correction=1), lambda x: x.var(2, ddof=1), lambda _, x: x.var(2)),
    _one("is_max", lambda x: ops.is_max(x, 1), lambda x: x == x.max(1, keepdims=True), None, _WHOLE),
    _one(
        "logsumexp",
        lambda x: ops.logsumexp(x * 100, (0, 2)),
        lambda x: np.logaddexp.reduce(x * 100, axis=(0, 2)),
        lambda _, x: (x * 100).logsumexp((0, 2)),
    ),
    _one(
        "logsumexp_keeps_axes",
        lambda x: ops.logsumexp(x, 1, keepdims=True),
        lambda x: np.logaddexp.reduce(x, axis=1, keepdims=True),
        lambda _, x: x.logsumexp(1, keepdim=True),
    ),
    _one(
        "logsumexp_of_nothing",
        lambda x: ops.logsumexp(x, 0),
        lambda x: np.logaddexp.reduce(x, axis=0),
        None,
        np.array([[-np.inf, np.inf, 0], [-np.inf, 1, -np.inf]]),
        (),
    ),
    *map(_norm, (0, 1, 2, 3, 0.5, np.inf, -np.inf)),
    *_positions("argmax", np.argmax),
    *_positions("argmin", np.argmin),
)
