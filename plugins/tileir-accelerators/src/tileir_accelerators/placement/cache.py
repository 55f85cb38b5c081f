"""Caching of a block's views in separate memory: packed, in another order, or padded against bank conflicts.

A view ``X`` becomes ``X_raw``, beside an allocation ``X`` with its content. Copy blocks fill the allocation before the
statements of the block (``load_X``), or write it back afterwards (``store_X``); sums start from the identity in it
(``init_X``), and the store merges them with the previous content. This is the cache pass of PlaidML's Stripe.

Only views for which copies change nothing may be cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tileir.core import NameScope, attrs, rewritten
from tileir.passes.analysis.places import Level, keeps_axes
from tileir.passes.base import selected, selected_kernel, unordered, with_kernels
from tileir.passes.kernels.walk import refitted
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.coverage import always_hit, covers
from tileir.stripe.check.views import has_constraints
from tileir.stripe.ir import (
    Block,
    Direction,
    Load,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    views_read,
    views_written,
)
from tileir_accelerators.placement.cache_blocks import Copies, packed_shape
from tileir_accelerators.placement.locate import Place, location


def may_cache(level: Level, view: Refinement, *, tests: bool) -> bool:
    """Return whether ``view`` of the block at ``level`` may be cached; ``tests`` allows bounds tests in copies."""
    block = level.block
    root = level.root(view)
    others = [r for r in block.refinements if r is not view and level.root(r) == root]
    if any(r.direction.writes or view.direction.writes for r in others):
        return False
    if not view.shape.dims or 0 in view.shape.sizes or not _keeps_axes(block, view):
        return False
    if not _stays_inside(level, view) and (not tests or level.place(view) is None):
        return False
    merges = view.merges
    if merges and (_is_read(block, view.name) or _has_specials(block, view.name)):
        return False
    return not view.direction.writes or (merges and view.direction is Direction.INOUT) or _is_covered(level, view)


def _keeps_axes(block: Block, view: Refinement) -> bool:
    """Return whether all views of ``view`` in nested blocks have its axes, so that its strides can change."""
    return all(
        keeps_axes(inner, r, view) and r.bank_dim is None and _keeps_axes(inner, r)
        for inner in block.blocks
        for r in inner.refinements
        if r.direction is not Direction.NONE and r.source == view.name
    )


def _stays_inside(level: Level, view: Refinement) -> bool:
    """Return whether the whole view is inside the tensor at every point of the box."""
    place = level.place(view)
    if place is None:
        return not _has_tests(level)
    for start, extent, size in zip(place.access, view.shape.sizes, place.sizes, strict=True):
        low, high = start.bounds(level.counters)
        if low < 0 or high + extent > size:
            return False
    return True


def _has_tests(level: Level | None) -> bool:
    """Return whether constraints may exclude points, in the block, around it or inside it."""
    if level is not None and has_constraints(level.block):
        return True
    while level is not None:
        if level.block.constraints:
            return True
        level = level.parent
    return False


def _is_read(block: Block, name: str) -> bool:
    """Return whether some statement in or below a block loads through the view ``name``."""
    for statement in block.statements:
        match statement:
            case Block():
                if any(_is_read(statement, r.name) for r in statement.refinements if r.source == name):
                    return True
            case Load(source=source) if source == name:
                return True
    return False


def _has_specials(block: Block, name: str) -> bool:
    """Return whether a special uses the view ``name``, in or below a block."""
    for statement in block.statements:
        if isinstance(statement, Special) and name in (*views_read(statement), *views_written(statement)):
            return True
        if isinstance(statement, Block):
            below = [r.name for r in statement.refinements if r.source == name]
            if any(_has_specials(statement, inner) for inner in below):
                return True
    return False


def _is_covered(level: Level, view: Refinement) -> bool:
    """Return whether each point of the block stores every element of the view that lies inside the tensor.

    Only one chain of blocks may write it, down to a single store. Its constraints may exclude elements outside the
    tensor, and some but not all points that store an element.
    """
    place = level.place(view)
    store = _storing(level, view.name)
    if store is None:
        return False
    inner, name = store
    element = inner.place(inner.block.refinement(name))
    if place is None or element is None:
        return False
    steps = tuple(a - b for a, b in zip(element.access, place.access, strict=True))
    ranges = {name: size for name, size in inner.counters.items() if name not in level.counters}
    moving = {name: None for step in steps for name in step.indices}
    if any(name not in ranges for name in moving):
        return False
    outside = {limit for limits in _limits(element.access, element.sizes) for limit in limits}
    tests = tuple(c for c in _constraints_between(level, inner) if c not in outside)
    if not always_hit(Domain(tuple(inner.counters.items()), (), tests), (*level.counters, *moving)):
        return False
    return covers(Domain(tuple(ranges.items()), (steps,), ()), view.shape.sizes)


def _constraints_between(outer: Level, inner: Level) -> Iterator[Affine]:
    """Yield the constraints of a block and of its ancestors inside ``outer``."""
    while inner is not outer and inner.parent is not None:
        yield from inner.constraints()
        inner = inner.parent


def _limits(access: tuple[Affine, ...], sizes: tuple[int, ...]) -> Iterator[tuple[Affine, Affine]]:
    for affine, size in zip(access, sizes, strict=True):
        yield affine, size - 1 - affine


def _storing(level: Level, name: str) -> tuple[Level, str] | None:
    """Return the level of the only store to a view, and the name of the view there; None without a single store."""
    writers = [s for s in level.block.statements if name in views_written(s)]
    if len(writers) != 1:
        return None
    match writers[0]:
        case Store(index=None):
            return level, name
        case Block() as block:
            below = [r for r in block.refinements if r.source == name and r.direction.writes]
            return None if len(below) != 1 else _storing(Level(block, level), below[0].name)
        case _:
            return None


_DIRECTIONS = {direction.value: direction for direction in (Direction.IN, Direction.OUT, Direction.INOUT)}


def _known(_: object, __: attrs.Attribute[tuple[str, ...]], dirs: tuple[str, ...]) -> None:
    if any(name not in _DIRECTIONS for name in dirs):
        raise ValueError("dirs are among in, out and inout")


def _factor(_: object, __: attrs.Attribute[float], limit: float) -> None:
    if not limit >= 1:
        raise ValueError("odd_limit must be at least 1")


@attrs.frozen
class Cache:
    """Cache views of blocks that hold other blocks, with copies before and after.

    A view is left alone if a copy could change the meaning: if some of its elements may not be written, or if it
    aliases another view.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel are processed.
        ref: Name of the view; empty for all views of more than one element.
        dirs: Directions of the views to cache: ``in``, ``out`` and ``inout``.
        mem_loc: The memory, such as ``LOCAL`` or ``SCRATCH``; if empty, the device chooses.
        xfer_loc: Location of the copy blocks, such as ``DMA``.
        order: Axes of the view in memory, from slowest to fastest; if empty, their original order.
        odd_size: Whether to make strides odd, which avoids bank conflicts of columns.
        odd_limit: Maximum growth of memory by odd strides, as a factor; views that exceed it are packed.
        add_constraints: Whether copies check the bounds of the tensor; if not, views that may exceed them are left
            alone.
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
        """Return the program with the chosen views cached."""
        main = Level(program.main)

        def cached(kernel: Statement) -> tuple[Statement, ...]:
            here = isinstance(kernel, Block) and selected_kernel(kernel, self.reqs)
            return (self._descend(kernel, main, here=here),)

        return with_kernels(program, rewritten(program.main.statements, cached))

    def _descend(self, statement: Statement, parent: Level, *, here: bool) -> Statement:
        """Return a statement with copies in the first matching blocks; ``here`` in this one."""
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
        """Return the block with ``views`` cached."""
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
