"""Partitioning: from a typed function, a mesh and shardings of some values to the program that all ranks run.

Operations are visited in order. Each is spread along the axes of the mesh that its operands are, in the way that moves
the fewest bytes: :mod:`tileir.typed.sharding.carrying` lists the ways, :mod:`tileir.typed.sharding.needs` says exactly
what each reads, and where ranks lack some of that, a collective stands before the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from tileir.core import ArgumentError, NameScope, Op, attrs, nearest, schema
from tileir.typed.dataflow import loop_of, without_dead
from tileir.typed.ir import (
    ArrayConstant,
    Cast,
    Collective,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Operation,
    Reduce,
    Scan,
    Scatter,
    Shape,
    Value,
    operands,
)
from tileir.typed.reductions import reduction_of, rule_of
from tileir.typed.sharding.carrying import Way, free_ways, may_cut, ways
from tileir.typed.sharding.exchanges import covers, kind_of, merged, moved, split_of
from tileir.typed.sharding.loops import needs_of, result_layout, step_of
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.needs import needed, reads
from tileir.typed.sharding.partitioned import Partitioned, Placement, Remark, Share
from tileir.typed.sharding.splits import CollectiveKind, Layout, Split, whole

_DEEPEST: Final = 32
"""Operations in a chain that is computed again for each part that somebody needs."""

Choice: TypeAlias = "tuple[Layout, tuple[Share, ...]]"


def partition(
    function: Function,
    mesh: Mesh,
    shardings: Mapping[str, Sharding | Layout],
    outputs: Mapping[str, Sharding | Layout] | None = None,
) -> Partitioned:
    """Return the program that all ranks of a mesh run.

    Args:
        function: The program; collectives of it are chosen anew.
        mesh: The ranks.
        shardings: How values are laid out, also as they are in another program: inputs, which are whole on each rank
            otherwise, and any other values.
        outputs: How results are laid out; by default as they are computed.

    Raises:
        ArgumentError: TIL352, a sharding does not go with its tensor or the mesh, or there is no such value.

    """
    function = _without_collectives(function)
    shapes = {each.name: each.shape for each in (*function.inputs, *function.operations)}
    wanted: dict[str, Layout] = {}
    for names, chosen in ((tuple(shapes), shardings), (function.outputs, outputs or {})):
        for name, sharding in chosen.items():
            if name not in names:
                kind = "result" if names is function.outputs else "value"
                raise ArgumentError.of("TIL352", f"there is no {kind} {name!r} to shard{nearest(name, names)}")
            asked = sharding.layout(name, shapes[name], mesh) if isinstance(sharding, Sharding) else sharding
            wanted[name] = asked
    return _Partitioner(mesh, wanted, shapes, NameScope.of(shapes)).run(function)


@lru_cache(maxsize=64)  # all results of a loop, and all ranks, ask for its step
def loop_step(scan: Scan, layouts: tuple[Layout, ...], mesh: Mesh) -> Partitioned | None:
    """Return the partitioned step of a loop that is passed values with some layouts; None where it has to run whole.

    A value that is passed twice must be laid out in one way.
    """
    step = step_of(scan, layouts, mesh, partition)
    if step is None:
        return None
    needs = needs_of(scan, step)
    return step if len(set(needs)) == len(dict(needs)) else None


def _without_collectives(function: Function) -> Function:
    """Return a function with its operands in place of collectives, or with copies of them where these are results."""
    if not any(isinstance(each, Collective) for each in function.operations):
        return function
    known: dict[str, str] = {}
    operations: list[Operation] = []
    for old in function.operations:
        operation = schema.with_used(old, known)
        if not isinstance(operation, Collective):
            operations.append(operation)
        elif operation.name in function.outputs:
            copied = Elementwise(operation.name, Op.IDENT, (operation.input,), operation.dtype, operation.shape)
            operations.append(attrs.evolve(copied, span=operation.span))
        else:
            known[operation.name] = operation.input
    return attrs.evolve(function, operations=tuple(operations))


@attrs.define(eq=False, repr=False)
class _Partitioner:
    """A program that is being partitioned.

    ``copies`` has other layouts in which a value is at hand already, ``states`` the components of tuple reductions,
    ``free`` the values that are made of coordinates and constants, each with how many operations that takes, and
    ``needs`` what the operation at hand reads in each way to spread it.
    """

    mesh: Mesh
    wanted: Mapping[str, Layout]
    shapes: dict[str, Shape]
    names: NameScope
    defined: dict[str, Value | Operation] = attrs.field(factory=dict)
    operations: list[Operation] = attrs.field(factory=list)
    placements: dict[str, Placement] = attrs.field(factory=dict)
    copies: dict[str, list[str]] = attrs.field(factory=dict)
    free: dict[str, int] = attrs.field(factory=dict)
    states: dict[tuple[Reduce, Placement], tuple[str, ...]] = attrs.field(factory=dict)
    needs: dict[tuple[str, Layout, tuple[Share, ...]], dict[str, Layout]] = attrs.field(factory=dict)
    remarks: list[Remark] = attrs.field(factory=list)

    def run(self, function: Function) -> Partitioned:
        """Return the partitioned program."""
        for value in function.inputs:
            self.defined[value.name] = value
            self.placements[value.name] = Placement(self.wanted.get(value.name, whole(value.shape)))
        live = _live(function)
        for operation in function.operations:
            if operation.name in live:
                self._spread(operation)
            else:
                self._add(operation, Placement(whole(operation.shape)))
        inputs = tuple(attrs.evolve(value, number=None) for value in function.inputs)
        made = attrs.evolve(function, inputs=inputs, operations=tuple(self.operations), numbers=())
        made = without_dead(made)
        placements = tuple((each.name, self.placements[each.name]) for each in (*inputs, *made.operations))
        return Partitioned(made, self.mesh, placements, tuple(self.remarks))

    def _add(self, operation: Operation, placement: Placement) -> str:
        depth = self._depth(operation)
        if depth is not None:
            self.free[operation.name] = depth
        self.defined[operation.name] = operation
        self.shapes[operation.name] = operation.shape
        self.operations.append(operation)
        self.placements[operation.name] = placement
        return operation.name

    def _depth(self, operation: Operation) -> int | None:
        """Return how many operations make a value of coordinates and constants alone; None for any other value."""
        if isinstance(operation, Coordinate | Constant | ArrayConstant):
            return 0
        if not isinstance(operation, Elementwise | Cast):
            return None
        found = [self.free.get(name, _DEEPEST) for name in operands(operation)]
        return None if (depth := max(found) + 1) > _DEEPEST else depth

    # --- one operation ---

    def _spread(self, operation: Operation) -> None:
        """Add an operation with what its operands lack before it, and what its result needs behind it."""
        self.needs.clear()
        layout, shares = self._chosen(operation)
        laid = {
            name: self._obtained(name, need, operation) for name, need in self._needs(operation, layout, shares).items()
        }
        operation = schema.with_used(operation, laid)
        final = self.wanted.get(operation.name, layout)
        name = operation.name
        if shares:
            target = self._merged_layout(operation, layout)
            own = name if target == final else self.names.fresh(f"{name}_merged")
            self._merge(own, operation, Placement(layout, shares), target)
            layout = target
        elif layout != final:
            own = self._add(attrs.evolve(operation, name=self.names.fresh(f"{name}_local")), Placement(layout))
        else:
            own = self._add(operation, Placement(layout))
        if layout != final:
            self._lay_out(name, own, final)

    def _merged_layout(self, operation: Operation, layout: Layout) -> Layout:
        """Return the layout in which an aggregate is wanted, if each rank can be given that when parts are merged."""
        final = self.wanted.get(operation.name, layout)
        return final if not isinstance(operation, Reduce) and _covered(layout, final, self.mesh) else layout

    def _merge(self, name: str, operation: Operation, placement: Placement, target: Layout) -> None:
        """Add an operation over the terms of each rank, and the merge of what they have, under a name."""
        kind = CollectiveKind.ALL_REDUCE if target == placement.layout else CollectiveKind.REDUCE_SCATTER
        if isinstance(operation, Reduce):
            parts = self._state(operation, placement)
        else:
            parts = (self._add(attrs.evolve(operation, name=self.names.fresh(f"{operation.name}_part")), placement),)
        made = Collective(
            *(name, kind, parts, placement.partial, placement.layout, target, operation.dtype, operation.shape),
            aggregation=operation.aggregation if isinstance(operation, Contraction | Scatter) else None,
            combine=operation.combine if isinstance(operation, Reduce) else None,
            result=operation.result if isinstance(operation, Reduce) else 0,
            span=operation.span,
        )
        self._add(made, Placement(target))

    def _state(self, operation: Reduce, placement: Placement) -> tuple[str, ...]:
        """Return all components of the state of each rank's elements, which several results may be merged from."""
        key = reduction_of(operation), placement
        if key not in self.states:
            source = self.defined[operation.input]
            dtypes = rule_of(operation, source.dtype, source.shape).state
            self.states[key] = tuple(
                self._add(
                    attrs.evolve(
                        operation, name=self.names.fresh(f"{operation.name}_part"), result=result, dtype=dtype
                    ),
                    placement,
                )
                for result, dtype in enumerate(dtypes)
            )
        return self.states[key]

    def _lay_out(self, name: str, source: str, target: Layout) -> str:
        """Add ``source`` laid out otherwise, under a name: a collective, or a part of what each rank has."""
        like, layout = self.defined[source], self.placements[source].layout
        if _covered(layout, target, self.mesh):
            made: Operation = Elementwise(name, Op.IDENT, (source,), like.dtype, like.shape, span=like.span)
        else:
            axes = dict.fromkeys(
                axis for old, new in zip(layout, target, strict=True) if old != new for axis in (*old.axes, *new.axes)
            )
            kind = kind_of(layout, target)
            made = Collective(
                name, kind, (source,), tuple(axes), layout, target, like.dtype, like.shape, span=like.span
            )
        return self._add(made, Placement(target))

    def _obtained(self, name: str, need: Layout, reader: Operation) -> str:
        """Return the name of a value laid out so that each rank has what it needs of it."""
        for known in (name, *self.copies.get(name, ())):
            if _covered(self.placements[known].layout, need, self.mesh):
                return self._small(known, need)
        target = self._target(name, need)
        copy = self._lay_out(self.names.fresh(f"{name}_{reader.name}"), name, target)
        self.copies.setdefault(name, []).append(copy)
        return copy

    def _small(self, name: str, need: Layout) -> str:
        """Return a value itself, or where it is made of constants what makes no more of it than is needed."""
        definition = self.defined[name]
        if name not in self.free or isinstance(definition, Value) or self.placements[name].layout == need:
            return name
        for copy in self.copies.get(name, ()):
            if self.placements[copy].layout == need:
                return copy
        laid = {
            each: self._obtained(each, wanted, definition) for each, wanted in self._needs(definition, need, ()).items()
        }
        made = schema.with_used(attrs.evolve(definition, name=self.names.fresh(name)), laid)
        copy = self._add(made, Placement(need))
        self.copies.setdefault(name, []).append(copy)
        return copy

    def _target(self, name: str, need: Layout) -> Layout:
        """Return a layout for what is needed of a value: splits of which ranks have enough stay as they are."""
        have = self.placements[name].layout
        target = list(need)
        for number, (old, new) in enumerate(zip(have, need, strict=True)):
            others = {axis for place, split in enumerate(target) if place != number for axis in split.axes}
            if old.axes and covers(old, new, self.mesh) and others.isdisjoint(old.axes):
                target[number] = old
        return tuple(target)

    def _needs(self, operation: Operation, layout: Layout, shares: tuple[Share, ...]) -> dict[str, Layout]:
        """Return what ranks need of the operands, by their places along the axes that the operation is spread over."""
        key = operation.name, layout, shares
        if key not in self.needs:
            step = self._step(operation)
            if step is not None and isinstance(operation, Scan):
                self.needs[key] = dict(needs_of(operation, step))
            else:
                self.needs[key] = self._found_needs(operation, layout, shares)
        return self.needs[key]

    def _step(self, operation: Operation) -> Partitioned | None:
        """Return the partitioned step of a loop, if each rank can run all steps by itself, on its part of axes."""
        if not isinstance(operation, Scan):
            return None
        layouts = tuple(self.placements[name].layout for name in operands(operation))
        return loop_step(loop_of(operation), layouts, self.mesh)

    def _found_needs(self, operation: Operation, layout: Layout, shares: Sequence[Share]) -> dict[str, Layout]:
        splits = (*layout, *(share.split for share in shares))
        axes = tuple(dict.fromkeys(axis for split in splits for axis in split.axes))
        boxes = {}
        for place in self.mesh.places(axes):
            terms = [
                (share.polynomial, share.split.intervals[self.mesh.position(place, share.split.axes)])
                for share in shares
            ]
            key = tuple(place[axis] for axis in axes)
            boxes[key] = needed(operation, self.mesh.box(layout, place), terms, self.shapes)
        found = {}
        for name in dict.fromkeys(reads(operation)):
            found[name] = tuple(
                split_of(
                    {key: (0, 0) if (box := each[name]) is None else box[axis] for key, each in boxes.items()},
                    axes,
                    self.mesh,
                )
                for axis in range(len(self.shapes[name]))
            )
        return found

    # --- the choice ---

    def _chosen(self, operation: Operation) -> Choice:
        """Return how an operation is spread: as is asked for its result, or as its operands are if that is cheaper."""
        step = self._step(operation)
        if step is not None and isinstance(operation, Scan):
            return result_layout(operation, step), ()
        start: Choice = (whole(operation.shape), ())
        asked = start
        for axis, split in enumerate(self.wanted.get(operation.name, ())):
            if split.axes and may_cut(operation, axis, split, self.shapes):
                asked = _with_split(asked[0], axis, split), ()
        choices = [self._extended(operation, each) for each in dict.fromkeys((asked, start))]
        choice = self._cheapest(operation, choices)
        needs = self._needs(operation, *choice)
        for name, axis, split in self._sources(operation):
            if _axes(choice).isdisjoint(split.axes) and needs[name][axis] == whole(self.shapes[name])[axis]:
                kind = type(operation).__name__.lower()
                message = (
                    f"each rank along {' and '.join(split.axes)} computes all of this {kind}, and reads all of {name}"
                )
                self.remarks.append(Remark(operation.name, message))
        return choice

    def _extended(self, operation: Operation, choice: Choice) -> Choice:
        """Return a choice that spreads an operation along the axes of its operands, too, the largest operand first."""
        for name, axis, split in self._sources(operation):
            if _axes(choice).isdisjoint(split.axes):
                near = self._with_ways(operation, choice, ways(operation, name, axis, split, self.shapes))
                parts = len(split.intervals)
                found = near or self._with_ways(operation, choice, free_ways(operation, split.axes, parts, self.shapes))
                choice = self._cheapest(operation, found or [choice])
        return choice

    def _cheapest(self, operation: Operation, choices: Sequence[Choice]) -> Choice:
        """Return the first of those choices that move the fewest bytes."""
        different = tuple(dict.fromkeys(choices))
        return different[0] if len(different) == 1 else min(different, key=lambda each: self._price(operation, each))

    def _with_ways(self, operation: Operation, choice: Choice, offered: Iterable[Way]) -> list[Choice]:
        """Return a choice with each of some ways that goes with it."""
        return [_with_way(choice, way) for way in offered if _goes_with(choice, way, operation, self.shapes)]

    def _sources(self, operation: Operation) -> list[tuple[str, int, Split]]:
        """Return the axes of operands that are split, those of the largest operands first."""
        names = sorted(dict.fromkeys(reads(operation)), key=lambda name: -_bytes(self.defined[name]))
        return [
            (name, axis, split)
            for name in names
            for axis, split in enumerate(self.placements[name].layout)
            if split.axes
        ]

    def _price(self, operation: Operation, choice: Choice) -> int:
        """Return how many bytes ranks get from each other for an operation that is spread in a way."""
        layout, shares = choice
        total = 0
        for name, need in self._needs(operation, layout, shares).items():
            have = self.placements[name].layout
            if not _covered(have, need, self.mesh):
                total += moved(have, self._target(name, need), self.mesh) * self.defined[name].dtype.bits // 8
        width = operation.dtype.bits // 8
        final = self.wanted.get(operation.name, layout)
        if shares:
            target = self._merged_layout(operation, layout)
            axes = [axis for share in shares for axis in share.split.axes]
            parts = operation.combine.components if isinstance(operation, Reduce) else 1
            total += merged(layout, target, axes, self.mesh) * width * parts
            layout = target
        return total + moved(layout, final, self.mesh) * width


def _live(function: Function) -> set[str]:
    """Return the values that results are computed of; gradients of overrides are not."""
    live = set(function.outputs)
    for operation in reversed(function.operations):
        if operation.name in live:
            live.update(reads(operation))
    return live


def _goes_with(choice: Choice, way: Way, operation: Operation, shapes: Mapping[str, Shape]) -> bool:
    """Return whether an operation can be spread in one more way."""
    if isinstance(way, Share):
        return True
    axis, split = way
    return not choice[0][axis].axes and may_cut(operation, axis, split, shapes)


def _with_way(choice: Choice, way: Way) -> Choice:
    layout, shares = choice
    return (layout, (*shares, way)) if isinstance(way, Share) else (_with_split(layout, *way), shares)


def _with_split(layout: Layout, axis: int, split: Split) -> Layout:
    return (*layout[:axis], split, *layout[axis + 1 :])


def _axes(choice: Choice) -> set[str]:
    layout, shares = choice
    return {axis for split in (*layout, *(share.split for share in shares)) for axis in split.axes}


def _covered(have: Layout, need: Layout, mesh: Mesh) -> bool:
    return all(covers(old, new, mesh) for old, new in zip(have, need, strict=True))


def _bytes(value: Value | Operation) -> int:
    count = 1
    for size in value.shape:
        count *= size
    return count * value.dtype.bits
