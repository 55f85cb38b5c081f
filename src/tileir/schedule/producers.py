"""Kernels that make what others read, in a form in which these can compute it themselves.

Such a kernel stores one element of one tensor at each of its points, at the place that its indices say. So whoever
knows the place of an element knows the point that makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from tileir.core.text.names import NameScope
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.reindex import renamed
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.schedule.tree import (
    Item,
    Leaf,
    Loop,
    Replaced,
    Tree,
    leaves,
    map_leaves,
    map_uses,
    tree_of,
    walk,
    with_names,
)
from tileir.stripe import ir as stripe


@attrs.frozen(repr=False)
class Producer:
    """A kernel that makes a tensor.

    Attributes:
        tree: The kernel.
        body: What stands in all loops over the tensor.
        allocations: Memory that each of their iterations has.
        stored: The use through which elements are stored.
    """

    tree: Tree
    body: tuple[Item, ...]
    allocations: tuple[stripe.Refinement, ...]
    stored: Use

    @classmethod
    @refusing
    def of(cls, kernel: stripe.Block, source: str) -> Producer | Refused:
        """Return a kernel as the producer of a tensor, or why it is none."""
        tree = accepted(tree_of(kernel))
        body, loops, allocations = tree.body, [], tree.allocations
        while len(body) == 1 and isinstance(body[0], Loop) and not body[0].reduces:
            loops.append(body[0].name)
            allocations = (*allocations, *body[0].allocations)
            body = body[0].body
        stored = [
            use for leaf in leaves(tree.body) for use in leaf.uses if use.direction.writes and _is_held(use, tree)
        ]
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
        """Whether statements alone make an element."""
        return len(self.body) == 1 and not self.allocations

    def holds(self, use: Use, reach: tuple[tuple[int, int], ...]) -> bool:
        """Return whether what a use sees within bounds is made, along the same axes."""
        own = self.tree.bounds[self.stored.root]
        same = use.strides == self.stored.strides and len(reach) == len(own)
        return same and all(
            low <= first and last <= high for (low, high), (first, last) in zip(own, reach, strict=True)
        )

    def values(self, place: tuple[Affine, ...]) -> dict[str, Affine]:
        """Return the values of indices that make the element at a place."""
        axes = zip(self.stored.access, place, strict=True)
        return {own.indices[0]: affine - own.offset for own, affine in axes if own.terms}

    def renamed_apart(self, names: NameScope) -> Producer:
        """Return the producer with names of its own for all loops and all memory."""
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
        """Return the kernel with names of its own, but those that ``loops`` get, and with its tensor as ``root``."""
        for name in loops.values():
            names.add(name)
        own = {loop.name: loops.get(loop.name) or names.fresh(loop.name) for loop in self.tree.loops()}
        roots = {each.name: names.fresh(each.name) for each in self.tree.kernel.refinements}
        return with_names(self.tree, own, {**roots, self.stored.root: root})

    def in_place_of(self, leaf: Leaf, target: Use) -> Replaced:
        """Return what makes the element that a leaf copies, and stores it where the leaf does."""
        place = next(use.access for use in leaf.uses if use is not target)
        values, constraints = self.values(place), leaf.constraints

        def stored(use: Use) -> Use:
            return attrs.evolve(target, name=use.name) if use.root == self.stored.root else use

        return Replaced(map_uses(map_leaves(self.body, values, *constraints), stored), self.allocations)

    def inlined(self, leaf: Leaf, root: str, names: NameScope) -> Leaf:
        """Return a leaf that computes what it loaded of a tensor."""
        seen = {use.name: use.access for use in leaf.uses if use.root == root}
        made = _Inlined([use for use in leaf.uses if use.root != root], names)
        same: dict[str, str] = {}
        for statement in leaf.statements:
            if isinstance(statement, stripe.Load) and statement.source in seen:
                same[statement.into] = made.element(self, seen[statement.source])
            else:
                made.statements.append(renamed(statement, same, {}))
        return attrs.evolve(leaf, statements=tuple(made.statements), uses=tuple(made.uses))


@attrs.define(repr=False)
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
        """Return the scalar that holds the element at a place, after the statements that compute it."""
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
    """Return whether a use is of memory of the caller."""
    own = {each.name for item in walk(tree.body) if isinstance(item, Loop) for each in item.allocations}
    return use.root not in own and all(each.name != use.root for each in tree.allocations)


def _stores_plainly(leaf: Leaf) -> bool:
    """Return whether the last statement of a leaf is its only store, to a place that no data decide."""
    stores = Counter(isinstance(statement, stripe.Store) for statement in leaf.statements)
    last = leaf.statements[-1]
    return stores[True] == 1 and isinstance(last, stripe.Store) and last.index is None


def with_one_root(tree: Tree, tensor: str) -> Tree:
    """Return the tree with all views of the tensor behind one of them as one: neighbours are seen by several."""
    sources: Mapping[str, str] = {each.name: each.source for each in tree.kernel.refinements if each.source}
    shown = [name for name, source in sources.items() if name in tree.bounds and source == sources.get(tensor)]
    if len(shown) < 2 or len({len(tree.bounds[name]) for name in shown}) > 1:
        return tree
    axes = zip(*(tree.bounds[name] for name in shown), strict=True)
    together = tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in axes)
    body = map_uses(tree.body, lambda use: attrs.evolve(use, root=tensor) if use.root in shown else use)
    return attrs.evolve(tree, body=body, bounds={**tree.bounds, tensor: together})
