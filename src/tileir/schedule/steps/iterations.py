"""Steps over the iterations of loops beside and in one another: fuse, distribute, skew and persist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.meetings import Touch, apart, may_meet, touches
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import shared_merge, taken
from tileir.schedule.steps.loops import chain_of, expanded, in_array, in_tables
from tileir.schedule.tree import (
    Item,
    Known,
    Loop,
    Replaced,
    Size,
    Tree,
    map_leaves,
    map_outer_uses,
    with_loops_replaced,
)
from tileir.stripe.bindings import Binding


@attrs.frozen
class Fuse:
    """Make one loop of two neighbours of one size, where no iteration needs another one of the other loop.

    Attributes:
        loops: The first and the second loop, with nothing between them; they may have one name.
        into: The name of the loop that they become.
    """

    name: ClassVar[str] = "fuse"
    loops: tuple[str, str]
    into: str

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # all steps are called alike
        """Return the tree with one loop for each two that are neighbours."""
        rule_out(taken(known, tree, (self.into,), *self.loops))
        known_loops = {loop.name for loop in tree.loops()}
        if missing := [name for name in self.loops if name not in known_loops]:
            return refused("TR701", loop=missing[0], loops=", ".join(sorted(known_loops)))
        sources = {each.name: each.source or each.name for each in tree.kernel.refinements}
        body = accepted(self._fused(tree.body, (), sources))
        if body == tree.body:
            return refused("TR748", first=self.loops[0], second=self.loops[1])
        return attrs.evolve(tree, body=body)

    @refusing
    def _fused(
        self, items: tuple[Item, ...], around: tuple[Loop, ...], sources: Mapping[str, str]
    ) -> tuple[Item, ...] | Refused:
        done: list[Item] = []
        for item in items:
            before = done[-1] if done else None
            if isinstance(item, Loop) and isinstance(before, Loop) and (before.name, item.name) == self.loops:
                refusal = self._against(before, item, around, sources)
                if refusal is not None:
                    return refusal
                done[-1] = self._both(before, item)
            elif isinstance(item, Loop):
                body = accepted(self._fused(item.body, (*around, item), sources))
                done.append(attrs.evolve(item, body=body))
            else:
                done.append(item)
        return tuple(done)

    def _both(self, first: Loop, second: Loop) -> Loop:
        place = Affine.index(self.into)
        body = tuple(part for each in (first, second) for part in map_leaves(each.body, {each.name: place}))
        return attrs.evolve(
            first,
            name=self.into,
            body=body,
            allocations=tuple(dict.fromkeys((*first.allocations, *second.allocations))),
            reduces=first.reduces or second.reduces,
            peels=first.peels and second.peels,
            last=first.last if first.last == second.last else None,
        )

    def _against(
        self, first: Loop, second: Loop, around: tuple[Loop, ...], sources: Mapping[str, str]
    ) -> Refused | None:
        """Return why two loops cannot be one; None where they can."""
        if first.bound or second.bound:
            bound = first if first.bound else second
            return refused("TR707", loop=bound.name, binding=bound.bound)
        if first.size != second.size:
            return refused("TR749", first=first.size, second=second.size)
        made = {each.name: each for each in first.allocations}
        if unlike := [each.name for each in second.allocations if made.get(each.name, each) != each]:
            return refused("TR705", name=unlike[0])
        step = apart(second.name) - Affine.index(first.name)
        for one, other in _meetings(first, second, sources):
            if any(may_meet(one, other, around, [(way, None)]) for way in (step - 1, -step - 1)):
                return refused("TR750", first=first.name, second=second.name, memory=one.use.root)
        return None


def _meetings(first: Loop, second: Loop, sources: Mapping[str, str]) -> Iterator[tuple[Touch, Touch]]:
    """Yield uses of the same memory in two loops whose order counts."""
    for one, other in product(touches((first,)), touches((second,))):
        use, later = one.use, other.use
        same = sources.get(use.root, use.root) == sources.get(later.root, later.root)
        merging = use.merges and later.merges and use.aggregation == later.aggregation
        if same and (use.direction.writes or later.direction.writes) and not merging:
            yield one, other


@attrs.frozen
class Distribute:
    """Make two loops in turn of one: over the first things in its body, and over the others.

    Memory that its iterations have for themselves becomes an array over them.

    Attributes:
        loop: The loop.
        after: How many statements and loops of its body are in the first one.
        into: The names of the two loops.
    """

    name: ClassVar[str] = "distribute"
    loop: str
    after: Size
    into: tuple[str, str]

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with two loops."""
        after = accepted(known.size(self.after, tree))
        rule_out(taken(known, tree, tuple(dict.fromkeys(self.into)), self.loop))  # these may share a name
        return with_loops_replaced(tree, self.loop, lambda loop, _: self._distributed(loop, after))

    def _distributed(self, loop: Loop, after: int) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        if after >= len(loop.body):
            return refused("TR751", loop=loop.name, items=len(loop.body), after=after)
        arrays = {each.name: expanded(each, [loop]) for each in loop.allocations}
        if (refusal := in_tables(loop, arrays)) is not None:
            return refusal
        body = map_outer_uses(loop.body, lambda use: in_array(use, [loop], arrays))
        return Replaced(
            tuple(
                attrs.evolve(
                    loop, name=name, body=map_leaves(part, {loop.name: Affine.index(name)}), allocations=(), last=None
                )
                for name, part in zip(self.into, (body[:after], body[after:]), strict=True)
            ),
            tuple(arrays.values()),
        )


@attrs.frozen
class Skew:
    """Let the iterations of an inner loop begin later by some steps in each iteration of the outer one.

    Elements of a diagonal then have one value of the inner loop: put it outside, and a wave front is an iteration.

    Attributes:
        loops: The outer and the inner loop.
        by: How many steps later.
        into: The name of the inner loop then.
    """

    name: ClassVar[str] = "skew"
    loops: tuple[str, str]
    by: Size
    into: str

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the inner loop skewed."""
        by = accepted(known.size(self.by, tree))
        rule_out(taken(known, tree, (self.into,), *self.loops[1:]))
        return with_loops_replaced(tree, self.loops[0], lambda loop, _: self._skewed(loop, by))

    @refusing
    def _skewed(self, loop: Loop, by: int) -> Replaced | Refused:
        outer, inner = accepted(chain_of(loop, self.loops))
        if outer.bound or inner.bound:
            bound = outer if outer.bound else inner
            return refused("TR707", loop=bound.name, binding=bound.bound)
        if outer.name != self.loops[0]:
            return refused("TR709", loop=outer.name, inner=inner.name)
        place = Affine.of({self.into: 1, outer.name: -by})
        body = map_leaves(inner.body, {inner.name: place}, place, inner.size - 1 - place)
        size = inner.size + by * (outer.size - 1)
        skewed = attrs.evolve(inner, name=self.into, size=size, body=body, last=None)
        return Replaced((attrs.evolve(outer, body=(skewed,), last=None),))


@attrs.frozen
class Persist:
    """Let a fixed number of groups of the grid take the iterations of a loop in turns.

    Group ``g`` of ``n`` runs the iterations ``g``, ``g + n``, ``g + 2 n`` and so on, so that a card is as full at the
    end as at the beginning, and what a group keeps need not be made again.

    Attributes:
        loop: The loop.
        groups: How many groups.
        into: The names of the loop over groups, and of that over the turns of one.
    """

    name: ClassVar[str] = "persist"
    loop: str
    groups: Size
    into: tuple[str, str]

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with a loop over groups around one over turns."""
        groups = accepted(known.size(self.groups, tree))
        rule_out(taken(known, tree, self.into, self.loop))
        return with_loops_replaced(tree, self.loop, lambda loop, _: self._persistent(loop, min(groups, loop.size)))

    def _persistent(self, loop: Loop, groups: int) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        if (memory := shared_merge(loop)) is not None:
            return refused("TR718", loop=loop.name, memory=memory)
        group, turn = self.into
        place = Affine.of({turn: groups, group: 1})
        tests = (loop.size - 1 - place,) if loop.size % groups else ()
        turns = Loop(
            turn,
            -(-loop.size // groups),
            map_leaves(loop.body, {loop.name: place}, *tests),
            allocations=loop.allocations,
            reduces=loop.reduces,
        )
        return Replaced((Loop(group, groups, (turns,), binding=Binding.GRID, tags=loop.tags),))
