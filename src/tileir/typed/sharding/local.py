"""Programs of single ranks: ordinary typed functions of a rank's parts of arrays, and the collectives between them.

A part of an operation is the operation itself on smaller arrays. In a contraction, accesses are relative to the starts
of parts, and constraints exclude terms of other ranks, so that nothing is ever padded.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tileir.core import Aggregation, ArrayValue, Combination, DType, NameScope, Op, attrs, schema
from tileir.poly.affine import Affine
from tileir.typed.boxes import Box, Interval, sizes_of
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Cast,
    Collective,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Override,
    Reduce,
    Scan,
    ScanResult,
    Scatter,
    Shape,
    ShapeOf,
    Value,
    counting,
    operands,
)
from tileir.typed.reductions import positions_in
from tileir.typed.sharding.loops import needs_of, with_step
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.needs import boxes_read, live, needed, reads
from tileir.typed.sharding.partition import loop_step
from tileir.typed.sharding.partitioned import Partitioned, Placement
from tileir.typed.sharding.rows import Rows


@attrs.frozen
class CollectiveLoop:
    """A loop in whose steps ranks meet.

    Attributes:
        loop: Any of the operations that are its results.
        step: The partitioned step.
        results: The operations that are its results, by name.
    """

    loop: Scan
    step: Partitioned
    results: Mapping[str, ScanResult]


@attrs.frozen
class CollectiveOperation:
    """An operation in which ranks meet along some axes of the mesh."""

    operation: Operation
    axes: tuple[str, ...]


Step: TypeAlias = "Function | Collective | CollectiveLoop | CollectiveOperation"
"""A function of parts of arrays, by their names, or a step in which ranks meet, in one order on all ranks."""


def local_steps(program: Partitioned, rank: int) -> tuple[Step, ...]:
    """Return the steps of a rank, in order.

    Inputs and outputs of functions have the names of values of the program. Collectives come as late as possible, so
    that related operations are compiled together.
    """
    boxes = boxes_of(program, rank)
    return tuple(
        local_function(program, part, rank, boxes) if isinstance(part, Run) else part
        for part in runs_of(program, *chunks_of(program, late=True))
    )


def boxes_of(program: Partitioned, rank: int) -> dict[str, Box]:
    """Return the elements of each value that a rank has."""
    here = program.mesh.coordinates(rank)
    return {name: program.mesh.box(placement.layout, here) for name, placement in program.placements}


def terms_of(placement: Placement, mesh: Mesh, here: Mapping[str, int]) -> list[tuple[Affine, Interval]]:
    """Return the terms that one rank aggregates: polynomials, and the intervals of their values."""
    return [(each.polynomial, each.split.intervals[mesh.position(here, each.split.axes)]) for each in placement.shares]


@attrs.frozen
class Run:
    """Operations between two collectives, with their inputs and the values that others read."""

    operations: tuple[Operation, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Chunk: TypeAlias = "list[Operation] | Collective | CollectiveLoop | CollectiveOperation"
"""Consecutive operations, or a step between them in which ranks meet."""


def values_read_by(chunk: Collective | CollectiveLoop | CollectiveOperation) -> tuple[str, ...]:
    """Return the values that a step in which ranks meet reads."""
    match chunk:
        case CollectiveLoop(loop=loop):
            return operands(loop)
        case CollectiveOperation(operation=operation):
            return reads(operation)
        case _:
            return chunk.inputs


def chunks_of(program: Partitioned, *, late: bool) -> tuple[list[Chunk], dict[str, Constant]]:
    """Return the operations that results depend on, split at the collectives, and all constants.

    Collectives come as late as possible, with few functions between them, or as in the program.
    """
    chunks: list[Chunk] = [[]]
    constants: dict[str, Constant] = {}
    operations = live(program.function)
    rounds = _rounds_of(program, operations)
    for operation in _gathered(operations, {*rounds, *program.meetings}) if late else operations:
        last = chunks[-1]
        if isinstance(operation, Collective):
            chunks += [operation, []]
        elif operation.name in program.meetings:
            chunks += [CollectiveOperation(operation, program.meetings[operation.name]), []]
        elif operation.name in rounds:
            if rounds[operation.name] not in chunks:
                chunks += [rounds[operation.name], []]
        elif isinstance(operation, Constant) and operation.name not in program.function.outputs:
            constants[operation.name] = operation
        elif isinstance(last, list):
            last.append(operation)
    return chunks, constants


def _rounds_of(program: Partitioned, operations: Sequence[Operation]) -> dict[str, CollectiveLoop]:
    """Return the loops in whose steps ranks meet, by the operations that are their results."""
    loops = {each.name: loop_of(each) for each in operations if isinstance(each, Scan)}
    results: dict[Scan, dict[str, ScanResult]] = {}
    for each in operations:
        if isinstance(each, Scan):
            results.setdefault(loops[each.name], {})[each.name] = each.result
    made = {loop: CollectiveLoop(loop, step, results[loop]) for loop, step in program.rounds.items() if loop in results}
    return {name: made[loop] for name, loop in loops.items() if loop in made}


def runs_of(
    program: Partitioned, chunks: Sequence[Chunk], constants: Mapping[str, Constant]
) -> tuple[Run | Collective | CollectiveLoop | CollectiveOperation, ...]:
    """Return the steps of ranks, in order, with constants where they are read."""
    later = set(program.function.outputs)
    found: list[Run | Collective | CollectiveLoop | CollectiveOperation] = []
    for chunk in reversed(chunks):
        if not isinstance(chunk, list):
            later.update(values_read_by(chunk))
            found.append(chunk)
            continue
        read = dict.fromkeys(name for operation in chunk for name in reads(operation))
        made = {operation.name for operation in chunk}
        own = [constants[name] for name in read if name in constants]
        outputs = tuple(operation.name for operation in chunk if operation.name in later)
        inputs = tuple(name for name in read if name not in made and name not in constants)
        if outputs:
            found.append(Run((*own, *chunk), inputs, outputs))
        later.update(inputs)
    met = dict.fromkeys(name for part in found if not isinstance(part, Run) for name in values_read_by(part))
    moved = [constants[name] for name in met if name in constants]
    if moved:
        found.append(Run(tuple(moved), (), tuple(each.name for each in moved)))
    return tuple(reversed(found))


def _gathered(operations: Sequence[Operation], met: Container[str]) -> list[Operation]:
    """Return operations sorted by the number of meetings before them; members of ``met`` are meetings themselves.

    Each comes just before it is needed, so that readers of a collective stay with the readers of their results.
    """
    depths: dict[str, int] = {}
    for operation in operations:
        depth = max((depths.get(name, 0) for name in reads(operation)), default=0)
        depths[operation.name] = depth + (isinstance(operation, Collective) or operation.name in met)
    places, needed_at = {}, dict[str, int]()
    for number, operation in reversed(tuple(enumerate(operations))):
        ends = isinstance(operation, Collective) or operation.name in met
        depth = depths[operation.name] - ends
        place = depth if ends else needed_at.get(operation.name, depth)
        places[number] = place, ends
        for name in reads(operation):
            needed_at[name] = min(place, needed_at.get(name, place))
    return [operations[number] for number in sorted(places, key=lambda number: (*places[number], number))]


def local_function(program: Partitioned, run: Run, rank: int, boxes: Mapping[str, Box]) -> Function:
    """Return the function of a rank that computes boxes of values from boxes of others."""
    placements = dict(program.placements)
    defined = {each.name: each for each in (*program.function.inputs, *program.function.operations)}
    here = program.mesh.coordinates(rank)
    local = _Local(program, here, boxes, defined, placements, NameScope.of(defined))
    for operation in run.operations:
        local.add(operation)
    inputs = tuple(Value(name, defined[name].dtype, sizes_of(boxes[name])) for name in run.inputs)
    return Function(inputs, run.outputs, tuple(local.operations))


@attrs.define(eq=False, repr=False)
class _Local:
    """The function of one rank while it is built."""

    program: Partitioned
    here: Mapping[str, int]
    boxes: Mapping[str, Box]
    defined: Mapping[str, Value | Operation]
    placements: Mapping[str, Placement]
    names: NameScope
    operations: list[Operation] = attrs.field(factory=list)
    cropped: dict[tuple[str, Box], str] = attrs.field(factory=dict)

    def add(self, operation: Operation) -> None:
        """Add the part of an operation."""
        shape = sizes_of(self.boxes[operation.name])
        match operation:
            case Contraction():
                self._contraction(operation, shape)
            case Coordinate(axis=axis):
                self._coordinate(operation, shape, self.boxes[operation.name][axis][0])
            case ArrayConstant(value=value):
                part = value.numpy()[tuple(slice(*interval) for interval in self.boxes[operation.name])]
                made = ArrayValue.of(np.asarray(part, order="C"))
                self.operations.append(attrs.evolve(operation, value=made))
            case Reduce(combine=combine, result=1) if combine.is_extremum and self._terms(operation.name):
                self._places(operation, shape)
            case Scan():
                self._loop(operation, shape)
            case Constant() | ShapeOf():
                self.operations.append(operation)
            case Override(name=name, input=read, dtype=dtype):
                self.operations.append(Elementwise(name, Op.IDENT, (self._crops(operation)[read],), dtype, shape))
            case Gather():
                self._gather(operation, shape)
            case Scatter():
                self._scatter(operation, shape)
            case _:
                self.operations.append(attrs.evolve(schema.with_used(operation, self._crops(operation)), shape=shape))

    def _loop(self, operation: Scan, shape: Shape) -> None:
        """Add a loop over this rank's part of axes that its steps do not mix, or the whole loop."""
        layouts = tuple(self.placements[name].layout for name in operands(operation))
        step = loop_step(loop_of(operation), layouts, self.program.mesh)
        if step is None:
            self.operations.append(operation)
            return
        passed = [self._crop(name, self.program.mesh.box(need, self.here)) for name, need in needs_of(operation, step)]
        (run,) = runs_of(step, *chunks_of(step, late=True))
        assert isinstance(run, Run)
        rank = self.program.mesh.rank(self.here)
        boxes = boxes_of(step, rank)
        inputs = tuple(attrs.evolve(value, shape=sizes_of(boxes[value.name])) for value in step.function.inputs)
        body = attrs.evolve(local_function(step, run, rank, boxes), inputs=inputs, outputs=step.function.outputs)
        self.operations.append(with_step(operation, body, passed, shape))

    def _gather(self, operation: Gather, shape: Shape) -> None:
        """Add a gather from all rows of the table, or from the rows of this rank."""
        indices, data = self._parts_read(operation)
        made = attrs.evolve(operation, data=data.name, indices=indices.name, shape=shape)
        terms, size = self._terms(operation.name), self.defined[operation.data].shape[0]
        if terms:
            ((_, interval),) = terms
            Rows(interval, size, self.names, self.operations.append).gather(made, indices)
        else:
            self.operations.append(made)

    def _scatter(self, operation: Scatter, shape: Shape) -> None:
        """Add a scatter into all rows of the result, or into the rows of this rank."""
        updates, indices, *into = self._parts_read(operation)
        rows = into[0].name if into else None
        made = attrs.evolve(operation, updates=updates.name, indices=indices.name, into=rows, shape=shape)
        interval, size = self.boxes[operation.name][0], operation.shape[0]
        if interval == (0, size):
            self.operations.append(made)
        else:
            Rows(interval, size, self.names, self.operations.append).scatter(made, indices)

    def _parts_read(self, operation: Gather | Scatter) -> list[Value]:
        """Return the part of each operand that is read, though one value may be several operands."""
        shapes = {name: self.defined[name].shape for name in reads(operation)}
        found = boxes_read(operation, self.boxes[operation.name], self._terms(operation.name), shapes)
        return [
            Value(self._crop(name, box), self.defined[name].dtype, sizes_of(box))
            for name, box in found
            if box is not None
        ]

    def _crops(self, operation: Operation) -> dict[str, str]:
        """Return the names of exactly those elements of each operand that the part needs."""
        terms = self._terms(operation.name)
        shapes = {name: self.defined[name].shape for name in reads(operation)}
        found = {}
        for name, box in needed(operation, self.boxes[operation.name], terms, shapes).items():
            assert box is not None
            found[name] = self._crop(name, box)
        return found

    def _terms(self, name: str) -> list[tuple[Affine, Interval]]:
        return terms_of(self.placements[name], self.program.mesh, self.here)

    def _crop(self, name: str, box: Box) -> str:
        """Return the name of some elements of a value, of which this rank may have more."""
        have = self.boxes[name]
        if have == box:
            return name
        if (name, box) not in self.cropped:
            dtype = self.defined[name].dtype
            indices = [Affine.index(f"d{axis}") for axis in range(len(box))]
            read = tuple(index + (low - start) for index, (low, _), (start, _) in zip(indices, box, have, strict=True))
            made = self._assigned(name, tuple(indices), Access(name, read), dtype, sizes_of(box))
            self.cropped[name, box] = made
        return self.cropped[name, box]

    def _assigned(self, stem: str, output: tuple[Affine, ...], access: Access, dtype: DType, shape: Shape) -> str:
        name = self.names.fresh(f"{stem}_here")
        how = (Aggregation.ASSIGN, Combination.NONE, dtype, dtype, dtype, shape)
        self.operations.append(Contraction(name, output, (access,), *how))
        return name

    def _coordinate(self, operation: Coordinate, shape: Shape, start: int) -> None:
        """Add coordinates relative to the first one of this rank, and its position."""
        name, axis, dtype = operation.name, operation.axis, operation.dtype
        own = counting(shape[axis])
        if not start and own is dtype:
            self.operations.append(Coordinate(name, axis, dtype, shape))
            return
        counted, first = self.names.fresh(f"{name}_here"), self.names.fresh(f"{name}_start")
        self.operations.append(Coordinate(counted, axis, own, shape))
        if own is not dtype:
            self.operations.append(Cast(wide := self.names.fresh(f"{name}_wide"), counted, dtype, shape))
            counted = wide
        self.operations.append(Constant(first, dtype, start))
        self.operations.append(Elementwise(name, Op.ADD, (counted, first), dtype, shape))

    def _places(self, operation: Reduce, shape: Shape) -> None:
        """Add positions of extrema: relative to the start along the first axis, the only one that ranks divide."""
        (_, (low, high)), *_ = self._terms(operation.name)
        crops = self._crops(operation)
        lengths = [self.defined[operation.input].shape[axis] for axis in operation.axes[1:]]
        own = positions_in((high - low, *lengths))
        counted, first = self.names.fresh(f"{operation.name}_here"), self.names.fresh(f"{operation.name}_start")
        part = schema.with_used(operation, crops)
        self.operations.append(attrs.evolve(part, name=counted, dtype=own, shape=shape))
        if own is not operation.dtype:
            wide = self.names.fresh(f"{operation.name}_wide")
            self.operations.append(Cast(wide, counted, operation.dtype, shape))
            counted = wide
        start = low * math.prod(lengths) if low < high else 0  # a rank without elements never wins
        self.operations.append(Constant(first, operation.dtype, start))
        self.operations.append(Elementwise(operation.name, Op.ADD, (counted, first), operation.dtype, shape))

    def _contraction(self, operation: Contraction, shape: Shape) -> None:
        """Add a contraction over the terms of this rank, whose accesses are relative to the starts of arrays' parts."""
        terms = self._terms(operation.name)
        lows = [low for low, _ in self.boxes[operation.name]]
        inputs = tuple(
            Access(
                access.tensor,
                tuple(p - low for p, (low, _) in zip(access.indices, self.boxes[access.tensor], strict=True)),
            )
            for access in operation.inputs
        )
        own = tuple(Constraint(polynomial - low, high - low) for polynomial, (low, high) in terms)
        default = operation.default
        if default is not None:
            default = self._crop(default, self.boxes[operation.name])
        elif terms and operation.aggregation is not Aggregation.SUM:
            default = self._identity(operation, shape)
        self.operations.append(
            attrs.evolve(
                operation,
                output=tuple(p - low for p, low in zip(operation.output, lows, strict=True)),
                inputs=inputs,
                constraints=(*operation.constraints, *own),
                default=default,
                shape=shape,
            )
        )

    def _identity(self, operation: Contraction, shape: Shape) -> str:
        """Return the name of a tensor of the aggregation's identity, for elements without terms on this rank."""
        value = self.names.fresh(f"{operation.name}_identity")
        self.operations.append(Constant(value, operation.dtype, operation.aggregation.identity(operation.dtype)))
        indices = tuple(Affine.index(f"d{axis}") for axis in range(len(shape)))
        return self._assigned(operation.name, indices, Access(value, ()), operation.dtype, shape)
