"""Blocks prepared for interpretation: affines by position of their indices, and the points of the box as arrays.

A block that only runs another one has a joint plan with the points of both, :attr:`Plan.joined`: passes tile boxes into
blocks of few points, each of which takes as long as a block of many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine, total
from tileir.stripe.interpret.memory import ScopeKey
from tileir.stripe.ir import Block, Direction, Load, LoadIndex, Refinement, Special, Store, views_read

Array: TypeAlias = np.ndarray[Any, Any]

CHUNK: Final = 1 << 18
"""Maximum number of points computed at once."""


@attrs.frozen(eq=False)
class Linear:
    """``constant + Σ coefficient · value[position]``."""

    constant: int
    terms: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, affine: Affine, positions: Mapping[str, int]) -> Linear:
        """Return the form of an integral ``affine`` over indices at ``positions``."""
        return cls(int(affine.offset), tuple((positions[name], int(c)) for name, c in affine.terms))

    def at(self, values: Sequence[int]) -> int:
        """Return the value at one point."""
        return self.constant + self.shift(values)

    def within(self, width: int, bases: Sequence[Linear], around: Linear | None = None) -> Linear:
        """Return the form over ``width`` indices of an enclosing block, followed by its own indices.

        Args:
            width: Number of indices of the enclosing block.
            bases: Offset of each index, in the indices of the enclosing block.
            around: Offset of the value, in these.
        """
        constant, terms = self.constant, Counter({width + position: each for position, each in self.terms})
        added = [] if around is None else [(around, 1)]
        for base, coefficient in (*added, *((bases[position], each) for position, each in self.terms)):
            constant += coefficient * base.constant
            for place, each in base.terms:
                terms[place] += coefficient * each
        return Linear(constant, tuple(terms.items()))

    def over(self, coordinates: Array) -> Array:
        """Return the value at each point; ``coordinates`` has one row for each index."""
        if not self.terms:
            return np.full(coordinates.shape[1], self.constant, np.int64)
        (position, coefficient), *others = self.terms
        result = coefficient * coordinates[position]
        for position, coefficient in others:
            result += coefficient * coordinates[position]
        if self.constant:
            result += self.constant
        return np.asarray(result)

    def shift(self, bases: Sequence[int]) -> int:
        """Return the change of the value when ``bases`` are added to the indices."""
        found = 0
        for position, coefficient in self.terms:  # for each view at each point: a generator would take twice as long
            found += coefficient * bases[position]
        return found

    def bounds(self, ranges: Sequence[int]) -> tuple[int, int]:
        """Return the least and greatest value over ``0 <= value[p] < ranges[p]``."""
        reaches = [c * (ranges[p] - 1) for p, c in self.terms]
        return (
            self.constant + sum(reach for reach in reaches if reach < 0),
            self.constant + sum(reach for reach in reaches if reach > 0),
        )


@attrs.frozen(eq=False)
class ViewPlan:
    """One refinement: displacement in elements and along each axis, and whether it has the axes of its source.

    ``opens`` is the aggregation scope that each execution of its block opens, unless its source is in one.
    """

    refinement: Refinement
    source: str
    opens: ScopeKey | None
    flat: Linear
    axes: tuple[Linear, ...]
    aligned: bool
    flat_bounds: tuple[int, int]
    axis_bounds: tuple[tuple[int, int], ...]


@attrs.frozen(eq=False)
class Grid:
    """Some points of the box, with all indices counted from 0, and derived values."""

    coordinates: Array
    constraints: tuple[Array, ...]
    offsets: dict[str, Array]


@attrs.define(eq=False)
class Plan:
    """One block at one place of the program, or several nested ones with nothing else between.

    ``private`` names the views through which a point reads only its own stores. ``levels`` has the number of points of
    each block, the outermost first; ``joined`` is the plan of this block with its only nested block.
    """

    block: Block
    levels: tuple[int, ...]
    ranges: tuple[int, ...]
    indices: tuple[Affine | None, ...]
    constraints: tuple[Linear, ...]
    views: dict[str, ViewPlan]
    load_indices: dict[int, Linear]
    inner: dict[int, Plan]
    private: tuple[str, ...] = ()
    joined: Plan | None = None
    _whole: Grid | None = attrs.field(default=None, init=False)

    @property
    def points(self) -> int:
        """Number of points of the box."""
        return prod(self.ranges)

    @cached_property
    def is_leaf(self) -> bool:
        """True if the body is only scalars, so that all points can be vectorised."""
        return not any(isinstance(statement, Block | Special) for statement in self.block.statements) and not any(
            view.refinement.direction is Direction.NONE for view in self.views.values()
        )

    @cached_property
    def pairs(self) -> tuple[tuple[Load | Store, Store], ...]:
        """Each load with each store, and for several blocks also each pair of stores.

        All points execute one statement, then the next, which no order of points of two blocks does.
        """
        loads = [statement for statement in self.block.statements if isinstance(statement, Load)]
        stores = [statement for statement in self.block.statements if isinstance(statement, Store)]
        return (*product(loads, stores), *(combinations(stores, 2) if len(self.levels) > 1 else ()))

    def grids(self, rng: np.random.Generator | None) -> Iterator[tuple[Grid, Array | None]]:
        """Yield the points of the box in pieces, with an order of each if ``rng`` is given and they are unordered."""
        if self.block.is_serial:
            rng = None
        if self.points <= CHUNK:
            if self._whole is None:
                self._whole = self._grid(np.arange(self.points))
            yield self._whole, None if rng is None else _shuffled(rng, self.levels)
            return
        for start in range(0, self.points, CHUNK):
            positions = np.arange(start, min(start + CHUNK, self.points))
            yield self._grid(positions), None if rng is None else rng.permutation(positions.size)

    def _grid(self, positions: Array) -> Grid:
        if self.ranges:
            coordinates = np.stack(np.unravel_index(positions, self.ranges))
        else:
            coordinates = np.zeros((0, positions.size), np.int64)
        return Grid(
            coordinates,
            tuple(constraint.over(coordinates) for constraint in self.constraints),
            {name: view.flat.over(coordinates) for name, view in self.views.items()},
        )


def _shuffled(rng: np.random.Generator, levels: tuple[int, ...]) -> Array:
    """Return an order of points in which all points of an inner block are consecutive."""
    order = rng.permutation(levels[0])
    for points in levels[1:]:
        inner = rng.permuted(np.tile(np.arange(points), (order.size, 1)), axis=1)
        order = (order[:, np.newaxis] * points + inner).ravel()
    return order


def plan_block(block: Block, parent: Block | None, counter: Iterator[int]) -> Plan:
    """Prepare a verified block and nested blocks; ``counter`` gives each a number."""
    number = next(counter)
    positions = {index.name: position for position, index in enumerate(block.indices)}
    ranges = tuple(index.range for index in block.indices)
    sources = {} if parent is None else {view.name: view for view in parent.refinements}
    plan = Plan(
        block,
        (prod(ranges),),
        ranges,
        tuple(index.affine for index in block.indices),
        tuple(Linear.of(constraint, positions) for constraint in block.constraints),
        {
            view.name: _plan_view(number, view, sources.get(view.source), positions, ranges)
            for view in block.refinements
        },
        {
            number: Linear.of(statement.affine, positions)
            for number, statement in enumerate(block.statements)
            if isinstance(statement, LoadIndex)
        },
        {
            number: plan_block(statement, block, counter)
            for number, statement in enumerate(block.statements)
            if isinstance(statement, Block)
        },
        _private(block),
    )
    if len(block.statements) == len(plan.inner) == 1:
        plan.joined = _joined(plan, plan.inner[0].joined or plan.inner[0])
    return plan


def _joined(outer: Plan, inner: Plan) -> Plan | None:
    """Return the points of a block and of its nested block as one plan; None if that is not possible.

    It is possible if both are unordered with only views, no access is data-dependent, and aggregates of the inner block
    continue from point to point of the outer one. The outer block has no private views: no statement before the inner
    block could store the elements that it reads through them.
    """
    accesses = [each for each in inner.block.statements if isinstance(each, Load | Store)]
    if (
        (outer.block.is_serial or inner.block.is_serial or not inner.is_leaf)
        or any(view.refinement.direction is Direction.NONE for view in outer.views.values())
        or any(access.index is not None for access in accesses)
        or outer.points * inner.points > CHUNK
    ):
        return None
    positions = {index.name: position for position, index in enumerate(outer.block.indices)}
    bases = [Linear.of(affine or Affine(), positions) for affine in inner.indices]
    ranges, width = (*outer.ranges, *inner.ranges), len(outer.ranges)
    views = {}
    for name, view in inner.views.items():
        source = outer.views[view.source]
        if view.opens is not None and source.opens is None:
            return None
        opens = None if view.opens is None else source.opens  # views of one memory merge into its content together
        flat, aligned = view.flat.within(width, bases, source.flat), view.aligned and source.aligned
        pairs = zip(view.axes, source.axes, strict=True) if aligned else ()
        axes = tuple(axis.within(width, bases, around) for axis, around in pairs)
        bounds = tuple(axis.bounds(ranges) for axis in axes)
        views[name] = ViewPlan(view.refinement, source.source, opens, flat, axes, aligned, flat.bounds(ranges), bounds)
    return Plan(
        inner.block,
        (*outer.levels, *inner.levels),
        ranges,
        (*outer.indices, *(None for _ in inner.indices)),
        (*outer.constraints, *(constraint.within(width, bases) for constraint in inner.constraints)),
        views,
        {number: linear.within(width, bases) for number, linear in inner.load_indices.items()},
        {},
    )


def _private(block: Block) -> tuple[str, ...]:
    """Return the views of direction OUT that a point of a block with nested blocks reads.

    Through merging views, points may add to the stores of others.
    """
    if block.is_serial or not block.blocks:
        return ()
    read = {name for statement in block.statements for name in views_read(statement)}
    outs = (r for r in block.refinements if r.direction is Direction.OUT and not r.merges)
    return tuple(r.name for r in outs if r.name in read)


def _plan_view(
    number: int, view: Refinement, source: Refinement | None, positions: Mapping[str, int], ranges: Sequence[int]
) -> ViewPlan:
    flat = total(affine * dim.stride for affine, dim in zip(view.access, view.shape.dims, strict=True))
    axes = tuple(Linear.of(affine, positions) for affine in view.access)
    displacement = Linear.of(flat, positions)
    return ViewPlan(
        view,
        view.source,
        (number, view.name) if view.opens_scope else None,
        displacement,
        axes,
        source is None or source.shape.strides == view.shape.strides,
        displacement.bounds(ranges),
        tuple(axis.bounds(ranges) for axis in axes),
    )
