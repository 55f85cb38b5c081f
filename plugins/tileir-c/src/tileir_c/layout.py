"""Where the arrays of a kernel live: small private ones on the stack, all others in the scratch memory of a group."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.semtree.ir import DeclareArray, Region
from tileir.semtree.rewrite import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import KernelFunction

ALIGNMENT: Final = 64
"""Alignment in bytes of scratch memory, of every array in it, and of variables with several lanes."""

STACK_BYTES: Final = 32 * 1024
"""Private arrays beyond this sum are moved to scratch memory, for the stack of a thread may be small."""


@attrs.frozen
class Layout:
    """Offsets in bytes of the arrays in scratch memory; arrays that are not among them are on the stack.

    Equal declarations share their place: names are unique along every chain of scopes, so equal ones
    never live at the same time.
    """

    offsets: Mapping[DeclareArray, int]
    scratch_bytes: int


def layout(kernel: KernelFunction) -> Layout:
    """Place the arrays that a kernel declares."""
    offsets: dict[DeclareArray, int] = {}
    on_stack: set[DeclareArray] = set()
    stack = scratch = 0
    for stmt in statements(kernel.body):
        if not isinstance(stmt, DeclareArray) or stmt in on_stack or stmt in offsets:
            continue
        nbytes = stmt.size * stmt.dtype.itemsize
        if stmt.region is Region.PRIVATE and stack + nbytes <= STACK_BYTES:
            stack += nbytes
            on_stack.add(stmt)
        else:
            offsets[stmt] = scratch
            scratch += aligned(nbytes)
    return Layout(MappingProxyType(offsets), scratch)


def aligned(nbytes: int) -> int:
    """Return the least multiple of :data:`ALIGNMENT` from ``nbytes`` on."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
