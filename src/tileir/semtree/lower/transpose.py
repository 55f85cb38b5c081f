"""Square tiles turned in registers: rows in, columns out, by shuffles of two vectors each.

Vectors are seen as blocks of 16 bytes, within which processors shuffle cheapest. Each of ``log2(lanes)`` stages pairs
rows whose numbers differ in one bit, and exchanges this bit with one of the lane's number: those within a block by
interleaving the elements of two rows, those of the block's number by sorting its blocks into even and odd ones. This is
the usual transposition by butterflies (Eklundh, "A fast computer method for matrix transposing", 1972), with exchanges
that have an instruction of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.semtree import ir as sem

if TYPE_CHECKING:
    from tileir.core.text.names import NameScope

_BLOCK_BYTES: Final = 16


def is_square_power(rows: int, columns: int) -> bool:
    """Return whether a tile can be turned in registers: square, and as many rows as a power of two of at least 2."""
    return rows == columns and rows > 1 and rows & (rows - 1) == 0


def transposed(rows: list[sem.Expr], names: NameScope) -> tuple[list[sem.Expr], list[sem.Stmt]]:
    """Return the columns of a tile for which :func:`is_square_power` holds, and the statements that make them."""
    kind = rows[0].type
    width = min(kind.lanes, max(1, _BLOCK_BYTES // kind.dtype.itemsize))
    statements: list[sem.Stmt] = []
    for bit in _bits(kind.lanes, width):
        low, high = _interleaved(kind.lanes, width) if 1 << bit < width else _sorted(kind.lanes, width)
        after = list(rows)
        for number in range(kind.lanes):
            other = number | 1 << bit
            if other != number:
                pair = (rows[number], rows[other])
                for place, lanes in ((number, low), (other, high)):
                    variable = sem.Var(names.fresh("turned"), kind)
                    statements.append(sem.Declare(variable, sem.Shuffle(pair, lanes)))
                    after[place] = variable
        rows = after
    return rows, statements


def _bits(lanes: int, width: int) -> list[int]:
    """Return the bits of a row's number in the order of the stages: those within a block from the highest on."""
    within = width.bit_length() - 1
    return [*reversed(range(within)), *range(within, lanes.bit_length() - 1)]


def _interleaved(lanes: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lanes of the lower halves of all blocks of two vectors, element by element; and of the upper ones."""
    halves = []
    for start in (0, width // 2):
        pairs = (
            (block + start + t, lanes + block + start + t)
            for block in range(0, lanes, width)
            for t in range(width // 2)
        )
        halves.append(tuple(lane for pair in pairs for lane in pair))
    return halves[0], halves[1]


def _sorted(lanes: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lanes of the even blocks of two vectors, one vector after the other; and of the odd ones."""
    kinds = []
    for first in (0, width):
        blocks = range(first, 2 * lanes, 2 * width)
        kinds.append(tuple(lane for block in blocks for lane in range(block, block + width)))
    return kinds[0], kinds[1]
