"""Which temporaries of a program may share memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.semtree.ir import BufferRole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Program


@attrs.frozen
class Placement:
    """Blocks of memory, and which block holds each temporary.

    Attributes:
        sizes: Bytes of each block.
        blocks: Number of the block of each temporary, by name; two share one only where no launch needs both.

    """

    sizes: tuple[int, ...]
    blocks: Mapping[str, int]


@attrs.define
class _Block:
    size: int
    last_use: int


def place(program: Program) -> Placement:
    """Place temporaries by their lifetimes: each takes the block that wastes least, or makes one.

    Launches run in order, so a temporary lives from its first launch to its last.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, launch in enumerate(program.launches):
        for name in launch.arguments:
            first.setdefault(name, number)
            last[name] = number
    sizes = {
        buffer.name: buffer.elements * buffer.dtype.itemsize
        for buffer in program.buffers
        if buffer.role is BufferRole.TEMPORARY and buffer.name in first
    }
    blocks: list[_Block] = []
    chosen: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: (first[name], -sizes[name], name)):
        chosen[name] = _fit(blocks, sizes[name], first[name], last[name])
    return Placement(tuple(block.size for block in blocks), chosen)


def _fit(blocks: list[_Block], size: int, first: int, last: int) -> int:
    """Return the number of the free block to use: the smallest that is large enough, else the largest, which grows."""
    free = [number for number, block in enumerate(blocks) if block.last_use < first]
    large = [number for number in free if blocks[number].size >= size]
    if large:
        best = min(large, key=lambda number: blocks[number].size)
    elif free:
        best = max(free, key=lambda number: blocks[number].size)
    else:
        best = len(blocks)
        blocks.append(_Block(size, last))
    blocks[best].size = max(blocks[best].size, size)
    blocks[best].last_use = last
    return best
