"""Alias analysis: statements of a block that may access the same memory.

A :class:`Reach` is the part of one piece of memory that a statement may access: a box of elements whose corner is an
affine of indices. :func:`compare` decides exactly whether two of them overlap: by boxes if possible, and by integer
programming for strides or constraints. Placed memory is also compared by bytes: allocations at overlapping bytes of
one location are one piece of memory. This is the AliasMap of PlaidML's Stripe.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.stripe.check.scope import Scope
from tileir.stripe.check.views import same_axes
from tileir.stripe.ir import Block, Device, Direction, Load, Location, Refinement, Special, Statement, Store

MemoryKey: TypeAlias = tuple[int, str]
"""The depth of the allocating block, or of the outermost known one, and the name there."""


class Overlap(enum.Enum):
    """Relation between the accesses of two statements."""

    NONE = "no element is touched by both"
    PARTIAL = "some elements may be touched by both"
    EXACT = "both touch the same box of elements"


@attrs.frozen(eq=False)
class Reach:
    """Elements of one piece of memory that a statement may access.

    Attributes:
        memory: The piece.
        start: The corner of a box for each axis, over indices of enclosing blocks (named ``depth:index``) and over
            ``free``; None if the axes of some view differ, so that any element may be accessed.
        sizes: Extents of the box.
        strides: Distances of neighbours, in elements.
        free: Ranges of the indices that vary within the statement, if these do not fill a box.
        constraints: Affines that are >= 0 wherever the statement runs.
        writes: Whether elements may be written.
    """

    memory: MemoryKey
    start: tuple[Affine, ...] | None
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    free: Mapping[str, int]
    constraints: tuple[Affine, ...]
    writes: bool


@attrs.frozen(eq=False)
class PlacedReach:
    """Bytes of a location that a statement may access.

    ``reach`` is the access to the memory there, or None for memory that the statement allocates. Accesses of two
    statements to one piece are compared by elements, not bytes. ``whole`` is true if the statement may write all of
    the piece, so that it overlaps every access to it.
    """

    location: Location
    first: int
    end: int
    writes: bool
    reach: Reach | None = None
    whole: bool = False


AnyReach: TypeAlias = Reach | PlacedReach


@attrs.frozen(eq=False, repr=False)
class _View:
    """A refinement in terms of the memory behind it; ``start`` is None if axes differ in between."""

    memory: MemoryKey
    start: tuple[Affine, ...] | None
    refinement: Refinement
    root: Refinement


@attrs.define(eq=False)
class Aliases:
    """The memory behind the views of one block, and the values of its indices in terms of all enclosing blocks."""

    scope: Scope
    outer: Aliases | None = None
    values: dict[str, Affine] = attrs.field(factory=dict, init=False)
    ranges: dict[str, int] = attrs.field(factory=dict, init=False)
    _views: dict[str, _View] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if self.outer is None and self.scope.parent is not None:
            self.outer = Aliases(self.scope.parent)
        if self.outer is not None:
            self.ranges.update(self.outer.ranges)
        outside = {} if self.outer is None else self.outer.values
        for index in self.scope.block.indices:
            symbol = f"{self.scope.depth}:{index.name}"
            value = Affine() if index.affine is None else index.affine.substitute(outside)
            if index.range > 1 or index.affine is None:
                self.ranges[symbol] = index.range
                value = value + Affine.index(symbol)
            self.values[index.name] = value

    def view(self, name: str) -> _View | None:
        """Return the memory behind a refinement of the block; None for an unknown name."""
        if name not in self._views and name in self.scope.views:
            self._views[name] = self._resolved(self.scope.views[name])
        return self._views.get(name)

    def _resolved(self, refinement: Refinement) -> _View:
        access = tuple(affine.substitute(self.values) for affine in refinement.access)
        source = None
        if refinement.direction is not Direction.NONE and self.outer is not None:
            source = self.outer.view(refinement.source)
        if source is None:
            return _View((self.scope.depth, refinement.name), access, refinement, refinement)
        start = None
        if source.start is not None and same_axes(refinement, source.refinement):
            start = tuple(outer + inner for outer, inner in zip(source.start, access, strict=True))
        return _View(source.memory, start, refinement, source.root)

    def reaches(self, statement: Statement) -> Iterator[AnyReach]:
        """Yield the reaches of a statement of the block; its own allocations only if they are placed."""
        match statement:
            case Load(source=name, index=index):
                yield from self._element(name, whole=index is not None, writes=False)
            case Store(into=name, index=index):
                yield from self._element(name, whole=index is not None, writes=True)
            case Special(inputs=inputs, outputs=outputs):
                for name in inputs:
                    yield from self._element(name, whole=True, writes=False)
                for name in outputs:
                    yield from self._element(name, whole=True, writes=True)
            case Block():
                yield from self._block(statement)
            case _:
                return

    def _element(self, name: str, *, whole: bool, writes: bool) -> Iterator[AnyReach]:
        view = self.view(name)
        if view is None:
            return
        dims = view.refinement.shape.dims
        sizes = tuple(dim.size if whole else 1 for dim in dims)
        reach = Reach(view.memory, view.start, sizes, tuple(dim.stride for dim in dims), {}, (), writes)
        yield reach
        yield from _placed(view.root, reach)

    def _block(self, block: Block) -> Iterator[AnyReach]:
        """Yield the reaches of a nested block through each of its views, and of allocations at any depth in it."""
        values: dict[str, Affine] = {}
        free: dict[str, int] = {}
        for index in block.indices:
            value = Affine() if index.affine is None else index.affine.substitute(self.values)
            if index.range > 1 or index.affine is None:
                symbol = f"{self.scope.depth + 1}:{index.name}"
                free[symbol] = index.range
                value = value + Affine.index(symbol)
            values[index.name] = value
        constraints = tuple(c.substitute(values) for c in block.constraints)
        for refinement in block.refinements:
            view = None if refinement.direction is Direction.NONE else self.view(refinement.source)
            if view is None:
                continue
            writes = refinement.direction.writes
            reach = _folded(view, refinement, values, free, constraints, writes=writes)
            yield reach
            yield from _placed(view.root, reach)
        for allocation in allocations(block):
            yield from _placed(allocation, None)


def allocations(block: Block) -> Iterator[Refinement]:
    """Yield the allocations of a block and of nested blocks, outermost first; without recursion."""
    return (r for current in block.nested() for r in current.refinements if r.direction is Direction.NONE)


def byte_size(refinement: Refinement) -> int:
    """Return the bytes of an allocation, including gaps; per bank if the tag ``banks`` gives their number."""
    shape, banks = refinement.shape, refinement.tags.get("banks")
    elements = shape.span
    if refinement.bank_dim is not None and type(banks) is int and banks > 0 and elements:
        along = shape.dims[refinement.bank_dim].size
        elements = elements // along * -(-along // banks)
    return elements * shape.dtype.itemsize


def _placed(root: Refinement, reach: Reach | None) -> Iterator[PlacedReach]:
    """Yield the bytes behind a reach into ``root``, or behind an allocation of the statement itself."""
    if root.offset is None or root.direction is not Direction.NONE:
        return
    end = root.offset + byte_size(root)
    if reach is None:
        yield PlacedReach(root.location, root.offset, end, writes=True, whole=True)
    else:
        whole = reach.writes and _is_all(reach, root)
        yield PlacedReach(root.location, root.offset, end, reach.writes, reach, whole)


def _is_all(reach: Reach, root: Refinement) -> bool:
    """Return whether a box covers an allocation."""
    if reach.start is None or reach.free or len(reach.start) != len(root.shape.dims):
        return False
    axes = zip(reach.start, reach.sizes, root.shape.sizes, strict=True)
    return all(start.is_constant and start.offset <= 0 and start.offset + own >= size for start, own, size in axes)


def _folded(
    view: _View,
    refinement: Refinement,
    values: Mapping[str, Affine],
    free: Mapping[str, int],
    constraints: tuple[Affine, ...],
    *,
    writes: bool,
) -> Reach:
    """Return the reach of a view of a nested block, with indices that fill a box folded into its size."""
    dims = refinement.shape.dims
    strides = tuple(dim.stride for dim in dims)
    if view.start is None or not same_axes(refinement, view.refinement):
        return Reach(view.memory, None, (), (), {}, (), writes)
    start, sizes = [], []
    left: dict[str, int] = {}
    access = [affine.substitute(values) for affine in refinement.access]
    shared = _shared(access)
    for base, affine, dim in zip(view.start, access, dims, strict=True):
        corner, size, rest = _fold_axis(affine, dim.size, free, shared)
        left.update((name, free[name]) for name in rest)
        start.append(base + corner)
        sizes.append(size)
    kept = tuple(c for c in constraints if all(name in left or name not in free for name in c.indices))
    return Reach(view.memory, tuple(start), tuple(sizes), strides, left, kept if left else (), writes)


def _shared(access: list[Affine]) -> frozenset[str]:
    """Return the indices that move more than one axis."""
    seen: set[str] = set()
    twice: set[str] = set()
    for affine in access:
        for name in affine.indices:
            (twice if name in seen else seen).add(name)
    return frozenset(twice)


def _fold_axis(
    affine: Affine, size: int, free: Mapping[str, int], shared: frozenset[str]
) -> tuple[Affine, int, tuple[str, ...]]:
    """Return the corner and the size of the box that one axis covers, and the indices that leave gaps in it."""
    moving = [(abs(int(c)), int(c), name) for name, c in affine.terms if name in free]
    terms = {name: c for name, c in affine.terms if name not in free}
    offset = affine.offset
    rest: list[str] = []
    for step, coefficient, name in sorted(moving):
        if step > size or name in shared:
            terms[name] = coefficient
            rest.append(name)
            continue
        reach = coefficient * (free[name] - 1)
        offset += min(0, reach)
        size += abs(reach)
    return Affine.of(terms, offset), size, tuple(rest)


def compare(first: AnyReach, second: AnyReach, ranges: Mapping[str, int]) -> Overlap:
    """Return the overlap of the accesses of two statements of one block, at one point of that block.

    ``ranges`` are those of the indices around both. NONE is a proof; PARTIAL may mean that it was not decided.
    """
    if isinstance(first, PlacedReach) or isinstance(second, PlacedReach):
        if isinstance(first, PlacedReach) and isinstance(second, PlacedReach):
            return _compare_placed(first, second)
        return Overlap.NONE
    if first.memory != second.memory:
        return Overlap.NONE
    if first.start is None or second.start is None or first.strides != second.strides:
        return Overlap.PARTIAL
    ours = {name: f"a {name}" for name in first.free}
    theirs = {name: f"b {name}" for name in second.free}
    apart = [a.rename(ours) - b.rename(theirs) for a, b in zip(first.start, second.start, strict=True)]
    extents = {
        **ranges,
        **{ours[name]: count for name, count in first.free.items()},
        **{theirs[name]: count for name, count in second.free.items()},
    }
    for difference, mine, other in zip(apart, first.sizes, second.sizes, strict=True):
        low, high = difference.bounds(extents)
        if low >= other or high + mine <= 0:
            return Overlap.NONE
    if not first.free and not second.free:
        same = first.sizes == second.sizes and all(d.is_constant and d.offset == 0 for d in apart)
        return Overlap.EXACT if same else Overlap.PARTIAL
    bounds = zip(apart, first.sizes, second.sizes, strict=True)
    meets = [(difference + (mine - 1), mine + other - 1) for difference, mine, other in bounds]
    own = [(c.rename(ours), None) for c in first.constraints]
    others = [(c.rename(theirs), None) for c in second.constraints]
    names = {name for affine, _ in (*meets, *own, *others) for name in affine.indices}
    box = {name: (0, extents[name] - 1) for name in sorted(names)}
    rows = system(sorted(names), (*meets, *own, *others), box)
    return Overlap.NONE if rows is None or feasible(rows) is False else Overlap.PARTIAL


def _compare_placed(first: PlacedReach, second: PlacedReach) -> Overlap:
    if first.reach is not None and second.reach is not None and first.reach.memory == second.reach.memory:
        return Overlap.NONE
    if not same_place(first.location, second.location) or first.end <= second.first or second.end <= first.first:
        return Overlap.NONE
    return Overlap.EXACT if (first.first, first.end) == (second.first, second.end) else Overlap.PARTIAL


def same_place(first: Location, second: Location) -> bool:
    """Return whether two locations may be one; different constant units are distinct."""
    return len(first) == len(second) and all(map(_same_device, first, second))


def _same_device(first: Device, second: Device) -> bool:
    if first.name != second.name:
        return False
    units = zip(first.units, second.units, strict=False)
    return not any(a.is_constant and b.is_constant and a != b for a, b in units)


def contains(outer: AnyReach, inner: AnyReach) -> bool:
    """Return whether ``outer`` overlaps ``inner``, and everything that :func:`compare` finds to overlap ``inner``."""
    if isinstance(outer, PlacedReach) or isinstance(inner, PlacedReach):
        return isinstance(outer, PlacedReach) and isinstance(inner, PlacedReach) and _contains_placed(outer, inner)
    if outer.memory != inner.memory or (outer.start is not None and outer.free):
        return False
    if outer.start is None:
        return True
    if inner.start is None or inner.free or inner.strides != outer.strides:
        return False
    apart = [a - b for a, b in zip(inner.start, outer.start, strict=True)]
    return all(
        gap.is_constant and gap.offset >= 0 and gap.offset + mine <= other
        for gap, mine, other in zip(apart, inner.sizes, outer.sizes, strict=True)
    )


def _contains_placed(outer: PlacedReach, inner: PlacedReach) -> bool:
    """Return :func:`contains` for bytes: parts of one piece have the same bytes without depending on each other."""
    if outer.first > inner.first or inner.end > outer.end or outer.location != inner.location:
        return False
    if outer.whole:
        return True
    return outer.reach is not None and inner.reach is not None and contains(outer.reach, inner.reach)
