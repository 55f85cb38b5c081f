"""Borders of parts: overlap of halo exchanges with the computation of interiors.

A rank computes its part of a function from its own parts of values alone, as if nothing surrounded them, and so never
joins a part and its halo. Elements whose computation reads beyond a part are wrong then. They lie in slabs at the sides
of the result, are recomputed from windows of the slabs' thickness, and replace the wrong elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from tileir.core import HardwareModel, attrs, grouped, schema
from tileir.typed.boxes import Box, elements, holds, hull, shared
from tileir.typed.ir import (
    ArrayConstant,
    Collective,
    Constant,
    Coordinate,
    Function,
    Operation,
    Shape,
    operands,
)
from tileir.typed.sharding.local import (
    Chunk,
    CollectiveLoop,
    CollectiveOperation,
    Run,
    Step,
    boxes_of,
    chunks_of,
    local_function,
    runs_of,
    terms_of,
    values_read_by,
)
from tileir.typed.sharding.needs import REPEATED, needed, reads
from tileir.typed.sharding.overlapped_merges import ChunkedMerge, chunked_merges, chunks_of_merge, separate_chunks
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import ANY_MODEL, LEAST_CLEAN

Boxes: TypeAlias = "Mapping[str, Box]"


@attrs.frozen
class Border:
    """Elements at one side of the results of a function.

    Attributes:
        function: Computes them.
        windows: The box of each of its inputs, in coordinates of the whole tensor.
        places: The box of each of its results, likewise.
    """

    function: Function
    windows: tuple[tuple[str, Box], ...]
    places: tuple[tuple[str, Box], ...]


@attrs.frozen
class ChunkedAggregate:
    """An aggregate that a rank computes in pieces to merge it.

    Attributes:
        collective: The merge.
        pieces: The function of each piece, in order, and the ranks that get it: its own comes last.
    """

    collective: Collective
    pieces: tuple[tuple[tuple[int, ...], Border], ...]


@attrs.frozen
class HaloFunction:
    """A function of parts with halos, in two steps.

    Attributes:
        inner: Computes all results from parts without halos.
        halos: The halos that the borders read, and so wait for.
        borders: Functions that recompute borders, in order.
    """

    inner: Function
    halos: tuple[str, ...]
    borders: tuple[Border, ...]


PlannedStep: TypeAlias = "Step | HaloFunction | ChunkedAggregate"


def halo_steps(
    program: Partitioned,
    rank: int,
    model: HardwareModel | None = ANY_MODEL,
    *,
    late: bool = False,
    around: bool = True,
) -> tuple[PlannedStep, ...]:
    """Return the steps of a rank, in order, which compute only borders from halos where possible.

    The collectives are those of :func:`tileir.typed.sharding.local.local_steps`, but there may be more functions.

    Args:
        program: The program of all ranks.
        rank: The rank.
        model: The device of each rank, which determines the merges in pieces; None for no pieces.
        late: Whether exchanges come late, as in ``local_steps``, and in that order; otherwise as soon as possible.
        around: Whether there may be borders; otherwise parts and halos are joined.
    """
    chunks, constants = chunks_of(program, late=late)
    merges = {} if model is None else chunked_merges(program, model)
    split = _Split.of(program, rank, around=around)
    parts = split.all_parts(separate_chunks(chunks, merges))
    found: list[PlannedStep] = []
    for run in runs_of(program, parts, constants):
        if isinstance(run, Run) and run.outputs[0] in merges:
            found.append(split.pieced(run, merges[run.outputs[0]]))
        elif isinstance(run, Collective) and run.input in merges:
            continue
        elif isinstance(run, Run):
            halos = tuple(name for name in run.inputs if name in split.halos)
            found.append(split.bordered(run, halos) if halos else local_function(program, run, rank, split.boxes))
        else:
            found.append(run)
    return tuple(found)


def touched(step: PlannedStep) -> tuple[str, ...]:
    """Return the values that a step computes or reads, halos of borders last."""
    if isinstance(step, Collective):
        return step.name, *step.inputs
    if isinstance(step, CollectiveLoop):
        return *step.results, *operands(step.loop)
    if isinstance(step, CollectiveOperation):
        return step.operation.name, *reads(step.operation)
    if isinstance(step, ChunkedAggregate):
        windows = (name for _, piece in step.pieces for name, _ in piece.windows)
        return step.collective.name, *dict.fromkeys(windows)
    function = step.inner if isinstance(step, HaloFunction) else step
    halos = step.halos if isinstance(step, HaloFunction) else ()
    return *function.outputs, *(value.name for value in function.inputs), *halos


def overlapped_exchanges(program: Partitioned) -> frozenset[str]:
    """Return the exchanges that every rank overlaps with independent computation."""
    found = {each.name for each in program.collectives}
    for rank in range(program.mesh.size):
        found.intersection_update(_beside(halo_steps(program, rank)) if found else ())
    return frozenset(found)


def _beside(steps: Sequence[PlannedStep]) -> set[str]:
    """Return the exchanges that begin before some computing step that does not read their result."""
    coming, found = set[str](), set[str]()
    for step in steps:
        read = touched(step)
        if isinstance(step, Collective):
            coming.difference_update(read)
            coming.add(step.name)
            continue
        halos = step.halos if isinstance(step, HaloFunction) else ()
        coming.difference_update(name for name in read if name not in halos)
        found.update(coming)
        coming.difference_update(halos)
        if isinstance(step, ChunkedAggregate):
            coming.add(step.collective.name)
            found.update([step.collective.name] if len(step.pieces) > 1 else ())
    return found


@attrs.define(eq=False, repr=False)
class _Split:
    """Splitter of a program for one rank.

    Attributes:
        program: The program.
        rank: The rank.
        boxes: The elements of each value that the rank has.
        shapes: The shapes of whole values.
        halos: Values whose halos only borders read, each with the value that they surround.
        clean: For values that depend on halos, the elements that are correct without these.
        partial: Operations of which ranks have partial aggregates.
        readers: The operations that read each value.
    """

    program: Partitioned
    rank: int
    boxes: Boxes
    shapes: Mapping[str, Shape]
    halos: dict[str, str]
    partial: frozenset[str]
    readers: Mapping[str, Sequence[str]]
    clean: dict[str, Box] = attrs.field(factory=dict)

    @classmethod
    def of(cls, program: Partitioned, rank: int, *, around: bool) -> _Split:
        """Return the initial state, in which borders read all halos, or none."""
        boxes, values = boxes_of(program, rank), (*program.function.inputs, *program.function.operations)
        halos = {
            each.name: each.input
            for each in program.collectives
            if around and each.kind.goes_around and elements(boxes[each.input])
        }
        partial = frozenset(name for name, placement in program.placements if placement.shares)
        readers = grouped((name, each.name) for each in program.function.operations for name in reads(each))
        return cls(program, rank, boxes, {each.name: each.shape for each in values}, halos, partial, readers)

    # --- which operations have borders ---

    def all_parts(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return all operations; those that read halos are separated from those without borders."""
        while True:
            self.clean = {halo: self.boxes[source] for halo, source in self.halos.items()}
            parts: list[Chunk] = []
            late = set(self.program.function.outputs)
            for chunk in chunks:
                if not isinstance(chunk, list):
                    late.update(values_read_by(chunk))
                    parts.append(chunk)
                    continue
                before, middle, after = self._in_turn(chunk)
                late.update(name for operation in (*before, *after) for name in reads(operation))
                parts += [part for part in (before, middle, after) if part]
            late.intersection_update(self.halos)
            if not late:
                return parts
            self.halos = {halo: source for halo, source in self.halos.items() if halo not in late}

    def _in_turn(self, chunk: Sequence[Operation]) -> tuple[list[Operation], list[Operation], list[Operation]]:
        """Return the operations before those with borders, these, and the operations after them."""
        after = self._after(chunk)
        if not any(each.name in self.clean and each.name not in after for each in chunk):
            return list(chunk), [], []
        before: set[str] = set()
        for each in reversed(chunk):
            if each.name in before or not (each.name in self.clean or each.name in after or self._may_repeat(each)):
                before.update((each.name, *reads(each)))
        return (
            [each for each in chunk if each.name in before],
            [each for each in chunk if each.name not in before and each.name not in after],
            [each for each in chunk if each.name in after],
        )

    def _after(self, chunk: Sequence[Operation]) -> set[str]:
        """Return operations that need complete results of operations with borders, and their private operands.

        Record the elements of the others that do not depend on halos.
        """
        after: set[str] = set()
        for each in chunk:
            names = reads(each)
            if after.isdisjoint(names) and not self.clean.keys().isdisjoint(names):
                clean = self._interior(each) if self._may_repeat(each) else None
                if clean is not None:
                    self.clean[each.name] = clean
                    continue
            if not after.isdisjoint(names) or not self.clean.keys().isdisjoint(names):
                after.add(each.name)
        made = {each.name for each in chunk}
        kept = {name for name in made if not made.issuperset(self.readers.get(name, ()))}
        kept.update(self.program.function.outputs)
        for each in reversed(chunk):
            if each.name not in after:
                if each.name in self.clean or each.name in kept:
                    kept.update((each.name, *reads(each)))
                else:
                    after.add(each.name)
        return after

    def _may_repeat(self, operation: Operation) -> bool:
        """Return whether some elements of an operation may be recomputed."""
        kinds = REPEATED | Coordinate | Constant | ArrayConstant
        return isinstance(operation, kinds) and operation.name not in self.partial

    def _interior(self, operation: Operation) -> Box | None:
        """Return the elements that read only values that are correct without halos; None if these are too few."""
        box = self._within(operation.name, self.boxes[operation.name])

        def is_clean(inner: Box) -> bool:
            found = needed(operation, inner, (), self.shapes)
            return all(
                need is None or _contains(self.clean[name], need) for name, need in found.items() if name in self.clean
            )

        found = _grown(box, is_clean)
        if found is None or LEAST_CLEAN * elements(found) < elements(self.boxes[operation.name]):
            return None
        return found

    def _within(self, name: str, box: Box) -> Box:
        """Return the part of a box that ranks have, without halos, of all values of its shape."""
        for source in self.halos.values():
            if self.shapes[source] == self.shapes[name]:
                box = tuple((low, max(low, high)) for low, high in shared(box, self.boxes[source]))
        return box

    # --- one of them ---

    def pieced(self, run: Run, merge: ChunkedMerge) -> ChunkedAggregate:
        """Return a run of one operation, whose result is merged, in pieces."""
        pieces, name = chunks_of_merge(self.program, merge, self.rank), merge.collective.input
        return ChunkedAggregate(
            merge.collective, tuple((ranks, self._border(run, {name: box})) for ranks, box in pieces)
        )

    def bordered(self, run: Run, halos: Sequence[str]) -> HaloFunction:
        """Return a run that reads halos in two steps."""
        without = {halo: self.halos[halo] for halo in halos}
        inputs = tuple(dict.fromkeys(without.get(name, name) for name in run.inputs))
        operations = tuple(schema.with_used(each, without) for each in run.operations)
        trimmed = {
            each.name: self._within(each.name, self.boxes[each.name])
            for each in operations
            if each.name in self.clean and each.name not in run.outputs
        }
        inner = Run(operations, inputs, run.outputs)
        sides: dict[tuple[int, int], dict[str, Box]] = {}
        for name in run.outputs:
            for side, slab in _slabs(self.boxes[name], self.clean.get(name, self.boxes[name])):
                sides.setdefault(side, {})[name] = slab
        return HaloFunction(
            local_function(self.program, inner, self.rank, {**self.boxes, **trimmed}),
            tuple(halos),
            tuple(self._border(run, sides[side]) for side in sorted(sides)),
        )

    def _border(self, run: Run, places: Boxes) -> Border:
        """Return the function for boxes of some results, which computes no more than they need."""
        boxes, used, placements = dict(places), [], dict(self.program.placements)
        here = self.program.mesh.coordinates(self.rank)
        for operation in reversed(run.operations):
            if operation.name not in boxes:
                continue
            used.append(operation)
            terms = terms_of(placements[operation.name], self.program.mesh, here)
            for name, need in needed(operation, boxes[operation.name], terms, self.shapes).items():
                box = tuple((low, low) for low, _ in self.boxes[name]) if need is None else need
                boxes[name] = _around(boxes[name], box) if name in boxes else box
        part = Run(tuple(reversed(used)), tuple(name for name in run.inputs if name in boxes), tuple(places))
        function = local_function(self.program, part, self.rank, {**self.boxes, **boxes})
        windows, results = ([(name, boxes[name]) for name in names] for names in (part.inputs, part.outputs))
        return Border(function, tuple(windows), tuple(results))


def _grown(box: Box, may_be: Callable[[Box], bool]) -> Box | None:
    """Return a maximal box, within another one, that satisfies a predicate; None if no element in its middle does."""
    if not elements(box) or may_be(box):
        return box if elements(box) else None
    middles = product(*(dict.fromkeys(((low + high) // 2, (low + high - 1) // 2)) for low, high in box))
    boxes = ([(place, place + 1) for place in middle] for middle in middles)
    found = next((each for each in boxes if may_be(tuple(each))), None)
    if found is None:
        return None
    for axis, (low, high) in enumerate(box):
        for side, end in ((0, low), (1, high)):
            found[axis] = _moved_out(tuple(found), axis, side, end, may_be)
    return tuple(found)


def _moved_out(box: Box, axis: int, side: int, end: int, may_be: Callable[[Box], bool]) -> tuple[int, int]:
    """Return the interval of a box along an axis that extends as far as possible towards an end."""
    own = box[axis]

    def at(place: int) -> tuple[int, int]:
        return (place, own[1]) if side == 0 else (own[0], place)

    def may_end(place: int) -> bool:
        return may_be((*box[:axis], at(place), *box[axis + 1 :]))

    inward = 1 if side == 0 else -1
    good, bad, step = own[side], end - inward, 1
    while (good - bad) * inward > 1:  # a border is thin: begin near the end
        place = bad + inward * min(step, (good - bad) * inward // 2)
        if may_end(place):
            good = place
        else:
            bad, step = place, 2 * step
    return at(good)


def _contains(outer: Box, inner: Box) -> bool:
    return not elements(inner) or holds(outer, inner)


def _around(left: Box, right: Box) -> Box:
    return right if not elements(left) else left if not elements(right) else hull(left, right)


def _slabs(box: Box, inner: Box) -> Iterator[tuple[tuple[int, int], Box]]:
    for axis, ((low, high), (first, last)) in enumerate(zip(box, inner, strict=True)):
        for side, interval in enumerate(((low, first), (last, high))):
            if interval[0] < interval[1]:
                slab = (*inner[:axis], interval, *box[axis + 1 :])
                if elements(slab):
                    yield (axis, side), slab
