"""Split blocks into tiles: a block over tile numbers, around a block over the points of one tile.

The outer block keeps the name, tags and comments of the old one, and for each index of range ``r`` and tile size
``t`` an index of range ``ceil(r / t)``. The inner block has an index of range ``min(r, t)`` in its place, and holds
the statements, constraints and allocations. Where ``t`` does not divide ``r``, the constraint
``r - 1 - t·outer - inner >= 0`` drops the points past the end. This is ApplyTile of PlaidML's Stripe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.core.names import NameScope
from tileir.core.rewrite import rewritten
from tileir.passes.base import selected, with_kernels
from tileir.passes.reindex import moved, reindexed
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Dim, Direction, Index, LoadIndex, Tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tileir.stripe.ir import Program, Refinement, Statement


def _positive(_: object, __: attrs.Attribute[tuple[int, ...]], sizes: tuple[int, ...]) -> None:
    if any(size < 1 for size in sizes):
        raise ValueError("sizes must be at least 1")


@attrs.frozen
class Tile:
    """Split blocks into tiles of fixed sizes, the last ones cut off where a size does not divide a range.

    Attributes:
        sizes: Points of a tile along each index of the block, in order; none: do nothing.
        reqs: Tags that a block must carry; the first ones that do on the way from a kernel inwards are split.
        outer_set: Tags to add to the blocks over tiles.
        inner_set: Tags of the blocks over the points of a tile.
    """

    name: ClassVar[str] = "tile"
    sizes: tuple[int, ...] = attrs.field(default=(), validator=_positive)
    reqs: tuple[str, ...] = ()
    outer_set: tuple[str, ...] = ()
    inner_set: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split.

        Raises:
            TileError: TIL543, a selected block has another number of indices than ``sizes`` has entries.
        """
        if not self.sizes:
            return program
        faults: list[Diagnostic] = []
        kernels = rewritten(program.main.statements, lambda statement: (self._split(statement, faults),))
        if faults:
            raise TileError(faults)
        return with_kernels(program, kernels)

    def _split(self, statement: Statement, faults: list[Diagnostic]) -> Statement:
        """Split a block, or those inside it if it is not selected."""
        if not isinstance(statement, Block):
            return statement
        if not selected(statement, self.reqs):
            inner = rewritten(statement.statements, lambda nested: (self._split(nested, faults),))
            return statement if inner is statement.statements else attrs.evolve(statement, statements=inner, deps=())
        if len(statement.indices) != len(self.sizes):
            names = ", ".join(index.name for index in statement.indices) or "none"
            message = (
                f"pass tile: block {statement.name!r} has {len(statement.indices)} indices ({names}), but sizes has"
                f" {len(self.sizes)}: give one size for each, or choose other blocks by reqs"
            )
            faults.append(Diagnostic("TIL543", message))
            return statement
        return tiled(statement, self.sizes, self.outer_set, self.inner_set)


def tiled(block: Block, sizes: Sequence[int], outer_set: Iterable[str] = (), inner_set: Iterable[str] = ()) -> Block:
    """Return ``block`` over tiles of ``sizes``, one for each index.

    An index whose value comes from the parent is not split: it stays outside, and is handed on where it is needed.
    """
    steps = tuple(size if index.affine is None else 1 for index, size in zip(block.indices, sizes, strict=True))
    outer = tuple(
        attrs.evolve(index, range=-(-index.range // step)) for index, step in zip(block.indices, steps, strict=True)
    )
    widths = {i.name: min(i.range, step) for i, step in zip(block.indices, steps, strict=True) if i.affine is None}
    return attrs.evolve(
        block,
        indices=outer,
        constraints=(),
        refinements=tuple(
            _grown(view, dict(zip((i.name for i in block.indices), steps, strict=True)), widths)
            for view in block.refinements
            if view.direction is not Direction.NONE
        ),
        statements=(_inner(block, steps, widths, Tags.of(*inner_set)),),
        location=() if any(unit.indices for device in block.location for unit in device.units) else block.location,
        tags=block.tags.add(*outer_set),
        deps=(),
    )


def _grown(view: Refinement, steps: Mapping[str, int], widths: Mapping[str, int]) -> Refinement:
    """Return the view of a whole tile, which starts at the least element that a point of the tile touches.

    Units that indices choose are named by the view of a point, inside.
    """
    access, dims = [], []
    for affine, dim in zip(view.access, view.shape.dims, strict=True):
        low, high = _reach(affine, widths)
        access.append(Affine.of({name: c * steps[name] for name, c in affine.terms}, affine.offset + low))
        dims.append(Dim(dim.size + high - low if dim.size else 0, dim.stride))
    units = [unit for device in view.location for unit in device.units]
    return attrs.evolve(
        view,
        access=tuple(access),
        shape=attrs.evolve(view.shape, dims=tuple(dims)),
        location=() if any(unit.indices for unit in units) else view.location,
        cache_unit=None if view.cache_unit is None or view.cache_unit.indices else view.cache_unit,
    )


def _reach(affine: Affine, widths: Mapping[str, int]) -> tuple[int, int]:
    """Return how far an access moves down and up over the points of one tile."""
    moves = [int(c) * (widths[name] - 1) for name, c in affine.terms if name in widths]
    return sum(min(0, move) for move in moves), sum(max(0, move) for move in moves)


def _inner(block: Block, steps: Sequence[int], widths: Mapping[str, int], tags: Tags) -> Block:
    """Return the block over the points of one tile."""
    names = NameScope.of(index.name for index in block.indices)
    absolute: dict[str, Affine] = {}
    ends: list[Affine] = []
    needed = _observed(block)
    indices: list[Index] = []
    passed: list[Index] = []
    for index, step in zip(block.indices, steps, strict=True):
        if index.affine is not None:
            passed.append(Index(index.name, 1, Affine.index(index.name)))
            continue
        indices.append(Index(index.name, widths[index.name]))
        cut = index.range % widths[index.name] != 0 if index.range else False
        if cut or index.name in needed:
            number = Index(names.fresh(f"{index.name}_tile"), 1, Affine.index(index.name))
            passed.append(number)
            absolute[index.name] = Affine.index(index.name) + Affine.index(number.name) * step
        if cut:
            ends.append(index.range - 1 - absolute[index.name])
    inside = reindexed(attrs.evolve(block, refinements=()), (*indices, *passed), absolute)
    return attrs.evolve(
        inside,
        constraints=(*inside.constraints, *ends),
        refinements=tuple(_point(view, widths, absolute) for view in block.refinements),
        comments=(),
        tags=tags,
        deps=(),
    )


def _point(view: Refinement, widths: Mapping[str, int], absolute: Mapping[str, Affine]) -> Refinement:
    """Return the view of one point in the view of its tile; an allocation is made for each point as before."""
    if view.direction is Direction.NONE:
        return moved(view, absolute)
    access = []
    for affine in view.access:
        inside = {name: c for name, c in affine.terms if name in widths}
        access.append(Affine.of(inside, -_reach(affine, widths)[0]))
    return attrs.evolve(moved(view, absolute), source=view.name, access=tuple(access))


def _observed(block: Block) -> frozenset[str]:
    """Return the indices whose values are looked at, not only the places that they lead to."""
    affines = list(block.constraints)
    for statement in block.statements:
        if isinstance(statement, LoadIndex):
            affines.append(statement.affine)
        elif isinstance(statement, Block):
            affines.extend(index.affine for index in statement.indices if index.affine is not None)
    for location in (block.location, *(view.location for view in block.refinements)):
        affines.extend(unit for device in location for unit in device.units)
    affines.extend(view.cache_unit for view in block.refinements if view.cache_unit is not None)
    return frozenset(name for affine in affines for name in affine.indices)
