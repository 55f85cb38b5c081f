"""Kernels that run as one: how the statements of two blocks come to stand in one body."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Aggregation
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.reindex import reindexed, renamed
from tileir.stripe.ir import (
    Block,
    Constant,
    Direction,
    Index,
    Load,
    Store,
    Tags,
    scalar_output,
    views_read,
    views_written,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.poly.affine import Affine
    from tileir.stripe.ir import Refinement, Statement

Place: TypeAlias = tuple[str, "Affine"]
"""A source, and the address in it of an element."""

_LONGEST_NAME = 80


@attrs.define(eq=False)
class FusionGroup:
    """The body of one or more kernels over one index box, made to grow by others at little cost.

    Attributes:
        position: Where in the order of kernels the group stands.
        block: Name, comments, tags, indices and constraints; the rest of it is what the group began with.
        head: How many statements there are up to the last nested block, that one included.
        needs: Numbers of the kernels on which members depend directly.
        users: Numbers of the kernels that depend directly on members.
        touched: How many members touch each tensor.
        shared: How many of these tensors kernels outside the group touch too.
        written: The tensors that are written.
        layouts: The addresses at which elements are written; None for views that are no single elements.
        read: The tensors whose content from before the group is read.

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
    written: set[str] = attrs.field(init=False)
    read: set[str] = attrs.field(init=False)
    layouts: set[Affine | None] = attrs.field(init=False)
    head: int = attrs.field(init=False)
    computations: int = attrs.field(init=False)
    reductions: int = attrs.field(init=False)
    _nested: list[Block] = attrs.field(init=False)
    _places: dict[str, Place | None] = attrs.field(init=False)
    _elements: dict[Place, str] = attrs.field(init=False)
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
        return group

    def _index(self) -> None:
        """Derive what joining asks for from views and statements."""
        nested = [number for number, s in enumerate(self.statements) if isinstance(s, Block)]
        self.head = nested[-1] + 1 if nested else 0
        self.reductions = len(nested)
        self.computations = sum(not isinstance(s, Load | Store | Constant) for s in self.statements)
        self._scalars = NameScope.of(filter(None, map(scalar_output, self.statements)))
        self._names = NameScope.of(self.views)
        self._places, self._elements, self._by_root = {}, {}, {}
        self._nested = [s for s in self.statements if isinstance(s, Block)]
        self.written, self.read, self.layouts = set(), set(), set()
        for refinement in self.views.values():
            self._register(refinement, _place_of(refinement))

    def _register(self, refinement: Refinement, place: Place | None) -> None:
        name = refinement.name
        self._places[name] = place
        if refinement.direction is Direction.NONE:
            return
        self._by_root.setdefault(self.roots[refinement.source], []).append(name)
        self._count(refinement)
        if place is not None:
            self._elements.setdefault(place, name)

    def _count(self, refinement: Refinement) -> None:
        if refinement.direction.writes:
            self.written.add(self.roots[refinement.source])
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
        """Whether the box is free to be enumerated in another way: no schedule has marked it."""
        return not any(i.affine is not None or i.tags.items for i in self.indices) and not self.block.location

    def places(self, root: str) -> list[Place | None]:
        """Return what each view of the tensor ``root`` shows; None where that is not one element to overwrite."""
        return [self._places[name] for name in self._by_root.get(root, ())]

    def head_touches(self, tensors: set[str]) -> bool:
        """Return whether statements up to the last nested block touch one of ``tensors``."""
        used: set[str] = set()
        for statement in self.statements[: self.head]:
            used.update(views_read(statement), views_written(statement))
        sources = (self.views[name].source for name in sorted(used))
        return any(source in self.roots and self.roots[source] in tensors for source in sources)

    def nested_index_names(self) -> set[str]:
        """Return the names of indices that the nested blocks bring with them."""
        return {i.name for block in self._nested for i in block.indices if i.affine is None}

    def body(self) -> Block:
        """Return the group as a block."""
        if self.members == 1:
            return self.block
        return attrs.evolve(
            self.block, refinements=tuple(self.views.values()), statements=tuple(self.statements), deps=()
        )

    def reindex(self, indices: tuple[Index, ...], values: Mapping[str, Affine]) -> None:
        """Let the group enumerate its points by other indices."""
        whole = attrs.evolve(
            self.block, refinements=tuple(self.views.values()), statements=tuple(self.statements), deps=()
        )
        self.block = reindexed(whole, indices, values)
        self.views = {r.name: r for r in self.block.refinements}
        self.statements = list(self.block.statements)
        self._index()

    def absorb(self, other: FusionGroup, *, before: bool, tags: Iterable[str]) -> None:
        """Take in the statements of ``other``, which has the same indices and constraints.

        They come after all statements of this group, or with ``before`` before those that follow the last nested
        block. Views of the same element become one.
        """
        views = {name: self._adopt(view, other._places[name], before) for name, view in other.views.items()}
        scalars = {s: self._scalars.fresh(s) for s in filter(None, map(scalar_output, other.statements))}
        statements = [renamed(statement, scalars, views) for statement in other.statements]
        at = self.head if before else len(self.statements)
        if other.head and not before:
            self.head = at + other.head
        self.statements[at:at] = statements
        self.computations += other.computations
        self.reductions += other.reductions
        self._nested += other._nested
        self.members += other.members
        self.needs, self.users = _union(self.needs, other.needs), _union(self.users, other.users)
        self.touched.update(other.touched)
        self.block = self._described(other.block, before=before, tags=tags)

    def _described(self, other: Block, *, before: bool, tags: Iterable[str]) -> Block:
        first, second = (other, self.block) if before else (self.block, other)
        name = f"{first.name}+{second.name}" if first.name and second.name else first.name or second.name
        return attrs.evolve(
            self.block,
            name=name if len(name) <= _LONGEST_NAME else first.name,
            comments=tuple(dict.fromkeys((*first.comments, *second.comments))),
            tags=Tags(tuple(sorted({**dict(other.tags.items), **dict(self.block.tags.items)}.items()))).add(*tags),
        )

    def _adopt(self, view: Refinement, place: Place | None, before: bool) -> str:
        """Return the name of a view of ``view``'s elements in this group; add one where there is none."""
        if place is not None and (known := self._elements.get(place)) is not None:
            mine = self.views[known]
            first, second = (view, mine) if before else (mine, view)
            direction = _in_sequence(first.direction, second.direction)
            if direction is not mine.direction:
                self.views[known] = attrs.evolve(mine, direction=direction)
                self._count(self.views[known])
            return known
        name = self._names.fresh(view.name)
        self.views[name] = view if name == view.name else attrs.evolve(view, name=name)
        self._register(self.views[name], place)
        return name


def _place_of(view: Refinement) -> Place | None:
    """Return what a view shows, if that is one element of the parent that stores overwrite."""
    if view.direction is Direction.NONE or not is_element(view) or view.aggregation not in (None, Aggregation.ASSIGN):
        return None
    return view.source, address(view)


def _in_sequence(first: Direction, second: Direction) -> Direction:
    """Return the direction of one view that is used as by ``first``, then as by ``second``."""
    if first is Direction.IN:
        return Direction.INOUT if second.writes else Direction.IN
    # What was written before is not content from outside.
    return first


def _union(left: set[int], right: set[int]) -> set[int]:
    """Return the union, made by growing the larger set."""
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    large.update(small)
    return large
