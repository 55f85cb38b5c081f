"""Cases of elements put at positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuzz.wide.indexing import cached
from strategies.operations import Array, Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(4, 5, 3)
_I: Final = np.array([[0, 2], [3, 2]], np.int32)
_U: Final = sample(2, 2, 5, 3, seed=1)
_ALONG: Final = np.array([[1, 0, 1, 1], [4, 2, 3, 2], [0, 0, 0, 0]], np.int32)
_UPDATES: Final[dict[str, Callable[..., object]]] = {
    "add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at
}  # fmt: skip


def _put(mode: str, x: Array, at: tuple[Array, ...], updates: Array) -> Array:
    """Update a copy at points, one after the other."""
    x = x.copy()
    if mode == "set":
        for place in np.ndindex(at[0].shape):
            x[tuple(part[place] for part in at)] = updates[place]
    else:
        _UPDATES[mode](x, at, updates)
    return x


def _slices(mode: str, x: Array, i: Array, u: Array) -> Array:
    return _put(mode, x, (i,), u)


def _along(mode: str, x: Array, i: Array, u: Array) -> Array:
    rows = np.broadcast_to(np.arange(len(x))[:, None], i.shape)
    return _put(mode, x, (rows, i), u)


def _reduced(reduce: str, _: Any, x: Any, i: Any, u: Any) -> Any:
    return x.scatter_reduce(1, i.long(), u, reduce)


CASES: Final = (
    *(
        Case(
            f"cache_{name}",
            lambda x, u, p, circular=circular: ops.update_cache(x, u, p, axis=1, circular=circular),
            {"X": sample(2, 4, 3), "U": sample(2, 2, 3, seed=1), "P": np.array([1, 3])},
            lambda x, u, p, circular=circular: cached(x, u, p, axis=1, circular=circular),
        )
        for name, circular in (("circular", True), ("of_some_capacity", False))
    ),
    *(
        Case(
            f"scatter_{mode}",
            partial(ops.scatter, mode=mode),
            {"X": _X, "I": _I, "U": _U},
            partial(_slices, mode),
            dims={"X": "N B C", "I": "J K", "U": "J K B C"},
        )
        for mode in ("add", "mul", "max", "min", "set")
    ),
    *(
        Case(
            f"scatter_along_axis_{mode}",
            partial(ops.scatter_along_axis, axis=1, mode=mode),
            {"X": sample(3, 5), "I": _ALONG, "U": sample(3, 4, seed=2)},
            partial(_along, mode),
            partial(_reduced, reduce) if reduce else None,
            dims={"X": "A N", "I": "A M", "U": "A M"},
        )
        for mode, reduce in {"add": "sum", "mul": "prod", "max": "amax", "min": "amin", "set": None}.items()
    ),
    Case(
        "scatter_axis",
        lambda x, i, u: ops.scatter(x, i, u, axis=1, mode="max", bounds="wrap"),
        {"X": _X, "I": np.array([-1, 7, 2], np.int8), "U": sample(4, 3, 3, seed=1)},
        lambda x, i, u: _slices("max", x.swapaxes(0, 1), i % 5, u.swapaxes(0, 1)).swapaxes(0, 1),
        dims={"X": "A N C", "I": "M", "U": "A M C"},
    ),
    Case(
        "scatter_dropped",
        lambda x, i, u: ops.scatter(x, i, u, mode="set", bounds="drop"),
        {"X": sample(4), "I": np.array([-1, 3, 9, 3, -5, 0], np.int64), "U": sample(6, seed=3)},
        lambda x, _, u: np.array([u[5], x[1], x[2], u[3]]),
    ),
    Case(
        "scatter_clamped_number",
        lambda x, i: ops.scatter(x, i, 7, mode="add"),
        {"X": integers(4), "I": np.array([-1, 3, 9], np.int32)},
        lambda x, _: x + np.array([7, 0, 0, 14]),
    ),
    Case(
        "scatter_unique",
        lambda x, i, u: ops.scatter(x, i, u, mode="set", unique=True),
        {"X": sample(4, 2), "I": np.array([3, 1], np.int32), "U": sample(2, 2, seed=3)},
        partial(_slices, "set"),
        dims={"X": "N C", "I": "M", "U": "M C"},
    ),
    *(
        Case(
            f"scatter_nd_{mode}",
            partial(ops.scatter_nd, depth=2, mode=mode, bounds="drop"),
            {"X": _X, "I": np.array([[0, 1], [3, 4], [0, 1], [9, -1]], np.int32), "U": sample(4, 3, seed=4)},
            lambda x, i, u, mode=mode: _put(mode, x, (i[:3, 0], i[:3, 1]), u[:3]),
            dims={"X": "A B C", "I": "M D", "U": "M C"},
        )
        for mode in ("add", "mul", "set")
    ),
)
