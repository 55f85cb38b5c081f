"""Cases of conditions, coordinates and places in order."""

from __future__ import annotations

from typing import Final

import numpy as np

from strategies.operations import Case, integers, sample
from tileir import ops

_X: Final = sample(3, 4)
_EDGES: Final = np.array([-1.5, -0.5, 0.0, 0.0, 1.25])

CASES: Final = (
    Case(
        "zeros_and_ones",
        lambda x: (ops.zeros(x, (2, x.dims[0]), dtype="i32"), ops.ones(x, 3, dtype="i32")),
        {"X": sample(3)},
        lambda _: (np.zeros((2, 3), np.int32), np.ones(3, np.int32)),
        wrt=(),
    ),
    Case(
        "full",
        lambda x: ops.full(x, [x.dims[0], 2], 2.5) * x,
        {"X": sample(3, 1)},
        lambda x: np.full((3, 2), 2.5) * x,
        lambda torch, x: torch.full((3, 2), 2.5) * x,
    ),
    Case(
        "where",
        ops.where,
        {"C": integers(3, 1, low=0, high=2), "X": sample(4), "Y": _X},
        np.where,
        lambda torch, c, x, y: torch.where(c.bool(), x, y),
        dims={"C": "A One", "X": "B", "Y": "A B"},
    ),
    Case(
        "masked_fill",
        lambda x, m: ops.masked_fill(x, m, -9),
        {"X": _X, "M": np.array([True, False, False, True])},
        lambda x, m: np.where(m, -9.0, x),
        lambda _, x, m: x.masked_fill(m, -9),
        dims={"X": "A B", "M": "B"},
    ),
    Case(
        "one_hot",
        lambda i: ops.one_hot(i, 5, on=2, off=-1, dtype="i8"),
        {"I": integers(2, 3, low=-1, high=6)},
        lambda i: np.where(i[..., None] == np.arange(5), 2, -1),
    ),
    Case(
        "one_hot_axis",
        lambda x, i: x * ops.one_hot(i, x.dims[1], axis=1, dtype="f64"),
        {"X": _X, "I": np.array([3, 0, 2], np.uint8)},
        lambda x, i: x * (i[:, None] == np.arange(4)),
        dims={"X": "A B", "I": "A"},
        dtypes=("f64",),
    ),
    Case("index", lambda x: ops.index(x, -2), {"X": _X}, lambda x: np.indices(x.shape)[0], wrt=()),
    Case("arange", lambda x: ops.arange(x, x.dims[0]), {"X": _X}, lambda _: np.arange(3), wrt=()),
    Case("arange_of_steps", lambda x: ops.arange(x, 2, 11, 4), {"X": _X}, lambda _: np.arange(2, 11, 4), wrt=()),
    Case(
        "arange_backwards",
        lambda x: ops.arange(x, x.dims[1], -2, -3, dtype="i64"),
        {"X": _X},
        lambda _: np.arange(4, -2, -3),
        wrt=(),
    ),
    Case("arange_of_nothing", lambda x: ops.arange(x, x.dims[1], 2), {"X": _X}, lambda _: np.arange(0), wrt=()),
    Case(
        "linspace",
        lambda x: x + ops.linspace(x, -1, 2.5, x.dims[1], dtype="f64"),
        {"X": _X},
        lambda x: x + np.linspace(-1, 2.5, 4),
        dtypes=("f64",),
    ),
    Case(
        "linspace_open",
        lambda x: ops.linspace(x, x, 3, 7, endpoint=False),
        {"X": np.array(0.5)},
        lambda _: np.linspace(0.5, 3, 7, endpoint=False),
        wrt=(),
        dtypes=("f32",),
    ),
    Case(
        "searchsorted",
        lambda e, x: ops.searchsorted(e, x, right=True),
        {"E": np.stack([_EDGES, _EDGES + 1, _EDGES * 2]), "X": np.round(_X)},
        lambda e, x: np.stack([np.searchsorted(a, b, "right") for a, b in zip(e, x, strict=True)]),
        lambda torch, e, x: torch.searchsorted(e, x, right=True),
        wrt=(),
        dims={"E": "A N", "X": "A M"},
    ),
    Case(
        "bucketize",
        lambda x, e: ops.bucketize(x, e),
        {"X": np.round(_X), "E": _EDGES},
        lambda x, e: np.searchsorted(e, x),
        lambda torch, x, e: torch.bucketize(x, e),
        wrt=(),
    ),
)
