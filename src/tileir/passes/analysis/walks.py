"""Strides of a kernel's accesses by each index, and the axis that should be the fastest."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tileir.core.nodes import attrs
from tileir.passes.analysis.places import Level, keeps_axes
from tileir.poly.affine import Affine, movement
from tileir.stripe.ir import Block, Direction, Load, Store


@attrs.frozen
class Walk:
    """The accesses of one block, inside a kernel, to one view of the kernel.

    Attributes:
        tensor: The view of ``main`` behind the view.
        view: The view of the kernel.
        access: Place of an access along each axis, in counters of :mod:`tileir.passes.analysis.places`.
        strides: Strides of the axes, in elements.
        writes: Whether the access is a store.
        points: Number of executions.
    """

    tensor: str
    view: str
    access: tuple[Affine, ...]
    strides: tuple[int, ...]
    writes: bool
    points: int

    def stride(self, counter: str) -> int:
        """Return how many elements the access moves with a counter."""
        return movement(self.access, self.strides, counter)


def walks(kernel: Block, main: Level) -> tuple[Walk, ...]:
    """Return all accesses of a kernel to elements of tensors at affine places."""
    found: list[Walk] = []
    pending = [Level(kernel, main)]
    while pending:
        level = pending.pop()
        points = prod(level.counters.values())
        for statement in level.block.statements:
            match statement:
                case Block():
                    pending.append(Level(statement, level))
                case Load(source=name, index=None):
                    found.extend(_walk(level, name, writes=False, points=points))
                case Store(into=name, index=None):
                    found.extend(_walk(level, name, writes=True, points=points))
    return tuple(found)


def _walk(level: Level, name: str, *, writes: bool, points: int) -> tuple[Walk, ...]:
    """Return the access to a view of a block; none for an allocation, or if axes change on the way."""
    view = level.view(name)
    place = level.place(view)
    strides = view.shape.strides
    while view.direction is not Direction.NONE and level.parent is not None:
        outer = level.parent.view(view.source)
        if level.depth == 1:
            return () if place is None else (Walk(view.source, view.name, place.access, strides, writes, points),)
        if not keeps_axes(level.block, view, outer):
            return ()
        view, level = outer, level.parent
    return ()


def asked_axis(walk: Walk, together: Iterable[Walk]) -> int | None:
    """Return the axis of a walk's tensor that should be the fastest; None if the kernel has no preference.

    ``together`` are all walks of the kernel. Its fastest index moves most accesses to other tensors by one element,
    stores counting twice; only this index moves the preferred axis, by one.
    """
    score: dict[str, int] = {}
    stored: set[str] = set()  # tie-breaker: counters that move results by one element
    for other in together:
        if other.tensor == walk.tensor:
            continue
        for counter in {name: None for affine in other.access for name in affine.indices}:
            stride = abs(other.stride(counter))
            weight = 2 if other.writes else 1
            if other.writes and stride == 1:
                stored.add(counter)
            score[counter] = score.get(counter, 0) + (weight if stride == 1 else -weight if stride > 1 else 0)
    best = max(score, key=lambda name: (score[name], name in stored, name), default=None)
    if best is None or score[best] <= 0:
        return None
    moved = [axis for axis, affine in enumerate(walk.access) if best in affine.indices]
    if len(moved) != 1 or abs(int(walk.access[moved[0]].coefficient(best))) != 1:
        return None
    return moved[0]
