"""Which views of a block may be kept in memory of their own: those for which copies change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.passes.analysis.places import Level, keeps_axes
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.coverage import always_hit, covers
from tileir.stripe.ir import Block, Direction, Load, Special, Store, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.stripe.ir import Refinement


def may_cache(level: Level, view: Refinement, *, tests: bool) -> bool:
    """Return whether ``view`` of the block at ``level`` may be cached; ``tests`` whether copies may test bounds."""
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
    if not view.direction.writes or (merges and view.direction is Direction.INOUT):
        return True
    return _is_covered(level, view)


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
    """Return whether constraints may keep points from running, in the block, around it or inside it."""
    inside = [] if level is None else [level.block]
    while inside:
        block = inside.pop()
        if block.constraints:
            return True
        inside.extend(block.blocks)
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
            case _:
                pass
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

    Only one chain of blocks may write it, down to a single store. Its constraints may turn elements outside the tensor
    away, and some but not all points that store an element.
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
    """Yield the constraints of a block, and of those around it up to ``outer``, whose own are left out."""
    while inner is not outer and inner.parent is not None:
        yield from inner.constraints()
        inner = inner.parent


def _limits(access: tuple[Affine, ...], sizes: tuple[int, ...]) -> Iterator[tuple[Affine, Affine]]:
    for affine, size in zip(access, sizes, strict=True):
        yield affine, size - 1 - affine


def _storing(level: Level, name: str) -> tuple[Level, str] | None:
    """Return the level of the one store to a view, and what the view is called there; None where it is no such."""
    writers = [s for s in level.block.statements if name in views_written(s)]
    if len(writers) != 1:
        return None
    match writers[0]:
        case Store(index=None):
            return level, name
        case Block() as block:
            below = [r for r in block.refinements if r.source == name and r.direction.writes]
            if len(below) != 1:
                return None
            return _storing(Level(block, level), below[0].name)
        case _:
            return None
