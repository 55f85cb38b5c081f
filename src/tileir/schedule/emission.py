"""Emission of kernels from a loop tree: peels remainders, drops tests that always hold, writes loops as blocks.

Also decides about iterations past the end of loops split with :attr:`~tileir.schedule.tree.Tail.PAD` or ``MASK``. A
leaf that touches only memory of the kernel may run past the end where that memory has spare elements: a tile is then
computed as a whole, and only its stores are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.schedule.groups import is_thread, unshared, with_threads
from tileir.schedule.nest import Node, Use, emit, product
from tileir.schedule.products import dtype_of_product, factors_of_product
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.schedule.tree import (
    Item,
    Leaf,
    Loop,
    Tree,
    changed,
    each_leaf,
    fills,
    leaves,
    map_leaves,
    sizes_of,
    span,
    updated,
    walk,
    with_leaves,
    without,
)
from tileir.stripe import ir as stripe
from tileir.stripe.bindings import Binding


@attrs.frozen(repr=False)
class _LeafContext:
    """A leaf, the loops around it, and the memory that each of them makes.

    Attributes:
        leaf: The leaf.
        sizes: The sizes of the loops around it.
        inner: The loops inside the maker of a memory, by the memory's name.
        memory: The memory by name.
    """

    leaf: Leaf
    sizes: Mapping[str, int]
    inner: Mapping[str, frozenset[str]]
    memory: Mapping[str, stripe.Refinement]

    def needless(self, seen: list[_LeafContext]) -> frozenset[Affine]:
        """Return the padded tests that may be dropped once all that the leaf reads is defined."""
        if not self.leaf.padded or not self._has_room():
            return frozenset()
        return frozenset(t for t in self.leaf.padded if self._is_apart(t, seen) or self._adds_nothing(t, seen))

    def _has_room(self) -> bool:
        """Return whether all that tests change is memory of the kernel, with elements for all points of the loops."""
        tested = {name for test in self.leaf.padded for name in test.indices}
        return all(
            self._fits(use)
            if use.root in self.memory
            else not use.direction.writes and tested.isdisjoint(name for each in use.access for name in each.indices)
            for use in self.leaf.uses
        ) and not any(
            isinstance(s, stripe.Special) or (isinstance(s, stripe.Load | stripe.Store) and s.index is not None)
            for s in self.leaf.statements
        )

    def _fits(self, use: Use) -> bool:
        sizes = self.memory[use.root].shape.sizes
        return len(sizes) == len(use.access) and all(
            low >= 0 and high < size and not use.sizes for (low, high), size in zip(self.reach(use), sizes, strict=True)
        )

    def reach(self, use: Use) -> list[tuple[int, int]]:
        """Return the bounds of an access along each axis, as far as constraints determine them."""
        ends = (span(affine, self.leaf.constraints, self.sizes) for affine in use.access)
        return [
            (low, high + size - 1) for (low, high), size in zip(ends, use.sizes or [1] * len(use.access), strict=True)
        ]

    def _is_apart(self, test: Affine, seen: list[_LeafContext]) -> bool:
        """Return whether all elements that are written where a test fails are read nowhere else."""
        written = [use for use in self.leaf.uses if use.direction.writes]
        roots = {use.root for use in written}
        readers = (other.leaf for other in seen if any(use.root in roots for use in _read(other.leaf)))
        return all(self._tells(use, test) for use in written) and all(test in leaf.padded for leaf in readers)

    def _tells(self, use: Use, test: Affine) -> bool:
        moved = {name for name in test.indices if name in self.inner[use.root]}
        return moved <= {n for affine in use.access if _is_injective(affine, self.sizes) for n in affine.indices}

    def _adds_nothing(self, test: Affine, seen: list[_LeafContext]) -> bool:
        """Return whether the leaf adds a product of two zeros where a test fails."""
        if dtype_of_product(self.leaf.statements, self.leaf.uses) is None:
            return False
        factors = factors_of_product(self.leaf.statements, self.leaf.uses)
        return factors is not None and all(self._is_zero(use, test, seen) for use in factors)

    def _is_zero(self, use: Use, test: Affine, seen: list[_LeafContext]) -> bool:
        """Return whether a use reads zero where a test fails."""
        stores = [(each, s) for each in seen for s in each.leaf.uses if s.root == use.root and s.direction.writes]
        limits = self._limits(test, use)
        return bool(stores) and all(
            any(
                here is not None and here == there
                for zero in each.leaf.zeros
                for there, here in zip(each._limits(zero, store), limits, strict=True)
            )
            for each, store in stores
        )

    def _limits(self, test: Affine, use: Use) -> list[Affine | None]:
        """Return the first place along each axis of memory at which a test fails; None where it says something else.

        Places are affines over the loops around the memory.
        """
        inner, found = self.inner[use.root], list[Affine | None]()
        for affine in use.access:
            whole = test + affine
            limit = whole - Affine.of({name: whole.coefficient(name) for name in whole.indices if name in inner})
            plain = limit - affine
            for name in affine.indices:
                plain = plain if test.coefficient(name) else without(plain, name, self.sizes[name])
            found.append(limit if (plain - test).bounds(self.sizes) == (0, 0) else None)
        return found

    def fills(self, root: str, seen: list[_LeafContext]) -> bool:
        """Return whether the leaf stores all elements of a memory that some leaf reads."""
        if root not in self.memory:
            return False
        reads = [(each, use) for each in seen for use in each.leaf.uses if use.root == root and use.direction.reads]
        reaches = [*zip(*(each.reach(use) for each, use in reads), strict=True)]
        ends = [(min(low for low, _ in axis), max(high for _, high in axis)) for axis in reaches]
        sizes = self.memory[root].shape.sizes
        ends = [*zip([0] * len(sizes), [size - 1 for size in sizes], strict=True)] if not reads else ends
        stores = (use for use in self.leaf.uses if use.root == root and use.direction is stripe.Direction.OUT)
        return any(self._covers(use, ends) for use in stores)

    def _covers(self, use: Use, ends: list[tuple[int, int]]) -> bool:
        """Return whether a leaf touches all elements of memory between some ends."""
        names = [name for affine in use.access for name in affine.indices]
        known = {test for test in self.leaf.constraints for each in use.access if (test + each).is_constant}
        return (
            len({*names}) == len(names)
            and known.issuperset(self.leaf.constraints)
            and all(
                first <= low and last >= high and _is_dense(each, self.sizes)
                for each, (first, last), (low, high) in zip(use.access, self.reach(use), ends, strict=True)
            )
        )


def _is_injective(affine: Affine, sizes: Mapping[str, int]) -> bool:
    """Return whether an affine has another value at each point of its indices."""
    reach = 0
    for name, step in sorted(affine.terms, key=lambda term: abs(int(term[1]))):
        if abs(int(step)) <= reach:
            return False
        reach += abs(int(step)) * (sizes[name] - 1)
    return affine.is_integral


def _is_dense(affine: Affine, sizes: Mapping[str, int]) -> bool:
    """Return whether an affine has each value between its bounds at exactly one point."""
    low, high = affine.bounds(sizes)
    return _is_injective(affine, sizes) and high - low + 1 == product(sizes[name] for name in affine.indices)


def with_padding(tree: Tree) -> Tree:
    """Return the tree without padded constraints: those that may fail are dropped where that is safe, kept elsewhere.

    Memory that such a leaf reads is filled as a whole, so that nothing undefined is read.
    """
    if not any(leaf.padded for leaf in tree.leaves):
        return tree
    seen = list(_seen(tree.body, {}, {}, {each.name: each for each in tree.allocations}))
    needless = {id(each.leaf): each.needless(seen) for each in seen}
    known: set[str] = set()
    while True:
        defined = (e for e in seen if all(use.root in known or use.root not in e.memory for use in _read(e.leaf)))
        dropped = {id(each.leaf): needless[id(each.leaf)] for each in defined}
        filling = [each for each in seen if dropped.get(id(each.leaf), frozenset()).issuperset(each.leaf.padded)]
        more = {root for each in filling for root in each.memory if root not in known and each.fills(root, seen)}
        if not more:
            return attrs.evolve(tree, body=with_leaves(tree.body, partial(_decided, dropped)))
        known |= more


def _read(leaf: Leaf) -> Iterator[Use]:
    return (use for use in leaf.uses if use.direction.reads or use.merges)


def _seen(
    items: tuple[Item, ...],
    sizes: Mapping[str, int],
    inner: Mapping[str, frozenset[str]],
    memory: Mapping[str, stripe.Refinement],
) -> Iterator[_LeafContext]:
    for item in items:
        if isinstance(item, Leaf):
            yield _LeafContext(item, sizes, {name: inner.get(name, frozenset(sizes)) for name in memory}, memory)
        else:
            within = {name: inner.get(name, frozenset(sizes)) | {item.name} for name in memory}
            own = {each.name: each for each in item.allocations}
            within |= {name: frozenset[str]() for name in own}
            yield from _seen(item.body, {**sizes, item.name: item.size}, within, {**memory, **own})


def _decided(dropped: Mapping[int, frozenset[Affine]], leaf: Leaf) -> Leaf:
    if not leaf.padded:
        return leaf
    needless = dropped.get(id(leaf), frozenset())
    tests = [test for test in leaf.padded if test not in needless]
    return attrs.evolve(leaf, constraints=(*leaf.constraints, *tests), padded=())


@refusing
def kernels_of(tree: Tree, *, knowing: bool = False) -> tuple[stripe.Block, ...] | Refused:
    """Return the kernels of a tree, in order: one, or several where remainders of a grid are peeled.

    The caller may guarantee (``knowing``) that threads share no memory other than local memory.
    """
    tree = with_padding(tree)
    names = tree.names()
    parts = [part for body in bodies_of(tree) for part in _grids_peeled(body, {}, names)]
    bodies = [_told_apart(_tidy(body, {}, names), {}, names) for body in parts]
    for body in bodies:
        if (cut := _cut_lanes(body)) is not None:
            known = {loop.name for loop in tree.loops()}
            while cut not in known and "_" in cut:  # what a remainder, or a part without one, is called
                cut = cut.rpartition("_")[0]
            return refused("TR722", loop=cut)
    made = []
    for part, body in zip(parts, bodies, strict=True):
        own = attrs.evolve(tree, body=body)
        loops = own.loops()
        if any(map(is_thread, loops)):
            plain = knowing and not tree.allocations and not any(loop.allocations for loop in loops)
            own = own if plain else accepted(with_threads(own, {}))
            if (memory := unshared(own)) is not None:
                return refused("TR729", memory=memory)
        if body:
            made.append(emit(_root(own.body, own, alone=any(map(_is_grid, part))), tree.kernel))
    return tuple(made)


def bodies_of(tree: Tree) -> list[tuple[Item, ...]]:
    """Return the bodies of separate kernels: the neighbours of loops bound to the grid, at the outermost level."""
    return [tree.body] if tree.allocations else _apart(tree.body)


def _apart(items: tuple[Item, ...]) -> list[tuple[Item, ...]]:
    if not any(_is_grid(item) for item in items):
        return [items]
    found: list[tuple[Item, ...]] = []
    for grids, run in [(key, tuple(group)) for key, group in groupby(items, _is_grid)]:
        found += [body for item in run for body in _in_grid(item)] if grids else [run]
    return found


def _in_grid(item: Item) -> list[tuple[Item, ...]]:
    if not isinstance(item, Loop) or item.allocations:
        return [(item,)]
    return [(attrs.evolve(item, body=body),) for body in _apart(item.body)]


def _is_grid(item: Item) -> bool:
    return isinstance(item, Loop) and item.binding is Binding.GRID


def _grids_peeled(items: tuple[Item, ...], around: Mapping[str, int], names: NameScope) -> list[tuple[Item, ...]]:
    """Return the bodies of several kernels where loops of the grid have remainders."""
    if len(items) != 1 or not isinstance(items[0], Loop) or items[0].binding is not Binding.GRID:
        return [items]
    return [
        (attrs.evolve(part, body=body),)
        for part in _parts(items[0], around, names)
        for body in _grids_peeled(part.body, {**around, part.name: part.size}, names)
    ]


def _tidy(items: tuple[Item, ...], around: Mapping[str, int], names: NameScope) -> tuple[Item, ...]:
    """Return items with remainders peeled, and without redundant tests and loops of one iteration."""
    result: list[Item] = []
    for item in items:
        if isinstance(item, Leaf):
            if item.constraints or item.zeros:
                tests, zeros = (
                    tuple(test for test in dict.fromkeys(each) if test.bounds(around)[0] < 0)
                    for each in (item.constraints, item.zeros)
                )
                same = (tests, zeros) == (item.constraints, item.zeros)
                item = item if same else attrs.evolve(item, constraints=tests, zeros=zeros)
            result.append(item)
            continue
        for part in _parts(item, around, names):
            body = _tidy(part.body, {**around, part.name: part.size}, names)
            if part.size == 1 and not part.allocations:
                result += body
            elif body:
                result.append(part.around(body))
    return changed(items, result)


def _told_apart(items: tuple[Item, ...], sizes: dict[str, int], names: NameScope) -> tuple[Item, ...]:
    """Return items with one name for each size of loop, as loops that share a name may have lost their remainders."""
    done: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            name = item.name if sizes.setdefault(item.name, item.size) == item.size else names.fresh(item.name)
            body = item.body if name == item.name else map_leaves(item.body, {item.name: Affine.index(name)})
            body = _told_apart(body, sizes, names)
            done.append(item.around(body) if name == item.name else attrs.evolve(item, name=name, body=body))
        else:
            done.append(item)
    return changed(items, done)


def _parts(loop: Loop, around: Mapping[str, int], names: NameScope) -> list[Loop]:
    """Return the loops that execute a loop: without idle iterations, and in two parts where some are peeled."""
    loop = _shortened(loop, around, names)
    if not loop.size:
        return []
    if (overlapping := _overlapping(loop)) is not None:
        return [_at_zero(part) for part in overlapping]
    full = _full_iterations(loop, around) if loop.peels else loop.size
    if full == loop.size:
        return [_at_zero(attrs.evolve(loop, peels=False) if loop.peels else loop)]
    name, size = names.fresh(loop.name), loop.size - full
    place = Affine.constant(full) if size == 1 else Affine.index(name) + full
    rest = attrs.evolve(loop, name=name, size=size, body=map_leaves(loop.body, {loop.name: place}), peels=False)
    return [_at_zero(attrs.evolve(loop, size=full, peels=False)), rest] if full else [rest]


def _overlapping(loop: Loop) -> list[Loop] | None:
    """Return the whole iterations of a loop, and a last one that overlaps them.

    None where the loop has no overlapping iteration, or its current body cannot repeat elements: it keeps the tests of
    its tail.
    """
    if loop.last is None or updated(loop) is not None:
        return None
    body = map_leaves(loop.body, {loop.name: Affine.constant(loop.last)})
    affines = (
        affine
        for leaf in leaves(body)
        for affine in (
            *leaf.tests,
            *(affine for use in leaf.uses for affine in use.access),
            *(each.affine for each in leaf.statements if isinstance(each, stripe.LoadIndex)),
        )
    )
    if not all(affine.is_integral for affine in affines):
        return None
    last = attrs.evolve(loop, size=1, body=body, last=None)
    return [attrs.evolve(loop, size=loop.size - 1, last=None), last] if loop.size > 1 else [last]


def _at_zero(loop: Loop) -> Loop:
    """Return a loop of one iteration with its index replaced by a constant in its body."""
    return loop.around(map_leaves(loop.body, {loop.name: Affine()})) if loop.size == 1 else loop


def _full_iterations(loop: Loop, around: Mapping[str, int]) -> int:
    """Return the number of iterations, counted from 0, in which no test that depends on the loop fails."""
    ranges = {**sizes_of(loop.body), **around, loop.name: 1}
    cut = (leaf for leaf in loop.leaves if loop.name in leaf.tested)
    return min((_iterations(leaf, loop, ranges, every=True) for leaf in cut), default=loop.size)


def _cut_lanes(items: tuple[Item, ...]) -> str | None:
    """Return a loop over lanes that a test cuts and no mask covers, as instructions require; None if there is none."""
    found = leaves(items)
    tested = [name for leaf in found for test in leaf.constraints for name in test.indices]
    zeros = [name for leaf in found for test in leaf.zeros for name in test.indices]
    if not tested and not zeros:
        return None
    loops = [item for item in walk(items) if isinstance(item, Loop) and item.binding in (Binding.LANE, Binding.DOT)]
    whole = {loop.name for loop in loops if not _may_be_cut(loop)}
    lanes = {loop.name for loop in loops}
    return next((n for names, those in ((tested, whole), (zeros, lanes)) for n in names if n in those), None)


def _may_be_cut(loop: Loop) -> bool:
    inner = loop.body[0]
    dots = isinstance(inner, Loop) and inner.binding is Binding.DOT
    return loop.binding not in (Binding.LANE, Binding.DOT) or (loop.masks and loop.binding is Binding.LANE and not dots)


def _shortened(loop: Loop, around: Mapping[str, int], names: NameScope) -> Loop:
    """Return a loop without the last iterations in which a test of each of its leaves fails."""
    if loop.masks and loop.binding in (Binding.LANE, Binding.THREAD):
        return loop
    if not all(loop.name in leaf.tested for leaf in each_leaf(loop.body)):
        return loop
    ranges = {**sizes_of(loop.body), **around, loop.name: 1}
    size = max((_iterations(leaf, loop, ranges) for leaf in loop.leaves), default=loop.size)
    if size == loop.size:
        return loop
    name = names.fresh(loop.name)
    short = attrs.evolve(
        loop, name=name, size=size, last=None, body=map_leaves(loop.body, {loop.name: Affine.index(name)})
    )
    terms = short.body[0]
    if not isinstance(terms, Loop) or terms.binding is not Binding.DOT:
        return short
    # No instruction has so few lanes: their terms are added in turn.
    return attrs.evolve(terms, binding=None, body=(attrs.evolve(short, body=terms.body),))


def _iterations(leaf: Leaf, loop: Loop, ranges: Mapping[str, int], *, every: bool = False) -> int:
    """Return the number of first iterations that some point of a leaf needs at most, or that all points pass.

    ``ranges`` gives the loop's range.
    """
    most = loop.size
    for test in leaf.constraints:
        step = test.coefficient(loop.name)
        if step < 0:
            room = test.bounds(ranges)[0 if every else 1]
            most = min(most, max(0, int(room // -step) + 1))
    return most


def _root(items: tuple[Item, ...], tree: Tree, *, alone: bool) -> Node:
    """Return the outermost block; ``alone`` tells whether a grid of a single group is kept."""
    nodes = nodes_of(items)
    one_group = alone and not any(map(_is_grid, items))
    if len(nodes) == 1 and not tree.allocations and not one_group:
        return nodes[0]
    return Node(allocations=tree.allocations, children=nodes)


def nodes_of(items: tuple[Item, ...]) -> tuple[Node, ...]:
    """Return the blocks of items that have no remainders to peel."""
    return tuple(_node(item) for item in items)


def _node(item: Item, indices: tuple[stripe.Index, ...] = ()) -> Node:
    if isinstance(item, Leaf):
        if item.zeros:
            lanes = tuple(index for index in indices if index.binding is Binding.LANE)
            copy = Node(lanes, statements=item.statements, uses=item.uses)
            zeros = Node(children=(copy,), constraints=item.zeros, tags=stripe.Tags.of(stripe.PADDED))
            others = tuple(index for index in indices if index not in lanes)
            return Node(others, children=(zeros,), constraints=item.constraints, tags=item.tags)
        return Node(indices, (), (), item.statements, item.uses, item.constraints, "", item.tags)
    chain = [item]
    while len(chain[-1].body) == 1 and not chain[-1].allocations:
        inner = chain[-1].body[0]
        if not isinstance(inner, Loop) or _rank(inner) != _rank(item):
            break
        chain.append(inner)
    last = chain[-1]
    indices = tuple(_index(loop) for loop in chain if loop.size > 1)
    only = last.body[0] if len(last.body) == 1 else None
    if isinstance(only, Leaf) and not last.allocations:
        return _node(only, indices)
    if last.stages == 1:
        once = item.binding is Binding.THREAD or item.masks or last.allocations
        tests, last = _testing_once(last) if once else ((), last)
        return Node(indices, last.allocations, nodes_of(last.body), constraints=tests)
    ahead = fills(last)
    copies = (attrs.evolve(node, instruction=stripe.Copy()) for node in nodes_of(last.body[:ahead]))
    nodes = (*copies, *nodes_of(last.body[ahead:]))
    return Node(indices, last.allocations, nodes, instruction=stripe.Pipeline(last.stages))


def _testing_once(loop: Loop) -> tuple[tuple[Affine, ...], Loop]:
    """Return the loop-invariant tests that all leaves of a loop share, and the loop without them."""
    if not loop.leaves or not all(leaf.constraints for leaf in loop.leaves):
        return (), loop
    common = frozenset[Affine].intersection(*(frozenset(leaf.constraints) for leaf in loop.leaves))
    inner = sizes_of(loop.body).keys()
    tests = tuple(test for test in loop.leaves[0].constraints if test in common and inner.isdisjoint(test.indices))

    def untested(leaf: Leaf) -> Leaf:
        return attrs.evolve(leaf, constraints=tuple(test for test in leaf.constraints if test not in tests))

    return tests, attrs.evolve(loop, body=with_leaves(loop.body, untested)) if tests else loop


def _rank(loop: Loop) -> int | str:
    """Return the class of loops that form one block: grid, plain, threads, or registers.

    Plain loops that reduce are separate blocks, as their iterations share accumulators; so are loops with carried
    dependences. Pipelined loops form one block, whose iterations are numbered together.
    """
    if loop.stages > 1 or loop.carried:
        return loop.name if loop.carried else "pipeline"
    match loop.binding:
        case Binding.GRID:
            return 0
        case None:
            return 1 if loop.reduces else 2
        case Binding.THREAD:
            return 3
        case _:
            return 4


def _index(loop: Loop) -> stripe.Index:
    return stripe.Index(loop.name, loop.size, binding=loop.binding, serial=loop.carried, tags=loop.tags)
