"""Positions of nested blocks within ``main``: values of indices, and offsets of views in whole tensors.

Indices of different blocks may share names, so absolute values are affines of *counters*, ``depth:index``, one for
each index that counts. :meth:`Level.local` expresses such a value in the indices of a block, which may need new
indices that pass outer values on: :attr:`Level.passed` collects them.
"""

from __future__ import annotations

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine, total
from tileir.stripe.check.views import same_axes
from tileir.stripe.ir import Block, Direction, Index, Refinement


def keeps_axes(block: Block, view: Refinement, source: Refinement) -> bool:
    """Return whether ``view`` of ``block`` certainly has the axes of ``source``.

    If strides differ, along axes of one element, a view that leaves an axis shows the elements in another shape.
    """
    if view.shape.strides == source.shape.strides:
        return True
    if not same_axes(view, source) or any(i.affine is not None for i in block.indices):
        return False
    ranges = block.ranges
    for affine, size, extent in zip(view.access, view.shape.sizes, source.shape.sizes, strict=True):
        low, high = affine.bounds(ranges)
        if low < 0 or high + size > extent:
            return False
    return True


@attrs.define(eq=False)
class Level:
    """A block, with the blocks around it.

    Attributes:
        block: The block at the time of the walk.
        parent: The level of the enclosing block; None for ``main``.
        values: The absolute value of each of its indices.
        counters: The range of each counter of this level and outer ones.
        passed: Indices that :meth:`local` requested for the block.
    """

    block: Block
    parent: Level | None = None
    values: dict[str, Affine] = attrs.field(factory=dict, init=False)
    counters: dict[str, int] = attrs.field(factory=dict, init=False)
    passed: list[Index] = attrs.field(factory=list, init=False)
    _views: dict[str, Refinement] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        outer = {} if self.parent is None else self.parent.values
        self.counters = {} if self.parent is None else dict(self.parent.counters)
        for index in self.block.indices:
            base = Affine() if index.affine is None else index.affine.substitute(outer)
            if index.range > 1:
                counter = f"{self.depth}:{index.name}"
                self.counters[counter] = index.range
                base = base + Affine.index(counter)
            self.values[index.name] = base

    @property
    def depth(self) -> int:
        """Number of enclosing blocks."""
        return 0 if self.parent is None else self.parent.depth + 1

    def constraints(self) -> tuple[Affine, ...]:
        """Return the constraints of the block in counters."""
        return tuple(constraint.substitute(self.values) for constraint in self.block.constraints)

    def view(self, name: str) -> Refinement:
        """Return the refinement of the block with this name; a KeyError is a defect of the caller."""
        if not self._views:
            self._views.update((r.name, r) for r in self.block.refinements)
        return self._views[name]

    def root(self, view: Refinement) -> tuple[int, str]:
        """Return the allocation of a view: its depth, and its name there."""
        if view.direction is Direction.NONE:
            return self.depth, view.name
        if self.parent is None:
            return -1, view.source
        return self.parent.root(self.parent.view(view.source))

    def place(self, view: Refinement) -> Origin | None:
        """Return the place of a view in its tensor or allocation; None if axes change on the way."""
        access = tuple(affine.substitute(self.values) for affine in view.access)
        if view.direction is Direction.NONE or self.parent is None:
            return Origin((Affine(),) * len(view.access), view.shape.sizes)
        source = self.parent.view(view.source)
        outer = self.parent.place(source)
        if outer is None or not keeps_axes(self.block, view, source):
            return None
        return Origin(tuple(a + b for a, b in zip(outer.access, access, strict=True)), outer.sizes)

    def local(self, value: Affine) -> Affine:
        """Return an absolute value in terms of the indices of this block."""
        terms = (self._counter(name) * coefficient for name, coefficient in value.terms)
        return total(terms) + value.offset

    def _counter(self, counter: str) -> Affine:
        wanted = Affine.index(counter)
        for name, value in self.values.items():
            if value == wanted:
                return Affine.index(name)
        if self.parent is None:
            raise KeyError(counter)
        taken = NameScope.of((*self.values, *(index.name for index in self.passed)))
        name = taken.fresh(counter.partition(":")[2])
        self.passed.append(Index(name, 1, self.parent.local(wanted)))
        self.values[name] = wanted
        return Affine.index(name)


@attrs.frozen
class Origin:
    """First place of a view along each axis of a tensor, in counters, with the size of that tensor."""

    access: tuple[Affine, ...]
    sizes: tuple[int, ...]
