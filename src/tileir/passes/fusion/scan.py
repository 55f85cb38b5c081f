"""Scan that joins each block with earlier blocks where that is legal and pays, with an index of last writers.

The module also chooses the indices to share between kernels over the same rows.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from tileir.core import NameScope, attrs
from tileir.passes.analysis import DependenceScan, is_element
from tileir.passes.analysis.accesses import views_in_one_place
from tileir.passes.base import NOT_MEANT, selected
from tileir.passes.cost.figures import weights_of
from tileir.passes.fusion.group import FusionGroup
from tileir.passes.fusion.match import (
    SharedIndices,
    has_outer_product,
    lies_side_by_side,
    meet,
    perfect_match,
    read_as_written,
    runs_along_memory,
    runs_in_stretches,
    same_layout,
    shared_indices,
    touched_alike,
    turns_into_tests,
    written_alike,
)
from tileir.passes.fusion.sink import is_direct
from tileir.schedule.nest import chosen_by_data, product
from tileir.schedule.remarks import Refused, refused, refusing, rule_out, strongest
from tileir.stripe.aliases import byte_size
from tileir.stripe.ir import ADVANCE, Block, Direction, Index, Statement, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.passes.fusion.fuse import Fuse


def are_one_row(first: FusionGroup, second: FusionGroup) -> bool:
    """Return whether all loops of both go along a single row, for one group of threads.

    Without an aggregate, only for short rows: for a long one it is faster if each group takes a part.
    """
    aggregated = first.reductions + second.reductions > 0
    if not aggregated and any(_bytes_inside(group, frozenset()) > _SHORT for group in (first, second)):
        return False
    loops = [list(_lengths(group.block, block)) for group in (first, second) for block in (None, *group.nested)]
    return all(len(lengths) < 2 for lengths in loops) and len({length for lengths in loops for length in lengths}) == 1


def _lengths(*blocks: Block | None) -> Iterator[int]:
    return (i.range for block in blocks if block for i in block.indices if i.affine is None and i.range > 1)


def loops_of(group: FusionGroup) -> Iterator[set[str]]:
    """Yield the tensors that each loop of a group accesses; statements outside loops count as one loop."""
    inside = [{view.source for view in block.refinements if view.source} for block in group.nested]
    beside = {
        name for s in group.statements if not isinstance(s, Block) for name in (*views_read(s), *views_written(s))
    }
    for names in (*inside, beside):
        yield {group.roots[source] for name in names if (source := group.views[name].source) in group.roots}


def has_points(options: Fuse, first: FusionGroup, second: FusionGroup, shared: SharedIndices) -> bool:
    """Return whether shared indices have enough points, or each point takes less time than a launch."""
    if shared.points >= options.least_points:
        return True
    sides = ((first, frozenset(index.name for index in shared.first)), (second, shared.second))
    return all(_bytes_inside(group, names) <= options.few_bytes for group, names in sides)


def _bytes_inside(group: FusionGroup, shared: frozenset[str]) -> int:
    """Return the bytes that a group accesses for one shared point, with the widest dtype for all tensors."""
    own = product(i.range for i in group.indices if i.name not in shared)
    inside = (product(i.range for i in block.indices if i.affine is None) for block in group.nested)
    return own * max((1, *inside)) * _widest(group)


def _widest(group: FusionGroup) -> int:
    return max((view.shape.dtype.itemsize for view in group.views.values()), default=1)


def with_long_rows(
    options: Fuse, first: FusionGroup, second: FusionGroup, shared: SharedIndices
) -> SharedIndices | None:
    """Return the shared indices if they leave a row to each group; else None.

    With ``shorten``, only as many of them, outermost first, as leave a row. Pixels and their channels share rows and
    columns, but beside columns only channels are left. Rows may be side by side if options allow it.
    """
    if options.local_bytes and not first.reductions and not second.reductions and _has_chosen_places(first, second):
        return None  # groups of threads cannot share these rows: one thread would take each
    columns = _with_columns(options, first, second, shared) if options.beside_bytes else None
    while columns is None and has_points(options, first, second, shared):
        names = frozenset(index.name for index in shared.first)
        if _is_row(options, first, names) and _is_row(options, second, shared.second):
            return shared
        if not options.shorten or len(shared.pairs) < 2:
            return None
        shared = SharedIndices(shared.pairs[:-1])
    return columns


def _has_chosen_places(*groups: FusionGroup) -> bool:
    """Return whether groups have data-dependent places, except slices that all points access."""
    blocks = [(tuple(each.views.values()), tuple(each.statements)) for each in groups]
    blocks += [(block.refinements, block.statements) for each in groups for block in each.nested]
    return any(not chosen_by_data(inside) <= views_in_one_place(views, inside) for views, inside in blocks)


def _with_columns(
    options: Fuse, first: FusionGroup, second: FusionGroup, shared: SharedIndices
) -> SharedIndices | None:
    """Return the shared indices if rows of both groups are side by side, with the number of rows taken together."""
    sides = ((first, frozenset(index.name for index in shared.first)), (second, shared.second))
    if all(runs_along_memory(group, names) for group, names in sides):
        return None
    if any(not lies_side_by_side(group, names) or _holds_blocks(group, names) for group, names in sides):
        return None
    together = min(max(1, options.beside_bytes // max(map(_widest, (first, second)))), shared.points)
    short = all(_bytes_inside(group, names) * together <= options.few_bytes for group, names in sides)
    enough = short or shared.points >= options.least_points * together
    return SharedIndices(shared.pairs, together) if enough else None


def _holds_blocks(group: FusionGroup, shared: frozenset[str]) -> bool:
    return group.reductions > 0 and not is_direct(group.block, shared)


def _is_row(options: Fuse, group: FusionGroup, shared: frozenset[str]) -> bool:
    """Return whether unshared indices cover a long enough stretch of memory, without nested blocks.

    Groups of threads take several stretches if these are long enough.
    """
    least = _STRETCH // _widest(group)
    along = runs_along_memory(group, shared) or (options.local_bytes and runs_in_stretches(group, shared, least))
    if is_direct(group.block, shared):
        return bool(along)
    points = max((i.range for i in group.indices if i.name not in shared), default=1)
    fits = options.local_bytes or points * _widest(group) <= options.most_bytes
    return bool(options.least_row <= points and fits and not group.reductions and along)


_STRETCH: Final = 2048
"""Minimum bytes that keep a group of threads busy."""

_SHORT: Final = 16_384
"""Maximum bytes that a group of threads handles in less time than a launch."""


_MOST_CANDIDATES = 16
"""Maximum number of groups tried for one block, which keeps the scan linear."""
_MOST_POINTS = 1 << 20
"""Points below which a product takes no longer than the launch of another kernel."""
_TURNED = "transpose"
"""Tag of kernels that copy a tensor to another layout."""

_NARROW = 2
"""Maximum bytes of an element of narrow matrices."""
_DEEP = 32
"""Steps of products from which on those without a common factor stay apart: tiles of both sums would be half as large,
so that each step loads more per multiplication. Storing and reloading a result costs less by then.
"""

_MOST_USERS = 256
"""Maximum number of users of a group that may move down past others."""


@attrs.define(eq=False, repr=False)
class _Fixed:
    """A statement that is no block and keeps its position."""

    position: int
    statement: Statement
    users: set[int] = attrs.field(factory=set)

    def body(self) -> Statement:
        """Return the statement."""
        return self.statement


@attrs.define(eq=False, repr=False)
class FusionScan:
    """The groups so far; statements and the groups that hold them are known by the number of the statement.

    Attributes:
        options: Options of the pass.
        parent: The block whose statements are scanned.
        kept: Its tensors that are live regardless of its statements.
        constants: Constants of the program among these.
    """

    options: Fuse
    parent: Block
    kept: frozenset[str]
    constants: frozenset[str] = frozenset()
    _roots: Mapping[str, str] = attrs.field(init=False)
    _order: DependenceScan = attrs.field(init=False)
    _groups: dict[int, FusionGroup] = attrs.field(factory=dict, init=False)
    _fixed: dict[int, _Fixed] = attrs.field(factory=dict, init=False)
    _joined: dict[int, int] = attrs.field(factory=dict, init=False)
    _readers: dict[str, int] = attrs.field(factory=dict, init=False)
    _writers: dict[str, int] = attrs.field(factory=dict, init=False)
    _given: frozenset[str] = attrs.field(init=False)
    _touches: Counter[str] = attrs.field(factory=Counter, init=False)
    _temporary: frozenset[str] = attrs.field(init=False)
    _touching: dict[str, list[int]] = attrs.field(factory=dict, init=False)
    _bytes: dict[str, int] = attrs.field(factory=dict, init=False)
    _passing: set[str] = attrs.field(factory=set, init=False)
    _known: set[str] = attrs.field(init=False)
    _begun: dict[str, int] = attrs.field(factory=dict, init=False)
    _visited: int = attrs.field(default=0, init=False)
    _joining: set[int] = attrs.field(factory=set, init=False)
    _refused: dict[int, list[Refused]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._roots = {r.name: r.source or r.name for r in self.parent.refinements}
        self._order = DependenceScan(self._roots)
        self._known = set(self.constants)
        self._temporary = frozenset(self._roots.values()) - self.kept
        self._given = frozenset(self._roots[r.name] for r in self.parent.refinements if r.direction.reads)
        for number, statement in enumerate(self.parent.statements):
            written = views_written(statement)
            for name in written:
                self._writers.setdefault(self._roots[name], number)
            if isinstance(statement, Block) and any(tag in statement.tags for tag in self.options.exclude):
                self._passing.update(self._roots[name] for name in written)
            touched = {self._roots[name] for name in (*views_read(statement), *written)}
            self._touches.update(touched)
            for root in sorted(touched & self._temporary):
                self._touching.setdefault(root, []).append(number)
        self._bytes = {self._roots[r.name]: byte_size(r) for r in self.parent.refinements}
        if self.options.costly:
            self._weigh()

    def _weigh(self) -> None:
        """Record for each tensor the operations in the longest chain of kernels that begins with its writer."""
        read_by: dict[str, int] = {}
        for statement in reversed(self.parent.statements):
            if not isinstance(statement, Block) or statement.blocks:
                continue
            written = {self._roots[name] for name in views_written(statement)}
            count = weights_of(statement) + max((read_by.get(root, 0) for root in written & self._temporary), default=0)
            self._begun.update(dict.fromkeys(written, count))
            for root in {self._roots[name] for name in views_read(statement)}:
                read_by[root] = max(read_by.get(root, 0), count)

    def statements(self) -> tuple[Statement, ...]:
        """Return the statements of the parent with blocks joined; the identical tuple if none was."""
        if len(self.parent.blocks) < 2:
            return self.parent.statements
        for number, statement in enumerate(self.parent.statements):
            self._visited = number + 1
            needs = self._order.visit(number, statement)
            if isinstance(statement, Block):
                self._visit(number, statement, needs)
            else:
                self._fixed[number] = _Fixed(number, statement)
                for need in needs:
                    self._at(need).users.add(number)
        if not self._joining:
            return self.parent.statements
        both: list[FusionGroup | _Fixed] = [*self._groups.values(), *self._fixed.values()]
        return tuple(group.body() for group in sorted(both, key=lambda group: group.position))

    def outcomes(self) -> Iterator[tuple[int, Block, Refused | None]]:
        """Yield each block by number, after the scan, with the reason why it stands alone; None if it was joined."""
        for number, block in enumerate(self.parent.statements):
            if isinstance(block, Block):
                said = self._refused.get(number)
                why = refused("TR681") if said is None else strongest(said)
                yield number, block, None if number in self._joining else why

    def _visit(self, number: int, block: Block, needs: set[int]) -> None:
        """Add a block, and join it with earlier blocks where that is legal and pays."""
        group = FusionGroup.of(number, block, self._roots)
        group.needs = needs
        group.is_known = self._is_known(group)
        group.shared = sum(self._is_shared(tensor, 1) for tensor in group.touched)
        self._groups[number] = group
        producers = {self._find(need) for need in needs}
        for producer in producers:
            self._at(producer).users.add(number)
        if not group.is_movable:
            self._refused[number] = [refused("TR682")]
            return
        candidates = sorted(producers & self._groups.keys(), key=lambda p: self._groups[p].position, reverse=True)
        for producer in candidates[:_MOST_CANDIDATES]:
            self._try(producer, number, sibling=False)
        if self.options.siblings:
            self._join_sibling(number)
        self._readers.update(dict.fromkeys(group.read, number))

    def _is_known(self, group: FusionGroup) -> bool:
        """Return whether a kernel depends on constants alone, so that it may run once, ahead of the program."""
        known = group.read - group.written <= self._known and group.written <= self._temporary
        if known:
            self._known |= group.written
        else:
            self._known -= group.written
        return known

    def _join_sibling(self, number: int) -> None:
        group = self._groups[self._find(number)]
        readers = {self._find(self._readers[root]) for root in group.read if root in self._readers}
        readers.discard(self._find(number))
        for reader in sorted(readers, key=lambda r: self._groups[r].position, reverse=True)[:_MOST_CANDIDATES]:
            if self._try(reader, number, sibling=True):
                return

    def _at(self, number: int) -> FusionGroup | _Fixed:
        found = self._find(number)
        return self._fixed[found] if found in self._fixed else self._groups[found]

    def _find(self, number: int) -> int:
        """Return the number of the group of a statement."""
        path = []
        while (parent := self._joined.get(number)) is not None:
            path.append(number)
            number = parent
        if len(path) > 1:
            self._joined.update(dict.fromkeys(path, number))
        return number

    def _try(self, one: int, other: int, *, sibling: bool) -> bool:
        """Join the groups of two blocks if that is legal and within the limits."""
        one, other = self._find(one), self._find(other)
        if one == other:
            return False
        first, second = sorted((self._groups[one], self._groups[other]), key=lambda group: group.position)
        base = self._together(first, second, sibling=sibling)
        if isinstance(base, Refused):
            self._refused.setdefault(other, []).append(base)
            return False
        kept, gone = (one, other) if self._groups[one] is base else (other, one)
        self._joined[gone] = kept
        del self._groups[gone]
        self._joining.update((kept, gone))
        return True

    @refusing
    def _together(self, first: FusionGroup, second: FusionGroup, *, sibling: bool) -> FusionGroup | Refused:
        """Return the joined group; refused if that is not legal, or does not pay."""
        rule_out(self._against(first, second))
        position = self._common_position(first, second)
        if position is None:
            return refused("TR687")
        if self._keeps_more(first, second, position):
            return refused("TR688")
        if self._turns(first, second):
            return refused("TR689")
        base = self._joined_whole(first, second, sibling=sibling)
        if base is None and (not self.options.perfect or (sibling and self.options.sibling_reductions)):
            base = self._joined_shared(first, second, sibling=sibling)
        if base is None:
            return refused("TR689")
        base.position = position
        return base

    def _turns(self, first: FusionGroup, second: FusionGroup) -> bool:
        """Return whether one group transposes the output of the other, which others need as it is.

        Tiles of a transposed copy go through local memory, but not if the same threads store elements in both layouts.
        """
        return any(
            _TURNED in copy.block.tags and self._is_shared(root, copy.touched[root] + made.touched[root])
            for made, copy in ((first, second), (second, first))
            for root in made.written & copy.read
        )

    def _joined_whole(self, first: FusionGroup, second: FusionGroup, *, sibling: bool) -> FusionGroup | None:
        """Join groups whose boxes correspond; return None if they cannot be joined."""
        if sibling and first.reductions + second.reductions:
            return None
        # The larger body, or the one with the reduction, stays; the other is renamed to fit.
        before = first.reductions == 0 and (second.reductions > 0 or second.members > first.members)
        base, added = (second, first) if before else (first, second)
        match = perfect_match(base, added, sibling=sibling)
        if match is None or not meet(first, second, base, match, before=before, sibling=sibling):
            return None
        if self.options.output_match and not same_layout(base, added, (match.first, match.second)):
            return None
        if base is first and turns_into_tests(base, added, (match.first, match.second)):
            return None
        if dict(match.ranges) != base.block.ranges:
            base.reindex(tuple(Index(name, count) for name, count in match.ranges), match.first)
        added.reindex(base.indices, match.second)
        return self._absorbed(base, added, before=before)

    def _joined_shared(self, first: FusionGroup, second: FusionGroup, *, sibling: bool) -> FusionGroup | None:
        """Join groups over shared indices, with the others in nested blocks."""
        options = self.options
        shared = shared_indices(first, second, sibling=sibling)
        if options.few_bytes and shared is None and are_one_row(first, second):
            shared = SharedIndices(())
        if shared is None or not (options.rows or has_points(options, first, second, shared)):
            return None
        if options.perfect and not len(shared.pairs) == len(first.indices) == len(second.indices):
            return None
        if options.rows:
            shared = with_long_rows(options, first, second, shared)
            if shared is not None and not self._fit(first, second, shared):
                return None
        if shared is None:
            return None
        # A thread would read an element of a shared row before another thread has stored it.
        handed_on = first.written if options.few_bytes else self._fresh(first, second)
        if not read_as_written(first, second, shared, handed_on):
            return None
        if options.rows and not touched_alike(first, second, shared):
            return None
        if options.few_bytes and not written_alike(first, second, shared):  # a group of threads shares each row
            return None
        # Row schedules need unique index names; elsewhere nested blocks may reuse names.
        taken = NameScope.of(first.nested_index_names() | second.nested_index_names() if options.rows else ())
        outer = tuple(attrs.evolve(index, name=taken.fresh(index.name)) for index in shared.first)
        second_own = tuple(Index(theirs, index.range) for index, theirs in shared.pairs)
        first.sink(shared.first, outer, options.a_inner_set, options.inner_remove_set)
        second.sink(second_own, outer, options.b_inner_set, options.inner_remove_set)
        return self._absorbed(first, second, before=False)

    def _fit(self, first: FusionGroup, second: FusionGroup, shared: SharedIndices) -> bool:
        """Return whether rows have ordinary length, or intermediates without other users fit local memory.

        Values that one loop both writes and reads need no room.
        """
        touched = first.touched + second.touched
        loops = Counter(root for group in (first, second) for loop in loops_of(group) for root in loop)
        own = sum(self._bytes[root] for root, n in loops.items() if n > 1 and not self._is_shared(root, touched[root]))
        longest = max((self._bytes[root] for root in touched), default=0)
        local, most = (each * shared.points for each in (self.options.local_bytes, self.options.most_bytes))
        local, most = local // shared.together, most // shared.together
        return not local or longest <= most or own <= local

    def _absorbed(self, base: FusionGroup, added: FusionGroup, *, before: bool) -> FusionGroup:
        base.is_known = base.is_known and added.is_known
        base.shared = self._shared(base, added)
        base.absorb(added, before=before, tags=self.options.fused_set, fresh=self._fresh(base, added))
        return base

    def _against(self, first: FusionGroup, second: FusionGroup) -> Refused | None:
        """Return why the options keep two groups apart, regardless of positions."""
        options, reductions = self.options, first.reductions + second.reductions
        if not (first.is_movable and second.is_movable):
            return refused("TR682")
        if ADVANCE in first.block.tags or ADVANCE in second.block.tags:  # lowering assigns a thread of another kernel
            return refused("TR691")
        if first.is_known is not second.is_known and (first if first.is_known else second).reductions:
            return refused("TR696")
        excluded = any(tag in group.block.tags for tag in options.exclude for group in (first, second))
        if excluded or not (selected(first.block, options.a_reqs) and selected(second.block, options.b_reqs)):
            return NOT_MEANT
        constrained = options.no_constraints and (first.block.constraints or second.block.constraints)
        if constrained or (options.no_inner and reductions):
            return refused("TR683")
        if reductions and (first.chosen_by_data or second.chosen_by_data):
            return refused("TR690")
        if reductions > options.max_reductions:
            return refused("TR684", loops=reductions, most=options.max_reductions)
        if options.rows and first.reductions and second.reductions:
            products = sum(map(has_outer_product, (first, second)))
            if products == 1 or (products == 2 and not options.products):
                return refused("TR685")
            if products and _share_nothing(first, second):
                return refused("TR697")
        computations, tensors = first.computations + second.computations, self._shared(first, second)
        many = computations > options.max_statements or tensors > options.max_refs
        if many or (options.costly and self._is_costly(first, second)):
            return refused("TR686", statements=computations, tensors=tensors)
        return None

    def _is_costly(self, product: FusionGroup, second: FusionGroup) -> bool:
        """Return whether a kernel computes much with results of a product that are stored anyway."""
        handed_on = second.read & product.written
        if not handed_on or second.reductions or not product.reductions or handed_on & self._temporary:
            return False
        begun = max(self._begun.get(root, 0) for root in second.written)
        points = math.prod(product.block.ranges[each.name] for each in product.indices)
        factors = [view for view in product.views.values() if view.direction is Direction.IN and not is_element(view)]
        narrow = all(view.shape.dtype.itemsize <= _NARROW for view in factors)
        return begun > self.options.costly and points >= _MOST_POINTS and narrow and has_outer_product(product)

    def _fresh(self, *groups: FusionGroup) -> frozenset[str]:
        """Return the tensors without content before ``groups``, which write them."""
        return frozenset(root for group in groups for root in group.written if self._is_fresh(root, *groups))

    def _is_fresh(self, root: str, *groups: FusionGroup) -> bool:
        """Return whether one of ``groups`` is the first to write a tensor without earlier content."""
        writer = self._writers.get(root)
        return writer is not None and root not in self._given and self._at(writer) in groups

    def _is_shared(self, tensor: str, members: int) -> bool:
        """Return whether a tensor that ``members`` blocks of a group access is needed outside it, too."""
        return tensor not in self._temporary or members < self._touches[tensor]

    def _shared(self, first: FusionGroup, second: FusionGroup) -> int:
        """Return the number of tensors of the joined group that are needed outside it, too."""
        large, small = (first, second) if len(first.touched) >= len(second.touched) else (second, first)
        count = large.shared
        for tensor, members in small.touched.items():
            mine = large.touched.get(tensor, 0)
            count += self._is_shared(tensor, mine + members) - (mine > 0 and self._is_shared(tensor, mine))
        return count

    def _keeps_more(self, first: FusionGroup, second: FusionGroup, position: int) -> bool:
        """Return whether distant groups, joined at ``position``, need more memory between them than apart.

        The unit is bytes times statements. The live ranges of the moved group's results grow or shrink, and so do those
        of its inputs without later users. Outputs of blocks that are excluded from fusion do not count: copies that are
        going to be bypassed may go.
        """
        start, end = first.position, second.position
        if end - start < self.options.far:
            return False
        grown = 0
        moved = second if position == start else first
        for root in moved.touched:
            if root not in self._temporary or root in self._passing:
                continue
            last = self._last_other(root, first, second)
            if position == start and root in second.written:
                grown += self._bytes[root] * ((end - start) * (last > end))
            elif position == start:
                grown -= self._bytes[root] * max(0, end - max(start, last))
            elif root in first.written:
                grown -= self._bytes[root] * (end - start)
            elif root not in second.touched:
                grown += self._bytes[root] * max(0, end - max(start, last))
        return grown > 0

    def _last_other(self, root: str, first: FusionGroup, second: FusionGroup) -> int:
        """Return the position of the last user of a temporary outside two groups; else -1."""
        for number in reversed(self._touching[root][-_MOST_CANDIDATES:]):
            group = self._at(number) if number < self._visited else None
            if group is None:
                return number
            if group is not first and group is not second:
                return group.position
        return -1

    def _common_position(self, first: FusionGroup, second: FusionGroup) -> int | None:
        """Return a position for the joined group; None if a group between them may have to stay between.

        Groups are in an order that respects all dependences, so only groups between the two can be in the way.
        """
        needs = map(self._at, second.needs)
        if all(g is first or g is second or g.position < first.position for g in needs):
            return first.position
        if len(first.users) > _MOST_USERS:
            return None
        users = map(self._at, first.users)
        if all(g is first or g is second or g.position > second.position for g in users):
            return second.position
        return None


def _share_nothing(*groups: FusionGroup) -> bool:
    """Return whether the loops of two groups are long, and no loop of one reads a tensor of a loop of the other."""
    if any(block.points < _DEEP for group in groups for block in group.nested):
        return False
    first, second = (set[str]().union(*list(loops_of(group))[:-1]) for group in groups)
    return first.isdisjoint(second)
