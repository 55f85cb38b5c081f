"""Keep what a block touches in memory of its own: packed, in another order, or padded against bank conflicts.

A view ``X`` becomes ``X_raw``, beside an allocation ``X`` of what it showed. Copy blocks fill the allocation before the
statements of the block (``load_X``), or take what they wrote from there afterwards (``store_X``); sums start from
nothing in it (``init_X``), and the store merges them with what was there. This is the cache pass of PlaidML's Stripe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.rewrite import rewritten
from tileir.core.text.names import NameScope
from tileir.passes.analysis.places import Level
from tileir.passes.base import selected, selected_kernel, unordered, with_kernels
from tileir.passes.placement.cache_blocks import Copies, packed_shape, refitted
from tileir.passes.placement.cache_rules import may_cache
from tileir.passes.placement.locations import Place, location
from tileir.stripe.ir import Block, Direction

if TYPE_CHECKING:
    from tileir.stripe.ir import Program, Refinement, Statement

_DIRECTIONS = {direction.value: direction for direction in (Direction.IN, Direction.OUT, Direction.INOUT)}


def _known(_: object, __: attrs.Attribute[tuple[str, ...]], dirs: tuple[str, ...]) -> None:
    if any(name not in _DIRECTIONS for name in dirs):
        raise ValueError("dirs are among in, out and inout")


def _factor(_: object, __: attrs.Attribute[float], limit: float) -> None:
    if not limit >= 1:
        raise ValueError("odd_limit must be at least 1")


@attrs.frozen
class Cache:
    """Keep views of blocks that hold other blocks in memory of their own, with copies before and after.

    A view stays where a copy could change the meaning: one whose elements are not surely all written, or that shows the
    same memory as another one.

    Attributes:
        reqs: Tags that a block must carry; the first ones that do on the way from a kernel inwards are looked at.
        ref: The name of the view; empty for all of more than one element.
        dirs: The directions of views to keep, of ``in``, ``out`` and ``inout``.
        mem_loc: The memory, such as ``LOCAL`` or ``SCRATCH``; with none the device has the choice.
        xfer_loc: What copies, such as ``DMA``: the location of the copy blocks.
        order: Axes of the view from the slowest to the fastest in the memory; none for the order that they have.
        odd_size: Whether distances along axes are made odd, so that columns are spread over the banks of a memory.
        odd_limit: At most so many times the memory for that; views that it takes more for are packed.
        add_constraints: Whether copies test that they stay inside the tensor; else views that may hang over stay.
    """

    name: ClassVar[str] = "cache"
    reqs: tuple[str, ...] = ()
    ref: str = ""
    dirs: tuple[str, ...] = attrs.field(default=("in", "out", "inout"), validator=_known)
    mem_loc: tuple[Place, ...] = ()
    xfer_loc: tuple[Place, ...] = ()
    order: tuple[int, ...] = ()
    odd_size: bool = False
    odd_limit: float = attrs.field(default=2.0, validator=_factor)
    add_constraints: bool = True

    def __call__(self, program: Program) -> Program:
        """Return the program with the chosen views in memory of their own."""
        main = Level(program.main)

        def cached(kernel: Statement) -> tuple[Statement, ...]:
            here = isinstance(kernel, Block) and selected_kernel(kernel, self.reqs)
            return (self._descend(kernel, main, here=here),)

        return with_kernels(program, rewritten(program.main.statements, cached))

    def _descend(self, statement: Statement, parent: Level, *, here: bool) -> Statement:
        """Return a statement with copies in the first blocks that are selected; ``here`` in this one."""
        if not isinstance(statement, Block):
            return statement
        level = Level(statement, parent)
        if here:
            block = self._cached(level)
        else:
            inner = rewritten(statement.statements, lambda s: (self._inside(s, level),))
            changed = inner is not statement.statements
            block = attrs.evolve(statement, statements=unordered(inner), deps=()) if changed else statement
        if not level.passed:
            return block
        return attrs.evolve(block, indices=(*block.indices, *level.passed))

    def _inside(self, statement: Statement, level: Level) -> Statement:
        here = isinstance(statement, Block) and selected(statement, self.reqs)
        return self._descend(statement, level, here=here)

    def _cached(self, level: Level) -> Block:
        block = level.block
        if not block.blocks:
            return block
        views = [r for r in block.refinements if self._wanted(r) and may_cache(level, r, tests=self.add_constraints)]
        return self._with_copies(level, views) if views else block

    def _wanted(self, view: Refinement) -> bool:
        if view.direction is Direction.NONE or view.direction.value not in self.dirs or "cached" in view.tags:
            return False
        return view.name == self.ref if self.ref else view.shape.elements > 1

    def _with_copies(self, level: Level, views: list[Refinement]) -> Block:
        """Return the block with ``views`` in memory of their own."""
        block = level.block
        names = NameScope.of(r.name for r in block.refinements)
        before: list[Statement] = []
        after: list[Statement] = []
        raws: dict[str, Refinement] = {}
        fresh: dict[str, Refinement] = {}
        for view in views:
            raw = attrs.evolve(view, name=names.fresh(f"{view.name}_raw"), tags=view.tags.add("cached"))
            shape = packed_shape(view, self.order, self.odd_limit if self.odd_size else 0.0)
            zero = tuple(affine * 0 for affine in view.access)
            own = attrs.evolve(
                view,
                direction=Direction.NONE,
                source="",
                access=zero,
                shape=shape,
                aggregation=None,
                location=location(self.mem_loc, block),
                cache_unit=None,
                bank_dim=None,
            )
            copies = Copies(level, view, raw, own, location(self.xfer_loc, block))
            before.extend(copies.before())
            after.extend(copies.after())
            raws[view.name], fresh[view.name] = raw, own
        statements = tuple(refitted(s, fresh) for s in block.statements)
        return attrs.evolve(
            block,
            refinements=(*(raws.get(r.name, r) for r in block.refinements), *fresh.values()),
            statements=(*before, *statements, *after),
            deps=(),
        )
