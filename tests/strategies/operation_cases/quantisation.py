"""Cases of quantised numbers; those of integers are exact, and have no gradient."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

_X: Final = sample(2, 3, 4, low=-40, high=40)
_SCALES: Final = np.array([0.5, 1.0, 0.25])
_POINTS: Final = np.array([0, -3, 100], np.int8)
_BLOCKS: Final = np.array([[[0.5, 2.0]] * 3, [[0.25, 1.0]] * 3])
_BYTES: Final = np.random.default_rng(0).integers(0, 256, (4, 5), np.uint8)
_SIGNED: Final = np.random.default_rng(1).integers(-128, 128, (5, 3), np.int8)


def _rows(array: Array) -> Array:
    return array[:, None]


CASES: Final = (
    Case(
        "quantize_along_an_axis",
        lambda x, s, z: ops.quantize_linear(x, s, z, dtype="i8"),
        {"X": _X, "S": _SCALES, "Z": _POINTS},
        lambda x, s, z: np.clip(np.rint(x / _rows(s)) + _rows(z), -128, 127).astype(np.int8),
        wrt=(),
    ),
    Case(
        "quantize_blocks",
        lambda x, s: ops.quantize_linear(x, s, axis=-1, block_size=3),
        {"X": _X, "S": _BLOCKS},
        lambda x, s: np.clip(np.rint(x / s.repeat(3, -1)[..., :4]), 0, 255).astype(np.uint8),
        wrt=(),
    ),
    Case(
        "dequantize",
        lambda x, s, z: ops.dequantize_linear(x, s, z, axis=1),
        {"X": _BYTES, "S": sample(5, low=0.1), "Z": np.array([0, 255, 3, 128, 7], np.uint8)},
        lambda x, s, z: (x.astype(np.float64) - z) * s,
        dtypes=("f32",),
    ),
    Case(
        "requantize",
        lambda x, s, z: ops.requantize_linear(x, s, z, axis=0, dtype="i8"),
        {"X": np.array([[3, -3], [2**30, -1000]], np.int32), "S": np.array([0.5, 0.25]), "Z": np.array(7, np.int8)},
        lambda x, s, z: np.clip(np.rint(x * _rows(s) + z), -128, 127).astype(np.int8),
        wrt=(),
    ),
    Case(
        "matmul",
        lambda x, y, p, q: ops.matmul_integer(x, y, p, q),
        {"X": _BYTES, "Y": _SIGNED, "P": np.array([0, 255, 3, 128], np.uint8), "Q": np.array([-128, 5, 127], np.int8)},
        lambda x, y, p, q: (x.astype(np.int64) - _rows(p)) @ (y.astype(np.int64) - q),
    ),
    Case(
        "conv",
        lambda x, w, p, q: ops.conv_integer(x, w, p, q, padding=1),
        {
            "X": _BYTES.reshape(1, 2, 10),
            "W": _SIGNED[:4].reshape(2, 2, 3),
            "P": np.array(200, np.uint8),
            "Q": np.array([-128, 5], np.int8),
        },
        lambda x, w, p, q: _convolved(x - np.int64(p), w - q[:, None, None].astype(int)),
    ),
)


def _convolved(x: Any, w: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, -1)
    return np.einsum("nclk,ock->nol", windows, w)
