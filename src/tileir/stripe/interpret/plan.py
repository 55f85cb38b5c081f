"""Blocks prepared for interpretation: affines by position of their indices, and the points of the box as arrays."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from tileir.poly.affine import Affine, total
from tileir.stripe.ir import Block, Direction, LoadIndex, Refinement, Special, views_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


Array: TypeAlias = np.ndarray[Any, Any]

CHUNK: Final = 1 << 18
"""At most so many points are computed at once."""


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
        """Return by how much the value grows when ``bases`` are added to the indices."""
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
    """One refinement: displacement in elements and along each axis, and whether its axes are those of its source."""

    refinement: Refinement
    flat: Linear
    axes: tuple[Linear, ...]
    aligned: bool
    flat_bounds: tuple[int, int]
    axis_bounds: tuple[tuple[int, int], ...]


@attrs.frozen(eq=False)
class Grid:
    """Some points of the box with all indices counted from 0, and what follows from them alone."""

    coordinates: Array
    constraints: tuple[Array, ...]
    offsets: dict[str, Array]


@attrs.define(eq=False)
class Plan:
    """One block at one place of the program; ``number`` tells it from all others.

    ``private`` names the views through which a point reads nothing but what it has stored there itself.
    """

    number: int
    block: Block
    ranges: tuple[int, ...]
    indices: tuple[Affine | None, ...]
    constraints: tuple[Linear, ...]
    views: dict[str, ViewPlan]
    load_indices: dict[int, Linear]
    inner: dict[int, Plan]
    private: tuple[str, ...] = ()
    _whole: Grid | None = attrs.field(default=None, init=False)

    @property
    def points(self) -> int:
        """Number of points of the box."""
        return prod(self.ranges)

    @cached_property
    def is_leaf(self) -> bool:
        """Whether the body is only scalars, so that all points can be computed side by side."""
        return not any(isinstance(statement, Block | Special) for statement in self.block.statements) and not any(
            view.refinement.direction is Direction.NONE for view in self.views.values()
        )

    def grids(self, rng: np.random.Generator | None) -> Iterator[Grid]:
        """Yield the points of the box in pieces, shuffled within each if ``rng`` is given and they are unordered."""
        if self.block.is_serial:
            rng = None
        if rng is None and self.points <= CHUNK:
            if self._whole is None:
                self._whole = self._grid(np.arange(self.points))
            yield self._whole
            return
        for start in range(0, self.points, CHUNK):
            positions = np.arange(start, min(start + CHUNK, self.points))
            yield self._grid(positions if rng is None else rng.permutation(positions))

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


def plan_block(block: Block, parent: Block | None, counter: Iterator[int]) -> Plan:
    """Prepare a verified block and the blocks inside it."""
    positions = {index.name: position for position, index in enumerate(block.indices)}
    ranges = tuple(index.range for index in block.indices)
    sources = {} if parent is None else {view.name: view for view in parent.refinements}
    return Plan(
        next(counter),
        block,
        ranges,
        tuple(index.affine for index in block.indices),
        tuple(Linear.of(constraint, positions) for constraint in block.constraints),
        {view.name: _plan_view(view, sources.get(view.source), positions, ranges) for view in block.refinements},
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


def _private(block: Block) -> tuple[str, ...]:
    """Return the views of direction OUT that a point of a block around others reads.

    Through views that merge, points may add to what others of the block have stored.
    """
    if block.is_serial or not block.blocks:
        return ()
    read = {name for statement in block.statements for name in views_read(statement)}
    outs = (r for r in block.refinements if r.direction is Direction.OUT and not r.merges)
    return tuple(r.name for r in outs if r.name in read)


def _plan_view(
    view: Refinement, source: Refinement | None, positions: Mapping[str, int], ranges: Sequence[int]
) -> ViewPlan:
    flat = total(affine * dim.stride for affine, dim in zip(view.access, view.shape.dims, strict=True))
    axes = tuple(Linear.of(affine, positions) for affine in view.access)
    displacement = Linear.of(flat, positions)
    return ViewPlan(
        view,
        displacement,
        axes,
        source is None or source.shape.strides == view.shape.strides,
        displacement.bounds(ranges),
        tuple(axis.bounds(ranges) for axis in axes),
    )
