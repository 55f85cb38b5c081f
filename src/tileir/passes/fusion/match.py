"""Legality of fusion: points of two groups of blocks that may run as one.

Points may be joined if corresponding points access the same elements, and no others, of all tensors that one of the
blocks writes and the other accesses. A *perfect* match holds for whole boxes and single elements; a match of *shared*
indices for some of the indices and the range of the rest, such as a row.

The module also finds the correspondence of index boxes that enumerate the same elements.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import TypeAlias

from tileir.core import NameScope, attrs
from tileir.passes.analysis.accesses import is_element, part_over, views_in_one_place
from tileir.passes.fusion.group import Element, FusionGroup
from tileir.passes.fusion.sink import owns
from tileir.poly.affine import Affine
from tileir.stripe.ir import Direction, Index, Refinement


@attrs.frozen
class Correspondence:
    """One box of new indices, and the old indices of two boxes as affines of them.

    The new box enumerates both old boxes, each point once, so that two given addresses agree at every point.
    ``first`` and ``second`` omit unchanged indices.
    """

    ranges: tuple[tuple[str, int], ...]
    first: Mapping[str, Affine]
    second: Mapping[str, Affine]


@attrs.define(eq=False, repr=False)
class _Digits:
    """The indices of one box as the digits of an address, least significant first; consumed piece by piece."""

    rest: list[tuple[int, int, str]]
    taken: int = 1  # product of the ranges of the pieces taken from the current digit
    values: dict[str, Affine] = attrs.field(factory=dict)

    @property
    def stride(self) -> int:
        return self.rest[-1][0] * self.taken

    @property
    def left(self) -> int:
        return self.rest[-1][1] // self.taken

    @property
    def name(self) -> str:
        return self.rest[-1][2]

    def is_whole(self, count: int) -> bool:
        return self.rest[-1][1] == count

    def changes(self) -> dict[str, Affine]:
        """Return the values of the changed indices."""
        return {name: value for name, value in self.values.items() if value.terms != ((name, 1),)}

    def take(self, count: int, piece: str) -> None:
        """Bind the lowest ``count`` remaining values of the current digit to the index ``piece``."""
        name = self.name
        self.values[name] = self.values.get(name, Affine()) + Affine.of({piece: self.taken})
        self.taken *= count
        if self.is_whole(self.taken):
            self.rest.pop()
            self.taken = 1


def correspond(
    first: Affine,
    first_ranges: Mapping[str, int],
    second: Affine,
    second_ranges: Mapping[str, int],
    fresh: Callable[[str], str],
) -> Correspondence | None:
    """Return the correspondence of two boxes in which equal addresses mean equal points; None if there is none.

    Digits of different ranges are split: with ``8·i + j`` over 4 x 8 on one side and ``k`` over 32 on the other,
    ``k`` becomes ``8·i + j``. Whole indices of the first box keep their names, pieces get names by ``fresh``.
    """
    if first.offset != second.offset:
        return None
    left, right = _digits(first, first_ranges), _digits(second, second_ranges)
    if left is None or right is None:
        return None
    ranges: list[tuple[str, int]] = []
    while left.rest and right.rest:
        count = min(left.left, right.left)
        if left.stride != right.stride or left.left % count or right.left % count:
            return None
        piece = left.name if left.is_whole(count) else fresh(left.name)
        ranges.append((piece, count))
        left.take(count, piece)
        right.take(count, piece)
    if left.rest or right.rest:
        return None
    return Correspondence(tuple(reversed(ranges)), left.changes(), right.changes())


def _digits(address: Affine, ranges: Mapping[str, int]) -> _Digits | None:
    """Return the indices as digits; None if an index that moves does not occur in the address."""
    coefficients = {name: int(c) for name, c in address.terms}
    if any(count > 1 and name not in coefficients for name, count in ranges.items()):
        return None
    digits = [(coefficients[name], count, name) for name, count in ranges.items() if count > 1]
    # The least digit is last, and is taken from there; a digit is never 0, so the sign decides nothing else.
    digits.sort(key=lambda digit: abs(digit[0]), reverse=True)
    return _Digits(digits, values={name: Affine() for name, count in ranges.items() if count == 1})


_Corner: TypeAlias = tuple[str, tuple[Affine, ...], tuple[int, ...]]
"""The tensor, the start of a view in it, and its strides."""


def hazards(first: FusionGroup, second: FusionGroup) -> set[str]:
    """Return the tensors that both access and one writes."""
    return (first.written & (second.written | second.read)) | (second.written & first.read)


def perfect_match(base: FusionGroup, added: FusionGroup, *, sibling: bool) -> Correspondence | None:
    """Return the correspondence of the boxes by the first tensor that the groups share and one reads."""
    tensors = base.read & added.read if sibling else hazards(base, added)
    own = (index.name for index in (*base.indices, *added.indices))
    names = NameScope.of((*own, *base.nested_index_names(), *added.nested_index_names()))
    for root in sorted(tensors, key=lambda root: (root in base.written & added.written, root)):
        for mine, theirs in product(base.places(root), added.places(root)):
            if mine is None or theirs is None or mine[0] != theirs[0]:
                continue
            found = correspond(mine[1], base.block.ranges, theirs[1], added.block.ranges, names.fresh)
            if found is not None:
                return found
    return None


def meet(
    first: FusionGroup, second: FusionGroup, base: FusionGroup, match: Correspondence, *, before: bool, sibling: bool
) -> bool:
    """Return whether one point of the joined box may run both bodies.

    Corresponding points must access the same elements of all tensors that one writes and the other uses, or elements
    that no other point accesses, and immovable statements must not need statements that come after them.
    """
    values = (match.first, match.second) if base is first else (match.second, match.first)
    if _substituted(first, values[0]) != _substituted(second, values[1]):
        return False
    new = {name for name, _ in match.ranges}
    if new & first.nested_index_names() or new & second.nested_index_names():
        return False
    touched = hazards(first, second)
    if before and second.head and second.head_touches(touched):
        return False
    for root in sorted(touched):
        places = {_moved(place, values[0]) for place in first.places(root)}
        places.update(_moved(place, values[1]) for place in second.places(root))
        if None in places or not _apart([place for place in places if place is not None], dict(match.ranges)):
            return False
    return not sibling or same_layout(first, second, values)


def _apart(places: Sequence[Element], ranges: Mapping[str, int]) -> bool:
    """Return whether no element is reached through different places by different points.

    Examples are channels of a pixel, and pixels of several residues.
    """
    moves = [Affine(place.terms) for _, place in places]
    if not places or any(move != moves[0] for move in moves) or any(source != places[0][0] for source, _ in places):
        return False
    steps = sorted(((abs(int(c)), ranges[name]) for name, c in moves[0].terms), reverse=True)
    offsets = [int(place.offset) for _, place in places]
    return not any(_reaches(abs(one - other), steps) for one, other in combinations(offsets, 2))


def _reaches(distance: int, steps: Sequence[tuple[int, int]]) -> bool:
    """Return whether two points may differ by ``distance``, given steps and ranges of indices, longest steps first."""
    if not steps:
        return distance == 0
    (step, count), rest = steps[0], steps[1:]
    reach = sum(each * (most - 1) for each, most in rest)
    low, high = max(-(-(distance - reach) // step), 1 - count), min((distance + reach) // step, count - 1)
    if high - low > _TRIED:
        return True
    return any(_reaches(distance - number * step, rest) for number in range(low, high + 1))


_TRIED = 2
"""Maximum number of step differences that are tried; wider ranges count as reached."""


def _substituted(group: FusionGroup, values: Mapping[str, Affine]) -> set[Affine]:
    return {constraint.substitute(values) for constraint in group.block.constraints}


def _moved(place: Element | None, values: Mapping[str, Affine]) -> Element | None:
    return None if place is None else (place[0], place[1].substitute(values))


def same_layout(
    first: FusionGroup, second: FusionGroup, values: tuple[Mapping[str, Affine], Mapping[str, Affine]]
) -> bool:
    """Return whether both write their results in the same order of elements; sums over the whole box have none."""
    written = {
        None if layout is None else Affine(layout.substitute(value).terms)
        for group, value in zip((first, second), values, strict=True)
        for layout in group.layouts
    }
    return len(written) < 2 and None not in written


def turns_into_tests(
    first: FusionGroup, second: FusionGroup, values: tuple[Mapping[str, Affine], Mapping[str, Affine]]
) -> bool:
    """Return whether the second writes along an index that reductions of the first test, and the first does not.

    Joined, neighbouring results would be along the tested index, which prevents vectors.
    """
    tested = {
        name
        for block in first.nested
        for constraint in block.constraints
        for index in block.indices
        if index.affine is not None and index.name in constraint.indices
        for outer in index.affine.indices
        for name in values[0].get(outer, Affine.index(outer)).indices
    }
    before, after = (
        {name for layout in group.layouts if layout is not None for name in _neighbours(layout.substitute(value))}
        for group, value in zip((first, second), values, strict=True)
    )
    return bool(tested & after - before)


def _neighbours(layout: Affine) -> Iterator[str]:
    return (name for name, coefficient in layout.terms if coefficient == 1)


@attrs.frozen
class SharedIndices:
    """Indices that two blocks share, as pairs of an index of the first and its name in the second.

    One group of threads takes ``together`` of their values, which are contiguous in memory.
    """

    pairs: tuple[tuple[Index, str], ...]
    together: int = 1

    @property
    def points(self) -> int:
        """Number of points of the box of shared indices."""
        return prod([index.range for index, _ in self.pairs])

    @property
    def first(self) -> tuple[Index, ...]:
        """The indices, as the first block has them."""
        return tuple(index for index, _ in self.pairs)

    @property
    def second(self) -> frozenset[str]:
        """Names in the second block."""
        return frozenset(name for _, name in self.pairs)


def shared_indices(first: FusionGroup, second: FusionGroup, *, sibling: bool) -> SharedIndices | None:
    """Return the indices by which the blocks can run as one; None if there are none.

    For every pair of views of one tensor, of which one writes, each shared index must move both along one axis in equal
    steps, to elements that no other value of it reaches. Siblings have no such pair; they share the indices that move
    them alike along the first tensor that both read.
    """
    found: dict[str, str] | None = None
    for root in sorted(hazards(first, second)):
        for one, other in product(first.views_of(root), second.views_of(root)):
            if one.direction.writes or other.direction.writes:
                pairs = _axes_in_step(one, other, first.block.ranges, second.block.ranges)
                found = pairs if found is None else {a: b for a, b in found.items() if pairs.get(a) == b}
    if found is None and sibling:
        for root in sorted(first.read & second.read):
            for one, other in product(first.views_of(root), second.views_of(root)):
                found = found or _axes_in_step(one, other, first.block.ranges, second.block.ranges)
    if not found or len(set(found.values())) < len(found):
        return None
    return SharedIndices(tuple((index, found[index.name]) for index in first.indices if index.name in found))


def _axes_in_step(
    one: Refinement, other: Refinement, ranges: Mapping[str, int], other_ranges: Mapping[str, int]
) -> dict[str, str]:
    """Return pairs of indices that move the two views alike along an axis."""
    pairs: dict[str, str] = {}
    if one.source != other.source or len(one.access) != len(other.access):
        return pairs
    if one.shape.strides != other.shape.strides or Direction.NONE in (one.direction, other.direction):
        return pairs
    for mine, theirs, a, b in zip(one.access, other.access, one.shape.dims, other.shape.dims, strict=True):
        if len(mine.terms) != 1 or len(theirs.terms) != 1 or mine.offset != theirs.offset:
            continue
        (name, step), (theirs_name, theirs_step) = mine.terms[0], theirs.terms[0]
        size = max(a.size, b.size)
        alike = step == theirs_step and ranges[name] == other_ranges[theirs_name] > 1
        if alike and owns(mine, name, size) and owns(theirs, theirs_name, size):
            pairs.setdefault(name, theirs_name)
    return pairs


def read_as_written(first: FusionGroup, second: FusionGroup, shared: SharedIndices, fresh: Iterable[str]) -> bool:
    """Return whether, over shared indices, the second block reads by the views by which the first writes.

    Other views, such as those of a row's last elements, or of more than one of several blocks writes, would need
    content from before the joined block: tensors in ``fresh`` have none. So would one element that all points of the
    second block load, of several that a nested block of the first stores.
    """
    mine = {i.name: i.range for i in first.indices if i not in shared.first}
    their_own = {i.name: i.range for i in second.indices if i.name not in shared.second}
    for root in sorted(fresh):
        ours, theirs = _corners(first, second, shared, root)
        written = [(corner, _reach(view, mine)) for corner, view in ours if view.direction.writes]
        for corner, view in theirs:
            needed = _reach(view, their_own)
            if (
                written
                and view.direction.reads
                and not any(
                    corner == place
                    and all(a <= b for a, b in zip(needed, reach, strict=True))
                    and (not is_element(view) or needed == reach or needed != view.shape.sizes)
                    for place, reach in written
                )
            ):
                return False
    return True


def _reach(view: Refinement, ranges: Mapping[str, int]) -> tuple[int, ...]:
    """Return the number of places along each axis that a view reaches over the indices in ``ranges``."""
    parts = (part_over(access, ranges).bounds(ranges)[1] for access in view.access)
    return tuple(dim.size + int(part) for dim, part in zip(view.shape.dims, parts, strict=True))


def touched_alike(first: FusionGroup, second: FusionGroup, shared: SharedIndices) -> bool:
    """Return whether, over shared indices, both blocks have one view of each tensor that one of them writes.

    Then values passed from one to the other can stay in memory shared by the threads of a group.
    """
    for root in sorted(hazards(first, second)):
        ours, theirs = _corners(first, second, shared, root)
        if len({corner for corner, _ in (*ours, *theirs)}) > 1:
            return False
    return True


def written_alike(first: FusionGroup, second: FusionGroup, shared: SharedIndices) -> bool:
    """Return whether both blocks write their common outputs in the same order, element by element or row by row.

    Otherwise threads that share a row would overwrite each other's elements.
    """
    sides = ((first, frozenset(index.name for index in shared.first)), (second, shared.second))
    for root in first.written & second.written:
        views = [(group, view, names) for group, names in sides for view in group.views_of(root)]
        orders = {_order(*each) for each in views if each[1].direction.writes}
        if None in orders or len(orders) > 1:
            return False
    return True


def _order(group: FusionGroup, view: Refinement, shared: frozenset[str]) -> tuple[object, ...] | None:
    """Return how indices other than ``shared`` move each axis of a view; None if a nested block does."""
    ranges = group.block.ranges
    parts = (part_over(access, {n: r for n, r in ranges.items() if n not in shared}) for access in view.access)
    moves = tuple(tuple(sorted((c, ranges[name]) for name, c in part.terms)) for part in parts)
    return moves if is_element(view) and not (any(moves) and group.block.constraints) else None


def _corners(
    first: FusionGroup, second: FusionGroup, shared: SharedIndices, root: str
) -> tuple[list[tuple[_Corner, Refinement]], list[tuple[_Corner, Refinement]]]:
    """Return the views of a tensor in both blocks, each with its start in terms of the first one's indices."""
    own = frozenset(index.name for index in shared.first)
    names = {theirs: Affine.index(mine.name) for mine, theirs in shared.pairs}
    ours = [(_corner(view, first.block.ranges, own), view) for view in first.views_of(root)]
    theirs = []
    for view in second.views_of(root):
        source, access, strides = _corner(view, second.block.ranges, shared.second)
        theirs.append(((source, tuple(a.substitute(names) for a in access), strides), view))
    return ours, theirs


def _corner(view: Refinement, ranges: Mapping[str, int], shared: frozenset[str]) -> _Corner:
    """Return the identity, except extents, of a view over all indices other than ``shared``."""
    rest = {name: count for name, count in ranges.items() if name not in shared}
    parts = (part_over(access, rest) for access in view.access)
    return view.source, tuple(a - part for a, part in zip(view.access, parts, strict=True)), view.shape.strides


def runs_along_memory(group: FusionGroup, shared: Iterable[str]) -> bool:
    """Return whether elements along unshared indices are closer together in memory than along shared indices."""
    return all(not outer or not inner or max(inner) < min(outer) for outer, inner in _all_steps(group, shared))


def runs_in_stretches(group: FusionGroup, shared: Iterable[str], least: int) -> bool:
    """Return whether unshared indices cover contiguous stretches of memory of at least ``least`` elements."""
    steps = _all_steps(group, shared)
    return all(not outer or not inner or (min(inner) == 1 and min(outer) >= least) for outer, inner in steps)


def lies_side_by_side(group: FusionGroup, shared: Iterable[str]) -> bool:
    """Return whether unshared indices are strided in memory, and a shared index is contiguous."""
    return all(not outer or not inner or min(outer) == 1 for outer, inner in _all_steps(group, shared))


def _all_steps(group: FusionGroup, shared: Iterable[str]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the result of :func:`_steps` for each view."""
    names = frozenset(shared)
    placed = views_in_one_place(group.views.values(), group.statements)
    return (_steps(group, view, names, 1 if view.name in placed else 0) for view in group.views.values())


def _steps(group: FusionGroup, view: Refinement, shared: Container[str], first: int) -> tuple[list[int], list[int]]:
    """Return the strides, in elements, of shared and of inner indices in a view, from an axis on."""
    outer: list[int] = []
    inner: list[int] = []
    for access, dim in zip(view.access[first:], view.shape.dims[first:], strict=True):
        for name, c in access.terms:
            if group.block.ranges[name] > 1:
                (outer if name in shared else inner).append(abs(int(c) * dim.stride))
        if dim.size > 1:
            inner.append(abs(dim.stride))
    return ([], []) if view.direction is Direction.NONE else (outer, inner)


def has_outer_product(group: FusionGroup) -> bool:
    """Return whether inner loops go over two inputs, each moved by an index that does not move the other.

    These are matrix products, where tiles of results share inputs. Loops without sums do not count.
    """
    if not any(view.merges for block in group.nested for view in block.refinements):
        return False
    moved = {
        frozenset(name for access in view.access for name in access.indices if group.block.ranges[name] > 1)
        for view in group.views.values()
        if view.direction is Direction.IN and any(dim.size > 1 for dim in view.shape.dims)
    }
    return any(one - other and other - one for one, other in combinations(moved, 2))
