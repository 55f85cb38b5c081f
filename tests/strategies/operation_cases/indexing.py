"""Cases of elements at positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from fuzz.wide.indexing import reversed_sequences
from strategies.operations import Array, Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(4, 5, 3)
_I: Final = integers(2, 3, low=0, high=4)
_WILD: Final = np.array([[-7, -1, 0], [3, 4, 11]], np.int32)
_ALONG: Final = integers(4, 2, 3, low=0, high=5)


def _clamped(x: Array, i: Array, axis: int) -> Array:
    return np.take(x, i, axis, mode="clip")


def _filled(x: Array, i: Array, axis: int, fill: float) -> Array:
    taken = np.moveaxis(np.take(x, i, axis, mode="clip"), (axis, axis + 1), (0, 1))
    taken[(i < 0) | (i >= x.shape[axis])] = fill
    return np.moveaxis(taken, (0, 1), (axis, axis + 1))


def _batched(x: Array, i: Array) -> Array:
    return np.stack([np.take(rows, places, 1) for rows, places in zip(x, i, strict=True)])


def _interpolated(taps: dict[int, Callable[[Array], Array]]) -> Callable[[Array, Array], Array]:
    """Return the interpolation along axis 1 by neighbours: their weights by their offset from the floor."""

    def interpolate(x: Array, p: Array) -> Array:
        low = np.floor(p).astype(int)
        part = (p - low)[:, None]
        terms = (_clamped(x, low + offset, 1) * weight(part) for offset, weight in taps.items())
        return np.asarray(sum(terms))

    return interpolate


def _keys(offset: int, part: Array) -> Array:
    t = np.abs(offset - part)
    return np.where(t <= 1, 1.5 * t**3 - 2.5 * t**2 + 1, np.where(t < 2, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2, 0))


_P: Final = np.array([-0.7, 0.3, 1.6, 2.9, 4.2])

CASES: Final = (
    Case(
        "reverse_sequence",
        lambda x, n: ops.reverse_sequence(x, n, batch_axis=2, time_axis=0),
        {"X": sample(4, 3, 2), "N": np.array([3, 0])},
        lambda x, n: reversed_sequences(x, n, 2, 0),
    ),
    Case("take", ops.take, {"X": _X, "I": _I}, lambda x, i: x[i], lambda _, x, i: x[i.long()]),
    Case(
        "take_axis",
        lambda x, i: ops.take(x, i, 1),
        {"X": _X, "I": _I.astype(np.int8)},
        lambda x, i: np.take(x, i, 1),
        lambda _, x, i: x[:, i.long()],
    ),
    Case("take_one", lambda x, i: ops.take(x, i, -1), {"X": _X, "I": np.array(2, np.int64)}, lambda x, i: x[..., i]),
    Case("take_clamped", lambda x, i: ops.take(x, i, 2), {"X": _X, "I": _WILD}, partial(_clamped, axis=2)),
    Case(
        "take_filled",
        lambda x, i: ops.take(x, i, 1, mode="fill", fill=0.5),
        {"X": _X, "I": _WILD},
        partial(_filled, axis=1, fill=0.5),
    ),
    Case(
        "take_wrapped",
        lambda x, i: ops.take(x, i, mode="wrap"),
        {"X": _X, "I": _WILD},
        lambda x, i: np.take(x, i, 0, mode="wrap"),
    ),
    Case(
        "take_batched",
        lambda x, i: ops.take(x, i, 2, batch_dims=1),
        {"X": _X, "I": integers(4, 6, low=0, high=3)},
        _batched,
        dims={"X": "B O N", "I": "B M"},
    ),
    Case(
        "take_of_integers",
        lambda x, i: ops.take(x, i, 1),
        {"X": integers(3, 4), "I": integers(5, low=0, high=4)},
        lambda x, i: x[:, i],
    ),
    Case(
        "take_along_axis",
        lambda x, i: ops.take_along_axis(x, i, 1),
        {"X": _X, "I": _ALONG},
        lambda x, i: np.take_along_axis(x, i, 1),
        lambda torch, x, i: torch.gather(x, 1, i.long()),
        dims={"X": "A N C", "I": "A M C"},
    ),
    Case(
        "take_along_axis_broadcast",
        lambda x, i: ops.take_along_axis(x, i, 0, mode="fill"),
        {"X": sample(4, 3), "I": np.array([[-1], [2], [4]], np.int64)},
        lambda x, _: np.stack([np.zeros(3), x[2], np.zeros(3)]),
        dims={"X": "N C", "I": "M One"},
    ),
    Case(
        "gather_nd",
        partial(ops.gather_nd, depth=2),
        {"X": _X, "I": np.array([[0, 1], [3, 4], [2, 2], [9, -1]], np.int32)},
        lambda x, i: x[i[:, 0].clip(0, 3), i[:, 1].clip(0, 4)],
    ),
    Case(
        "gather_nd_batched",
        lambda x, i: ops.gather_nd(x, i, depth=2, batch_dims=1, mode="fill", fill=-1),
        {"X": _X, "I": np.array([[[0, 1]], [[4, 2]], [[5, 2]], [[3, 0]]], np.int32)},
        lambda x, _: np.stack([x[0, 0, 1], x[1, 4, 2], -1, x[3, 3, 0]])[:, None],
        dims={"X": "B N M", "I": "B J D"},
    ),
    Case(
        "nearest",
        lambda x, p: ops.interpolated_take(x, p, 1, interpolation="nearest"),
        {"X": _X, "P": np.array([-0.7, 0.5, 1.6, 2.5, 4.2])},
        lambda x, _: np.take(x, [0, 0, 2, 2, 4], 1),
        wrt=("X",),
    ),
    *(
        Case(
            f"nearest_{rule}",
            partial(ops.interpolated_take, interpolation="nearest", nearest=rule),
            {"X": sample(5), "P": np.array([0.5, 1.25, 2.75])},
            lambda x, _, places=places: x[places],
            wrt=("X",),
        )
        for rule, places in {
            "round_prefer_ceil": [1, 1, 3],
            "floor": [0, 1, 2],
            "ceil": [1, 2, 3],
            "simple": [0, 1, 2],
        }.items()
    ),
    Case(
        "linear",
        lambda x, p: ops.interpolated_take(x, p, 1),
        {"X": _X, "P": _P},
        _interpolated({0: lambda t: 1 - t, 1: lambda t: t}),
    ),
    Case(
        "linear_filled",
        lambda x, p: ops.interpolated_take(x, p, mode="fill"),
        {"X": sample(4), "P": np.array([-0.25, 1.5, 3.25, 7.5])},
        lambda x, _: np.array([0.75 * x[0], (x[1] + x[2]) / 2, 0.75 * x[3], 0]),
    ),
    Case(
        "cubic",
        lambda x, p: ops.interpolated_take(x, p, 1, interpolation="cubic"),
        {"X": _X, "P": _P},
        _interpolated({k: partial(_keys, k) for k in (-1, 0, 1, 2)}),
    ),
    Case(
        "embedding",
        lambda table, i: ops.embedding(table, i, padding_index=-2),
        {"X": sample(4, 3), "I": np.array([[0, 2], [2, 3]], np.int8)},
        lambda table, i: table[i],
        lambda torch, table, i: torch.nn.functional.embedding(i.long(), table, padding_idx=-2),
        wrt=(),
    ),
)
