"""Verifier of partitioned programs: ranks have their operands, each term counts once, parts are merged before use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tileir.core import Aggregation, Diagnostic, VerifyError, attrs
from tileir.poly.affine import Affine
from tileir.typed.boxes import elements, overlap
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import Collective, Contraction, Gather, Operation, Reduce, Scan, Scatter, Shape, Value, operands
from tileir.typed.sharding.carrying import may_cut, may_share
from tileir.typed.sharding.collective_operations import met_faults, met_needs
from tileir.typed.sharding.exchanges import aggregation_of, covered, kind_of
from tileir.typed.sharding.loops import needs_of, result_layout
from tileir.typed.sharding.mesh import Layout, Mesh, Split, repeated, whole
from tileir.typed.sharding.needs import ROWS, is_exact, live, reads
from tileir.typed.sharding.partition import loop_step
from tileir.typed.sharding.partitioned import Partitioned, Placement
from tileir.typed.sharding.spreading import nameless, needs_of_part
from tileir.typed.verifier import check_function


def verify(program: Partitioned) -> None:
    """Check the rules of a partitioned program.

    Raises:
        VerifyError: TIL531 for faults of the function, TIL533 for faults of its parts.
    """
    faults = tuple(check_function(program.function)) or tuple(_malformed(program)) or tuple(_Checked(program).faults())
    if faults:
        raise VerifyError(faults)


def _fault(name: str, message: str) -> Diagnostic:
    return Diagnostic("TIL533", f"{name!r} {message}")


def _malformed(program: Partitioned) -> Iterator[Diagnostic]:
    """Yield faults of single placements."""
    definitions = (*program.function.inputs, *program.function.operations)
    if [name for name, _ in program.placements] != [each.name for each in definitions]:
        message = "a partitioned program needs one placement for each value, in the order of their definitions"
        yield Diagnostic("TIL533", message)
        return
    for each, (_, placement) in zip(definitions, program.placements, strict=True):
        splits = (*placement.layout, *(share.split for share in placement.shares))
        laid = [splits, each.source, each.target] if isinstance(each, Collective) else [splits]
        for message in dict.fromkeys(message for layout in laid for message in program.mesh.faults(layout)):
            yield _fault(each.name, message)
        if len(placement.layout) != len(each.shape):
            yield _fault(each.name, f"has a placement with {len(placement.layout)} splits and {len(each.shape)} axes")
            continue
        for split, size in zip(placement.layout, each.shape, strict=True):
            if any(high > size for _, high in split.intervals):
                yield _fault(each.name, f"has places {split} on an axis of size {size}")


@attrs.frozen(eq=False, repr=False)
class _Checked:
    """A program whose placements are checked together."""

    program: Partitioned
    placements: Mapping[str, Placement] = attrs.field(init=False)
    defined: Mapping[str, Value | Operation] = attrs.field(init=False)
    _needs: dict[object, Mapping[str, Layout]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        function = self.program.function
        object.__setattr__(self, "placements", dict(self.program.placements))
        object.__setattr__(self, "defined", {each.name: each for each in (*function.inputs, *function.operations)})

    @property
    def mesh(self) -> Mesh:
        return self.program.mesh

    def faults(self) -> Iterator[Diagnostic]:
        """Yield faults, value by value."""
        function = self.program.function
        for operation in live(function):
            found = self._collective(operation) if isinstance(operation, Collective) else self._part(operation)
            yield from (_fault(operation.name, message) for message in found)
        for name in dict.fromkeys((*(value.name for value in function.inputs), *function.outputs)):
            if self.placements[name].shares:
                yield _fault(name, "is an input or a result, and ranks have parts of an aggregate of it")
            for axis in repeated(self.placements[name].layout):
                yield _fault(name, f"is an input or a result, and is cut along {axis!r} twice")
            for split, size in zip(self.placements[name].layout, self.defined[name].shape, strict=True):
                if not split.is_complete or max(high for _, high in split.intervals) < size:
                    yield _fault(name, f"has no rank for some of its {size} places: {split}")

    # --- collectives ---

    def _collective(self, made: Collective) -> Iterator[str]:
        source = [self.placements[name] for name in made.inputs]
        if self.placements[made.name] != Placement(made.target):
            yield "is laid out otherwise than its collective says"
        yield from (
            f"expects {name!r} to be laid out otherwise"
            for name, placement in zip(made.inputs, source, strict=True)
            if placement.layout != made.source
        )
        if made.kind.merges:
            yield from self._merge(made, source)
        else:
            yield from self._move(made, source[0])

    def _move(self, made: Collective, source: Placement) -> Iterator[str]:
        if source.shares:
            yield f"moves {made.input!r}, of which ranks have parts of an aggregate"
        kind = kind_of(made.source, made.target)
        if made.kind is not kind:
            yield f"is called {made.kind.value}, and is {kind.value}"
        pairs = [(old, new) for old, new in zip(made.source, made.target, strict=True) if old != new]
        if set(made.axes) != {axis for pair in pairs for split in pair for axis in split.axes}:
            yield "is over other axes of the mesh than those along which places change"
        for old, new in pairs:
            if not all(_within(interval, old) for interval in new.intervals):
                yield f"needs the places {new}, of which ranks have {old}"

    def _merge(self, made: Collective, source: Sequence[Placement]) -> Iterator[str]:
        if any(placement.shares != source[0].shares for placement in source) or made.axes != source[0].partial:
            yield "merges over other axes of the mesh than those along which ranks have parts of an aggregate"
        if not self._has(made.source, made.target):
            yield "needs places that ranks have not merged"
        for number, name in enumerate(made.inputs):
            part = self.defined[name]
            how = None if isinstance(part, Value) else aggregation_of(part)
            combine = part.combine if isinstance(part, Reduce) else None
            if (how, combine) != (made.aggregation, made.combine) or getattr(part, "result", 0) != number:
                yield f"merges {name!r} otherwise than that is aggregated"

    # --- parts of operations ---

    def _part(self, operation: Operation) -> Iterator[str]:
        placement = self.placements[operation.name]
        for name in dict.fromkeys(reads(operation)):
            if self.placements[name].shares:
                yield f"reads {name!r}, of which ranks have parts of an aggregate"
        if isinstance(operation, Scan):
            yield from self._loop(operation, placement)
            return
        shapes = {name: self.defined[name].shape for name in reads(operation)}
        if (axes := self.program.meetings.get(operation.name)) is not None:
            yield from self._met(operation, placement, axes, shapes)
            return
        for axis, (split, every) in enumerate(zip(placement.layout, whole(operation.shape), strict=True)):
            if split != every and not may_cut(operation, axis):
                yield f"is cut along axis {axis} as {split}, which its operation cannot be"
                return
        boxes = [self.mesh.box(placement.layout, self.mesh.coordinates(rank)) for rank in range(self.mesh.size)]
        if not is_exact(operation, boxes, shapes):
            yield "is cut where no parts of its operand end"
            return
        faults = list(_shared(operation, placement, shapes))
        yield from faults or self._lacking(operation, placement, shapes)

    def _met(
        self, operation: Operation, placement: Placement, axes: tuple[str, ...], shapes: Mapping[str, Shape]
    ) -> Iterator[str]:
        faults = list(met_faults(operation, placement.layout, axes, shapes))
        yield from faults
        for name, need in met_needs(operation, placement.layout, axes, shapes, self.mesh).items() if not faults else ():
            if self.placements[name].layout != need:
                listed = (", ".join(map(str, layout)) for layout in (need, self.placements[name].layout))
                yield "has ranks that meet, which take {!r} at [{}], and have [{}]".format(name, *listed)

    def _lacking(self, operation: Operation, placement: Placement, shapes: Mapping[str, Shape]) -> Iterator[str]:
        for name, need in zip(shapes, self._needs_of(operation, placement), strict=True):
            have = self.placements[name].layout
            if not covered(have, need, self.mesh) and not self._has(have, need):
                listed = (", ".join(map(str, layout)) for layout in (need, have))
                yield "reads {!r} at [{}], and ranks have [{}]".format(name, *listed)

    def _has(self, have: Layout, need: Layout) -> bool:
        """Return whether each rank has the elements that it needs; it needs none if an interval is empty."""
        axes = dict.fromkeys(axis for split in (*have, *need) for axis in split.axes)
        boxes = ((self.mesh.box(need, place), self.mesh.box(have, place)) for place in self.mesh.places(tuple(axes)))
        return all(overlap(inner, outer) == elements(inner) for inner, outer in boxes)

    def _needs_of(self, operation: Operation, placement: Placement) -> list[Layout]:
        """Return the needed layouts of operands, computed once for operations that differ only in names."""
        like = nameless(operation)
        names = dict.fromkeys(operands(operation))
        numbered = {str(number): self.defined[name].shape for number, name in enumerate(names)}
        key = like, tuple(numbered.items()), placement
        if key not in self._needs:
            self._needs[key] = needs_of_part(like, placement.layout, placement.shares, numbered, self.mesh)
        return list(self._needs[key].values())

    def _loop(self, operation: Scan, placement: Placement) -> Iterator[str]:
        layouts = tuple(self.placements[name].layout for name in operands(operation))
        step = loop_step(loop_of(operation), layouts, self.mesh)
        if placement.layout != (whole(operation.shape) if step is None else result_layout(operation, step)):
            yield "is laid out otherwise than its loop leaves it"
        for name, layout in zip(operands(operation), layouts, strict=True):
            if step is None and not covered(layout, whole(self.defined[name].shape), self.mesh):
                yield f"runs on all ranks alike, and these have parts of {name!r}"
        for name, need in needs_of(operation, step) if step is not None and step.meets else ():
            if self.placements[name].layout != need:
                yield f"has steps in which ranks meet, and takes {name!r} laid out otherwise than these do"


def _terms(operation: Operation, shapes: Mapping[str, Shape]) -> Iterator[tuple[Affine, int]]:
    """Yield polynomials that may divide the terms of an operation, and the number of values of each, from 0 on."""
    match operation:
        case Contraction() if may_share(operation, shapes):
            for access in operation.inputs:
                yield from zip(access.indices, shapes[access.tensor], strict=True)
        case Scatter(aggregation=how, indices=indices) if how is not Aggregation.ASSIGN:
            yield from ((Affine.index(f"d{axis}"), size) for axis, size in enumerate(shapes[indices]))
        case Gather(data=data) if not operation.dtype.is_bool:
            yield Affine.index(ROWS), shapes[data][0]
        case Reduce(combine=combine, axes=axes, input=name):
            for axis in axes[:1] if combine.is_extremum else axes:
                yield Affine.index(f"d{axis}"), shapes[name][axis]
        case _:
            return


def _within(interval: tuple[int, int], split: Split) -> bool:
    """Return whether some ranks have all positions of an interval."""
    reached, last = interval
    for low, high in sorted(split.intervals):
        if low <= reached:
            reached = max(reached, high)
    return reached >= last


def _shared(operation: Operation, placement: Placement, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield reasons why terms of an operation are not merged exactly once."""
    for axis in repeated((*placement.layout, *(share.split for share in placement.shares))) if placement.shares else ():
        yield f"is cut along {axis!r} twice"
    for share in placement.shares:
        cut = sorted(interval for interval in share.split.intervals if interval[0] < interval[1])
        if cut and (cut[0][0] > 0 or any(left[1] != right[0] for left, right in pairwise(cut))):
            yield f"shares terms {share.split}, some of which no rank has, or several"
        allowed = [size for polynomial, size in _terms(operation, shapes) if polynomial == share.polynomial]
        if not allowed:
            yield f"shares terms by {share.polynomial}, which no rank can"
        elif max((high for _, high in cut), default=0) < min(allowed):
            yield f"shares terms {share.split} of {min(allowed)}"
