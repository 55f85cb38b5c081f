"""Steps over loops: split, reorder, join, jam, cut, specialise and bind.

They are legal whenever they apply: the points of a Stripe block have no order, so iterations depend on each other only
by merging, which is associative. Refused are wrong forms (a loop that does not exist, statements between loops), and
bindings that a device cannot run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine, exact
from tileir.schedule.nest import Use, chosen_by_data
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import MOST_CHANNELS, no_vector, shared_merge, taken
from tileir.schedule.steps.memory import Level
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Size,
    Tail,
    Tree,
    chain_of,
    changed,
    in_place,
    leaves,
    map_leaves,
    map_outer_uses,
    nested,
    untested,
    updated,
    walk,
    with_leaves,
    with_loops_replaced,
)
from tileir.stripe import ir as stripe
from tileir.stripe.bindings import MAX_LANES


@attrs.frozen
class Split:
    """Split a loop into two: ``i`` of 100 by 32 is ``i_outer`` of 4 around ``i_inner`` of 32.

    Attributes:
        loop: The loop.
        by: The size of the inner loop; unless padded, a shorter loop becomes the inner loop of an outer one of size 1.
        into: The names of the outer and the inner loop.
        tail: Treatment of the remainder: :class:`~tileir.schedule.tree.Tail`.
    """

    name: ClassVar[str] = "split"
    loop: str
    by: Size
    into: tuple[str, str]
    tail: Tail = Tail.GUARD

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loop split."""
        by = accepted(known.size(self.by, tree))
        rule_out(taken(known, tree, self.into, self.loop))
        if self.tail is Tail.SHIFT and (memory := in_place(tree)) is not None:
            return refused("TR747", loop=self.loop, memory=memory)
        return with_loops_replaced(tree, self.loop, lambda loop, _: self._split(loop, by))

    def _split(self, loop: Loop, by: int) -> Replaced | Refused:
        pads = self.tail in (Tail.PAD, Tail.MASK)
        by = by if pads else min(by, loop.size)
        rest = loop.size % by
        if rest and self.tail is Tail.EVEN:
            return refused("TR706", loop=loop.name, size=loop.size, factor=by)
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        last = exact(Fraction(loop.size - by, by)) if rest and self.tail is Tail.SHIFT else None
        if last is not None and (memory := updated(loop)) is not None:
            return refused("TR747", loop=loop.name, memory=memory)
        outer, inner = self.into
        place = Affine.of({outer: by, inner: 1})
        tests = (loop.size - 1 - place,) if rest else ()
        below = map_leaves(loop.body, {loop.name: place}, *tests, pads=pads)
        if not rest and any(leaf.tests for leaf in loop.leaves):
            below = with_leaves(below, lambda leaf: untested(leaf, inner, by))
        masks, peels = loop.masks or self.tail is Tail.MASK, self.tail in (Tail.PEEL, Tail.PAD)
        within = Loop(inner, by, below, allocations=loop.allocations, reduces=loop.reduces, masks=masks)
        size, reduces = -(-loop.size // by), loop.reduces
        return Replaced((Loop(outer, size, (within,), reduces=reduces, peels=peels, last=last, masks=loop.masks),))


@attrs.frozen
class Reorder:
    """Reorder perfectly nested loops.

    If several loops share a name, those that contain the others are meant.

    Attributes:
        loops: Their names, outermost first.
    """

    name: ClassVar[str] = "reorder"
    loops: tuple[str, ...]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with the loops in order."""
        if len(set(self.loops)) != len(self.loops) or not self.loops:
            return refused("TR708", loops=", ".join(self.loops))
        named = frozenset(self.loops)
        found = [loop for loop in tree.loops() if loop.name in named]
        whole = [each for each in found if named <= each.names] if len(found) > len(named) else []
        first = next((loop.name for loop in (*whole, *found)), self.loops[0])

        def ordered(loop: Loop, _: tuple[Loop, ...]) -> Replaced | Refused:
            return self._ordered(loop) if not whole or named <= loop.names else Replaced((loop,))

        return with_loops_replaced(tree, first, ordered)

    @refusing
    def _ordered(self, loop: Loop) -> Replaced | Refused:
        chain = accepted(chain_of(loop, self.loops))
        by_name = {each.name: each for each in chain}
        last = chain[-1]
        return Replaced(nested([by_name[name] for name in self.loops], last.body, last.allocations))


@attrs.frozen
class Join:
    """Collapse two perfectly nested loops into one, if accesses stay affine.

    Attributes:
        loops: The outer and the inner loop.
        into: The name of the resulting loop.
    """

    name: ClassVar[str] = "join"
    loops: tuple[str, str]
    into: str

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loops joined."""
        rule_out(taken(known, tree, (self.into,), *self.loops))
        return with_loops_replaced(tree, self.loops[0], lambda loop, _: self._joined(loop))

    @refusing
    def _joined(self, outer: Loop) -> Replaced | Refused:
        chain = accepted(chain_of(outer, self.loops))
        inner = chain[1]
        if outer.bound != inner.bound:
            return refused("TR707", loop=outer.name, binding=outer.bound or inner.bound)
        for leaf in leaves(inner.body):
            affines = (*leaf.tests, *(affine for use in leaf.uses for affine in use.access))
            places = (s.affine for s in leaf.statements if hasattr(s, "affine"))
            for affine in (*affines, *places):
                if affine.coefficient(outer.name) != inner.size * affine.coefficient(inner.name):
                    return refused("TR710", outer=outer.name, inner=inner.name, access=str(affine))
        mapping = {outer.name: Affine(), inner.name: Affine.index(self.into)}
        body = map_leaves(inner.body, mapping)
        return Replaced((attrs.evolve(inner, name=self.into, size=outer.size * inner.size, body=body, last=None),))


@attrs.frozen
class Jam:
    """Move loops inwards to each statement below them: unroll-and-jam, and loop distribution.

    Private memory of their iterations becomes an array over them.

    Attributes:
        loops: Nested loops, outermost first.
        above: Loops that they stay around, with everything below.
    """

    name: ClassVar[str] = "jam"
    loops: tuple[str, ...]
    above: tuple[str, ...] = ()

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002
        """Return the tree with the loops around each of the leaves below them."""
        if not self.loops:
            return refused("TR708", loops="")
        return with_loops_replaced(tree, self.loops[0], lambda loop, _: self._moved_inwards(loop))

    @refusing
    def _moved_inwards(self, loop: Loop) -> Replaced | Refused:
        chain = accepted(chain_of(loop, self.loops))
        last = chain[-1]
        arrays = {each.name: expanded(each, chain) for each in self._moved(last)}
        rule_out(in_tables(last, arrays))
        items = self._pushed(last.body, chain, arrays)
        return Replaced(items, tuple(arrays[each.name] for each in last.allocations))

    def _moved(self, loop: Loop) -> list[stripe.Refinement]:
        """Return memory that is made outside of the loops' new position."""
        inner = (item for item in loop.body if isinstance(item, Loop) and item.name not in self.above)
        return [*loop.allocations, *(each for item in inner for each in self._moved(item))]

    def _pushed(
        self, items: tuple[Item, ...], chain: list[Loop], arrays: Mapping[str, stripe.Refinement]
    ) -> tuple[Item, ...]:
        result: list[Item] = []
        for item in items:
            if isinstance(item, Leaf) or item.name in self.above:
                result += nested(chain, map_outer_uses((item,), lambda use: in_array(use, chain, arrays)))
            else:
                allocations = tuple(arrays[each.name] for each in item.allocations)
                result.append(item.around(self._pushed(item.body, chain, arrays), allocations))
        return tuple(result)


def expanded(allocation: stripe.Refinement, chain: list[Loop]) -> stripe.Refinement:
    """Return an allocation with an axis for each loop, before its own."""
    sizes = (*(loop.size for loop in chain), *allocation.shape.sizes)
    shape = stripe.TensorShape.dense(allocation.shape.dtype, sizes)
    location = allocation.location or Level.REGISTER.location
    return attrs.evolve(allocation, access=(Affine(),) * len(sizes), shape=shape, location=location)


def in_tables(loop: Loop, arrays: Mapping[str, stripe.Refinement]) -> Refused | None:
    """Return the reason why memory cannot become arrays, as data choose among its first elements; None where it can."""
    chosen = ((leaf, chosen_by_data(leaf.statements)) for leaf in loop.leaves)
    found = next(
        (use.root for leaf, names in chosen for use in leaf.uses if use.name in names and use.root in arrays), ""
    )
    return refused("TR761", loop=loop.name, memory=found) if found else None


def in_array(use: Use, chain: list[Loop], arrays: Mapping[str, stripe.Refinement]) -> Use:
    """Return a use of memory that has become an array over the loops, at their iteration."""
    if use.root not in arrays:
        return use
    places = tuple(Affine.index(loop.name) for loop in chain)
    sizes = (*(1 for _ in chain), *use.sizes) if use.sizes else ()
    return attrs.evolve(use, access=(*places, *use.access), strides=arrays[use.root].shape.strides, sizes=sizes)


@attrs.frozen
class Cut:
    """Split the iterations of a loop at one or more places into consecutive loops.

    Attributes:
        loop: The loop.
        at: Number of iterations of the first loop; with several places, in order, each counts from the beginning.
        into: The names of the loops, one more than places.
    """

    name: ClassVar[str] = "cut"
    loop: str
    at: Size | tuple[Size, ...]
    into: tuple[str, ...]

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with consecutive loops."""
        places = accepted(known.sizes(self.at if isinstance(self.at, tuple) else (self.at,), tree))
        rule_out(taken(known, tree, self.into, self.loop))
        return with_loops_replaced(tree, self.loop, lambda loop, _: self._cut(loop, places))

    def _cut(self, loop: Loop, places: tuple[int, ...]) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        ends = (*places, loop.size)
        if any(first >= second for first, second in pairwise(ends)) or len(self.into) != len(ends):
            return refused("TR717", loop=loop.name, size=loop.size, at=", ".join(map(str, places)))
        return _in_turn(loop, self.into, (0, *ends))


@attrs.frozen
class Specialise:
    """Split a loop into iterations before, within and after the range where all of its tests pass (loop peeling).

    The middle loop has no tests, as for the interior of an image. Empty loops are omitted.

    Attributes:
        loop: The loop.
        into: The names of the three loops.
    """

    name: ClassVar[str] = "specialise"
    loop: str
    into: tuple[str, str, str]

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with a loop without tests."""
        rule_out(taken(known, tree, self.into, self.loop))
        return with_loops_replaced(tree, self.loop, self._specialised)

    def _specialised(self, loop: Loop, around: tuple[Loop, ...]) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        sizes = {each.name: each.size for each in (*around, *walk((loop,))) if isinstance(each, Loop)}
        low, high = 0, loop.size
        for test in (test for leaf in leaves(loop.body) for test in (*leaf.constraints, *leaf.padded)):
            step = test.coefficient(loop.name)
            least = (test - Affine.of({loop.name: step})).bounds(sizes)[0]
            if step > 0:
                low = max(low, math.ceil(-least / step))
            elif step < 0:
                high = min(high, math.floor(least / -step) + 1)
        if low >= high or (low, high) == (0, loop.size):
            return refused("TR737", loop=loop.name, first=low, last=high - 1)
        return _in_turn(loop, self.into, (0, low, high, loop.size))


def _in_turn(loop: Loop, names: tuple[str, ...], places: tuple[int, ...]) -> Replaced:
    return Replaced(
        tuple(
            attrs.evolve(
                loop,
                name=name,
                size=end - start,
                body=map_leaves(loop.body, {loop.name: Affine.index(name) + start}),
                last=None,
            )
            for name, (start, end) in zip(names, pairwise(places), strict=True)
            if end > start
        )
    )


@attrs.frozen
class Bind:
    """Run the iterations of a loop as groups of a grid, as threads of a group, unrolled, or as lanes of a vector.

    Invalid bindings are refused: groups or threads whose iterations merge into shared elements, a grid inside other
    loops, too many threads for a group, or lanes that do not store neighbours.

    Attributes:
        loop: The loop, or several.
        to: The kind of execution.
    """

    name: ClassVar[str] = "bind"
    loop: str | tuple[str, ...]
    to: stripe.Binding

    @property
    def loops(self) -> tuple[str, ...]:
        """All loops that it binds."""
        return self.loop if isinstance(self.loop, tuple) else (self.loop,)

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loops bound."""
        if not self.loops:
            return refused("TR708", loops="")
        return Bound(dict.fromkeys(self.loops, self.to))(tree, known)

    @staticmethod
    def at_once(steps: Sequence[Bind]) -> Sequence[Bind | Bound]:
        """Return what binds all loops that several steps bind, in one pass over a kernel."""
        to = {loop: step.to for step in steps for loop in step.loops}
        every = all(step.loops for step in steps) and len(to) == sum(len(step.loops) for step in steps)
        return (Bound(to),) if every else steps


@attrs.frozen
class Bound:
    """Loops that are bound together, each to a kind of execution of its own, as several :class:`Bind` would."""

    name: ClassVar[str] = "bind"
    to: Mapping[str, stripe.Binding]

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loops bound."""
        found: set[str] = set()
        body = self._within(tree.body, found, math.inf if known.trusted else MOST_CHANNELS)
        if missing := [name for name in self.to if name not in found]:
            return refused("TR701", loop=missing[0], loops=", ".join(dict.fromkeys(loop.name for loop in tree.loops())))
        return attrs.evolve(tree, body=body)

    def _within(self, items: tuple[Item, ...], found: set[str], most: float) -> tuple[Item, ...]:
        return changed(items, [self._bound(item, found, most) if isinstance(item, Loop) else item for item in items])

    def _bound(self, loop: Loop, found: set[str], most: float) -> Loop:
        body, to = self._within(loop.body, found, most), self.to.get(loop.name)
        if to is None:
            return loop.around(body)
        found.add(loop.name)
        if to is stripe.Binding.DOT:
            rule_out(refused("TR726", loop=loop.name, to=to.value))
        if loop.bound:
            rule_out(refused("TR707", loop=loop.name, binding=loop.bound))
        if to in (stripe.Binding.GRID, stripe.Binding.THREAD) and (shared := shared_merge(loop)) is not None:
            rule_out(refused("TR718", loop=loop.name, memory=shared))
        if to is stripe.Binding.LANE:
            wide = loop.size > MAX_LANES
            rule_out(
                refused("TR759", loop=loop.name, size=loop.size, most=MAX_LANES) if wide else no_vector(loop, most)
            )
        return attrs.evolve(loop, body=body, binding=to)
