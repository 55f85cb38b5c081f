"""Where the scratch arrays of a kernel live: in one buffer behind its arguments, a part of it for each group."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.semtree.ir import DeclareArray, Region
from tileir.semtree.rewrite import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import KernelFunction

ALIGNMENT: Final = 128
"""Alignment in bytes of each group's part of the buffer, and of every array in it: that of the widest vector."""


@attrs.frozen
class Layout:
    """Offsets in bytes of the scratch arrays in a group's part of the buffer, and the size of that part.

    Equal declarations share their place: names are unique along every chain of scopes, so equal ones
    never live at the same time.
    """

    offsets: Mapping[DeclareArray, int]
    nbytes: int


def layout(kernel: KernelFunction) -> Layout:
    """Place the scratch arrays that a kernel declares."""
    offsets: dict[DeclareArray, int] = {}
    nbytes = 0
    for stmt in statements(kernel.body):
        if isinstance(stmt, DeclareArray) and stmt.region is Region.SCRATCH and stmt not in offsets:
            offsets[stmt] = nbytes
            nbytes += -(-stmt.size * stmt.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return Layout(MappingProxyType(offsets), nbytes)
