"""Steps that include the kernel that computes an input: inline, compute_at and join_kernel.

A producer stores one element of one tensor at each of its points, at the position given by its indices. So the position
of an element determines the point that computes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.reindex import renamed
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import taken
from tileir.schedule.steps.memory import Level, Stage
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Tree,
    map_leaves,
    map_uses,
    tree_of,
    walk,
    with_names,
)
from tileir.stripe import ir as stripe


@attrs.frozen
class Inline:
    """Inline the producer of a tensor: compute its elements where they are read.

    Elements with several uses are recomputed. The producing kernel is removed if it has no other readers.

    Attributes:
        tensor: A tensor that the kernel reads, and an earlier elementwise kernel computes.
    """

    name: ClassVar[str] = "inline"
    tensor: str

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the statements of the other kernel."""
        tree, root, producer = accepted(_taken_in(tree, self.tensor, known))
        if not producer.is_flat:
            return refused("TR735", tensor=self.tensor)
        names = tree.names()

        def computed(leaf: Leaf) -> Replaced:
            seen = any(use.root == root for use in leaf.uses)
            return Replaced((producer.inlined(leaf, root, names) if seen else leaf,))

        return attrs.evolve(tree, body=_with_leaves(tree.body, computed).items)


@attrs.frozen
class ComputeAt:
    """Compute the part of a tensor that one iteration of a loop reads, in its own memory.

    The part is near when it is read, and no kernel has to store it before; elements that several iterations read are
    recomputed. The loops over the part are named ``into``, ``_`` and the number of the axis.

    Attributes:
        tensor: A tensor that the kernel reads, and an earlier kernel computes.
        at: The loop.
        into: The name of the memory.
        level: The level of the memory.
        order: Axes of the tensor in the order of the memory; if empty, the tensor's order.
    """

    name: ClassVar[str] = "compute_at"
    tensor: str
    at: str
    into: str
    level: Level = Level.SCRATCH
    order: tuple[int, ...] = ()

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the other kernel at the beginning of the loop."""
        tree, root, producer = accepted(_taken_in(tree, self.tensor, known))
        staged = accepted(Stage(root, self.at, self.into, self.level, self.order)(tree, known))

        def computed(leaf: Leaf) -> Replaced:
            target = next((use for use in leaf.uses if use.root == self.into and use.direction.writes), None)
            clears = target is not None and len(leaf.uses) == 1
            return Replaced((leaf,)) if target is None or clears else producer.in_place_of(leaf, target)

        new = _with_leaves(staged.body, computed)
        return attrs.evolve(staged, body=new.items, allocations=(*staged.allocations, *new.allocations))


@attrs.frozen
class JoinKernel:
    """Prepend the kernel that computes a tensor to this one; the tensor is still stored.

    The step ``fuse`` can then fuse loops of both, so that an iteration reads what it has just stored.

    Attributes:
        tensor: A tensor that the kernel reads, and an earlier kernel computes.
        into: The names of the loops over the tensor, outermost first; if empty, those of the other kernel, with a
            number if they are taken.
    """

    name: ClassVar[str] = "join_kernel"
    tensor: str
    into: tuple[str, ...] = ()

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loops of the other kernel before its own."""
        found = accepted(_producer_of(tree, self.tensor, known, unread=True))
        tree, root, producer = found
        views = {each.name: each.source for each in tree.kernel.refinements}
        used = {use.root for leaf in tree.leaves for use in leaf.uses}
        if any(name != root and views.get(name) == views[root] for name in used):
            return refused("TR736", tensor=self.tensor)
        outer = [loop.name for loop in producer.tree.loops() if not loop.reduces]
        if self.into and len(self.into) != len(outer):
            return refused("TR725", what="loops", wanted=len(self.into), found=len(outer))
        rule_out(taken(known, tree, self.into))
        joined = producer.beside(tree.names(), root, dict(zip(outer, self.into, strict=False)))
        own = (each for each in tree.kernel.refinements if each.name != root)
        kernel = attrs.evolve(
            tree.kernel,
            name=f"{joined.kernel.name}+{tree.kernel.name}",
            refinements=(*joined.kernel.refinements, *own),
            tags=stripe.Tags(tuple(sorted({**dict(joined.kernel.tags.items), **dict(tree.kernel.tags.items)}.items()))),
        )
        body, allocations = (*joined.body, *tree.body), (*joined.allocations, *tree.allocations)
        return Tree(kernel, body, allocations, {**tree.bounds, **joined.bounds})


@refusing
def _taken_in(tree: Tree, tensor: str, known: Known) -> tuple[Tree, str, Producer] | Refused:
    """Return a tree with the inputs of a tensor's producer, its use of the tensor, and the renamed producer."""
    tree, root, producer = accepted(_producer_of(tree, tensor, known, unread=False))
    producer = producer.renamed_apart(tree.names())
    inner = producer.tree
    read = tuple(each for each in inner.kernel.refinements if each.direction is stripe.Direction.IN)
    around = attrs.evolve(tree.kernel, refinements=(*tree.kernel.refinements, *read))
    bounds = {**tree.bounds, **{each.name: inner.bounds[each.name] for each in read if each.name in inner.bounds}}
    return attrs.evolve(tree, kernel=around, bounds=bounds), root, producer


@refusing
def _producer_of(tree: Tree, tensor: str, known: Known, *, unread: bool) -> tuple[Tree, str, Producer] | Refused:
    """Return a tree with one view of a tensor, the view's name, and the earlier kernel that computes the tensor."""
    root, source = _view_of(tree, tensor)
    if not root:
        return refused("TR738", tensor=tensor, known=", ".join(tree.bounds))
    kernel = known.producer(source, unread)
    if kernel is None:
        return refused("TR733", tensor=tensor)
    tree = with_one_root(tree, root)
    uses = [use for leaf in tree.leaves for use in leaf.uses if use.root == root]
    if any(use.direction.writes for use in uses):
        return refused("TR712", tensor=tensor)
    if any(size > 1 for use in uses for size in use.sizes) or _chosen_by_data(tree, root):
        return refused("TR713", loop="", tensor=tensor)
    producer = accepted(Producer.of(kernel, source))
    if not all(producer.holds(use, tree.bounds[root]) for use in uses):
        return refused("TR736", tensor=tensor)
    written = {each.source for each in tree.kernel.refinements if each.direction.writes}
    if any(each.direction.reads and each.source in written for each in kernel.refinements):
        return refused("TR733", tensor=tensor)
    return tree, root, producer


def _view_of(tree: Tree, tensor: str) -> tuple[str, str]:
    """Return the kernel's view of this name, or of program memory of this name, and that memory."""
    used = {use.root for leaf in tree.leaves for use in leaf.uses if use.direction.reads}
    views = [each for each in tree.kernel.refinements if each.name in used and each.source]
    called = [each for each in views if each.name == tensor] or [each for each in views if each.source == tensor]
    return (called[0].name, called[0].source) if called else ("", "")


def _chosen_by_data(tree: Tree, tensor: str) -> bool:
    """Return whether data choose the element of a tensor that is read."""
    for leaf in tree.leaves:
        names = {use.name for use in leaf.uses if use.root == tensor}
        if any(isinstance(s, stripe.Load) and s.source in names and s.index is not None for s in leaf.statements):
            return True
    return False


def _with_leaves(items: tuple[Item, ...], function: Callable[[Leaf], Replaced]) -> Replaced:
    """Return items with each leaf replaced; the surrounding loop makes memory for it."""
    done: list[Item] = []
    memory: list[stripe.Refinement] = []
    for item in items:
        if isinstance(item, Leaf):
            new = function(item)
        else:
            inner = _with_leaves(item.body, function)
            loop = attrs.evolve(item, body=inner.items, allocations=(*item.allocations, *inner.allocations))
            new = Replaced((loop,))
        done += new.items
        memory += new.allocations
    return Replaced(tuple(done), tuple(memory))


@attrs.frozen(repr=False)
class Producer:
    """A kernel that computes a tensor.

    Attributes:
        tree: The kernel.
        body: The body of the innermost loop over the tensor.
        allocations: Private memory of each iteration.
        stored: The use that stores elements.
    """

    tree: Tree
    body: tuple[Item, ...]
    allocations: tuple[stripe.Refinement, ...]
    stored: Use

    @classmethod
    @refusing
    def of(cls, kernel: stripe.Block, source: str) -> Producer | Refused:
        """Return a kernel as the producer of a tensor, or the reason why it is not one."""
        tree = accepted(tree_of(kernel))
        body, loops, allocations = tree.body, [], tree.allocations
        while len(body) == 1 and isinstance(body[0], Loop) and not body[0].reduces:
            loops.append(body[0].name)
            allocations = (*allocations, *body[0].allocations)
            body = body[0].body
        stored = [use for leaf in tree.leaves for use in leaf.uses if use.direction.writes and _is_held(use, tree)]
        last = body[-1] if body else None
        if len(stored) != 1 or not isinstance(last, Leaf) or stored[0] not in last.uses or last.constraints:
            return refused("TR734", tensor=source)
        (use,) = stored
        plain = use.direction is stripe.Direction.OUT and not use.merges and _stores_plainly(last)
        in_place = all([step for _, step in affine.terms] in ([], [1]) for affine in use.access)
        moved = sorted(name for affine in use.access for name in affine.indices)
        if not (plain and in_place and moved == sorted(loops)) or any(size > 1 for size in use.sizes):
            return refused("TR734", tensor=source)
        return cls(tree, body, allocations, use)

    @property
    def is_flat(self) -> bool:
        """True if an element is computed without loops."""
        return len(self.body) == 1 and not self.allocations

    def holds(self, use: Use, reach: tuple[tuple[int, int], ...]) -> bool:
        """Return whether the producer computes a use's view within bounds, along equal axes."""
        own = self.tree.bounds[self.stored.root]
        same = use.strides == self.stored.strides and len(reach) == len(own)
        return same and all(
            low <= first and last <= high for (low, high), (first, last) in zip(own, reach, strict=True)
        )

    def values(self, place: tuple[Affine, ...]) -> dict[str, Affine]:
        """Return the index values of the point that computes the element at a position."""
        axes = zip(self.stored.access, place, strict=True)
        return {own.indices[0]: affine - own.offset for own, affine in axes if own.terms}

    def renamed_apart(self, names: NameScope) -> Producer:
        """Return the producer with fresh names for all loops and all memory."""
        loops = {loop.name: names.fresh(loop.name) for loop in self.tree.loops()}
        roots = {each.name: names.fresh(each.name) for each in self.tree.kernel.refinements}
        stem = attrs.evolve(self.tree, body=(Loop("", 1, self.body, allocations=self.allocations),))
        tree = with_names(stem, loops, roots)
        (around,) = tree.body
        assert isinstance(around, Loop)
        mapping = {old: Affine.index(new) for old, new in loops.items()}
        stored = attrs.evolve(self.stored.substitute(mapping), root=roots[self.stored.root])
        return Producer(tree, around.body, around.allocations, stored)

    def beside(self, names: NameScope, root: str, loops: Mapping[str, str]) -> Tree:
        """Return the kernel with fresh names, except for those in ``loops``, and with its tensor as ``root``."""
        names.add(*loops.values())
        own = {loop.name: loops.get(loop.name) or names.fresh(loop.name) for loop in self.tree.loops()}
        roots = {each.name: names.fresh(each.name) for each in self.tree.kernel.refinements}
        return with_names(self.tree, own, {**roots, self.stored.root: root})

    def in_place_of(self, leaf: Leaf, target: Use) -> Replaced:
        """Return items that compute the element copied by a leaf, and store it where the leaf does."""
        place = next(use.access for use in leaf.uses if use is not target)
        values, constraints = self.values(place), leaf.constraints

        def stored(use: Use) -> Use:
            return attrs.evolve(target, name=use.name) if use.root == self.stored.root else use

        return Replaced(map_uses(map_leaves(self.body, values, *constraints), stored), self.allocations)

    def inlined(self, leaf: Leaf, root: str, names: NameScope) -> Leaf:
        """Return a leaf that computes the elements that it loaded from a tensor."""
        seen = {use.name: use.access for use in leaf.uses if use.root == root}
        made = _Inlined([use for use in leaf.uses if use.root != root], names)
        same: dict[str, str] = {}
        for statement in leaf.statements:
            if isinstance(statement, stripe.Load) and statement.source in seen:
                same[statement.into] = made.element(self, seen[statement.source])
            else:
                made.statements.append(renamed(statement, same, {}))
        return attrs.evolve(leaf, statements=tuple(made.statements), uses=tuple(made.uses))


@attrs.define(eq=False, repr=False)
class _Inlined:
    """The statements of a leaf that computes elements, each once."""

    uses: list[Use]
    names: NameScope
    statements: list[stripe.Statement] = attrs.field(factory=list)
    known: dict[tuple[Affine, ...], str] = attrs.field(factory=dict)
    views: dict[Use, str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.views = {attrs.evolve(use, name=""): use.name for use in self.uses if not use.direction.writes}

    def element(self, producer: Producer, place: tuple[Affine, ...]) -> str:
        """Return the scalar that holds the element at a position, after the statements that compute it."""
        if place not in self.known:
            (own,) = producer.body
            assert isinstance(own, Leaf)
            made = own.substitute(producer.values(place))
            views = {use.name: self._view(use) for use in made.uses if not use.direction.writes}
            scalars = {s: self.names.fresh(s) for s in filter(None, map(stripe.scalar_output, made.statements))}
            *computed, last = made.statements
            assert isinstance(last, stripe.Store)
            self.statements += [renamed(each, scalars, views) for each in computed]
            self.known[place] = scalars[last.source]
        return self.known[place]

    def _view(self, use: Use) -> str:
        view = attrs.evolve(use, name="")
        if view not in self.views:
            self.views[view] = self.names.fresh(use.name)
            self.uses.append(attrs.evolve(use, name=self.views[view]))
        return self.views[view]


def _is_held(use: Use, tree: Tree) -> bool:
    """Return whether a use refers to memory of the caller."""
    own = {each.name for item in walk(tree.body) if isinstance(item, Loop) for each in item.allocations}
    return use.root not in own and all(each.name != use.root for each in tree.allocations)


def _stores_plainly(leaf: Leaf) -> bool:
    """Return whether the only store of a leaf is its last statement, at an address independent of data."""
    stores = Counter(isinstance(statement, stripe.Store) for statement in leaf.statements)
    last = leaf.statements[-1]
    return stores[True] == 1 and isinstance(last, stripe.Store) and last.index is None


def with_one_root(tree: Tree, tensor: str) -> Tree:
    """Return the tree with all views of a root's tensor as one, as neighbours may have separate views."""
    sources: Mapping[str, str] = {each.name: each.source for each in tree.kernel.refinements if each.source}
    shown = [name for name, source in sources.items() if name in tree.bounds and source == sources.get(tensor)]
    if len(shown) < 2 or len({len(tree.bounds[name]) for name in shown}) > 1:
        return tree
    axes = zip(*(tree.bounds[name] for name in shown), strict=True)
    together = tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in axes)
    body = map_uses(tree.body, lambda use: attrs.evolve(use, root=tensor) if use.root in shown else use)
    return attrs.evolve(tree, body=body, bounds={**tree.bounds, tensor: together})
