"""NVIDIA architectures for which LLVM emits PTX, and the facts of one card of each.

The facts are from NVIDIA's data sheets and "CUDA C++ Programming Guide", Compute Capabilities. LLVM aborts the process
if the version of PTX is older than its architecture, so each row has the minimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Target, attrs
from tileir.core.fragments import FRAGMENTS, named
from tileir.core.updates import WIDEST_UPDATE

STATIC_SHARED_BYTES: Final = 48 * 1024
"""Shared memory that a group may have as module variables; more is requested at launch."""

ALIGNMENT: Final = 256
"""Alignment of all memory from the driver."""


BULK_COPIES: Final = ("sm_90a",)
"""Architectures whose tensor copies of boxes are used."""

MOST_OF_CLUSTER: Final = 8
"""Maximum number of groups in a cluster on cards that copy boxes; more are not portable among them."""


@attrs.frozen
class Architecture:
    """Architecture for which PTX is emitted.

    Attributes:
        name: Name in LLVM and PTX. Code for a name with an ``a`` runs on that capability only, other code also on later
            capabilities.
        capability: Major and minor number.
        ptx: Oldest version of PTX that supports it, such as 80 for 8.0.
        card: Example card, for a target without a device.
        shared_bytes: Maximum shared memory of a group.
        fragments: Matrix fragments for schedules, as named in :mod:`tileir.core.fragments`.
        multiprocessors: Multiprocessors of that card.
        cache_bytes: Second-level cache of that card.
    """

    name: str
    capability: tuple[int, int]
    ptx: int
    shared_bytes: int
    fragments: tuple[str, ...]
    card: str
    multiprocessors: int
    cache_bytes: int

    @property
    def is_portable(self) -> bool:
        """True if later cards run code for it."""
        return not self.name.endswith("a")


_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_WARPS: Final = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k8_f32")
_BYTES: Final = named("sm_89")
_WARPGROUPS: Final = tuple(name for name in named("sm_90a") if FRAGMENTS[name].c.dtype is DType.F32)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        row.name: row
        for row in (
            Architecture("sm_80", (8, 0), 70, 163 * _KIB, _WARPS, "A100", 108, 40 * _MIB),
            Architecture("sm_86", (8, 6), 71, 99 * _KIB, _WARPS, "A40", 84, 6 * _MIB),
            Architecture("sm_89", (8, 9), 78, 99 * _KIB, (*_WARPS, *_BYTES), "L40S", 142, 96 * _MIB),
            Architecture("sm_90a", (9, 0), 80, 227 * _KIB, (*_WARPGROUPS, *_WARPS, *_BYTES), "H200", 132, 50 * _MIB),
            Architecture("sm_100a", (10, 0), 86, 227 * _KIB, (*_WARPS, *_BYTES), "B200", 148, 126 * _MIB),
            Architecture("sm_120", (12, 0), 87, 99 * _KIB, (*_WARPS, *_BYTES), "RTX_5090", 170, 96 * _MIB),
        )
    }
)
"""Architectures by name, in ascending order of capability."""


def architecture_for(capability: tuple[int, int]) -> Architecture | None:
    """Return the architecture for a card: its own row, or the latest whose code runs on it; None for older cards."""
    fitting = [
        row
        for row in ARCHITECTURES.values()
        if row.capability == capability or (row.is_portable and row.capability < capability)
    ]
    return fitting[-1] if fitting else None


def target_of(row: Architecture, card: str, multiprocessors: int, cache_bytes: int) -> Target:
    """Return the facts of a card for passes and lowerings."""
    return Target(
        name=f"CUDA-{card}".replace(" ", "_"),
        vector_bytes=16,
        vector_registers=256,
        threads=multiprocessors,
        cache_bytes=(cache_bytes,),
        local_bytes=row.shared_bytes,
        group_threads=1024,
        group_width=32,
        max_lanes=16,
        alignment=ALIGNMENT,
        scratch=False,
        index_dtype=DType.I32,
        async_copies=True,
        bulk_copies=row.name in BULK_COPIES,
        update_bytes=WIDEST_UPDATE,
        fragments=row.fragments,
        pipeline="gpu",
    )
