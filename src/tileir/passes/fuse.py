"""Run kernels that meet at the same elements as one, so that what passes between them stays in registers."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.passes.analysis.correspondence import Correspondence, correspond
from tileir.passes.analysis.dependences import DependenceScan, roots
from tileir.passes.base import at_least, selected, with_kernels
from tileir.passes.fusion_group import FusionGroup
from tileir.stripe.ir import Index

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.fusion_group import Place
    from tileir.poly.affine import Affine
    from tileir.stripe.ir import Block, Program

_MOST_CANDIDATES = 16
"""Groups that are tried for one kernel; keeps the scan linear."""
_MOST_USERS = 256
"""A group with more users than this is not moved down past others."""


@attrs.frozen
class Fuse:
    """Join kernels over corresponding boxes, in one scan with an index of last writers.

    A kernel joins those whose results it reads element by element: elementwise kernels each other, and the
    contraction that feeds them. With ``siblings`` also kernels join that read one tensor at the same elements and
    write results of the same layout. Nothing is computed twice. A tensor that is still needed elsewhere is
    stored as before; others are left to the passes localise and scalarise.

    Attributes:
        a_reqs: Tags that the earlier of two kernels must carry.
        b_reqs: Tags that the later one must carry.
        fused_set: Tags that a joined kernel gets, beside those of its parts.
        max_statements: Most computations (statements other than loads, stores and constants) of a joined kernel.
        max_refinements: Most tensors that a joined kernel touches, not counting those that only it needs.
        max_reductions: Most kernels with nested blocks among those that are joined.
        siblings: Whether to join kernels that depend on each other in no way.

    """

    name: ClassVar[str] = "fuse"
    a_reqs: tuple[str, ...] = ()
    b_reqs: tuple[str, ...] = ()
    fused_set: tuple[str, ...] = ("fused",)
    max_statements: int = attrs.field(default=128, validator=at_least(1))
    max_refinements: int = attrs.field(default=64, validator=at_least(1))
    max_reductions: int = attrs.field(default=1, validator=at_least(1))
    siblings: bool = True

    def __call__(self, program: Program) -> Program:
        """Return the program with kernels joined."""
        kernels = program.main.blocks
        if len(kernels) != len(program.main.statements):
            return program
        scan = _Scan(self, program)
        for number, kernel in enumerate(kernels):
            scan.visit(number, kernel)
        if not scan.changed:
            return program
        return with_kernels(program, scan.kernels())


@attrs.define
class _Scan:
    """The groups so far; kernels and the groups that hold them are known by the number of the kernel."""

    options: Fuse
    program: Program
    changed: bool = attrs.field(default=False, init=False)
    _roots: Mapping[str, str] = attrs.field(init=False)
    _order: DependenceScan = attrs.field(init=False)
    _groups: dict[int, FusionGroup] = attrs.field(factory=dict, init=False)
    _joined: dict[int, int] = attrs.field(factory=dict, init=False)
    _readers: dict[str, int] = attrs.field(factory=dict, init=False)
    _touches: Counter[str] = attrs.field(factory=Counter, init=False)
    _temporary: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._roots = roots(self.program)
        self._order = DependenceScan(self._roots)
        kept = {*self.program.inputs, *self.program.outputs, *(b.name for b in self.program.buffers)}
        self._temporary = frozenset(self._roots.values()) - kept
        for kernel in self.program.main.blocks:
            self._touches.update({self._roots[r.source] for r in kernel.refinements if r.source in self._roots})

    def kernels(self) -> tuple[Block, ...]:
        """Return the kernels after all joins, in order."""
        return tuple(group.body() for group in sorted(self._groups.values(), key=lambda group: group.position))

    def visit(self, number: int, kernel: Block) -> None:
        """Add a kernel, and join it with earlier ones where that is legal and pays."""
        needs = self._order.visit(number, kernel)
        group = FusionGroup.of(number, kernel, self._roots)
        group.needs = needs
        group.shared = sum(self._is_shared(tensor, 1) for tensor in group.touched)
        self._groups[number] = group
        producers = {self._find(need) for need in needs}
        for producer in producers:
            self._groups[producer].users.add(number)
        if not group.is_movable:
            return
        candidates = sorted(producers, key=lambda p: self._groups[p].position, reverse=True)
        for producer in candidates[:_MOST_CANDIDATES]:
            self._try(producer, number, sibling=False)
        if self.options.siblings:
            self._join_sibling(number)
        for root in group.read:
            self._readers[root] = number

    def _join_sibling(self, number: int) -> None:
        group = self._groups[self._find(number)]
        readers = {self._find(self._readers[root]) for root in group.read if root in self._readers}
        readers.discard(self._find(number))
        for reader in sorted(readers, key=lambda r: self._groups[r].position, reverse=True)[:_MOST_CANDIDATES]:
            if self._try(reader, number, sibling=True):
                return

    def _find(self, number: int) -> int:
        """Return the number under which the group of a kernel is kept."""
        path = []
        while (parent := self._joined.get(number)) is not None:
            path.append(number)
            number = parent
        for step in path:
            self._joined[step] = number
        return number

    def _try(self, one: int, other: int, *, sibling: bool) -> bool:
        """Join the groups of two kernels if that is legal and within the limits."""
        one, other = self._find(one), self._find(other)
        if one == other:
            return False
        first, second = sorted((self._groups[one], self._groups[other]), key=lambda group: group.position)
        if not self._allows(first, second, sibling=sibling):
            return False
        position = self._common_position(first, second)
        if position is None:
            return False
        # The larger body, or the one with the reduction, stays; the other is renamed to fit.
        before = first.reductions == 0 and (second.reductions > 0 or second.members > first.members)
        base, added = (second, first) if before else (first, second)
        match = _match(base, added, sibling=sibling)
        if match is None or not _meet(first, second, base, match, before=before, sibling=sibling):
            return False
        if dict(match.ranges) != base.block.ranges:
            base.reindex(tuple(Index(name, count) for name, count in match.ranges), match.first)
        added.reindex(base.indices, match.second)
        base.shared = self._shared(first, second)
        base.absorb(added, before=before, tags=self.options.fused_set)
        base.position = position
        self._merge_numbers(*((other, one) if self._groups[one] is added else (one, other)))
        return True

    def _merge_numbers(self, kept: int, gone: int) -> None:
        self._joined[gone] = kept
        del self._groups[gone]
        self.changed = True

    def _allows(self, first: FusionGroup, second: FusionGroup, *, sibling: bool) -> bool:
        options = self.options
        if not (first.is_movable and second.is_movable):
            return False
        if not (selected(first.block, options.a_reqs) and selected(second.block, options.b_reqs)):
            return False
        if first.reductions + second.reductions > (0 if sibling else options.max_reductions):
            return False
        return (
            first.computations + second.computations <= options.max_statements
            and self._shared(first, second) <= options.max_refinements
        )

    def _is_shared(self, tensor: str, members: int) -> bool:
        """Return whether a tensor that ``members`` kernels of a group touch is needed outside it too."""
        return tensor not in self._temporary or members < self._touches[tensor]

    def _shared(self, first: FusionGroup, second: FusionGroup) -> int:
        """Return how many tensors the joined group would touch that are needed outside it too."""
        large, small = (first, second) if len(first.touched) >= len(second.touched) else (second, first)
        count = large.shared
        for tensor, members in small.touched.items():
            mine = large.touched.get(tensor, 0)
            count += self._is_shared(tensor, mine + members) - (mine > 0 and self._is_shared(tensor, mine))
        return count

    def _common_position(self, first: FusionGroup, second: FusionGroup) -> int | None:
        """Return where both can stand as one; None where a group between them may have to stay between.

        Groups stand in an order that respects all dependences, so only groups between the two can be in the way.
        """
        needs = (self._groups[self._find(need)] for need in second.needs)
        if all(g is first or g is second or g.position < first.position for g in needs):
            return first.position
        if len(first.users) > _MOST_USERS:
            return None
        users = (self._groups[self._find(user)] for user in first.users)
        if all(g is first or g is second or g.position > second.position for g in users):
            return second.position
        return None


def _hazards(first: FusionGroup, second: FusionGroup) -> set[str]:
    """Return the tensors that both touch and one writes."""
    return (first.written & (second.written | second.read)) | (second.written & first.read)


def _match(base: FusionGroup, added: FusionGroup, *, sibling: bool) -> Correspondence | None:
    """Return how the boxes correspond by the first tensor through which the groups meet."""
    tensors = base.read & added.read if sibling else _hazards(base, added)
    names = NameScope.of(i.name for i in (*base.indices, *added.indices))
    for name in (*base.nested_index_names(), *added.nested_index_names()):
        names.add(name)
    for root in sorted(tensors):
        for mine, theirs in product(base.places(root), added.places(root)):
            if mine is None or theirs is None or mine[0] != theirs[0]:
                continue
            found = correspond(mine[1], base.block.ranges, theirs[1], added.block.ranges, names.fresh)
            if found is not None:
                return found
    return None


def _meet(
    first: FusionGroup, second: FusionGroup, base: FusionGroup, match: Correspondence, *, before: bool, sibling: bool
) -> bool:
    """Return whether one point of the joined box may run both bodies.

    All tensors that one writes and the other touches must be touched at the same element by corresponding points,
    and the statements that cannot be moved must not need those that come to stand after them.
    """
    values = (match.first, match.second) if base is first else (match.second, match.first)
    if _substituted(first, values[0]) != _substituted(second, values[1]):
        return False
    new = {name for name, _ in match.ranges}
    if new & first.nested_index_names() or new & second.nested_index_names():
        return False
    hazards = _hazards(first, second)
    if before and second.head and second.head_touches(hazards):
        return False
    for root in sorted(hazards):
        places = {_moved(place, values[0]) for place in first.places(root)}
        places.update(_moved(place, values[1]) for place in second.places(root))
        if len(places) != 1 or None in places:
            return False
    return not sibling or _same_layout(first, second, values)


def _substituted(group: FusionGroup, values: Mapping[str, Affine]) -> set[Affine]:
    return {constraint.substitute(values) for constraint in group.block.constraints}


def _moved(place: Place | None, values: Mapping[str, Affine]) -> Place | None:
    """Return a place in terms of the indices of the joined box."""
    return None if place is None else (place[0], place[1].substitute(values))


def _same_layout(
    first: FusionGroup, second: FusionGroup, values: tuple[Mapping[str, Affine], Mapping[str, Affine]]
) -> bool:
    """Return whether both write their results in the same order of elements."""
    written = {
        None if layout is None else layout.substitute(value)
        for group, value in zip((first, second), values, strict=True)
        for layout in group.layouts
    }
    return len(written) == 1 and None not in written
