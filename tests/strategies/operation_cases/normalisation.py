"""Cases of normalisation, over batches, layers, groups and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strategies.operations import Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strategies.operations import Array

_X: Final = sample(3, 4, 2, 3)
_CHANNELS: Final = {"X": _X, "W": sample(4, low=0.5, seed=1), "B": sample(4, seed=2)}
_ROWS: Final = {"X": sample(3, 7), "W": sample(7, low=0.5, seed=1), "B": sample(7, seed=2)}
_MANY: Final = 4.0  # factor on the tolerance where a cancellation is divided by a small deviation


def normalised(x: Array, axes: Sequence[int], epsilon: float = 1e-5) -> Array:
    """Return the definition, with the biased variance."""
    centred = x - x.mean(tuple(axes), keepdims=True)
    result: Array = centred / np.sqrt((centred**2).mean(tuple(axes), keepdims=True) + epsilon)
    return result


def by_channel(vector: Array) -> Array:
    return vector[:, None, None]


def grouped(x: Array, groups: int) -> Array:
    return normalised(x.reshape(len(x), groups, -1), [2]).reshape(x.shape)


def windowed(x: Array, size: int) -> Array:
    """Return the means of squares of windows of channels."""
    padded = np.pad(x * x, ((0, 0), (size // 2, (size - 1) // 2), (0, 0), (0, 0)))
    result: Array = np.stack([padded[:, c : c + size].sum(1) for c in range(x.shape[1])], 1) / size
    return result


CASES: Final = (
    Case(
        "batch",
        ops.batch_norm,
        _CHANNELS,
        lambda x, w, b: (
            normalised(x, (0, 2, 3)) * by_channel(w) + by_channel(b),
            x.mean((0, 2, 3)),
            x.var((0, 2, 3)),
        ),
        tolerance=_MANY,
    ),
    Case(
        "batch_alone",
        lambda x, w, b: ops.batch_norm(x, w, b)[0],
        _CHANNELS,
        lambda x, w, b: normalised(x, (0, 2, 3)) * by_channel(w) + by_channel(b),
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
        tolerance=_MANY,
    ),
    Case(
        "batch_running",
        lambda x, m, v: ops.batch_norm(x, running=(m, v), momentum=0.25),
        {"X": _X, "M": sample(4, seed=3), "V": sample(4, low=0.5, seed=4)},
        lambda x, m, v: (
            normalised(x, (0, 2, 3)),
            0.75 * m + 0.25 * x.mean((0, 2, 3)),
            0.75 * v + 0.25 * x.var((0, 2, 3), ddof=1),
        ),
        tolerance=_MANY,
    ),
    Case(
        "batch_channels_last",
        lambda x: ops.batch_norm(x, axis=-1, epsilon=1e-3)[0],
        {"X": sample(3, 4, 5)},
        lambda x: normalised(x, (0, 1), 1e-3),
        tolerance=_MANY,
    ),
    Case(
        "batch_inference",
        ops.batch_norm_inference,
        {"X": _X, "M": sample(4, seed=3), "V": sample(4, low=0.5, seed=4)} | {n: _CHANNELS[n] for n in "WB"},
        lambda x, m, v, w, b: (x - by_channel(m)) / np.sqrt(by_channel(v) + 1e-5) * by_channel(w) + by_channel(b),
        lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b),
        wrt=("X", "W", "B"),
    ),
    Case(
        "layer",
        ops.layer_norm,
        _ROWS,
        lambda x, w, b: normalised(x, [1]) * w + b,
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (7,), w, b),
        tolerance=_MANY,
    ),
    Case(
        "layer_of_two_axes",
        lambda x, w: ops.layer_norm(x, w, axes=(-2, -1), epsilon=1e-3),
        {"X": _X, "W": sample(2, 3, seed=1)},
        lambda x, w: normalised(x, (2, 3), 1e-3) * w,
        lambda t, x, w: t.nn.functional.layer_norm(x, (2, 3), w, eps=1e-3),
        tolerance=_MANY,
    ),
    Case(
        "layer_of_an_axis_in_the_middle",
        lambda x, w, b: ops.layer_norm(x, w, b, axes=1),
        _CHANNELS,
        lambda x, w, b: normalised(x, [1]) * by_channel(w) + by_channel(b),
        tolerance=_MANY,
    ),
    Case(
        "group",
        lambda x, w, b: ops.group_norm(x, 2, w, b),
        _CHANNELS,
        lambda x, w, b: grouped(x, 2) * by_channel(w) + by_channel(b),
        lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b),
        tolerance=_MANY,
    ),
    Case(
        "instance",
        ops.instance_norm,
        _CHANNELS,
        lambda x, w, b: normalised(x, (2, 3)) * by_channel(w) + by_channel(b),
        lambda t, x, w, b: t.nn.functional.instance_norm(x, weight=w, bias=b),
        tolerance=_MANY,
    ),
    Case(
        "rms",
        ops.rms_norm,
        {name: _ROWS[name] for name in "XW"},
        lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w,
        lambda t, x, w: t.nn.functional.rms_norm(x, (7,), w, 1e-6),
    ),
    Case(
        "local_response",
        lambda x: ops.local_response_norm(x, 2, alpha=0.5),
        {"X": _X},
        lambda x: x / (1 + 0.5 * windowed(x, 2)) ** 0.75,
        lambda t, x: t.nn.functional.local_response_norm(x, 2, 0.5),
    ),
    Case(
        "local_response_of_three",
        lambda x: ops.local_response_norm(x, 3, alpha=0.1, beta=0.5, k=2.0),
        {"X": _X},
        lambda x: x / (2 + 0.1 * windowed(x, 3)) ** 0.5,
        lambda t, x: t.nn.functional.local_response_norm(x, 3, 0.1, 0.5, 2.0),
    ),
    Case(
        "mean_variance",
        lambda x: ops.mean_variance_norm(x, axes=(1, 2)),
        {"X": _X},
        lambda x: normalised(x, (1, 2), 1e-9),
        tolerance=_MANY,
    ),
    Case(
        "mean_variance_outside",
        lambda x: ops.mean_variance_norm(x, epsilon=0.5, epsilon_mode="outside"),
        {"X": _X},
        lambda x: (x - x.mean()) / (x.std() + 0.5),
        tolerance=_MANY,
    ),
    Case(
        "mean_alone",
        lambda x: ops.mean_variance_norm(x, axes=0, normalise_variance=False),
        {"X": _X},
        lambda x: x - x.mean(0, keepdims=True),
    ),
    Case(
        "weight_standardisation",
        ops.weight_standardisation,
        {"W": sample(3, 2, 3, 2)},
        lambda w: normalised(w, (1, 2, 3)),
        tolerance=_MANY,
    ),
    Case(
        "euclidean",
        lambda x: ops.l2_normalise(x, axes=1),
        {"X": _X},
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
        lambda t, x: t.nn.functional.normalize(x),
    ),
    Case(
        "euclidean_of_zeros",
        lambda x: ops.l2_normalise(x, epsilon=0.5),
        {"X": _X * (np.arange(_X.shape[0]) > 0).reshape(-1, *[1] * (_X.ndim - 1))},
        lambda x: x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 0.5),
        lambda t, x: t.nn.functional.normalize(x, dim=-1, eps=0.5),
    ),
    Case(
        "euclidean_added",
        lambda x: ops.l2_normalise(x, epsilon=0.5, epsilon_mode="add"),
        {"X": _X},
        lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + 0.5),
    ),
)
