"""Stores of Stripe programs with all points around them, and the elements that they read and write, for isl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import islpy as isl

from tileir.core import Aggregation, attrs
from tileir.poly.affine import Affine, total
from tileir.stripe.ir import Block, Direction, Load, Program, Refinement, Special, Store, scalar_inputs, scalar_output

_COPYING: Final = ("copy", "transpose")


@attrs.frozen
class Element:
    """An element of some memory; allocations of ``main`` and its blocks are distinct at each point around them."""

    memory: str
    place: tuple[Affine, ...]


@attrs.frozen
class Leaf:
    """One store, with the loads that its value depends on.

    Attributes:
        block: The block that holds it.
        kernel: The number of its kernel.
        indices: The indices around it, outermost first.
        conditions: Affines that must be >= 0.
        parallel: For each block around it, the number of indices outside it, the number including its own, and whether
            its points are unordered.
        order: Its time, in lexicographic order.
        store: The written element.
        aggregation: How values merge there; empty where they overwrite.
        loads: The elements that are read.
    """

    block: str
    kernel: int
    indices: tuple[str, ...]
    conditions: tuple[Affine, ...]
    parallel: tuple[tuple[int, int, bool], ...]
    order: tuple[Affine, ...]
    store: Element
    aggregation: str
    loads: tuple[Element, ...]

    @property
    def points(self) -> str:
        """The points at which it runs, as isl writes conditions."""
        return " and ".join(["true", *(f"{text(c)} >= 0" for c in self.conditions)])

    def relation(self, elements: tuple[Element, ...]) -> isl.Map:
        """Return the map from points to elements, one after the other."""
        places = ", ".join(text(place) for element in elements for place in element.place)
        return isl.Map(f"{{ [{', '.join(self.indices)}] -> [{places}] : {self.points} }}")


@attrs.frozen
class Stores:
    """The stores of a program.

    Attributes:
        leaves: Those whose elements do not depend on values.
        unclear: Memory that something else writes, too.

    """

    leaves: tuple[Leaf, ...]
    unclear: frozenset[str]


def stores(program: Program) -> Stores:
    """Return all stores of a program."""
    walk = _Walk(program.main)
    views = {r.name: _View(r.name, (), Affine(), r, "") for r in program.memory}
    walk.block(program.main, _Points(), {}, views)
    return Stores(tuple(walk.found), frozenset(walk.unclear))


@attrs.frozen(repr=False)
class _Points:
    """The points of a block and of those around it, as a leaf has them."""

    indices: tuple[str, ...] = ()
    conditions: tuple[Affine, ...] = ()
    parallel: tuple[tuple[int, int, bool], ...] = ()
    order: tuple[Affine, ...] = ()

    def at(self, number: int) -> _Points:
        """Return the points of one statement."""
        return attrs.evolve(self, order=(*self.order, Affine() + number))

    def along(self, index: str, start: Affine, size: int) -> _Points:
        """Return the points with one more index."""
        offset = Affine.index(index) - start
        return attrs.evolve(
            self,
            indices=(*self.indices, index),
            conditions=(*self.conditions, offset, size - 1 - offset),
            order=(*self.order, Affine.index(index)),
        )


@attrs.frozen(repr=False)
class _View:
    """Place of a refinement: the memory, the indices around its allocation, and the first element that it shows."""

    memory: str
    owner: tuple[str, ...]
    first: Affine
    refinement: Refinement
    aggregation: str

    def element(self, extra: Affine) -> Element:
        return Element(self.memory, (*map(Affine.index, self.owner), self.first + extra))


@attrs.define(repr=False)
class _Walk:
    main: Block
    found: list[Leaf] = attrs.field(factory=list)
    unclear: set[str] = attrs.field(factory=set)
    kernel: int = -1
    _blocks: int = 0
    _indices: int = 0

    def block(self, block: Block, points: _Points, outer: Mapping[str, Affine], sources: Mapping[str, _View]) -> None:
        """Collect the stores of a block at all points around it."""
        self._blocks += 1
        number = self._blocks
        values: dict[str, Affine] = {}
        before = len(points.indices)
        for index in block.indices:
            start = Affine() if index.affine is None else index.affine.substitute(outer)
            points, values[index.name] = self._along(points, start, index.range)
        points = attrs.evolve(
            points,
            conditions=(*points.conditions, *(c.substitute(values) for c in block.constraints)),
            parallel=(*points.parallel, (before, len(points.indices), not block.is_serial)),
        )
        views = {r.name: self._view(r, points.indices, values, sources, number) for r in block.refinements}
        needed: dict[str, tuple[Element, ...] | None] = {}
        for place, statement in enumerate(block.statements):
            if block is self.main:
                self.kernel += 1
            if isinstance(statement, Block):
                self.block(statement, points.at(place), values, views)
            elif isinstance(statement, Special):
                self._special(statement, block.name, points.at(place), views)
            elif isinstance(statement, Store):
                loads = needed.get(statement.source)
                view = views[statement.into]
                if loads is None or statement.index is not None:
                    self.unclear.add(view.memory)
                else:
                    self._add(block.name, points.at(place), view.element(Affine()), view.aggregation, loads)
            elif (into := scalar_output(statement)) is not None:
                needed[into] = _operands(statement, views, needed)

    def _along(self, points: _Points, start: Affine, size: int) -> tuple[_Points, Affine]:
        self._indices += 1
        name = f"i{self._indices}"
        return points.along(name, start, size), Affine.index(name)

    def _add(self, block: str, points: _Points, store: Element, aggregation: str, loads: tuple[Element, ...]) -> None:
        indices, conditions, parallel, order = attrs.astuple(points, recurse=False)
        self.found.append(Leaf(block, self.kernel, indices, conditions, parallel, order, store, aggregation, loads))

    def _view(
        self,
        refinement: Refinement,
        indices: tuple[str, ...],
        values: Mapping[str, Affine],
        sources: Mapping[str, _View],
        number: int,
    ) -> _View:
        if refinement.direction is Direction.NONE:
            return _View(f"{refinement.name} of block {number}", indices, Affine(), refinement, "")
        source = sources[refinement.source]
        moved = total(
            access.substitute(values) * dim.stride
            for access, dim in zip(refinement.access, refinement.shape.dims, strict=True)
        )
        how = refinement.aggregation
        merging = "" if how in (None, Aggregation.ASSIGN) else how.value
        return _View(source.memory, source.owner, source.first + moved, refinement, merging)

    def _special(self, special: Special, name: str, points: _Points, views: Mapping[str, _View]) -> None:
        """Collect a copy of a whole view, with an index for each axis; writes of other specials are undetermined."""
        if special.name not in _COPYING:
            self.unclear |= {views[output].memory for output in special.outputs}
            return
        source, target = views[special.inputs[0]], views[special.outputs[0]]
        own = []
        for dim in target.refinement.shape.dims:
            points, index = self._along(points, Affine(), dim.size)
            own.append(index)
        there = list(reversed(own)) if special.name == "transpose" else own
        self._add(name, points, target.element(_place(target, own)), "", (source.element(_place(source, there)),))


def _place(view: _View, indices: list[Affine]) -> Affine:
    return total(index * dim.stride for index, dim in zip(indices, view.refinement.shape.dims, strict=True))


def _operands(
    statement: object, views: Mapping[str, _View], needed: Mapping[str, tuple[Element, ...] | None]
) -> tuple[Element, ...] | None:
    """Return the operands of a scalar; None where they depend on values."""
    if isinstance(statement, Load):
        return None if statement.index is not None else (views[statement.source].element(Affine()),)
    parts = [needed.get(name) for name in scalar_inputs(statement)]  # type: ignore[arg-type]
    if any(part is None for part in parts):
        return None
    return tuple(dict.fromkeys(element for part in parts if part is not None for element in part))


def text(affine: Affine) -> str:
    """Return an affine as isl writes it."""
    return " + ".join([f"{affine.offset}", *(f"{c}{i}" for i, c in affine.terms)])
