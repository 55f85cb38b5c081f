"""Deep halos: ranks compute some elements of their neighbours again, rather than to exchange them after each step.

A value that is read beyond the part of a rank is computed there, too, where the work costs less than the exchange; then
what it is made of is needed farther out. So several steps of a stencil take one exchange, of a halo as deep as all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import DType, attrs
from tileir.typed.ir import Contraction, Operation, Shape
from tileir.typed.sharding.exchanges import covered, kind_of, largest, target_of
from tileir.typed.sharding.needs import REPEATED
from tileir.typed.sharding.prices import Prices
from tileir.typed.sharding.splits import CollectiveKind, Layout, Split
from tileir.typed.sharding.spreading import Spread, may_border, needs_of_part, work_of

_MOST: Final = 128
"""Operations of one program that are tried: a program of a thousand is partitioned within seconds."""

_DEPTHS: Final = (1, 3, 7, 15, 31)
"""Exchanges that are saved one after the other, before there is one again; beside all of them."""


@attrs.frozen
class Layouts:
    """A program whose operations are spread by themselves.

    Attributes:
        operations: Those that are spread, in order.
        spreads: How each is.
        placed: The layouts of values.
        fixed: Values that are laid out as somebody asked.
        shapes: Those of all values.
        dtypes: The same.
        prices: Of work and exchanges.

    """

    operations: Sequence[Operation]
    spreads: Mapping[str, Spread]
    placed: Mapping[str, Layout]
    fixed: frozenset[str]
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, DType]
    prices: Prices


@attrs.frozen
class Deepened:
    """Operations that compute more than their part.

    Attributes:
        spreads: How each of them is spread.
        halos: What ranks get of the values that are exchanged, for all readers at once.
        seconds: The price of what is computed more, and of these exchanges.
        depth: How many exchanges are saved one after the other.
        saved: Seconds that they take less than exchanges of all that is read beyond a part.

    """

    spreads: Mapping[str, Spread]
    halos: Mapping[str, Layout]
    seconds: float
    depth: int
    saved: float = 0.0


def deepened(layouts: Layouts) -> Deepened:
    """Return the cheapest way to compute values where others read them; all readers of one share its halo."""
    plain, most = _to_depth(layouts, 0), _to_depth(layouts, len(layouts.operations))
    tried = [_to_depth(layouts, depth) for depth in _DEPTHS if depth < most.depth]
    best = min((plain, *tried, most), key=lambda each: each.seconds)
    return attrs.evolve(best, saved=plain.seconds - best.seconds)


def _to_depth(layouts: Layouts, depth: int) -> Deepened:
    """Return operations that compute more, so that so many exchanges are saved one after the other."""
    mesh, prices = layouts.prices.mesh, layouts.prices
    wider: dict[str, Layout] = {}
    levels: dict[str, int] = {}
    beside: dict[str, float] = {}
    found: dict[str, Spread] = {}
    seconds = 0.0
    for operation in reversed(layouts.operations):
        name, own = operation.name, layouts.spreads[operation.name]
        spread, usual = own, own.needs_by(operation)
        if name in wider and len(found) < _MOST and levels[name] <= depth and _may_repeat(operation, spread, layouts):
            layout = wider.pop(name)
            needs = needs_of_part(operation, layout, (), layouts.shapes, mesh)
            more = _work(operation, layout, needs, layouts) - _work(operation, own.layout, usual, layouts)
            spread = found[name] = Spread(layout, (), layout, needs, own.seconds + more)
            seconds += more
        else:
            levels.pop(name, None)
        for operand, need in spread.needs_by(operation).items():
            have = layouts.placed.get(operand)
            if have is None or covered(have, need, mesh):
                continue
            target = target_of(have, need, mesh)
            if kind_of(have, target) is CollectiveKind.HALO:
                saved = not covered(have, usual[operand], mesh)
                wider[operand] = _around(wider.get(operand, have), target)
                levels[operand] = max(levels.get(operand, 0), levels.get(name, 0) + saved)
                may_wait = may_border(operation, own.shares) and beside.get(operand) != 0
                beside[operand] = _work(operation, own.layout, usual, layouts) if may_wait else 0.0
    for name, layout in wider.items():
        seconds += prices.move(layouts.placed[name], layout, layouts.dtypes[name].itemsize, beside[name])
    return Deepened(found, wider, seconds, max((levels[name] for name in found), default=0))


def _work(operation: Operation, layout: Layout, needs: Mapping[str, Layout], layouts: Layouts) -> float:
    """Return the price of an operation on a rank; those of elements are joined with others, and move nothing."""
    shapes, dtypes = layouts.shapes, layouts.dtypes
    if isinstance(operation, Contraction):
        return work_of(operation, layout, (), needs, shapes, dtypes, layouts.prices)
    return layouts.prices.work(largest(layout), operation.dtype, 0)


def _may_repeat(operation: Operation, spread: Spread, layouts: Layouts) -> bool:
    """Return whether several ranks may compute an element, and have it where they do."""
    is_free = operation.name not in layouts.fixed and spread.layout == spread.target
    return isinstance(operation, REPEATED) and is_free and not spread.shares


def _around(left: Layout, right: Layout) -> Layout:
    """Return the layout in which each rank has what it has in two, which are cut along the same axes."""
    return tuple(
        Split(
            a.axes,
            tuple(
                y if x[0] == x[1] else x if y[0] == y[1] else (min(x[0], y[0]), max(x[1], y[1]))
                for x, y in zip(a.intervals, b.intervals, strict=True)
            ),
        )
        for a, b in zip(left, right, strict=True)
    )
