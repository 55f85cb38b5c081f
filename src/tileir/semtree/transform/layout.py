"""Placement of the arrays of a kernel: small private arrays on the stack, others in the scratch memory of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import DeclareArray, KernelFunction, Region
from tileir.semtree.rewrite import statements

ALIGNMENT: Final = 64
"""Alignment in bytes of scratch memory and of every array in it; more has no benefit on any processor."""

STACK_BYTES: Final = 32 * 1024
"""Maximum sum of private arrays on the stack, which may be small; others are moved to scratch memory."""

ON_PROCESSORS: Final = (Region.LOCAL, Region.SCRATCH)
"""Regions in scratch memory if one thread does the work of a group."""


@attrs.frozen
class Layout:
    """Offsets in bytes of the arrays in scratch memory, and its size for a group.

    Equal declarations share their place: names are unique along every chain of scopes, so equal declarations
    are never live at the same time.
    """

    offsets: Mapping[DeclareArray, int]
    scratch_bytes: int


def layout(
    kernel: KernelFunction,
    *,
    alignment: int = ALIGNMENT,
    in_scratch: Collection[Region] = ON_PROCESSORS,
    stack_bytes: int | None = STACK_BYTES,
) -> Layout:
    """Place the arrays that a kernel declares.

    Args:
        kernel: The kernel.
        alignment: Alignment of arrays in scratch memory, in bytes.
        in_scratch: Regions that are scratch memory.
        stack_bytes: Maximum sum of private arrays on the stack; None for no limit.
    """
    offsets: dict[DeclareArray, int] = {}
    on_stack: set[DeclareArray] = set()
    stack = scratch = free = 0
    for stmt in statements(kernel.body):
        if not isinstance(stmt, DeclareArray) or stmt in on_stack or stmt in offsets:
            continue
        nbytes = stmt.size * stmt.dtype.itemsize
        fits = stmt.region is Region.PRIVATE and (stack_bytes is None or stack + nbytes <= stack_bytes)
        if fits:
            stack += nbytes
            on_stack.add(stmt)
        elif stmt.region is Region.PRIVATE or stmt.region in in_scratch:
            offsets[stmt] = free
            scratch = free + aligned(nbytes, alignment)
            free += aligned(padded_bytes(nbytes), alignment)
    return Layout(MappingProxyType(offsets), scratch)


def padded_bytes(nbytes: int) -> int:
    """Return the bytes to reserve for an array, so that the next one is in other cache sets.

    Arrays with power-of-two sizes that are walked in parallel would evict each other.
    """
    return nbytes + _STAGGER if nbytes >= _WAY // 4 and nbytes % (_WAY // 4) == 0 else nbytes


_WAY: Final = 4096
"""Bytes between addresses that share a set of a first-level cache."""
_STAGGER: Final = 5 * 64
"""Five lines, so that a dozen arrays have distinct sets, and prefetched lines do not collide either."""


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """Return the least multiple of ``alignment`` from ``nbytes`` on."""
    return -(-nbytes // alignment) * alignment
