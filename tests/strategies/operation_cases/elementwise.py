"""Cases of elementwise functions."""

from __future__ import annotations

from typing import Final

import numpy as np

from strategies.operations import Case, sample
from tileir import ops

_X: Final = sample(3, 5)

CASES: Final = (
    Case("relu", ops.relu, {"X": _X}, lambda x: np.maximum(x, 0), lambda torch, x: torch.relu(x)),
    Case(
        "relu6",
        lambda x: ops.relu(x, max_value=1.5),
        {"X": _X},
        lambda x: np.clip(x, 0, 1.5),
        lambda torch, x: torch.nn.functional.hardtanh(x, 0, 1.5),
    ),
)
