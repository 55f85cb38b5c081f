"""A kernel as a tree of named loops, which the steps of a schedule rearrange.

:func:`tree_of` takes a kernel apart into loops over its output indices, which hold its statements, some of them in
loops over reduction indices. The points of a block have no order in Stripe, and neither have the iterations of a loop;
the body of a loop runs in order. Accesses and constraints of a leaf are absolute: over the loops around it.
:func:`kernels_of` writes the blocks of a tree, after the remainders of loops that were split with :attr:`Tail.PEEL` are
cut off.

Sizes in steps are integers, or expressions over sizes of loops, parameters of a script and facts of a target:
``"min(14, i)"`` is 14, or the size of loop ``i`` where that is smaller; ``"VECTOR_BYTES // 4"`` is the number of
four-byte elements in a vector. So one script serves all sizes. The expressions are those of target files.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from operator import is_
from typing import TypeAlias

from tileir.core import NameScope, attrs
from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    Value,
    evaluate,
    parse,
)
from tileir.poly.affine import Affine, Rational
from tileir.schedule.nest import Nest, Use, analyse
from tileir.schedule.reindex import in_memory_order, with_values
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.stripe import ir as stripe


class Tail(enum.Enum):
    """Treatment of a size that is not a multiple of the factor of a split."""

    EVEN = "even"  # it is refused
    GUARD = "guard"  # a constraint keeps points behind the end from running
    PEEL = "peel"  # the last iteration is a copy of its own, with smaller loops; all others test nothing
    PAD = "pad"  # as peel, but what touches memory of the kernel alone runs whole: there is room, with zeros
    MASK = "mask"  # as pad, but nothing is peeled: a test in each iteration tells whether all lanes run, or which
    SHIFT = "shift"  # the last iteration is a whole one that overlaps the one before it: it stores the same again


@attrs.frozen
class Leaf:
    """Scalar statements that run at each point of the loops around them.

    Attributes:
        statements: The statements.
        uses: The memory accesses of the statements.
        constraints: Affines that are >= 0 at points that run.
        tags: The tags of the block.
        padded: Further constraints, which may fail if only memory of the kernel with sufficient padding is accessed.
        zeros: Affines that are >= 0 at points that copy; at other points that run, zeros are stored.
    """

    statements: tuple[stripe.Statement, ...]
    uses: tuple[Use, ...]
    constraints: tuple[Affine, ...] = ()
    tags: stripe.Tags = stripe.Tags()
    padded: tuple[Affine, ...] = ()
    zeros: tuple[Affine, ...] = ()

    @cached_property
    def indices(self) -> frozenset[str]:
        """The loops that the leaf depends on."""
        affines = [affine for use in self.uses for affine in use.access]
        affines += [each.affine for each in self.statements if isinstance(each, stripe.LoadIndex)]
        return frozenset([name for each in (*affines, *self.tests) for name, _ in each.terms])

    @property
    def tests(self) -> tuple[Affine, ...]:
        """All affines that decide about a point."""
        return (*self.constraints, *self.padded, *self.zeros)

    @cached_property
    def tested(self) -> frozenset[str]:
        """The loops in its constraints."""
        return frozenset([name for test in self.constraints for name, _ in test.terms])

    def with_uses(self, function: Callable[[Use], Use]) -> Leaf:
        """Return the leaf with other uses; itself where they are equal."""
        uses = tuple([function(use) for use in self.uses])
        return self if all(map(is_, uses, self.uses)) else attrs.evolve(self, uses=uses)

    def substitute(self, mapping: Mapping[str, Affine]) -> Leaf:
        """Return the leaf with indices replaced; itself where it depends on none of them."""
        if self.indices.isdisjoint(mapping):
            return self
        return Leaf(
            tuple([with_values(statement, mapping) for statement in self.statements]),
            tuple([use.substitute(mapping) for use in self.uses]),
            tuple([constraint.substitute(mapping) for constraint in self.constraints]),
            self.tags,
            tuple([constraint.substitute(mapping) for constraint in self.padded]),
            tuple([constraint.substitute(mapping) for constraint in self.zeros]),
        )


@attrs.frozen
class Loop:
    """A loop ``0 <= name < size`` over a body, which runs in order.

    Attributes:
        name: Name by which steps find it; several loops of a tree may share one, such as those of consecutive
            statements.
        size: Number of iterations.
        body: Loops and leaves.
        binding: Kind of execution on the device; None for sequential iterations.
        allocations: Private memory of each iteration.
        reduces: Whether its iterations merge into shared elements.
        peels: Whether iterations that a constraint cuts are peeled off, so that others have no tests.
        tags: Tags of the original index.
        stages: Number of iterations that have the memory of the loop at a time, for software pipelining.
        last: Position of the last iteration, in iterations, if it overlaps the previous one; None for no overlap.
        carried: Whether iterations run in order because of dependences between them.
        masks: Whether a test may mask its iterations if they are lanes.
    """

    name: str
    size: int
    body: tuple[Item, ...]
    binding: stripe.Binding | None = None
    allocations: tuple[stripe.Refinement, ...] = ()
    reduces: bool = False
    peels: bool = False
    tags: stripe.Tags = stripe.Tags()
    stages: int = 1
    last: Rational | None = None
    carried: bool = False
    masks: bool = False

    @property
    def leaves(self) -> list[Leaf]:
        """All leaves below, in order."""
        return leaves(self.body)

    @property
    def names(self) -> frozenset[str]:
        """Its name and those of all loops below."""
        return frozenset([item.name for item in walk((self,)) if isinstance(item, Loop)])

    def around(self, body: tuple[Item, ...], allocations: tuple[stripe.Refinement, ...] | None = None) -> Loop:
        """Return the loop around another body, perhaps with other memory; itself where both are the same."""
        memory = self.allocations if allocations is None else allocations
        if body is self.body and memory == self.allocations:
            return self
        held = (self.reduces, self.peels, self.tags, self.stages, self.last, self.carried, self.masks)
        return Loop(self.name, self.size, body, self.binding, memory, *held)

    @property
    def bound(self) -> str:
        """Role of the iterations: a binding, ``pipeline`` for a pipelined loop, ``serial``, or empty."""
        if self.binding is not None:
            return self.binding.value
        return "pipeline" if self.stages > 1 else "serial" if self.carried else ""


Item: TypeAlias = Loop | Leaf


@attrs.frozen
class Tree:
    """A kernel as loops.

    Attributes:
        kernel: The original kernel, with names, tags and the memory of the caller.
        body: Loops and leaves, in order.
        allocations: Memory of the kernel.
        bounds: The first and the last element that the kernel accesses, along each axis, by root.
    """

    kernel: stripe.Block
    body: tuple[Item, ...]
    allocations: tuple[stripe.Refinement, ...]
    bounds: Mapping[str, tuple[tuple[int, int], ...]]

    @cached_property
    def leaves(self) -> list[Leaf]:
        """All leaves, in order."""
        return leaves(self.body)

    @cached_property
    def _loops(self) -> list[Loop]:
        return [item for item in walk(self.body) if isinstance(item, Loop)]

    def loops(self) -> list[Loop]:
        """Return all loops, outer ones first."""
        return self._loops

    def loop_sizes(self) -> dict[str, int]:
        """Return the sizes of loops by name; the greatest of loops that share a name."""
        return sizes_of(self.body)

    def names(self) -> NameScope:
        """Return a scope in which all names of the tree are taken."""
        return NameScope.of(self.taken())

    def taken(self) -> dict[str, None]:
        """Return all names of the tree, in order."""
        found = [refinement.name for refinement in (*self.kernel.refinements, *self.allocations)]
        for item in walk(self.body):
            if isinstance(item, Loop):
                found += [item.name, *[allocation.name for allocation in item.allocations]]
            else:
                found += [use.name for use in item.uses]
                found += [name for name in map(stripe.scalar_output, item.statements) if name]
        return dict.fromkeys(found)


def tree_of(kernel: stripe.Block) -> Tree | Refused:
    """Return a kernel as a tree, or the reason why :func:`tileir.schedule.nest.analyse` cannot take it apart.

    Loops stand in the order of memory, independent of their names.
    """
    marked = any(index.is_marked for block in kernel.nested() for index in block.indices)
    nest = analyse(kernel if marked else in_memory_order(kernel))
    return nest if isinstance(nest, Refused) else tree_of_nest(nest)


def tree_of_nest(nest: Nest) -> Tree:
    """Return a nest as a tree: its indices as nested loops around its segments in their order."""
    body: list[Item] = []
    for segment in nest.segments:
        inner: Item = Leaf(segment.statements, segment.uses, segment.constraints, segment.tags)
        for index in reversed(segment.loops):
            inner = Loop(index.name, index.range, (inner,), reduces=True, tags=index.tags)
        body.append(inner)
    items = tuple(body)
    allocations = nest.allocations
    for index in reversed(nest.indices):
        items = (Loop(index.name, index.range, items, allocations=allocations, tags=index.tags),)
        allocations = ()
    return Tree(nest.kernel, items, allocations, _bounds(items, sizes_of(items)))


def untested(leaf: Leaf, loop: str, size: int) -> Leaf:
    """Return the leaf with equivalent tests that are independent of a loop, where there are such."""
    groups = (leaf.constraints, leaf.padded, leaf.zeros)
    constraints, padded, zeros = (tuple(without(test, loop, size) for test in each) for each in groups)
    return attrs.evolve(leaf, constraints=constraints, padded=padded, zeros=zeros)


def without(test: Affine, loop: str, size: int) -> Affine:
    """Return a test equivalent to a loop's test but independent of the loop; the test itself if there is none.

    There is one where the other terms move further than the whole loop.
    """
    step = test.coefficient(loop)
    rest = test - Affine.of({loop: step})
    apart = math.gcd(*(int(each) for _, each in rest.terms)) if test.is_integral else 0
    first = rest.offset % apart if apart else 0
    last = first + step * (size - 1)
    return rest if step and min(first, last) >= 0 and max(first, last) < apart else test


def walk(items: tuple[Item, ...]) -> list[Item]:
    """Return items and all below them, outer ones first."""
    found: list[Item] = []
    _add_all(items, found)
    return found


def _add_all(items: tuple[Item, ...], found: list[Item]) -> None:
    for item in items:
        found.append(item)
        if isinstance(item, Loop):
            _add_all(item.body, found)


def leaves(items: tuple[Item, ...]) -> list[Leaf]:
    """Return the leaves below items, in order."""
    return [item for item in walk(items) if isinstance(item, Leaf)]


def each_leaf(items: tuple[Item, ...]) -> Iterator[Leaf]:
    """Yield the leaves below items, in order, for those who may not want to see them all."""
    for item in items:
        if isinstance(item, Loop):
            yield from each_leaf(item.body)
        else:
            yield item


def sizes_of(items: tuple[Item, ...]) -> dict[str, int]:
    """Return the sizes of all loops among items and below, by name; the greatest of loops that share a name."""
    found: dict[str, int] = {}
    for item in walk(items):
        if isinstance(item, Loop):
            found[item.name] = max(item.size, found.get(item.name, 0))
    return found


def own_memory(loop: Loop) -> set[str]:
    """Return the names of the private memory of a loop's iterations, at any depth."""
    return {each.name for item in walk((loop,)) if isinstance(item, Loop) for each in item.allocations}


def updated(loop: Loop) -> str | None:
    """Return outer memory that a loop merges into, or both reads and writes; None if there is none.

    In that case iterations may run twice, as they store equal values again.
    """
    own = own_memory(loop)
    uses = [use for leaf in leaves((loop,)) for use in leaf.uses if use.root not in own]
    read = {use.root for use in uses if use.direction.reads}
    return next((use.root for use in uses if use.direction.writes and (use.merges or use.root in read)), None)


def in_place(tree: Tree) -> str | None:
    """Return a root that a kernel writes and reads under two names; None if there is none."""
    roots = [each for each in tree.kernel.refinements if each.direction is not stripe.Direction.NONE]
    read = [(each.name, each.source) for each in roots if each.direction.reads]
    written = (each for each in roots if each.direction.writes)
    return next((w.name for w in written if any(source == w.source and name != w.name for name, source in read)), None)


def fills(loop: Loop) -> int:
    """Return the number of items at the beginning of a loop that only fill its own memory from elsewhere."""
    own = {each.name for each in loop.allocations}
    written = {use.root for leaf in leaves(loop.body) for use in leaf.uses if use.direction.writes}
    copies = (
        all(
            [type(s) for s in leaf.statements if not isinstance(s, stripe.LoadIndex)] == [stripe.Load, stripe.Store]
            and all(use.root in own if use.direction.writes else use.root not in written for use in leaf.uses)
            for leaf in leaves((item,))
        )
        for item in loop.body
    )
    return sum(takewhile(bool, copies))


def _bounds(items: tuple[Item, ...], ranges: Mapping[str, int]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the touched part of each root, as far as ranges of indices and single constraints determine it."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for leaf in leaves(items):
        for use in leaf.uses:
            sizes = use.sizes or (1,) * len(use.access)
            reach = tuple(
                (low, high + size - 1)
                for affine, size in zip(use.access, sizes, strict=True)
                for low, high in (span(affine, leaf.constraints, ranges),)
            )
            before = found.get(use.root, reach)
            found[use.root] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, reach, strict=True))
    return found


def span(affine: Affine, tests: tuple[Affine, ...], ranges: Mapping[str, int]) -> tuple[int, int]:
    """Return the bounds of an affine where tests are at least 0, as the sum of a test and a bounded rest."""
    low, high = affine.bounds(ranges)
    low = max(low, *((affine - test).bounds(ranges)[0] for test in tests)) if tests else low
    high = min(high, *((affine + test).bounds(ranges)[1] for test in tests)) if tests else high
    return math.ceil(low), math.floor(high)


def with_leaves(items: tuple[Item, ...], function: Callable[[Leaf], Leaf]) -> tuple[Item, ...]:
    """Return items with other leaves; themselves where all are the same."""
    new = [
        item.around(with_leaves(item.body, function)) if isinstance(item, Loop) else function(item) for item in items
    ]
    return changed(items, new)


def changed(items: tuple[Item, ...], new: list[Item]) -> tuple[Item, ...]:
    """Return new items in place of others; the others where all are the same."""
    return items if len(items) == len(new) and all(map(is_, items, new)) else tuple(new)


def map_leaves(
    items: tuple[Item, ...], mapping: Mapping[str, Affine], *tests: Affine, pads: bool = False
) -> tuple[Item, ...]:
    """Return items with indices replaced in all leaves, with further constraints; padded ones with ``pads``."""

    def tested(leaf: Leaf) -> Leaf:
        new = leaf.substitute(mapping)
        if not tests:
            return new
        if pads:
            return attrs.evolve(new, padded=(*new.padded, *tests))
        return attrs.evolve(new, constraints=(*new.constraints, *tests))

    return with_leaves(items, tested)


@attrs.frozen
class Replaced:
    """Replacement of a loop by a step, and the memory that moves with it to the body around."""

    items: tuple[Item, ...]
    allocations: tuple[stripe.Refinement, ...] = ()


Rewrite: TypeAlias = "Callable[[Loop, tuple[Loop, ...]], Replaced | Refused]"
"""Makes something else of a loop; its second argument are the loops around it, the outermost first."""


def with_loops_replaced(tree: Tree, name: str, rewrite: Rewrite) -> Tree | Refused:
    """Return the tree with each loop of a name replaced; refused if there is none, or a replacement is refused."""
    new = _LoopReplacer(tree, name, rewrite).within(tree.body, tree.allocations, ())
    if new is None:
        known = ", ".join(dict.fromkeys(loop.name for loop in tree.loops()))
        return refused("TR701", loop=name, loops=known)
    if isinstance(new, Refused):
        return new
    return attrs.evolve(tree, body=new.items, allocations=(*tree.allocations, *new.allocations))


@attrs.frozen(eq=False, repr=False)
class _LoopReplacer:
    """Replacement of the loops of a name."""

    tree: Tree
    name: str
    rewrite: Rewrite

    def within(
        self, items: tuple[Item, ...], held: tuple[stripe.Refinement, ...], around: tuple[Loop, ...]
    ) -> Replaced | Refused | None:
        """Return items with loops replaced, inside memory that is ``held``; None if there are none."""
        done: list[Item] | None = None
        moved: list[stripe.Refinement] = []
        for number, item in enumerate(items):
            new: Replaced | Refused | None = None
            if isinstance(item, Loop):
                meant = item.name == self.name
                new = self.rewrite(item, around) if meant else self.within(item.body, item.allocations, (*around, item))
            if isinstance(new, Refused):
                return new
            if new is None or not isinstance(item, Loop):
                if done is not None:
                    done.append(item)
                continue
            done = [*items[:number]] if done is None else done
            if item.name != self.name:
                done.append(item.around(new.items, (*item.allocations, *new.allocations)))
                continue
            if new.allocations:
                others = (each for each in items if isinstance(each, Loop) and each.name != self.name)
                new = self._told_apart(new, (*held, *moved), others)
                moved += (each for each in new.allocations if each not in (*held, *moved))
            done += new.items
        return None if done is None else Replaced(tuple(done), tuple(moved))

    def _told_apart(self, new: Replaced, held: tuple[stripe.Refinement, ...], others: Iterable[Loop]) -> Replaced:
        """Return what moves memory to where other memory has its name with another name for it.

        Memory that is alike may be the same: each loop had it for itself, so none finds there what another one left.
        """
        made = (loop for loop in (*others, *new.items) if isinstance(loop, Loop))
        taken = {*(each.name for each in held), *(name for loop in made for name in own_memory(loop))}
        clashing = [a.name for a in new.allocations if a.name in taken and a not in held]
        if not clashing:
            return new
        names = self.tree.names()
        for name in taken:  # some are of this step
            names.add(name)
        apart = {name: names.fresh(name) for name in clashing}
        items = map_outer_uses(new.items, lambda use: attrs.evolve(use, root=apart.get(use.root, use.root)))
        return Replaced(items, tuple(attrs.evolve(a, name=apart.get(a.name, a.name)) for a in new.allocations))


def chain_of(loop: Loop, names: tuple[str, ...]) -> list[Loop] | Refused:
    """Return the perfectly nested loops of these names, from ``loop`` on, outermost first."""
    chain = [loop]
    while len(chain) < len(names):
        around = chain[-1]
        inner = around.body[0] if len(around.body) == 1 else None
        if not isinstance(inner, Loop) or around.allocations:
            missing = next((name for name in names if name not in {each.name for each in chain}), "")
            return refused("TR709", loop=around.name, inner=missing)
        chain.append(inner)
    if carried := [each.name for each in chain if each.carried]:
        return refused("TR707", loop=carried[0], binding="serial")
    if strange := [each.name for each in chain if each.name not in names]:
        return refused("TR709", loop=chain[0].name, inner=strange[0])
    return chain


def nested(
    loops: list[Loop], body: tuple[Item, ...], allocations: tuple[stripe.Refinement, ...] = ()
) -> tuple[Item, ...]:
    """Return nested loops around a body, in which ``allocations`` are made."""
    for loop in reversed(loops):
        body = (loop.around(body, allocations),)
        allocations = ()
    return body


def map_uses(items: tuple[Item, ...], function: Callable[[Use], Use]) -> tuple[Item, ...]:
    """Return items with other uses in their leaves."""
    return with_leaves(items, lambda leaf: leaf.with_uses(function))


def map_outer_uses(
    items: tuple[Item, ...], function: Callable[[Use], Use], own: frozenset[str] = frozenset()
) -> tuple[Item, ...]:
    """Return items with other uses in their leaves, except for memory made by loops among them or in ``own``."""
    new = [
        item.around(map_outer_uses(item.body, function, own.union([a.name for a in item.allocations])))
        if isinstance(item, Loop)
        else item.with_uses(lambda use: use if use.root in own else function(use))
        for item in items
    ]
    return changed(items, new)


def with_names(tree: Tree, loops: Mapping[str, str], roots: Mapping[str, str]) -> Tree:
    """Return the tree with loops and memory renamed."""
    if not loops and not roots:
        return tree
    mapping = {old: Affine.index(new) for old, new in loops.items()}

    def held(memory: tuple[stripe.Refinement, ...]) -> tuple[stripe.Refinement, ...]:
        return tuple(attrs.evolve(each, name=roots.get(each.name, each.name)) for each in memory)

    def called(items: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(
            attrs.evolve(
                item,
                name=loops.get(item.name, item.name),
                body=called(item.body),
                allocations=held(item.allocations),
            )
            if isinstance(item, Loop)
            else item
            for item in items
        )

    body = map_uses(
        called(map_leaves(tree.body, mapping)), lambda use: attrs.evolve(use, root=roots.get(use.root, use.root))
    )
    kernel = attrs.evolve(tree.kernel, refinements=held(tree.kernel.refinements))
    bounds = {roots.get(root, root): reach for root, reach in tree.bounds.items()}
    return Tree(kernel, body, held(tree.allocations), bounds)


Size: TypeAlias = int | str
Producers: TypeAlias = "Callable[[str, bool], stripe.Block | None]"


def no_producer(_: str, unread: bool) -> None:  # all are called alike
    """Return None: no earlier kernel is known."""


@attrs.frozen
class Known:
    """Names available to steps besides the loops and the memory of a kernel.

    Attributes:
        values: Parameters, and facts of the target, for expressions.
        producer: Returns the earlier kernel that is the only producer of a tensor, by its name in the program; None if
            there is none. Its inputs are unchanged when this kernel runs, and this kernel writes none of them. With
            True as second argument, no kernel in between reads the tensor, so that this one may store it instead.
        trusted: Whether names given by steps are new, so that no conflicts are searched.
    """

    values: Mapping[str, Value] = attrs.field(factory=dict)
    producer: Producers = attrs.field(default=no_producer)
    trusted: bool = False

    def size(self, size: Size, tree: Tree) -> int | Refused:
        """Return the value of a size, which must be 1 or more."""
        if isinstance(size, str):
            names = {**{loop.name: loop.size for loop in tree.loops()}, **self.values}
            try:
                value = evaluate(parse(size), names, Budget())
            except MissingError as missing:
                return refused("TR702", expression=size, name=str(missing.args[0]), known=", ".join(names))
            except (ExpressionError, ExhaustedError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                return refused("TR703", expression=size, problem=str(error))
        else:
            value = size
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return refused("TR704", expression=str(size), value=str(value))
        return value

    @refusing
    def sizes(self, sizes: Iterable[Size], tree: Tree) -> tuple[int, ...] | Refused:
        """Return the values of several sizes, or why one has none."""
        return tuple([accepted(self.size(size, tree)) for size in sizes])
