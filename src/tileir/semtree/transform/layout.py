"""Placement of the arrays of a kernel: small private ones on the stack, others in the scratch memory of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import DeclareArray, KernelFunction, Region
from tileir.semtree.rewrite import statements

ALIGNMENT: Final = 64
"""Alignment in bytes of scratch memory and of every array in it; more would gain nothing on any processor."""

STACK_BYTES: Final = 32 * 1024
"""Private arrays beyond this sum are moved to scratch memory, for the stack of a thread may be small."""

ON_PROCESSORS: Final = (Region.LOCAL, Region.SCRATCH)
"""What is scratch memory where one thread does the work of a group."""


@attrs.frozen
class Layout:
    """Offsets in bytes of the arrays in scratch memory, and how much of that a group needs.

    Equal declarations share their place: names are unique along every chain of scopes, so equal ones
    never live at the same time.
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
        kernel: What declares them.
        alignment: Of every array in scratch memory, in bytes.
        in_scratch: Regions that are scratch memory.
        stack_bytes: Private arrays beyond this sum are in scratch memory, too; None: none of them is.

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
            free += aligned(apart(nbytes), alignment)
    return Layout(MappingProxyType(offsets), scratch)


def apart(nbytes: int) -> int:
    """Return how many bytes to set aside for an array, so that one behind it lies in other sets of a cache.

    Walks over arrays whose sizes are powers of two, all at the same place at a time, would throw each other out.
    """
    return nbytes + _STAGGER if nbytes >= _WAY // 4 and nbytes % (_WAY // 4) == 0 else nbytes


_WAY: Final = 4096
"""Bytes between addresses that share a set of a first-level cache."""
_STAGGER: Final = 5 * 64
"""Five lines, so that a dozen arrays have sets of their own, and prefetched lines do not meet either."""


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """Return the least multiple of ``alignment`` from ``nbytes`` on."""
    return -(-nbytes // alignment) * alignment
