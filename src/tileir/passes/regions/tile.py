"""Tiling of blocks: a block over tile numbers, around a block over the points of one tile.

The outer block keeps the name, tags and comments of the old one, and for each index of range ``r`` and tile size
``t`` an index of range ``ceil(r / t)``. The inner block has an index of range ``min(r, t)`` in its place, and holds
the statements, constraints and allocations. If ``t`` does not divide ``r``, the constraint
``r - 1 - t·outer - inner >= 0`` drops the points past the end. Interleaved tiles hold every ``ceil(r / t)``-th point
instead of ``t`` neighbours. This is ApplyTile of PlaidML's Stripe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tileir.core import Diagnostic, NameScope, TileError, attrs
from tileir.passes.analysis.accesses import observed_indices
from tileir.passes.base import free_tags, map_blocks
from tileir.poly.affine import Affine
from tileir.schedule.reindex import moved, reindexed
from tileir.stripe.ir import Block, Dim, Direction, Index, Program, Refinement, Tags


def _positive(_: object, __: attrs.Attribute[tuple[int, ...]], sizes: tuple[int, ...]) -> None:
    if any(size < 1 for size in sizes):
        raise ValueError("sizes must be at least 1")


@attrs.frozen
class Tile:
    """Split blocks into tiles of fixed sizes; the last tile is partial if a size does not divide a range.

    Attributes:
        sizes: Points of a tile along each index of the block, in order; without sizes, the pass does nothing.
        reqs: Tags that a block must carry; the outermost such blocks of a kernel are split.
        outer_set: Tags to add to the blocks over tiles.
        inner_set: Tags of the blocks over the points of a tile.
        copy_set: Tags, with their values, that the inner blocks inherit from the original blocks.
        interleaved: Whether the points of a tile are strided by the number of tiles, instead of contiguous.
    """

    name: ClassVar[str] = "tile"
    sizes: tuple[int, ...] = attrs.field(default=(), validator=_positive)
    reqs: tuple[str, ...] = ()
    outer_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    copy_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    interleaved: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split.

        Raises:
            TileError: TIL543, a selected block has another number of indices than ``sizes`` has entries.
        """
        if not self.sizes:
            return program
        faults: list[Diagnostic] = []
        result = map_blocks(program, lambda block: self._split(block, faults), self.reqs)
        if faults:
            raise TileError(faults)
        return result

    def _split(self, block: Block, faults: list[Diagnostic]) -> Block:
        if len(block.indices) != len(self.sizes):
            names = ", ".join(index.name for index in block.indices) or "none"
            message = (
                f"pass tile: block {block.name!r} has {len(block.indices)} indices ({names}), but sizes has"
                f" {len(self.sizes)}: give one size for each, or choose other blocks by reqs"
            )
            faults.append(Diagnostic("TIL543", message))
            return block
        inner = taken(block.tags, self.copy_set).add(*self.inner_set)
        return tiled(block, self.sizes, self.outer_set, inner, interleaved=self.interleaved)


def taken(tags: Tags, names: Iterable[str]) -> Tags:
    """Return those of ``tags`` whose names are among ``names``."""
    wanted = frozenset(names)
    return Tags(tuple(item for item in tags.items if item[0] in wanted))


@attrs.frozen(repr=False)
class _Split:
    """Split of one index into ``count`` tiles of ``width`` points."""

    index: Index
    width: int
    count: int
    interleaved: bool

    @property
    def outer(self) -> int:
        """Distance between the first points of neighbouring tiles."""
        return 1 if self.interleaved else self.width

    @property
    def inner(self) -> int:
        """Distance between neighbouring points of a tile."""
        return self.count if self.interleaved else 1

    @property
    def is_cut(self) -> bool:
        """True if tiles extend beyond the range."""
        return self.width * self.count != self.index.range


def tiled(
    block: Block,
    sizes: Sequence[int],
    outer_set: Iterable[str] = (),
    inner_tags: Tags = Tags(),  # noqa: B008 - an immutable value
    *,
    interleaved: bool = False,
) -> Block:
    """Return ``block`` over tiles of ``sizes``, one for each index.

    An index whose value comes from the parent is not split: it stays outside, and is passed on as needed.
    """
    splits: dict[str, _Split] = {}
    for index, size in zip(block.indices, sizes, strict=True):
        if index.affine is None:
            width = max(1, min(index.range, size))
            splits[index.name] = _Split(index, width, -(-index.range // width), interleaved)
    outer = tuple(attrs.evolve(i, range=splits[i.name].count) if i.name in splits else i for i in block.indices)
    return attrs.evolve(
        block,
        indices=outer,
        constraints=(),
        refinements=tuple(_grown(view, splits) for view in block.refinements if view.direction is not Direction.NONE),
        statements=(_inner(block, splits, inner_tags),),
        location=() if any(unit.indices for device in block.location for unit in device.units) else block.location,
        tags=block.tags.add(*outer_set),
        deps=(),
    )


def _grown(view: Refinement, splits: Mapping[str, _Split]) -> Refinement:
    """Return the view of a whole tile, which starts at the least element that a point of the tile accesses.

    Units selected by indices are in the view of a point, inside.
    """
    access, dims = [], []
    for affine, dim in zip(view.access, view.shape.dims, strict=True):
        low, high = _reach(affine, splits)
        steps = {name: splits[name].outer if name in splits else 1 for name in affine.indices}
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


def _reach(affine: Affine, splits: Mapping[str, _Split]) -> tuple[int, int]:
    """Return how far an access moves down and up over the points of one tile."""
    moves = [int(c) * splits[n].inner * (splits[n].width - 1) for n, c in affine.terms if n in splits]
    return sum(min(0, move) for move in moves), sum(max(0, move) for move in moves)


def _inner(block: Block, splits: Mapping[str, _Split], tags: Tags) -> Block:
    names = NameScope.of(index.name for index in block.indices)
    absolute: dict[str, Affine] = {}
    ends: list[Affine] = []
    needed = observed_indices(block)
    indices: list[Index] = []
    passed: list[Index] = []
    for index in block.indices:
        split = splits.get(index.name)
        if split is None:
            passed.append(Index(index.name, 1, Affine.index(index.name)))
            continue
        indices.append(Index(index.name, split.width))
        if split.is_cut or index.name in needed:
            number = Index(names.fresh(f"{index.name}_tile"), 1, Affine.index(index.name))
            passed.append(number)
            place = Affine.of({index.name: split.inner, number.name: split.outer})
            absolute[index.name] = place
            if split.is_cut:
                ends.append(index.range - 1 - place)
    inside = reindexed(attrs.evolve(block, refinements=()), (*indices, *passed), absolute)
    return attrs.evolve(
        inside,
        constraints=(*inside.constraints, *ends),
        refinements=tuple(_point(view, splits, absolute) for view in block.refinements),
        comments=(),
        tags=tags,
        instruction=None,
        deps=(),
    )


def _point(view: Refinement, splits: Mapping[str, _Split], absolute: Mapping[str, Affine]) -> Refinement:
    """Return the view of one point in the view of its tile; an allocation still is for each point."""
    if view.direction is Direction.NONE:
        return moved(view, absolute)
    access = []
    for affine in view.access:
        inside = {name: c * splits[name].inner for name, c in affine.terms if name in splits}
        access.append(Affine.of(inside, -_reach(affine, splits)[0]))
    return attrs.evolve(moved(view, absolute), source=view.name, access=tuple(access))
