"""Partitioning: from a typed function, a mesh and shardings of some values to the program of all ranks.

:mod:`tileir.typed.sharding.carrying` lists the ways to spread an operation, :mod:`tileir.typed.sharding.needs` finds
the exact elements that each reads, and :mod:`tileir.typed.sharding.choice` decides by their prices. If ranks lack
elements that an operation reads, a collective precedes it.

Deep halos: ranks recompute some elements of their neighbours instead of exchanging them after each step.

A value that is read beyond the part of a rank is computed there, too, if the work costs less than the exchange; then
its operands are needed farther out. So several steps of a stencil take one exchange, with a halo as deep as all of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tileir.core import ArgumentError, DType, HardwareModel, NameScope, Op, attrs, nearest, schema
from tileir.typed.dataflow import loop_of, without_dead
from tileir.typed.ir import (
    Argsort,
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
from tileir.typed.sharding.choice import Decision, Loops, choose
from tileir.typed.sharding.collective_operations import met_operand
from tileir.typed.sharding.exchanges import aggregation_of, covered, kind_of, largest, target_of
from tileir.typed.sharding.explanation import seconds
from tileir.typed.sharding.loops import layouts_by_step, needs_of, result_layout, step_of
from tileir.typed.sharding.mesh import CollectiveKind, Layout, Mesh, Sharding, Split, whole
from tileir.typed.sharding.needs import REPEATED, live
from tileir.typed.sharding.partitioned import LOCAL, MERGED, PART, Partitioned, Placement, Remark
from tileir.typed.sharding.prices import ANY_MODEL, Prices
from tileir.typed.sharding.spreading import OperationSharding, layouts_of, may_border, needs_of_part, work_of

_MOST: Final = 128
"""Greatest number of operations that are tried: a program of a thousand is partitioned within seconds."""

_DEPTHS: Final = (1, 3, 7, 15, 31)
"""Numbers of consecutive exchanges to save that are tried, beside saving none and all."""


@attrs.frozen
class Layouts:
    """A program whose operations are spread individually.

    Attributes:
        operations: The spread operations, in order.
        spreads: The spread of each.
        placed: The layouts of values.
        fixed: Values with required layouts.
        shapes: The shapes of all values.
        dtypes: The dtypes of all values.
        prices: Prices of work and exchanges.
    """

    operations: Sequence[Operation]
    spreads: Mapping[str, OperationSharding]
    placed: Mapping[str, Layout]
    fixed: frozenset[str]
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, DType]
    prices: Prices


@attrs.frozen
class HaloRecomputation:
    """Operations that compute more than their part.

    Attributes:
        spreads: The spread of each of them.
        halos: The layouts of exchanged values, for all readers at once.
        seconds: The price of the additional work and of these exchanges.
        depth: The number of consecutive exchanges that are saved.
        saved: Seconds saved, compared with an exchange of all elements that are read beyond a part.
    """

    spreads: Mapping[str, OperationSharding]
    halos: Mapping[str, Layout]
    seconds: float
    depth: int
    saved: float = 0.0


def deepened(layouts: Layouts) -> HaloRecomputation:
    """Return the cheapest way to recompute values beyond parts; all readers of a value share its halo."""
    plain, most = _to_depth(layouts, 0), _to_depth(layouts, len(layouts.operations))
    tried = [_to_depth(layouts, depth) for depth in _DEPTHS if depth < most.depth]
    best = min((plain, *tried, most), key=lambda each: each.seconds)
    return attrs.evolve(best, saved=plain.seconds - best.seconds)


def _to_depth(layouts: Layouts, depth: int) -> HaloRecomputation:
    """Return operations that compute more, so that up to ``depth`` consecutive exchanges are saved."""
    mesh, prices = layouts.prices.mesh, layouts.prices
    wider: dict[str, Layout] = {}
    levels: dict[str, int] = {}
    beside: dict[str, float] = {}
    found: dict[str, OperationSharding] = {}
    seconds = 0.0
    for operation in reversed(layouts.operations):
        name, own = operation.name, layouts.spreads[operation.name]
        spread, usual = own, own.needs_by(operation)
        if name in wider and len(found) < _MOST and levels[name] <= depth and _may_repeat(operation, spread, layouts):
            layout = wider.pop(name)
            needs = needs_of_part(operation, layout, (), layouts.shapes, mesh)
            more = _work(operation, layout, needs, layouts) - _work(operation, own.layout, usual, layouts)
            spread = found[name] = OperationSharding(layout, (), layout, needs, own.seconds + more)
            seconds += more
        else:
            levels.pop(name, None)
        for operand, need in spread.needs_by(operation).items():
            have = layouts.placed.get(operand)
            if have is None or covered(have, need, mesh):
                continue
            target = target_of(have, need, mesh)
            if kind_of(have, target) is CollectiveKind.HALO:
                saved = not covered(have, usual[operand], mesh)
                wider[operand] = _around(wider.get(operand, have), target)
                levels[operand] = max(levels.get(operand, 0), levels.get(name, 0) + saved)
                may_wait = may_border(operation, own.shares) and beside.get(operand) != 0
                beside[operand] = _work(operation, own.layout, usual, layouts) if may_wait else 0.0
    for name, layout in wider.items():
        seconds += prices.move(layouts.placed[name], layout, layouts.dtypes[name].itemsize, beside[name])
    return HaloRecomputation(found, wider, seconds, max((levels[name] for name in found), default=0))


def _work(operation: Operation, layout: Layout, needs: Mapping[str, Layout], layouts: Layouts) -> float:
    """Return the price of an operation on a rank; elementwise operations are fused with others, and move nothing."""
    shapes, dtypes = layouts.shapes, layouts.dtypes
    if isinstance(operation, Contraction):
        return work_of(operation, layout, (), needs, shapes, dtypes, layouts.prices)
    return layouts.prices.work(largest(layout), operation.dtype, 0)


def _may_repeat(operation: Operation, spread: OperationSharding, layouts: Layouts) -> bool:
    """Return whether several ranks may compute an element and keep it."""
    is_free = operation.name not in layouts.fixed and spread.layout == spread.target
    return isinstance(operation, REPEATED) and is_free and not spread.shares


def _around(left: Layout, right: Layout) -> Layout:
    """Return the smallest layout that covers two layouts with splits along the same mesh axes."""
    return tuple(
        Split(
            a.axes,
            tuple(
                y if x[0] == x[1] else x if y[0] == y[1] else (min(x[0], y[0]), max(x[1], y[1]))
                for x, y in zip(a.intervals, b.intervals, strict=True)
            ),
        )
        for a, b in zip(left, right, strict=True)
    )


_JOINED: Final = 256
"""Greatest number of operations of programs whose shardings are chosen again with joined halos."""

_DEEPEST: Final = 32
"""Greatest length of a chain of operations that is recomputed for each part of its result."""


def partition(
    function: Function,
    mesh: Mesh,
    shardings: Mapping[str, Sharding | Layout],
    outputs: Mapping[str, Sharding | Layout] | None = None,
    model: HardwareModel = ANY_MODEL,
    *,
    reshard: bool = True,
) -> Partitioned:
    """Return the program that all ranks of a mesh run.

    Args:
        function: The program; its collectives are chosen anew.
        mesh: The ranks.
        shardings: Shardings of values, or layouts from another program; those of other values are chosen.
        outputs: Shardings of results.
        model: The device of each rank and its links to others, which determine the choice.
        reshard: Whether values may change their layouts for readers, except by halos.

    Raises:
        ArgumentError: TIL352, a sharding does not match its tensor or the mesh, or there is no value of that name;
            TIL353,
            a value would have to change its layout.
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
    return _Partitioner(Prices(mesh, model, reshard), wanted, shapes, NameScope.of(shapes)).run(function)


@lru_cache(maxsize=256)  # all results of a loop, and all ranks, ask for its step
def loop_step(scan: Scan, layouts: tuple[Layout, ...], mesh: Mesh) -> Partitioned | None:
    """Return the partitioned step of a loop for layouts of its arguments; None if every rank has to run all of it.

    A value that is passed twice must have one layout.
    """
    step = step_of(scan, layouts, mesh, partition)
    if step is None:
        return None
    needs = needs_of(scan, step)
    return step if len(set(needs)) == len(dict(needs)) else None


@lru_cache(maxsize=256)
def layouts_for_loop(scan: Scan, fixed: tuple[Layout | None, ...], mesh: Mesh) -> tuple[Layout, ...]:
    """Return layouts of a loop's arguments, some of which are fixed; its step chooses the others."""
    return layouts_by_step(scan, fixed, mesh, partition)


def _without_collectives(function: Function) -> Function:
    """Return a function with operands in place of collectives, or with copies of them for results."""
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


@attrs.frozen(eq=False)
class _HaloVariant:
    """A program with a halo for each reader, one with halos of the best depth, and the seconds that these save."""

    plain: Partitioned
    deep: Partitioned
    saved: float


@attrs.define(eq=False, repr=False)
class _Partitioner:
    """Builder of a partitioned program.

    ``copies`` has other layouts in which a value is already available, ``states`` the components of tuple reductions,
    ``loops`` the arguments of loops in place of their operands, ``free`` the values computed from coordinates and
    constants, of which each rank makes as much as it needs, and ``halos`` the layouts of values for all readers at
    once.
    """

    prices: Prices
    wanted: Mapping[str, Layout]
    shapes: dict[str, Shape]
    names: NameScope
    defined: dict[str, Value | Operation] = attrs.field(factory=dict)
    operations: list[Operation] = attrs.field(factory=list)
    placements: dict[str, Placement] = attrs.field(factory=dict)
    copies: dict[str, list[str]] = attrs.field(factory=dict)
    free: frozenset[str] = frozenset()
    halos: Mapping[str, Layout] = attrs.field(factory=dict)
    loops: dict[Scan, Mapping[str, str]] = attrs.field(factory=dict)
    states: dict[tuple[Reduce, Placement], tuple[str, ...]] = attrs.field(factory=dict)
    remarks: list[Remark] = attrs.field(factory=list)

    @property
    def mesh(self) -> Mesh:
        """The ranks."""
        return self.prices.mesh

    def run(self, function: Function) -> Partitioned:
        """Return the cheapest partitioned program, with separate or joined halos."""
        self.free = _free(function, self.wanted)
        chosen = [each for each in live(function) if each.name not in self.free]
        best = self._chosen(function, chosen, self.prices)
        if not self.prices.around or len(chosen) > _JOINED:
            return best.deep
        joined = self._chosen(function, chosen, attrs.evolve(self.prices, joined=True))
        if joined.plain != best.plain and self._seconds(joined) < self._seconds(best):
            best = joined
        return best.deep

    def _seconds(self, way: _HaloVariant) -> float:
        return seconds(way.plain, self.prices) - way.saved

    def _chosen(self, function: Function, chosen: Sequence[Operation], prices: Prices) -> _HaloVariant:
        """Return a program with shardings chosen by ``prices``, and a version with fewer exchanges if that pays."""
        decisions = choose(function, chosen, prices, self.wanted, Loops(self._step, layouts_for_loop))
        plain = self._anew({})._made(function, decisions)
        if not any(each.kind is CollectiveKind.HALO for each in plain.collectives):
            return _HaloVariant(plain, plain, 0.0)
        spreads = {name: each for name, each in decisions.items() if isinstance(each, OperationSharding)}
        placed = {
            name: each.target if isinstance(each, OperationSharding) else each for name, each in decisions.items()
        }
        dtypes = {each.name: each.dtype for each in (*function.inputs, *function.operations)}
        spread = [each for each in chosen if each.name in spreads]
        fixed = frozenset((*function.outputs, *self.wanted))
        found = deepened(Layouts(spread, spreads, placed, fixed, self.shapes, dtypes, self.prices))
        return _HaloVariant(plain, self._anew(found.halos)._made(function, {**decisions, **found.spreads}), found.saved)

    def _anew(self, halos: Mapping[str, Layout]) -> _Partitioner:
        """Return a builder without operations."""
        names = NameScope.of(self.shapes)
        return _Partitioner(self.prices, self.wanted, dict(self.shapes), names, free=self.free, halos=halos)

    def _made(self, function: Function, decisions: Mapping[str, Decision]) -> Partitioned:
        """Return the program in which operations are spread as decided."""
        for value in function.inputs:
            self.defined[value.name] = value
            unread = self.wanted.get(value.name) or layouts_of(value.shape, self.mesh)[0]
            layout = decisions.get(value.name, unread)
            assert isinstance(layout, tuple)
            self.placements[value.name] = Placement(layout)
        for operation in function.operations:
            decision = decisions.get(operation.name)
            if isinstance(decision, OperationSharding):
                self._spread(operation, decision)
            else:
                self._add(operation)
        inputs = tuple(attrs.evolve(value, number=None) for value in function.inputs)
        made = attrs.evolve(function, inputs=inputs, operations=_begun_early(self.operations), numbers=())
        made = without_dead(made)
        placements = tuple((each.name, self.placements[each.name]) for each in (*inputs, *made.operations))
        return Partitioned(made, self.mesh, placements, tuple(self.remarks))

    def _add(self, operation: Operation, placement: Placement | None = None) -> str:
        self.defined[operation.name] = operation
        self.shapes[operation.name] = operation.shape
        self.operations.append(operation)
        self.placements[operation.name] = placement or Placement(whole(operation.shape))
        return operation.name

    # --- one operation ---

    def _spread(self, operation: Operation, spread: OperationSharding) -> None:
        """Add an operation, after exchanges for its operands and before those of its result."""
        layout, shares, final = spread.layout, spread.shares, spread.target
        self._remark(operation, spread)
        if isinstance(operation, Scan):
            operation = self._of_loop(operation, spread)
            step = self._step_with(operation, {})
            layout = whole(operation.shape) if step is None else result_layout(operation, step)
            final = self.wanted.get(operation.name) or layout
        else:
            needs = spread.needs_by(operation)
            laid = {name: self._obtained(name, need, operation) for name, need in needs.items()}
            if spread.meets:
                laid = self._met(operation, spread, laid)
            operation = schema.with_used(operation, laid)
        name = operation.name
        if shares:
            can_merge = not isinstance(operation, Reduce) and covered(layout, final, self.mesh)
            target = final if can_merge else layout
            own = name if target == final else self.names.fresh(f"{name}{MERGED}")
            self._merge(own, operation, Placement(layout, shares), target)
            layout = target
        elif layout != final:
            own = self._add(attrs.evolve(operation, name=self.names.fresh(f"{name}{LOCAL}")), Placement(layout))
        else:
            own = self._add(operation, Placement(layout))
        if layout != final:
            self._lay_out(name, own, final)

    def _met(self, operation: Operation, spread: OperationSharding, laid: dict[str, str]) -> dict[str, str]:
        """Return operands in the layouts for ranks that meet; as they are if each rank has all that it reads."""
        found = met_operand(operation)
        assert found is not None
        name, axis = found
        read = (name, operation.updates) if isinstance(operation, Scatter) else (name,)
        is_whole = all(self.placements[laid[each]].layout[axis].is_whole for each in read)
        if is_whole and not isinstance(operation, Argsort):
            return laid
        needs = spread.needs_by(operation)
        return {name: self._exactly(copy, needs[name], operation) for name, copy in laid.items()}

    def _of_loop(self, operation: Scan, spread: OperationSharding) -> Scan:
        """Return a result of a loop with the arguments of its partitioned step; all results remain of one loop."""
        loop = loop_of(operation)
        if loop not in self.loops:
            laid = {name: self._obtained(name, need, operation) for name, need in spread.needs_by(operation).items()}
            step = self._step_with(operation, laid)
            if step is None:
                needs = spread.needs_by(operation)
                laid = {name: self._exactly(copy, needs[name], operation) for name, copy in laid.items()}
                step = self._step_with(operation, laid)
            if step is None:
                every = {name: whole(self.shapes[name]) for name in laid}
                laid = {name: self._obtained(name, need, operation) for name, need in every.items()}
            elif step.meets:
                made = schema.with_used(operation, laid)
                exact = {name: self._exactly(name, need, operation) for name, need in needs_of(made, step)}
                laid = {name: exact[copy] for name, copy in laid.items()}
            self.loops[loop] = laid
        return schema.with_used(operation, self.loops[loop])

    def _step_with(self, operation: Scan, laid: Mapping[str, str]) -> Partitioned | None:
        made = schema.with_used(operation, laid)
        return self._step(made, tuple(self.placements[name].layout for name in operands(made)))

    def _exactly(self, name: str, layout: Layout, reader: Operation) -> str:
        """Return a value of which ranks have exactly the elements of a layout."""
        if self.placements[name].layout == layout:
            return name
        return self._lay_out(self.names.fresh(f"{name}_{reader.name}"), name, layout)

    def _remark(self, operation: Operation, spread: OperationSharding) -> None:
        """Add remarks on split operands that each rank reads completely, because all ranks do the same work."""
        for name, need in spread.needs_by(operation).items():
            for axis, split in enumerate(self.placements[name].layout):
                if split.axes and spread.axes.isdisjoint(split.axes) and need[axis] == whole(self.shapes[name])[axis]:
                    kind, axes = type(operation).__name__.lower(), " and ".join(split.axes)
                    message = f"each rank along {axes} computes all of this {kind}, and reads all of {name}"
                    self.remarks.append(Remark(operation.name, message))

    def _merge(self, name: str, operation: Operation, placement: Placement, target: Layout) -> None:
        """Add an operation over the terms of each rank, and the merge of their results under a name."""
        kind = CollectiveKind.ALL_REDUCE if target == placement.layout else CollectiveKind.REDUCE_SCATTER
        if isinstance(operation, Reduce):
            parts = self._state(operation, placement)
        else:
            parts = (self._add(attrs.evolve(operation, name=self.names.fresh(f"{operation.name}{PART}")), placement),)
        made = Collective(
            *(name, kind, parts, placement.partial, placement.layout, target, operation.dtype, operation.shape),
            aggregation=aggregation_of(operation),
            combine=operation.combine if isinstance(operation, Reduce) else None,
            result=operation.result if isinstance(operation, Reduce) else 0,
            span=operation.span,
        )
        self._add(made, Placement(target))

    def _state(self, operation: Reduce, placement: Placement) -> tuple[str, ...]:
        """Return all components of the state of each rank's elements, from which several results may be merged."""
        key = reduction_of(operation), placement
        if key not in self.states:
            source = self.defined[operation.input]
            dtypes = rule_of(operation, source.dtype, source.shape).state
            self.states[key] = tuple(
                self._add(
                    attrs.evolve(
                        operation, name=self.names.fresh(f"{operation.name}{PART}"), result=result, dtype=dtype
                    ),
                    placement,
                )
                for result, dtype in enumerate(dtypes)
            )
        return self.states[key]

    def _lay_out(self, name: str, source: str, target: Layout) -> str:
        """Add ``source`` in another layout, under a name: a collective, or a part of each rank's elements."""
        like, layout = self.defined[source], self.placements[source].layout
        if covered(layout, target, self.mesh):
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
        """Return the name of a copy of a value in which each rank has the elements that it needs."""
        for known in (name, *self.copies.get(name, ())):
            if covered(self.placements[known].layout, need, self.mesh):
                return self._small(known, need)
        target = target_of(self.placements[name].layout, need, self.mesh)
        if name in self.halos and covered(self.halos[name], target, self.mesh):
            target = self.halos[name]
        self._refuse(name, target, reader)
        copy = self._lay_out(self.names.fresh(f"{name}_{reader.name}"), name, target)
        self.copies.setdefault(name, []).append(copy)
        return copy

    def _refuse(self, name: str, target: Layout, reader: Operation) -> None:
        """Refuse a change of layout if resharding is not allowed.

        Raises:
            ArgumentError: TIL353.
        """
        have = self.placements[name].layout
        if not self.prices.reshard and kind_of(have, target) is not CollectiveKind.HALO:
            entries = ", ".join(" * ".join(split.axes) or "whole" for split in target)
            message = (
                f"{reader.name!r} reads {name!r} as [{', '.join(map(str, target))}], but it is laid out as"
                f" [{', '.join(map(str, have))}]: shard {name!r} as ({entries}), or shard {reader.name!r} otherwise, or"
                " allow values to be laid out anew"
            )
            raise ArgumentError.of("TIL353", message)

    def _small(self, name: str, need: Layout) -> str:
        """Return a value, or if it is computed from constants, a copy with only the needed elements."""
        definition = self.defined[name]
        if name not in self.free or isinstance(definition, Value) or self.placements[name].layout == need:
            return name
        for copy in self.copies.get(name, ()):
            if self.placements[copy].layout == need:
                return copy
        needs = needs_of_part(definition, need, (), self.shapes, self.mesh)
        laid = {each: self._obtained(each, wanted, definition) for each, wanted in needs.items()}
        made = schema.with_used(attrs.evolve(definition, name=self.names.fresh(name)), laid)
        copy = self._add(made, Placement(need))
        self.copies.setdefault(name, []).append(copy)
        return copy

    def _step(self, scan: Scan, layouts: tuple[Layout, ...]) -> Partitioned | None:
        """Return the partitioned step of a loop, if each rank has its own part of it."""
        step = loop_step(loop_of(scan), layouts, self.mesh)
        return None if step is not None and step.meets and not self.prices.reshard else step


def _begun_early(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return operations with each exchange of halos moved after its operand and the exchange before it.

    So fewer of them stand between operations, and independent work may overlap with them.
    """
    behind: dict[int, list[Operation]] = {}
    places: dict[str, int] = {}
    last = -1
    for number, operation in enumerate(operations):
        places[operation.name] = number
        if isinstance(operation, Collective):
            if operation.kind.goes_around:
                place = places[operation.name] = max(last, places.get(operation.input, -1))
                behind.setdefault(place, []).append(operation)
            last = places[operation.name]
    kept = (each for each in operations if not (isinstance(each, Collective) and each.kind.goes_around))
    found = list(behind.get(-1, ()))
    for each in kept:
        found += [each, *behind.get(places[each.name], ())]
    return tuple(found)


def _free(function: Function, wanted: Mapping[str, Layout]) -> frozenset[str]:
    """Return the values computed from coordinates and constants in a few operations, with no required layout."""
    depths: dict[str, int] = {}
    for operation in function.operations:
        if operation.name in wanted:
            continue
        if isinstance(operation, Coordinate | Constant | ArrayConstant):
            depths[operation.name] = 0
        elif isinstance(operation, Elementwise | Cast):
            depth = 1 + max(depths.get(name, _DEEPEST) for name in operands(operation))
            if depth <= _DEEPEST:
                depths[operation.name] = depth
    return frozenset(depths)
