"""Groups of kernels that run as one: the statements of two blocks in one body."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from tileir.core import NameScope, attrs
from tileir.passes.analysis.accesses import address, is_element, views_in_one_place
from tileir.passes.fusion.sink import covered, is_direct, merged_inside, sunk
from tileir.passes.kernels.schedule import is_scheduled
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed, renamed
from tileir.stripe.ir import (
    Block,
    Constant,
    Direction,
    Index,
    Load,
    Refinement,
    Statement,
    Store,
    Tags,
    scalar_output,
    views_read,
    views_written,
)

Element: TypeAlias = tuple[str, "Affine"]
"""A source, and the address of an element in it."""

_Seen: TypeAlias = "Element | tuple[str, tuple[Affine, ...], tuple[int, ...]]"

_LONGEST_NAME = 80

JOINT: Final = "+"
"""Separator between the names of joined kernels."""


@attrs.define(eq=False)
class FusionGroup:
    """The body of one or more kernels over one index box, which absorbs others at little cost.

    Attributes:
        position: Position of the group in the order of kernels.
        block: Name, comments, tags, indices and constraints; everything else is from the first member.
        head: Number of statements up to and including the last nested block.
        needs: Numbers of the kernels on which members depend directly.
        users: Numbers of the kernels that depend directly on members.
        touched: Number of members that access each tensor.
        shared: Number of these tensors that kernels outside the group access, too.
        is_known: Whether the group depends on constants alone.
        written: The tensors that are written.
        layouts: Addresses of written elements; None for views of several elements.
        read: The tensors whose earlier content is read.
        nested: The inner blocks.
    """

    position: int
    block: Block
    views: dict[str, Refinement]
    statements: list[Statement]
    roots: Mapping[str, str]
    members: int = 1
    needs: set[int] = attrs.field(factory=set)
    users: set[int] = attrs.field(factory=set)
    touched: Counter[str] = attrs.field(factory=Counter)
    shared: int = 0
    is_known: bool = False
    written: set[str] = attrs.field(init=False)
    read: set[str] = attrs.field(init=False)
    layouts: set[Affine | None] = attrs.field(init=False)
    head: int = attrs.field(init=False)
    computations: int = attrs.field(init=False)
    reductions: int = attrs.field(init=False)
    nested: list[Block] = attrs.field(init=False)
    _places: dict[str, Element | None] = attrs.field(init=False)
    _known: dict[_Seen, str] = attrs.field(init=False)
    _partial: set[str] = attrs.field(factory=set, init=False)
    _by_root: dict[str, list[str]] = attrs.field(init=False)
    _scalars: NameScope = attrs.field(init=False)
    _names: NameScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._index()

    @classmethod
    def of(cls, position: int, block: Block, roots: Mapping[str, str]) -> FusionGroup:
        """Return the group of a single kernel; ``roots`` are the allocations behind the views of ``main``."""
        group = cls(position, block, {r.name: r for r in block.refinements}, list(block.statements), roots)
        group.touched.update(group.written | group.read)
        group._partial.update(name for name, place in group._places.items() if place is None)
        return group

    def _index(self) -> None:
        """Derive the facts for joining from views and statements."""
        nested = [number for number, s in enumerate(self.statements) if isinstance(s, Block)]
        self.head = nested[-1] + 1 if nested else 0
        self.reductions = len(nested)
        self.computations = sum(not isinstance(s, Load | Store | Constant) for s in self.statements)
        self._scalars = NameScope.of(filter(None, map(scalar_output, self.statements)))
        self._names = NameScope.of(self.views)
        self._places, self._known, self._by_root = {}, {}, {}
        self.nested = [s for s in self.statements if isinstance(s, Block)]
        self.written, self.read, self.layouts = set(), set(), set()
        for refinement in self.views.values():
            self._register(refinement, _place_of(refinement))

    def _register(self, refinement: Refinement, place: Element | None) -> None:
        name = refinement.name
        self._places[name] = place
        if refinement.direction is Direction.NONE:
            return
        self._by_root.setdefault(self.roots[refinement.source], []).append(name)
        self._count(refinement)
        seen = _seen_by(refinement, place)
        if seen is not None:
            self._known.setdefault(seen, name)

    def _count(self, refinement: Refinement) -> None:
        if refinement.direction.writes:
            self.written.add(self.roots[refinement.source])
            # Merging into one element has no layout.
            if not (refinement.merges and all(access.is_constant for access in refinement.access)):
                place = self._places[refinement.name]
                self.layouts.add(None if place is None else place[1])
        if refinement.direction.reads:
            self.read.add(self.roots[refinement.source])

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the box."""
        return self.block.indices

    @property
    def is_movable(self) -> bool:
        """True if the box may be enumerated in another way: it has no schedule."""
        marked = self.block.location or any(map(is_scheduled, self.nested))
        return not marked and all(i.is_plain for i in self.indices)

    @property
    def chosen_by_data(self) -> bool:
        """True if some stores have data-dependent places: these points run in fewer threads than those of a reduction.

        False if the place is equal for all points, such as the step of a loop.
        """
        stored = {s.into for s in self.statements if isinstance(s, Store) and s.index is not None}
        return bool(stored) and not stored <= views_in_one_place(self.views.values(), self.statements)

    def places(self, root: str) -> list[Element | None]:
        """Return the element of each view of the tensor ``root``; None for several elements, or a merging view."""
        return [self._places[name] for name in self._by_root.get(root, ())]

    def views_of(self, root: str) -> list[Refinement]:
        """Return the views of the tensor ``root``."""
        return [self.views[name] for name in self._by_root.get(root, ())]

    def head_touches(self, tensors: set[str]) -> bool:
        """Return whether statements up to the last nested block access one of ``tensors``."""
        used = {name for s in self.statements[: self.head] for name in (*views_read(s), *views_written(s))}
        sources = (self.views[name].source for name in sorted(used))
        return any(source in self.roots and self.roots[source] in tensors for source in sources)

    def nested_index_names(self) -> set[str]:
        """Return the names of the nested blocks' own indices."""
        return {i.name for block in self.nested for i in block.indices if i.affine is None}

    def body(self) -> Block:
        """Return the group as a block."""
        return self.block if self.members == 1 else self._whole()

    def reindex(self, indices: tuple[Index, ...], values: Mapping[str, Affine]) -> None:
        """Enumerate the points of the group by other indices."""
        if indices == self.indices and all(values.get(i.name) in (None, Affine.index(i.name)) for i in indices):
            return
        self._become(reindexed(self._whole(), indices, values))

    def sink(
        self, shared: tuple[Index, ...], indices: tuple[Index, ...], tags: tuple[str, ...], gone: tuple[str, ...]
    ) -> None:
        """Enumerate ``indices`` in place of those that the group calls ``shared``, and the others inside.

        A new nested block gets ``tags``, and loses those in ``gone``.
        """
        values = {old.name: Affine.index(new.name) for old, new in zip(shared, indices, strict=True)}
        names = NameScope.of((*(index.name for index in indices), *self.nested_index_names()))
        block, kept = self._whole(), frozenset(values)
        fresh = {i.name: names.fresh(i.name) for i in block.indices if i.name not in kept}
        rest = tuple(attrs.evolve(i, name=fresh.get(i.name, i.name)) for i in block.indices)
        block = reindexed(block, rest, {old: Affine.index(new) for old, new in fresh.items() if old != new})
        if is_direct(block, kept):
            single = {name: Affine() for name in fresh.values()}
            block = reindexed(merged_inside(block, kept), shared, single)
        else:
            self._partial = {r.name for r in block.refinements} - covered(block, kept)
            block = sunk(block, shared, tags, gone)
        self._become(reindexed(block, indices, values))

    def _whole(self) -> Block:
        return attrs.evolve(
            self.block, refinements=tuple(self.views.values()), statements=tuple(self.statements), deps=()
        )

    def _become(self, block: Block) -> None:
        self.block = block
        self.views = {r.name: r for r in block.refinements}
        self.statements = list(block.statements)
        self._index()

    def absorb(self, other: FusionGroup, *, before: bool, tags: Iterable[str], fresh: frozenset[str]) -> None:
        """Add the statements of ``other``, which has the same indices and constraints.

        They come after all statements of this group, or with ``before`` before those that follow the last nested
        block. Views of the same elements become one. ``fresh`` are tensors without content before the group.
        """
        views = {name: self._adopt(view, other, before=before, fresh=fresh) for name, view in other.views.items()}
        scalars = {s: self._scalars.fresh(s) for s in filter(None, map(scalar_output, other.statements))}
        statements = [renamed(statement, scalars, views) for statement in other.statements]
        at = self.head if before else len(self.statements)
        if other.head and not before:
            self.head = at + other.head
        self.statements[at:at] = statements
        self.computations += other.computations
        self.reductions += other.reductions
        self.nested += [s for s in statements if isinstance(s, Block)]
        self.members += other.members
        self.needs, self.users = _union(self.needs, other.needs), _union(self.users, other.users)
        self.touched.update(other.touched)
        self.block = self._described(other.block, before=before, tags=tags)

    def _described(self, other: Block, *, before: bool, tags: Iterable[str]) -> Block:
        first, second = (other, self.block) if before else (self.block, other)
        parts = (*first.name.split(JOINT), *second.name.split(JOINT))
        name = JOINT.join(dict.fromkeys(filter(None, parts)))  # those of one node of a model share its name
        return attrs.evolve(
            self.block,
            name=name if len(name) <= _LONGEST_NAME else first.name,
            comments=tuple(dict.fromkeys((*first.comments, *second.comments))),
            tags=Tags(tuple(sorted({**dict(other.tags.items), **dict(self.block.tags.items)}.items()))).add(*tags),
        )

    def _adopt(self, view: Refinement, other: FusionGroup, *, before: bool, fresh: frozenset[str]) -> str:
        """Return the name of this group's view of the elements of ``view`` of ``other``; add one if there is none."""
        place = other._places[view.name]
        seen = _seen_by(view, place)
        known = None if seen is None else self._known.get(seen)
        mine = None if known is None else self.views[known]
        if known is not None and mine is not None and (_holds(mine, view) or _holds(view, mine)):
            first, second = (view, mine) if before else (mine, view)
            partial = view.name in other._partial if before else known in self._partial
            whole = (not partial and _holds(first, second)) or self.roots[view.source] in fresh
            direction = _in_sequence(first.direction, second.direction, whole=whole)
            larger = mine if _holds(mine, view) else view
            if direction is not mine.direction or larger is view:
                shown = attrs.evolve(mine, direction=direction, access=larger.access, shape=larger.shape)
                self.views[known] = shown
                self._count(self.views[known])
            return known
        name = self._names.fresh(view.name)
        self.views[name] = view if name == view.name else attrs.evolve(view, name=name)
        self._register(self.views[name], place)
        if view.name in other._partial:
            self._partial.add(name)
        return name


def _place_of(view: Refinement) -> Element | None:
    """Return the element of a view, if it is a single element of the parent that stores overwrite."""
    if view.direction is Direction.NONE or not is_element(view) or view.merges:
        return None
    return view.source, address(view)


def _seen_by(view: Refinement, place: Element | None) -> _Seen | None:
    """Return the identity of a view except its extents; None for allocations, and for views that merge.

    Of two views of the same tile, one may extend farther over the edge of the tensor than the other.
    """
    if place is not None:
        return place
    if view.direction is Direction.NONE or view.merges:
        return None
    return view.source, view.access, view.shape.strides


def _holds(outer: Refinement, inner: Refinement) -> bool:
    """Return whether one of two views with equal origin contains the other.

    Two views of one element may have different numbers of axes, as views of reshaped tensors do: the one with more axes
    is the outer one, since data may select the element along an axis.
    """
    more = len(outer.access) >= len(inner.access)
    return more and all(map(operator.ge, outer.shape.sizes, inner.shape.sizes))


def _in_sequence(first: Direction, second: Direction, *, whole: bool) -> Direction:
    """Return the direction of one view that is used as by ``first``, then as by ``second``.

    ``whole`` is true if the first, when it only writes, writes all defined elements of the view.
    """
    if first is Direction.IN:
        return Direction.INOUT if second.writes else Direction.IN
    # Earlier writes are not content from outside.
    return first if whole or not second.reads else Direction.INOUT


def _union(left: set[int], right: set[int]) -> set[int]:
    """Return the union, made by growing the larger set."""
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    large.update(small)
    return large
