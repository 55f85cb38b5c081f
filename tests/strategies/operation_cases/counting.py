"""Cases of results whose number elements decide."""

from __future__ import annotations

from typing import Final

import numpy as np

from fuzz.wide.counting import compressed, distinct, positions
from strategies.operations import Case, integers, sample
from tileir import ops

_TIED: Final = integers(3, 7, low=0, high=3)
_ROWS: Final = np.array([[1, 0], [0, 2], [1, 0], [0, 1], [0, 2]], np.int32)

CASES: Final = (
    Case("nonzero", ops.nonzero, {"X": integers(3, 4, 2, low=-1, high=2)}, positions, dtypes=("f32",)),
    Case(
        "compress",
        lambda x, c: ops.compress(x, c, 1),
        {"X": sample(2, 5, 3), "C": np.array([True, False, True])},
        lambda x, c: compressed(x, c, 1),
    ),
    Case(
        "compress_of_all_axes",
        ops.compress,
        {"X": sample(2, 3), "C": np.array([0, 1, 1, 0, 7], np.int32)},
        compressed,
    ),
    Case("unique", ops.unique, {"X": _TIED}, distinct, dtypes=("f32",)),
    Case(
        "unique_as_they_come",
        lambda x: ops.unique(x, ordered=False),
        {"X": _TIED},
        lambda x: distinct(x, None, False),
        dtypes=("f32",),
    ),
    Case("unique_rows", lambda x: ops.unique(x, 0), {"X": _ROWS}, lambda x: distinct(x, 0), dtypes=("f32",)),
    Case("unique_columns", lambda x: ops.unique(x, -1), {"X": _ROWS.T}, lambda x: distinct(x, 1), dtypes=("f32",)),
)
