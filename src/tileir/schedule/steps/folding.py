"""The step ``fold``: line buffers that keep rows across the iterations of a loop, as many as are live."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine, Rational, exact
from tileir.schedule.conflicts import index_of_second_use, may_meet, memory_accesses
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import taken
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Size,
    Tree,
    leaves,
    map_leaves,
    map_uses,
    own_memory,
    walk,
    with_loops_replaced,
)
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.schedule.nest import Use

    Path: TypeAlias = tuple[Loop, ...]


@attrs.frozen
class Fold:
    """Compute each row of a memory once, and keep the last few in a line buffer along which a window slides.

    If an iteration of a loop fills memory with rows most of which the previous iteration had as well, it fills only the
    new ones; the first rows are filled before the loop. A row is stored at its number modulo ``by``. Iterations then
    run in order and are unrolled into rounds, after which row positions repeat, so that the position of a row is known
    at compile time.

    Attributes:
        memory: Memory that each iteration of the loop fills first, by ``stage`` or ``compute_at``; several in order,
            each computed from earlier ones.
        loop: The loop.
        by: Number of rows in the buffer; no row may be overwritten before its last use.
        into: The name of the loop over rounds.
        axis: The axis along which rows are numbered.
    """

    name: ClassVar[str] = "fold"
    memory: str | tuple[str, ...]
    loop: str
    by: Size
    into: str
    axis: int = 0

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with memory that outlives iterations of the loop."""
        by = accepted(known.size(self.by, tree))
        rule_out(taken(known, tree, (self.into,)))
        return with_loops_replaced(tree, self.loop, lambda loop, around: self._folded(tree, loop, around, by))

    @refusing
    def _folded(self, tree: Tree, loop: Loop, around: Path, by: int) -> Replaced | Refused:
        if loop.bound or loop.last is not None:
            return refused("TR707", loop=loop.name, binding=loop.bound or "overlapping")
        sources = {each.name: each.source or each.name for each in tree.kernel.refinements}
        sliding = _Sliding(loop, self.axis, sources)
        for name in self.memory if isinstance(self.memory, tuple) else (self.memory,):
            kept = accepted(sliding.keeping(name))
            sliding = kept
        for name in sliding.held:
            if sliding.loses(name, around, by):
                return refused("TR754", loop=loop.name, memory=name, rows=by, filled=sliding.rows(name))
        return self._in_rounds(sliding, by)

    def _in_rounds(self, sliding: _Sliding, by: int) -> Replaced | Refused:
        """Return the first rows, rounds of iterations, and the iterations that fill no round."""
        loop = sliding.loop
        turns = math.lcm(*(by // math.gcd(by, step) for step in sliding.steps.values()))
        rounds, left = divmod(loop.size, turns)
        held = {name: _with_rows(memory, self.axis, by) for name, memory in sliding.held.items()}
        places = _Places(held, self.axis, by)

        def iterations(first: Affine, count: int) -> tuple[Item, ...]:
            return tuple(
                attrs.evolve(loop, size=1, body=map_leaves(loop.body, {loop.name: first + turn}))
                for turn in range(count)
            )

        body = iterations(Affine.index(self.into) * turns, turns)
        whole = Loop(self.into, rounds, body, reduces=loop.reduces, peels=loop.peels, carried=True)
        rest = iterations(Affine.constant(rounds * turns), left)
        items = places.of((*sliding.first, *([whole] if rounds else []), *rest))
        return items if isinstance(items, Refused) else Replaced(items, tuple(held.values()))


@attrs.frozen(repr=False)
class _Sliding:
    """A loop, and the memory that it keeps from one iteration to the next, with rows numbered over all iterations.

    Attributes:
        loop: The loop, in which each memory gets only its new rows.
        axis: The axis along which rows are numbered.
        sources: The memory of the program behind each view of the kernel.
        first: Statements that fill the first rows before the loop.
        held: The memory, with the rows of one iteration.
        steps: Number of rows from one iteration to the next.
    """

    loop: Loop
    axis: int
    sources: Mapping[str, str]
    first: tuple[Item, ...] = ()
    held: Mapping[str, stripe.Refinement] = attrs.field(factory=dict)
    steps: Mapping[str, int] = attrs.field(factory=dict)

    def rows(self, name: str) -> int:
        """Return the number of rows of a memory in one iteration."""
        return self.held[name].shape.sizes[self.axis]

    def keeping(self, name: str) -> _Sliding | Refused:
        """Return the loop with one more memory kept."""
        memory = {each.name: each for each in self.loop.allocations}
        if name not in memory:
            return refused("TR716", memory=name, known=", ".join(memory))
        sizes = memory[name].shape.sizes
        if not 0 <= self.axis < len(sizes):
            return refused("TR714", order=str(self.axis), axes=len(sizes))
        found = self._filling(name)
        size = sizes[self.axis]
        if found is None or not 0 < found[2] < size:
            return refused("TR753", loop=self.loop.name, memory=name, rows=size)
        number, row, step = found
        around = Affine.index(self.loop.name) * step
        own = map_uses(self.loop.body, lambda use: self._moved(use, around) if use.root == name else use)
        fill, old = own[number], size - step
        first = map_leaves((_sized(fill, row, old),), {self.loop.name: Affine()})
        (rest,) = map_leaves((_sized(fill, row, step),), {row: Affine.index(row) + old})
        allocations = tuple(each for each in self.loop.allocations if each.name != name)
        loop = attrs.evolve(self.loop, body=(*own[:number], rest, *own[number + 1 :]), allocations=allocations)
        held, steps = {**self.held, name: memory[name]}, {**self.steps, name: step}
        return attrs.evolve(self, loop=loop, first=(*self.first, *first), held=held, steps=steps)

    def _moved(self, use: Use, by: Affine) -> Use:
        access = (*use.access[: self.axis], use.access[self.axis] + by, *use.access[self.axis + 1 :])
        return attrs.evolve(use, access=access)

    def _filling(self, name: str) -> tuple[int, str, int] | None:
        """Return the part of the body that fills a memory, its loop over rows, and the rows per iteration.

        None where the memory is not filled once, before it is read, by a loop over rows whose content does not depend
        on the iteration.
        """
        uses = [[use for leaf in leaves((item,)) for use in leaf.uses if use.root == name] for item in self.loop.body]
        number = next(number for number, each in enumerate(uses) if each)
        stored, fill = uses[number], self.loop.body[number]
        writes = [use for each in uses for use in each if use.direction is not stripe.Direction.IN]
        rows = {use.access[self.axis] for use in stored}
        if writes != stored or len(rows) != 1 or any(use.merges for use in stored) or not isinstance(fill, Loop):
            return None
        row = next(iter(rows))
        size = next(use for use in self.loop.allocations if use.name == name).shape.sizes[self.axis]
        sizes = {each.name: each.size for each in walk((fill,)) if isinstance(each, Loop) and not each.bound}
        if [step for _, step in row.terms] != [1] or row.offset or sizes.get(row.indices[0]) != size:
            return None
        step = self._step(fill, row.indices[0], name)
        return None if step is None else (number, row.indices[0], step)

    def _step(self, fill: Loop, row: str, name: str) -> int | None:
        """Return the distance in rows of iterations that compute one row; None if there is none."""
        inside = {name, *own_memory(fill)}
        uses = [use for leaf in leaves(self.loop.body) for use in leaf.uses if use.root not in self.held]
        changing = {self._source(use) for use in uses if use.direction.writes}
        steps: set[Rational] = set()
        for leaf in leaves((fill,)):
            if any(isinstance(statement, stripe.Special) for statement in leaf.statements):
                return None
            seen = [use for use in leaf.uses if use.root not in inside]
            if any(self._source(use) in changing for use in seen):
                return None
            indices = (each.affine for each in leaf.statements if isinstance(each, stripe.LoadIndex))
            accesses = (affine for use in seen for affine in use.access)
            for affine in (*leaf.tests, *indices, *accesses):
                ours, theirs = affine.coefficient(self.loop.name), affine.coefficient(row)
                if ours or theirs:
                    steps.add(exact(Fraction(ours) / Fraction(theirs)) if theirs else 0)
        step = next(iter(steps), 0)
        return step if len(steps) == 1 and isinstance(step, int) else None

    def _source(self, use: Use) -> str:
        return self.sources.get(use.root, use.root)

    def loses(self, name: str, around: Path, by: int) -> bool:
        """Return whether a row may be read after another row has taken its place.

        Exact for accesses and tests with whole coefficients, by integer programming; True where that is undecided. Rows
        are computed in the order of their numbers, so a row computed before another one is read, with a number larger
        by a multiple of ``by``, has taken its place.
        """
        before, during = (
            [each for each in memory_accesses(items) if each.use.root == name] for items in (self.first, (self.loop,))
        )
        made = [[each for each in group if each.use.direction.writes] for group in (before, during)]
        read = [[each for each in group if each.use.direction.reads] for group in (before, during)]
        earlier = Affine.index(self.loop.name) - index_of_second_use(self.loop.name)
        taking = {self.axis: (_TURNS + 1) * by}
        count: tuple[Affine, int | None] = (_TURNS, self.loop.size * self.steps[name] + self.rows(name))
        return any(
            may_meet(one, other, around, [count, *held], taking)
            for made_in, read_in, held in ((0, 0, ()), (0, 1, ()), (1, 1, ((earlier, None),)))
            for one, other in product(read[read_in], made[made_in])
        )


_TURNS: Final = Affine.index("'")


@attrs.frozen(repr=False)
class _Places:
    """Assignment of rows to places by their number modulo the buffer, in copies of the loops that decide about a row.

    Attributes:
        held: The memory.
        axis: The axis along which rows are numbered.
        by: Number of rows in the buffer.
    """

    held: Mapping[str, stripe.Refinement]
    axis: int
    by: int

    @refusing
    def of(self, items: tuple[Item, ...]) -> tuple[Item, ...] | Refused:
        """Return items that find each row in its place."""
        done: list[Item] = []
        for item in items:
            if isinstance(item, Leaf):
                done += self._leaf(item)
                continue
            parts = accepted(self._copies(item) if self._decides(item) else (item,))
            for part in parts:
                body = accepted(self.of(part.body))
                done.append(attrs.evolve(part, body=body))
        return tuple(done)

    def _decides(self, loop: Loop) -> bool:
        uses = [use for leaf in leaves(loop.body) for use in leaf.uses if use.root in self.held]
        return any(use.access[self.axis].coefficient(loop.name) % self.by for use in uses)

    def _copies(self, loop: Loop) -> tuple[Loop, ...] | Refused:
        if loop.binding not in (None, stripe.Binding.UNROLL) or loop.stages > 1 or loop.last is not None:
            return refused("TR707", loop=loop.name, binding=loop.bound or "overlapping")
        return tuple(
            attrs.evolve(loop, size=1, body=map_leaves(loop.body, {loop.name: Affine.constant(number)}))
            for number in range(loop.size)
        )

    def _leaf(self, leaf: Leaf) -> tuple[Leaf, ...]:
        if any(test.is_constant and test.offset < 0 for test in leaf.constraints):
            return ()
        return (attrs.evolve(leaf, uses=tuple(map(self._placed, leaf.uses))),)

    def _placed(self, use: Use) -> Use:
        if use.root not in self.held:
            return use
        place = Affine.constant(int(use.access[self.axis].offset) % self.by)
        access = (*use.access[: self.axis], place, *use.access[self.axis + 1 :])
        return attrs.evolve(use, access=access, strides=self.held[use.root].shape.strides, sizes=())


def _sized(item: Item, name: str, size: int) -> Item:
    if isinstance(item, Leaf):
        return item
    body = tuple(_sized(each, name, size) for each in item.body)
    return attrs.evolve(item, body=body, size=size if item.name == name else item.size)


def _with_rows(memory: stripe.Refinement, axis: int, rows: int) -> stripe.Refinement:
    sizes = (*memory.shape.sizes[:axis], rows, *memory.shape.sizes[axis + 1 :])
    return stripe.allocation(memory.name, memory.shape.dtype, sizes, memory.location)
