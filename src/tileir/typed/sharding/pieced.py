"""Merges in pieces: of an aggregate a rank computes one piece after the other, and each travels beside the next.

Of an aggregate that is scattered the pieces are what other ranks get, and at last what the rank keeps itself. One that
two ranks need all of is cut along its first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from tileir.core import DType, grouped
from tileir.typed.boxes import Box
from tileir.typed.ir import Collective, Contraction
from tileir.typed.sharding.exchanges import largest, width_merged
from tileir.typed.sharding.local import Chunk
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import Prices
from tileir.typed.sharding.splits import CollectiveKind, balanced
from tileir.typed.sharding.spreading import needs_of_part, work_of

_ROWS: Final = 4
"""Pieces of an aggregate that two ranks need all of: three quarters of it travel beside work."""

Piece: TypeAlias = "tuple[tuple[int, ...], Box]"
"""Elements of an aggregate, and the ranks that need them."""


def merged_in_pieces(program: Partitioned) -> dict[str, Collective]:
    """Return the merges for which pieces pay, by the names of the contractions whose results they merge.

    What travels beside work then saves more than it takes to begin a further piece, and to read all operands for it.
    """
    operations = {each.name: each for each in program.function.operations}
    readers = grouped((name, each.name) for each in program.function.operations for name in reads(each))
    values = (*program.function.inputs, *program.function.operations)
    shapes, dtypes = {each.name: each.shape for each in values}, {each.name: each.dtype for each in values}
    prices, placements, found = Prices(program.mesh), dict(program.placements), {}
    for each in program.collectives:
        made, ranks = operations.get(each.input), program.mesh.extent(each.axes)
        is_whole = each.kind is CollectiveKind.ALL_REDUCE
        if (
            each.aggregation is None
            or not isinstance(made, Contraction)
            or (is_whole and (ranks > 2 or not each.shape))
        ):
            continue
        if readers[made.name] != [each.name] or made.name in program.function.outputs:
            continue
        own = placements[made.name]
        needs = needs_of_part(made, own.layout, own.shares, shapes, program.mesh)
        work = work_of(made, own.layout, own.shares, needs, shapes, dtypes, prices)
        again = sum(largest(need) * dtypes[name].itemsize for name, need in needs.items())
        count, size = _ROWS if is_whole else ranks, largest(each.target)
        sent = (size // count if is_whole else size) * width_merged(each, each.dtype, each.shape, ranks)
        if _pays(sent, work / count, again, prices):
            found[made.name] = each
    return found


def _pays(sent: int, work: float, again: int, prices: Prices) -> bool:
    """Return whether to send some bytes beside seconds of work is worth one more exchange, and bytes read again."""
    saved = min(prices.model.exchange_seconds(sent), work)
    return saved > prices.model.exchange_seconds(1) + prices.work(0, DType.F32, again)


def apart(chunks: Sequence[Chunk], merges: Mapping[str, Collective]) -> list[Chunk]:
    """Return chunks in which operations whose results are merged in pieces stand alone, before the merge."""
    moved = {each.name: each for chunk in chunks if isinstance(chunk, list) for each in chunk if each.name in merges}
    found: list[Chunk] = []
    for chunk in chunks:
        if isinstance(chunk, list):
            found.append([each for each in chunk if each.name not in moved])
            continue
        if isinstance(chunk, Collective) and chunk.input in moved:
            found.append([moved[chunk.input]])
        found.append(chunk)
    return found


def pieces_of(program: Partitioned, merge: Collective, rank: int) -> tuple[Piece, ...]:
    """Return what a rank computes for a merge, in order, all pieces of others before its own."""
    mesh = program.mesh
    group = mesh.group(rank, merge.axes)
    if merge.kind is CollectiveKind.ALL_REDUCE:
        ((low, high), *rest) = mesh.box(merge.target, mesh.coordinates(rank))
        rows = [(low + first, low + last) for first, last in balanced(high - low, min(_ROWS, max(1, high - low)))]
        return tuple((tuple(group), (each, *rest)) for each in rows)
    order = islice((*group, *group), group.index(rank) + 1, group.index(rank) + 1 + len(group))
    return tuple(((each,), mesh.box(merge.target, mesh.coordinates(each))) for each in order)
