"""Cases of reductions."""

from __future__ import annotations

from typing import Final

from strategies.operations import Case, sample
from tileir import ops

_X: Final = sample(3, 4, 5)

CASES: Final = (
    Case("sum", ops.sum, {"X": _X}, lambda x: x.sum(), lambda _, x: x.sum()),
    Case(
        "sum_of_two_axes",
        lambda x: ops.sum(x, (0, -1), keepdims=True),
        {"X": _X},
        lambda x: x.sum((0, 2), keepdims=True),
        lambda _, x: x.sum((0, 2), keepdim=True),
    ),
)
