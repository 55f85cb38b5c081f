"""Tiling of blocks by a cost model: tiles fit a memory, and use it well."""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core import Target, attrs
from tileir.passes.base import at_least, free_tags, map_blocks
from tileir.passes.regions.tile import tiled
from tileir.stripe.ir import Block, Program, Tags
from tileir_accelerators.placement.locate import Place, location, memory_of
from tileir_accelerators.tiling.search import TileChoice, best_tiles

_UNKNOWN_BYTES: Final = 32 * 1024
"""Size of memories unknown to the hardware model."""

_MOST_SPLIT = 16
"""Maximum number of indices of tiled blocks: the search looks at pairs of them."""


def _positive(_: object, __: attrs.Attribute[tuple[tuple[int, ...], ...]], tiles: tuple[tuple[int, ...], ...]) -> None:
    if any(size < 1 for sizes in tiles for size in sizes):
        raise ValueError("the sizes of candidates must be at least 1")


@attrs.frozen
class Autotile:
    """Split blocks into the cheapest tiles.

    Costs are those of :mod:`tileir_accelerators.tiling.search`. Limits are in bytes, elements or tiles; 0 is no limit.
    A block whose cheapest tile is the whole block is left alone.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel are split.
        outer_set: Tags to add to the blocks over tiles.
        inner_set: Tags of the blocks over the points of a tile.
        only_po2: Whether sizes must be powers of two.
        only_even: Whether sizes must divide their ranges.
        only_multiples: Divisor of sizes, except those of whole ranges.
        memory: The memory that must hold a tile; views of a tile without a location are placed there. None: no
            location.
        memory_bytes: Size of that memory. None: its size in the hardware model; without a name, the size of the local
            memory of a group, or of the innermost cache. 32 KiB if unknown.
        pipeline_depth: Number of tiles in the memory at a time.
        max_total_size: Maximum footprint of a tile in bytes.
        max_output_size: Maximum bytes of results of a tile.
        max_input_size: Maximum bytes of inputs of a tile.
        max_sizes_product: Maximum number of points of a tile.
        max_count: Maximum number of tiles.
        min_size: Sufficient number of points of a tile; smaller tiles cost more.
        min_out_size: Sufficient number of points along indices of results; smaller tiles cost more.
        min_count: Sufficient number of tiles; fewer cost more.
        min_out_count: Sufficient number of tiles along indices of results; fewer cost more.
        input_cost: Cost of a cache line of inputs, in points.
        output_cost: Cost of a cache line of results, in points.
        split_factor: Cost of doubling the number of tiles; negative values favour many tiles.
        cache_width: Size of a cache line in bytes.
        factor_bound: Maximum prime factor of favoured sizes; 0 for no preference.
        acc_idxs: Whether to split reductions as well; if not, each tile holds whole reductions.
        fast: Whether to search by hill climbing from the smallest tile instead of exhaustively.
        candidates: Tiles to choose from, each with a size for every index of a block; if empty, all tiles are searched.
        loc: The device that runs a tile, which is the location of the inner blocks; if empty, that of the block.
    """

    name: ClassVar[str] = "autotile"
    reqs: tuple[str, ...] = ()
    outer_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    only_po2: bool = False
    only_even: bool = False
    only_multiples: int = attrs.field(default=0, validator=at_least(0))
    memory: tuple[Place, ...] = ()
    memory_bytes: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    pipeline_depth: int = attrs.field(default=1, validator=at_least(1))
    max_total_size: int = attrs.field(default=0, validator=at_least(0))
    max_output_size: int = attrs.field(default=0, validator=at_least(0))
    max_input_size: int = attrs.field(default=0, validator=at_least(0))
    max_sizes_product: int = attrs.field(default=0, validator=at_least(0))
    max_count: int = attrs.field(default=0, validator=at_least(0))
    min_size: int = attrs.field(default=0, validator=at_least(0))
    min_out_size: int = attrs.field(default=0, validator=at_least(0))
    min_count: int = attrs.field(default=0, validator=at_least(0))
    min_out_count: int = attrs.field(default=0, validator=at_least(0))
    input_cost: float = 4.0
    output_cost: float = 8.0
    split_factor: float = 0.0
    cache_width: int = attrs.field(default=64, validator=at_least(1))
    factor_bound: int = attrs.field(default=0, validator=at_least(0))
    acc_idxs: bool = True
    fast: bool = False
    candidates: tuple[tuple[int, ...], ...] = attrs.field(default=(), validator=_positive)
    loc: tuple[Place, ...] = ()

    @property
    def room(self) -> int:
        """Bytes of memory for a tile; 0 for unlimited."""
        return _UNKNOWN_BYTES if self.memory_bytes is None else self.memory_bytes

    @property
    def memory_name(self) -> str:
        """Name of that memory, from the outermost device inwards; empty if it has none."""
        return "/".join(place.name for place in self.memory)

    def choices(self, block: Block, count: int) -> tuple[TileChoice, ...]:
        """Return up to ``count`` tiles of a block within all limits, cheapest first."""
        return best_tiles(block, self, count)

    def for_target(self, target: Target) -> Autotile:
        """Return the pass with the size of its memory in the hardware model, if none is given."""
        if self.memory_bytes is not None:
            return self
        if self.memory:
            unit = memory_of(self.memory, target)
            size = 0 if unit is None else unit.size_bytes
        else:
            size = target.local_bytes or next(iter(target.cache_bytes), 0)
        return attrs.evolve(self, memory_bytes=size) if size else self

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split if that pays."""
        return map_blocks(program, self._block, self.reqs)

    def _block(self, block: Block) -> Block:
        if not block.indices or len(block.indices) > _MOST_SPLIT:
            return block
        best = next(iter(self.choices(block, 1)), None)
        if best is None or all(s >= i.range for s, i in zip(best.sizes, block.indices, strict=True)):
            return block
        return self._placed(tiled(block, best.sizes, self.outer_set, Tags.of(*self.inner_set)))

    def _placed(self, outer: Block) -> Block:
        """Assign the device of the inner block, and the memory of its views."""
        (inner,) = outer.blocks
        if self.loc:
            inner = attrs.evolve(inner, location=location(self.loc, inner))
        if self.memory:
            where = location(self.memory, inner)
            views = tuple(r if r.location else attrs.evolve(r, location=where) for r in inner.refinements)
            inner = attrs.evolve(inner, refinements=views)
        return attrs.evolve(outer, statements=(inner,))
