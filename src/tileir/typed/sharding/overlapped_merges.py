"""Merges in pieces: a rank computes an aggregate piece by piece, and each piece travels during the next one.

The pieces of a scattered aggregate are those of the other ranks, and finally the rank's own. An aggregate that all
ranks need completely is split along its first axis, and each piece is merged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from tileir.core import HardwareModel, attrs, grouped
from tileir.typed.boxes import Box
from tileir.typed.ir import Collective, Contraction
from tileir.typed.sharding.exchanges import largest, width_merged
from tileir.typed.sharding.explanation import works
from tileir.typed.sharding.local import Chunk
from tileir.typed.sharding.mesh import CollectiveKind, balanced
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import ANY_MODEL, Prices
from tileir.typed.sharding.spreading import needs_of_part

_COUNTS: Final = (2, 4, 8)
"""Numbers of pieces to try for an aggregate that all ranks need completely."""

Piece: TypeAlias = "tuple[tuple[int, ...], Box]"
"""Elements of an aggregate, and the ranks that need them."""


@attrs.frozen
class ChunkedMerge:
    """A merge of an aggregate that ranks compute in ``count`` pieces."""

    collective: Collective
    count: int


@attrs.frozen
class Times:
    """Seconds that decide whether to merge an aggregate in pieces.

    Attributes:
        work: Time for a rank to compute its part.
        reading: Time to read all operands.
        writing: Time to write its part.
        travelling: Time of the transfer, without its latency.
        beginning: Fixed costs of computing and sending each piece.
        later: Work before the merge is needed, which could overlap with the transfer of one piece as well.
    """

    work: float
    reading: float
    writing: float
    travelling: float
    beginning: float
    later: float

    def of_pieces(self, count: int, sent: int) -> float:
        """Return the time until the merge and all independent work are done, if ``sent`` of the pieces are sent."""
        work = max(self.work, self.writing + count * self.reading) + count * self.beginning
        first, last = work / count + self.travelling, work * sent / count + self.travelling / sent
        return max(work + self.later, first, last)


def chunked_merges(program: Partitioned, model: HardwareModel = ANY_MODEL) -> dict[str, ChunkedMerge]:
    """Return the merges for which pieces pay, by the names of the contractions whose results they merge.

    The overlap then saves more than the fixed costs of further pieces and the repeated reading of operands.
    """
    tried = list(_candidates(program))
    found: dict[str, ChunkedMerge] = {}
    for (made, merge, counts), times in zip(tried, _times(program, tried, model), strict=True):
        count = cheapest(times, counts)
        if count > 1:
            found[made.name] = ChunkedMerge(merge, count)
    return found


def cheapest(times: Times, counts: Mapping[int, int]) -> int:
    """Return the number of pieces with the least time, given the numbers of sent pieces; or 1."""
    return min((1, *counts), key=lambda count: times.of_pieces(count, counts.get(count, 1)))


_Tried: TypeAlias = tuple[Contraction, Collective, Mapping[int, int]]
"""A contraction, the merge of its result, and numbers of pieces, each with the number of sent pieces."""


def _candidates(program: Partitioned) -> Iterator[_Tried]:
    """Yield the merges that may be made in pieces."""
    function, mesh = program.function, program.mesh
    operations = {each.name: each for each in function.operations}
    readers = grouped((name, each.name) for each in function.operations for name in reads(each))
    for each in program.collectives:
        made, ranks = operations.get(each.input), mesh.extent(each.axes)
        if each.aggregation is None or not isinstance(made, Contraction) or made.name in function.outputs:
            continue
        counts = {ranks: ranks - 1}
        if each.kind is CollectiveKind.ALL_REDUCE:
            rows = each.target[0].intervals if each.target else ()
            counts = {count: count for count in _COUNTS if count <= min((high - low for low, high in rows), default=0)}
        if counts and readers[made.name] == [each.name]:
            yield made, each, counts


def _times(program: Partitioned, tried: Sequence[_Tried], model: HardwareModel) -> Iterator[Times]:
    """Yield the times of some merges, in order."""
    if not tried:
        return
    function, mesh, prices = program.function, program.mesh, Prices(program.mesh, model)
    values, placements = (*function.inputs, *function.operations), dict(program.placements)
    shapes, dtypes = {each.name: each.shape for each in values}, {each.name: each.dtype for each in values}
    spent = works(program, prices)
    before = list(accumulate((spent.get(each.name, 0.0) for each in function.operations), initial=0.0))
    places = {each.name: number for number, each in enumerate(function.operations)}
    first = {name: number for number, each in reversed([*enumerate(function.operations)]) for name in reads(each)}
    beginning = model.link_us * 1e-6
    for made, merge, _ in tried:
        own, ranks = placements[made.name], mesh.extent(merge.axes)
        needs = needs_of_part(made, own.layout, own.shares, shapes, mesh)
        is_whole = merge.kind is CollectiveKind.ALL_REDUCE
        share = 2 * (ranks - 1) / ranks if is_whole else ranks - 1
        sent = share * largest(merge.target) * width_merged(merge, merge.dtype, merge.shape, ranks)
        yield Times(
            spent[made.name],
            prices.work(0, made.dtype, sum(largest(need) * dtypes[name].itemsize for name, need in needs.items())),
            prices.work(0, made.dtype, largest(own.layout) * made.dtype.itemsize),
            model.exchange_seconds(sent) - beginning * bool(sent),
            beginning * (2 if is_whole and ranks > 2 else 1),
            before[first.get(merge.name, len(function.operations))] - before[places[made.name] + 1],
        )


def separate_chunks(chunks: Sequence[Chunk], merges: Mapping[str, ChunkedMerge]) -> list[Chunk]:
    """Return chunks in which operations whose results are merged in pieces are separate, before the merge."""
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


def chunks_of_merge(program: Partitioned, merge: ChunkedMerge, rank: int) -> tuple[Piece, ...]:
    """Return the pieces of a rank for a merge, in order, its own last.

    In each turn, all ranks compute pieces for ranks at equal distance.
    """
    mesh, each = program.mesh, merge.collective
    group = mesh.group(rank, each.axes)
    if each.kind is CollectiveKind.ALL_REDUCE:
        ((low, high), *rest) = mesh.box(each.target, mesh.coordinates(rank))
        return tuple((group, ((low + a, low + b), *rest)) for a, b in balanced(high - low, merge.count))
    return tuple(((other,), mesh.box(each.target, mesh.coordinates(other))) for other in in_turn(group, rank))


def in_turn(group: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the ranks of a group in the order of a ring, beginning after ``rank`` and ending with it."""
    behind = group.index(rank) + 1
    return (*group[behind:], *group[:behind])
