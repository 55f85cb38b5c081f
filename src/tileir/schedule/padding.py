"""Points beyond the end of loops that were split with :attr:`~tileir.schedule.tree.Tail.PAD` or ``MASK``.

A leaf that touches nothing but memory of the kernel may run at points behind the end, where that memory has elements
for them that nobody else needs: a tile then is computed as a whole, and only what is stored of it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.tree import Item, Leaf, Tree, leaves, with_leaves
from tileir.stripe import ir as stripe


@attrs.frozen(repr=False)
class _Seen:
    """A leaf and the loops around it, with the memory that each of them makes.

    Attributes:
        leaf: The leaf.
        sizes: The sizes of the loops around it.
        inner: The loops inside of what makes a memory, by its name.
        memory: That memory.
    """

    leaf: Leaf
    sizes: Mapping[str, int]
    inner: Mapping[str, frozenset[str]]
    memory: Mapping[str, stripe.Refinement]

    def has_room(self) -> bool:
        """Return whether all that is touched is memory of the kernel, with elements for all points of the loops."""
        return all(use.root in self.memory and self._fits(use) for use in self.leaf.uses) and not any(
            isinstance(s, stripe.Special) or (isinstance(s, stripe.Load | stripe.Store) and s.index is not None)
            for s in self.leaf.statements
        )

    def _fits(self, use: Use) -> bool:
        sizes = self.memory[use.root].shape.sizes
        spans = [affine.bounds(self.sizes) for affine in use.access]
        return len(sizes) == len(spans) and all(
            low >= 0 and high < size and not use.sizes for (low, high), size in zip(spans, sizes, strict=True)
        )

    def writes_apart(self) -> bool:
        """Return whether what is written behind the end is no element that is written before it."""
        return all(
            self._tells(use, test) for use in self.leaf.uses if use.direction.writes for test in self.leaf.padded
        )

    def _tells(self, use: Use, test: Affine) -> bool:
        moved = [name for name in test.indices if name in self.inner[use.root]]
        alone = {affine.indices for affine in use.access}
        return all((name,) in alone for name in moved)

    def fills(self, root: str) -> bool:
        """Return whether the leaf stores all elements of a memory, testing nothing."""
        sizes = self.memory[root].shape.sizes if root in self.memory else ()
        return not self.leaf.constraints and any(
            use.root == root
            and use.direction is stripe.Direction.OUT
            and all(
                affine.bounds(self.sizes) == (0, size - 1) and len(affine.indices) <= 1
                for affine, size in zip(use.access, sizes, strict=True)
            )
            for use in self.leaf.uses
        )


def with_padding(tree: Tree) -> Tree:
    """Return the tree with no constraints apart: those that may fail are dropped where they may, and hold elsewhere.

    What such a leaf reads is filled as a whole, so that nothing undefined is read.
    """
    if not any(leaf.padded for leaf in leaves(tree.body)):
        return tree
    seen = list(_seen(tree.body, {}, {}, {each.name: each for each in tree.allocations}))
    kept = {id(each.leaf) for each in seen if not (each.has_room() and each.writes_apart() and _is_cut(each, seen))}
    known: set[str] = set()
    while True:
        defined = (each.leaf for each in seen if all(use.root in known for use in _read(each.leaf)))
        whole = {id(leaf) for leaf in defined if leaf.padded} - kept
        filling = (each for each in seen if not each.leaf.padded or id(each.leaf) in whole)
        more = {root for each in filling for root in each.memory if each.fills(root)} - known
        if not more:
            return attrs.evolve(tree, body=with_leaves(tree.body, partial(_decided, whole)))
        known |= more


def _read(leaf: Leaf) -> Iterator[Use]:
    return (use for use in leaf.uses if use.direction.reads or use.merges)


def _is_cut(each: _Seen, seen: list[_Seen]) -> bool:
    """Return whether all that read what a leaf writes are to leave out the same points behind the end."""
    written = {use.root for use in each.leaf.uses if use.direction.writes}
    readers = (other.leaf for other in seen if any(use.root in written for use in _read(other.leaf)))
    return all({*each.leaf.padded} <= {*leaf.padded} for leaf in readers)


def _seen(
    items: tuple[Item, ...],
    sizes: Mapping[str, int],
    inner: Mapping[str, frozenset[str]],
    memory: Mapping[str, stripe.Refinement],
) -> Iterator[_Seen]:
    for item in items:
        if isinstance(item, Leaf):
            yield _Seen(item, sizes, {name: inner.get(name, frozenset(sizes)) for name in memory}, memory)
        else:
            within = {name: inner.get(name, frozenset(sizes)) | {item.name} for name in memory}
            own = {each.name: each for each in item.allocations}
            within |= {name: frozenset[str]() for name in own}
            yield from _seen(item.body, {**sizes, item.name: item.size}, within, {**memory, **own})


def _decided(whole: set[int], leaf: Leaf) -> Leaf:
    tests = () if id(leaf) in whole else leaf.padded
    return attrs.evolve(leaf, constraints=(*leaf.constraints, *tests), padded=())
