"""Elements of a view that a statement certainly writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import always_reached
from tileir.poly.affine import Affine
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import enter
from tileir.stripe.check.views import same_axes
from tileir.stripe.ir import Block, Special, Statement, Store


@attrs.frozen(eq=False, repr=False)
class _WrittenElements:
    """Elements that one statement writes where its constraints hold: a box for each point."""

    start: tuple[Affine, ...]
    sizes: tuple[int, ...]
    constraints: tuple[Affine, ...]
    ranges: Mapping[str, int]


def edges(aliases: Aliases, name: str) -> tuple[tuple[Affine, int], ...] | None:
    """Return the offset of a block's view in its memory along each axis, and the extent of that memory.

    The affines are over indices named ``depth:index``, like :class:`tileir.stripe.aliases.Aliases`. None if axes differ
    between views, so that places have no common axes.
    """
    view = aliases.view(name)
    if view is None or view.start is None or not same_axes(view.refinement, view.root):
        return None
    return tuple(zip(view.start, view.root.shape.sizes, strict=True))


def overhangs(aliases: Aliases, name: str) -> tuple[int, ...]:
    """Return the axes along which a view may exceed its memory."""
    places = edges(aliases, name)
    if places is None:
        return ()
    dims = aliases.scope.views[name].shape.dims
    reach = [(*start.bounds(aliases.ranges), dim.size, size) for (start, size), dim in zip(places, dims, strict=True)]
    return tuple(axis for axis, (low, high, own, size) in enumerate(reach) if low < 0 or high + own > size)


def stores_all(aliases: Aliases, statement: Statement, name: str, optional: Sequence[str] = ()) -> bool:
    """Return whether a statement certainly writes every element of a view of the enclosing block.

    Elements beyond the bounds of the memory do not count. For the indices ``optional`` of enclosing blocks, named
    ``depth:index``, some values have to suffice. False may mean unknown.
    """
    view = aliases.view(name)
    if view is None or view.start is None:
        return False
    sizes = view.refinement.shape.sizes
    places = edges(aliases, name) if overhangs(aliases, name) else None
    inside = () if places is None else tuple((start, size) for start, size in places)
    return any(
        _fills(written, view.start, sizes, inside, aliases.ranges, optional)
        for written in _writes(aliases, statement, name, ())
    )


def _writes(
    aliases: Aliases, statement: Statement, name: str, constraints: tuple[Affine, ...]
) -> Iterator[_WrittenElements]:
    """Yield a statement's writes through a view, path by path; nesting, and so recursion, is bounded."""
    match statement:
        case Store(into=into, index=None) if into == name:
            yield from _written(aliases, name, constraints, whole=False)
        case Special(name="copy" | "fill" | "transpose" | "zero", outputs=outputs) if name in outputs:
            yield from _written(aliases, name, constraints, whole=True)
        case Block():
            inner = Aliases(enter(statement, aliases.scope, 0), aliases)
            own = tuple(c.substitute(inner.values) for c in statement.constraints)
            for refinement in statement.refinements:
                if refinement.source == name and refinement.direction.writes:
                    for nested in statement.statements:
                        yield from _writes(inner, nested, refinement.name, (*constraints, *own))
        case _:
            return


def _written(
    aliases: Aliases, name: str, constraints: tuple[Affine, ...], *, whole: bool
) -> Iterator[_WrittenElements]:
    view = aliases.view(name)
    if view is not None and view.start is not None:
        sizes = view.refinement.shape.sizes
        yield _WrittenElements(view.start, sizes if whole else (1,) * len(sizes), constraints, aliases.ranges)


def _fills(
    written: _WrittenElements,
    corner: Sequence[Affine],
    sizes: Sequence[int],
    inside: Sequence[tuple[Affine, int]],
    outer: Mapping[str, int],
    optional: Sequence[str],
) -> bool:
    """Return whether the written boxes cover the box of ``sizes`` at ``corner``, as far as that is ``inside``."""
    if len(written.start) != len(corner):
        return False
    places = [start - base for start, base in zip(written.start, corner, strict=True)]
    moving = [name for place in places for name in place.indices]
    if any(name in outer for name in moving) or len(set(moving)) < len(moving):
        return False
    axes = zip(places, written.sizes, sizes, strict=True)
    if not all(_fills_axis(place, own, size, written.ranges) for place, own, size in axes):
        return False
    inner = zip(inside, places, strict=False)
    kept = [bound for (start, size), place in inner for bound in _bounds_of(start + place, size)]
    free = {name: count for name, count in written.ranges.items() if name not in outer and name not in moving}
    free.update((name, outer[name]) for name in optional if name in outer)
    fixed = {name: count for name, count in written.ranges.items() if name not in free}
    return always_reached(written.constraints, fixed, free, kept)


def _fills_axis(place: Affine, own: int, size: int, ranges: Mapping[str, int]) -> bool:
    """Return whether boxes of ``own`` elements at the values of ``place`` leave no gap in [0, size)."""
    if place.bounds(ranges)[0] != 0:
        return False
    reach = own
    for step, count in sorted((abs(int(c)), ranges[name]) for name, c in place.terms):
        if step > reach:
            return False
        reach += step * (count - 1)
    return reach >= size


def _bounds_of(start: Affine, size: int) -> tuple[Affine, Affine]:
    return start, size - 1 - start
