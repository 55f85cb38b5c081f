"""Passes and targets for accelerators with memories and units of their own, loaded by the entry points of tileir.

``placement`` says where blocks and tensors of Stripe programs are, and moves data between memories; ``tiling`` cuts
blocks into pieces for units and memories, and orders, unrolls and vectorises what is inside.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_TARGETS: Final = files("tileir_accelerators") / "targets"

DSP_CONV: Final[Traversable] = _TARGETS / "dsp_conv.json"
"""The accelerator of Stripe's slides."""

OUTER_PRODUCT: Final[Traversable] = _TARGETS / "outer_product.json"
"""Processors whose products of matrices are a stencil of outer products."""
