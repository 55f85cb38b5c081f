"""Passes and targets for accelerators with their own memories and units, loaded by the entry points of tileir.

``placement`` assigns locations to blocks and tensors of Stripe programs, and moves data between memories; ``tiling``
cuts blocks into pieces for units and memories, and orders, unrolls and vectorises their contents.
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
"""Processors whose matrix products are a stencil of outer products."""
