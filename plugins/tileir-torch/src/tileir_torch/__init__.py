"""PyTorch on tileir: compiled modules and functions, and operations written in Tile."""

from __future__ import annotations

from tileir_torch.calls import SizesWarning
from tileir_torch.custom import op
from tileir_torch.dynamo import EagerWarning, backend
from tileir_torch.exported import Compiled, StaleWeightsWarning, compile
from tileir_torch.importing import Unsupported, unsupported

__all__ = [
    "Compiled",
    "EagerWarning",
    "SizesWarning",
    "StaleWeightsWarning",
    "Unsupported",
    "backend",
    "compile",
    "op",
    "unsupported",
]
