"""Steps over the iterations of adjacent and nested loops: fuse, distribute, sink, skew and persist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.conflicts import MemoryAccess, index_of_second_use, may_meet, memory_accesses
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import shared_merge, taken
from tileir.schedule.steps.loops import expanded, in_array, in_tables
from tileir.schedule.tree import (
    Item,
    Known,
    Loop,
    Replaced,
    Size,
    Tree,
    chain_of,
    leaves,
    map_leaves,
    map_outer_uses,
    nested,
    with_loops_replaced,
)
from tileir.stripe.bindings import Binding


@attrs.frozen
class Fuse:
    """Fuse two adjacent loops of equal size, if no iteration depends on a different iteration of the other loop.

    Attributes:
        loops: The first and the second loop, with nothing between them; they may have equal names.
        into: The name of the fused loop.
    """

    name: ClassVar[str] = "fuse"
    loops: tuple[str, str]
    into: str

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # all steps are called alike
        """Return the tree with adjacent loops fused."""
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
        """Return the reason why two loops cannot be fused; None where they can."""
        if first.bound or second.bound:
            bound = first if first.bound else second
            return refused("TR707", loop=bound.name, binding=bound.bound)
        if first.size != second.size:
            return refused("TR749", first=first.size, second=second.size)
        made = {each.name: each for each in first.allocations}
        if unlike := [each.name for each in second.allocations if made.get(each.name, each) != each]:
            return refused("TR705", name=unlike[0])
        step = index_of_second_use(second.name) - Affine.index(first.name)
        for one, other in _meetings([*memory_accesses((first,))], [*memory_accesses((second,))], sources):
            if any(may_meet(one, other, around, [(way, None)]) for way in (step - 1, -step - 1)):
                return refused("TR750", first=first.name, second=second.name, memory=one.use.root)
        return None


def _meetings(
    first: Sequence[MemoryAccess], second: Sequence[MemoryAccess], sources: Mapping[str, str]
) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Yield uses of one memory in two statements or loops whose order matters."""
    for one, other in product(first, second):
        use, later = one.use, other.use
        if use.root != later.root and sources.get(use.root, use.root) != sources.get(later.root, later.root):
            continue
        merging = use.merges and later.merges and use.aggregation == later.aggregation
        if (use.direction.writes or later.direction.writes) and not merging:
            yield one, other


@attrs.frozen
class Distribute:
    """Distribute a loop: consecutive loops over parts of its body, in order.

    Private memory of its iterations that several of the loops use becomes an array over them.

    Attributes:
        loop: The loop, or several nested ones.
        after: Number of statements and loops of its body that go to the first loop; with several numbers, in order,
            each counts from the beginning.
        into: The names of the loops, one more than numbers; if empty, each keeps the loop's name, as inner ones always
            do.
    """

    name: ClassVar[str] = "distribute"
    loop: str | tuple[str, ...]
    after: Size | tuple[Size, ...]
    into: tuple[str, ...] = ()

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with consecutive loops."""
        loops = self.loop if isinstance(self.loop, tuple) else (self.loop,)
        places = accepted(known.sizes(self.after if isinstance(self.after, tuple) else (self.after,), tree))
        if not loops or len(self.into) not in (0, len(places) + 1):
            return refused("TR708", loops=", ".join(loops))
        rule_out(taken(known, tree, tuple(dict.fromkeys(self.into)), *loops))  # these may share a name
        return with_loops_replaced(tree, loops[0], lambda loop, _: self._distributed(loop, loops, places))

    @refusing
    def _distributed(self, loop: Loop, loops: tuple[str, ...], places: tuple[int, ...]) -> Replaced | Refused:
        chain = accepted(chain_of(loop, loops))
        if bound := [each for each in chain if each.bound]:
            return refused("TR707", loop=bound[0].name, binding=bound[0].bound)
        last = chain[-1]
        if far := [one for one, two in pairwise((*places, len(last.body))) if one >= two]:
            return refused("TR751", loop=last.name, items=len(last.body), after=far[0])
        parts = [last.body[start:end] for start, end in pairwise((0, *places, len(last.body)))]
        touched = [{use.root for leaf in leaves(part) for use in leaf.uses} for part in parts]
        several = [each for each in last.allocations if sum(each.name in roots for roots in touched) > 1]
        arrays = {each.name: expanded(each, chain) for each in several}
        rule_out(in_tables(last, arrays))
        items: list[Item] = []
        for part, roots, name in zip(parts, touched, self.into or (loop.name,) * len(parts), strict=True):
            body = map_outer_uses(part, lambda use: in_array(use, chain, arrays))
            own = tuple(each for each in last.allocations if each.name in roots and each.name not in arrays)
            outermost = attrs.evolve(chain[0], name=name, last=None)
            within = nested([outermost, *chain[1:]], body, own)
            items += map_leaves(within, {loop.name: Affine.index(name)}) if name != loop.name else within
        return Replaced(tuple(items), tuple(arrays.values()))


@attrs.frozen
class Sink:
    """Move statements of a loop's body down, next to their users, as far as later statements allow.

    No statement moves past another one that accesses its memory, unless both merge into it.

    Attributes:
        loop: The loop.
    """

    name: ClassVar[str] = "sink"
    loop: str

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with the loop's body in another order."""
        sources = {each.name: each.source or each.name for each in tree.kernel.refinements}
        return with_loops_replaced(tree, self.loop, lambda loop, _: self._sunk(loop, sources))

    def _sunk(self, loop: Loop, sources: Mapping[str, str]) -> Replaced | Refused:
        if loop.stages > 1:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        done: list[tuple[Item, list[MemoryAccess]]] = []
        for item in reversed(loop.body):
            own = [*memory_accesses((item,))]
            needing = (at for at, (_, later) in enumerate(done) if any(_meetings(own, later, sources)))
            done.insert(next(needing, len(done)), (item, own))
        return Replaced((loop.around(tuple(item for item, _ in done)),))


@attrs.frozen
class Skew:
    """Skew an inner loop: each iteration of the outer loop starts it some steps later.

    Elements of a diagonal then share a value of the inner loop: if it becomes the outer loop, each of its iterations is
    a wavefront.

    Attributes:
        loops: The outer and the inner loop.
        by: Delay in steps.
        into: The new name of the inner loop.
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
    """Run a loop by a fixed number of persistent groups, which take its iterations in turns.

    Group ``g`` of ``n`` runs the iterations ``g``, ``g + n``, ``g + 2 n`` and so on. The device stays equally busy
    until the end, and a group can reuse its state in later iterations.

    Attributes:
        loop: The loop.
        groups: Number of groups.
        into: The names of the loop over groups, and of the loop over one group's iterations.
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
