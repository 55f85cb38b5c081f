"""Cut blocks into pieces that a micro-kernel computes: stencil matching, and a tile of the sizes that it found.

The inner block carries the tag ``stencil`` and the name of the stencil that it matches; its indices carry
``stencil_<name>`` for the parts that they play. A pass or a lowering that knows the micro-kernel of that name finds all
it needs there; for all others it is a block as any other.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from tileir.passes.base import at_least, free_tags, map_blocks
from tileir.passes.tiling.stencil import Match, Stencil, StencilIndex, best_match
from tileir.passes.tiling.tile import tiled
from tileir.stripe.ir import Block, Program, Tags

MATRIX_MULTIPLY: Final = Stencil(
    (
        StencilIndex("m", 4, (-1,), (-1, 0)),
        StencilIndex("n", 16, (-1,), (0, -1)),
        StencilIndex("k", -1, (0,), (-1, -1)),
    ),
    "matrix_multiply_accumulate",
)
"""An outer product for each value of ``k``: rows of the first input, columns of the second."""


@attrs.frozen
class Tensorise:
    """Split blocks by the sizes of the cheapest stencil that matches.

    Attributes:
        reqs: Tags that a block must carry; the first ones that do on the way from a kernel inwards are matched.
        outer_set: Tags to add to the blocks over tiles.
        inner_set: Tags of the blocks that a micro-kernel computes, beside ``stencil`` and the name of the stencil.
        stencils: The micro-kernels to choose from; see :class:`tileir.passes.tiling.stencil.Stencil`.
        startup_cost: What it takes to start a micro-kernel, in points of a block.
        strict: Whether sizes must divide the ranges.
    """

    name: ClassVar[str] = "tensorise"
    aliases: ClassVar[tuple[str, ...]] = ("tensorize",)
    reqs: tuple[str, ...] = ("agg_op_add", "comb_op_mul")
    outer_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    stencils: tuple[Stencil, ...] = (MATRIX_MULTIPLY,)
    startup_cost: int = attrs.field(default=32, validator=at_least(0))
    strict: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split where a stencil matches."""
        return map_blocks(program, self._block, self.reqs)

    def _block(self, block: Block) -> Block:
        if any("stencil" in inner.tags for inner in block.blocks):
            return block
        match = best_match(block, self.stencils, self.startup_cost, strict=self.strict)
        return block if match is None else _split(block, match, self)


def _split(block: Block, match: Match, options: Tensorise) -> Block:
    tags = Tags.of("stencil", *options.inner_set).add(*filter(None, (match.stencil.name,)))
    outer = tiled(block, match.sizes, options.outer_set, tags)
    (inner,) = outer.blocks
    parts = {name: f"stencil_{role.name}" for name, role in match.roles if role.name}
    indices = tuple(
        attrs.evolve(index, tags=index.tags.add(parts[index.name])) if index.name in parts else index
        for index in inner.indices
    )
    return attrs.evolve(outer, statements=(attrs.evolve(inner, indices=indices),))
