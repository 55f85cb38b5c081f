"""Placement of a program's temporaries in shared memory by their live ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final

from tileir.core import attrs, grouped
from tileir.runtime.plans.dependencies import ancestors
from tileir.semtree.ir import BufferRole, Program
from tileir.semtree.launches import used_buffers

ALIGNMENT: Final = 128
"""Alignment of offsets in bytes: two cache lines, as processors fetch lines in pairs."""

SORTED_TEMPORARIES: Final = 1024
"""Number of temporaries from which they are placed in launch order instead of by size, which compares all pairs."""


@attrs.frozen
class Offset:
    """Place of a temporary: ``offset`` bytes into a block."""

    block: int
    offset: int
    nbytes: int


@attrs.frozen
class Placement:
    """Blocks of memory, and the place of each temporary.

    Attributes:
        sizes: Bytes of each block.
        places: Place of each temporary, by name; two overlap only if no launch needs both.
        temporary_bytes: Total size of the temporaries, without sharing.
    """

    sizes: tuple[int, ...]
    places: Mapping[str, Offset]
    temporary_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Bytes of memory for the temporaries."""
        return sum(self.sizes)


@attrs.frozen(repr=False)
class _Life:
    """Live range of a temporary.

    Attributes:
        nbytes: Size in bytes.
        first: Number of the first launch that uses it.
        last: Number of the last launch that uses it.
        uses: All launches that use it, as a bit set; 0 if launches run in order.
        before: Common predecessors of all these launches; 0 if launches run in order.
    """

    name: str
    nbytes: int
    first: int
    last: int
    uses: int = 0
    before: int = 0

    def overlaps(self, other: _Life) -> bool:
        """Return whether both may hold a value at one time."""
        if not self.uses:
            return self.first <= other.last and other.first <= self.last
        return bool(self.uses & ~other.before) and bool(other.uses & ~self.before)


def place(
    program: Program, after: Sequence[Sequence[int]] | None = None, *, parts: bool = True, alignment: int = 1
) -> Placement:
    """Place temporaries by their live ranges.

    Args:
        program: The program.
        after: Predecessors of each launch, if launches may overlap; None if they run in order.
        parts: Whether temporaries may lie anywhere in one block; otherwise each lies at the start of a block.
        alignment: Alignment of offsets, in addition to :data:`ALIGNMENT`; a power of two.
    """
    lives = _lives(program, after)
    total = sum(life.nbytes for life in lives)
    if not parts:
        assert after is None  # blocks are shared in the order of launches only
        return Placement(*_in_blocks(lives), total)
    places, size = _in_one_block(lives, max(alignment, ALIGNMENT))
    return Placement((size,) if places else (), places, total)


def _lives(program: Program, after: Sequence[Sequence[int]] | None) -> list[_Life]:
    """Return the live ranges of the used temporaries, in the order of their first launches.

    Temporaries used in a loop or branch are live throughout it.
    """
    uses = grouped((name, n) for n, work in enumerate(program.works) for name in dict.fromkeys(used_buffers((work,))))
    before = None if after is None else ancestors(after)
    lives: list[_Life] = []
    for buffer in program.buffers:
        if buffer.role is not BufferRole.TEMPORARY or buffer.name not in uses:
            continue
        own = uses[buffer.name]
        bits = common = 0
        if before is not None:
            common = -1
            for number in own:
                bits |= 1 << number
                common &= before[number]
        nbytes = buffer.elements * buffer.dtype.itemsize
        lives.append(_Life(buffer.name, nbytes, own[0], own[-1], bits, common))
    return sorted(lives, key=lambda life: (life.first, -life.nbytes, life.name))


def _in_one_block(lives: Sequence[_Life], alignment: int) -> tuple[dict[str, Offset], int]:
    """Place temporaries by descending size, each into the best-fitting gap between those with overlapping live ranges.

    This is greedy by size, the better heuristic of Pisarchyk and Lee, "Efficient memory management for deep neural net
    inference" (2020).
    """
    places: dict[str, Offset] = {}
    by_size = len(lives) <= SORTED_TEMPORARIES or any(life.uses for life in lives)
    placed: list[_Life] = []
    end = 0
    for life in sorted(lives, key=lambda life: -life.nbytes) if by_size else lives:
        if not by_size:
            placed = [other for other in placed if other.last >= life.first]
        taken = sorted(
            (places[other.name].offset, places[other.name].offset + other.nbytes)
            for other in placed
            if other.overlaps(life)
        )
        offset = _best_gap(taken, life.nbytes, alignment)
        places[life.name] = Offset(0, offset, life.nbytes)
        placed.append(life)
        end = max(end, offset + life.nbytes)
    return places, end


def _best_gap(taken: Iterable[tuple[int, int]], nbytes: int, alignment: int) -> int:
    """Return the offset of the smallest gap of at least ``nbytes`` bytes between sorted ranges, else their end."""
    best: tuple[int, int] | None = None
    free = 0
    for begin, end in taken:
        gap = begin - free
        if gap >= nbytes and (best is None or gap < best[0]):
            best = (gap, free)
        free = max(free, -(-end // alignment) * alignment)
    return free if best is None else best[1]


@attrs.define(eq=False, repr=False)
class _Block:
    number: int
    size: int
    last_use: int


def _in_blocks(lives: Sequence[_Life]) -> tuple[tuple[int, ...], dict[str, Offset]]:
    """Assign each temporary the best-fitting free block: the smallest that is large enough, else the largest."""
    numbers = count()
    blocks: list[_Block] = []
    places: dict[str, Offset] = {}
    for life in lives:
        free = [block for block in blocks if block.last_use < life.first]
        large = [block for block in free if block.size >= life.nbytes]
        if large:
            block = min(large, key=lambda block: block.size)
        elif free:
            block = max(free, key=lambda block: block.size)
        else:
            block = _Block(next(numbers), life.nbytes, life.last)
            blocks.append(block)
        block.size, block.last_use = max(block.size, life.nbytes), life.last
        places[life.name] = Offset(block.number, 0, life.nbytes)
    return tuple(block.size for block in blocks), places
