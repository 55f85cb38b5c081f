"""Steps that take in the kernel that makes what this one reads: inline, compute_at and join_kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs

from tileir.schedule.producers import Producer, with_one_root
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.sizes import Known
from tileir.schedule.steps.memory import Level, Stage
from tileir.schedule.tree import Item, Leaf, Replaced, Tree, leaves, taken
from tileir.stripe import ir as stripe


@attrs.frozen
class Inline:
    """Compute the elements of a tensor where they are read, instead of reading what another kernel stored.

    Elements that are read several times are computed several times. That kernel goes where nobody else reads them.

    Attributes:
        tensor: What the kernel reads, and a kernel before it makes by statements alone.
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
    """Compute the part of a tensor that one iteration of a loop reads, in memory of its own.

    So it is near when it is read, and no kernel has to store it before; what several iterations read each of them
    computes. The loops over the part are called ``into`` with the number of the axis behind ``_``.

    Attributes:
        tensor: What the kernel reads, and a kernel before it makes.
        at: The loop.
        into: The name of the memory.
        level: Where it lies.
        order: The axes of the tensor in the order in which the memory has them; as the tensor has them where empty.
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
    """Put the kernel that makes a tensor to the beginning of this one; the tensor is stored as before.

    So the step fuse can make one loop of loops of both, and an iteration reads what it has just stored.

    Attributes:
        tensor: What the kernel reads, and a kernel before it makes.
        into: The names of the loops over the tensor, the outermost first; where there are none, those that the other
            kernel has, with a number where they are taken.
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
        used = {use.root for leaf in leaves(tree.body) for use in leaf.uses}
        if any(name != root and views.get(name) == views[root] for name in used):
            return refused("TR736", tensor=self.tensor)
        outer = [loop.name for loop in producer.tree.loops() if not loop.reduces]
        if self.into and len(self.into) != len(outer):
            return refused("TR725", what="loops", wanted=len(self.into), found=len(outer))
        rule_out(taken(tree, self.into, ""))
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
    """Return a tree that knows what the producer of a tensor reads, how it sees the tensor, and the producer.

    The producer has names of its own.
    """
    tree, root, producer = accepted(_producer_of(tree, tensor, known, unread=False))
    producer = producer.renamed_apart(tree.names())
    inner = producer.tree
    read = tuple(each for each in inner.kernel.refinements if each.direction is stripe.Direction.IN)
    around = attrs.evolve(tree.kernel, refinements=(*tree.kernel.refinements, *read))
    bounds = {**tree.bounds, **{each.name: inner.bounds[each.name] for each in read if each.name in inner.bounds}}
    return attrs.evolve(tree, kernel=around, bounds=bounds), root, producer


@refusing
def _producer_of(tree: Tree, tensor: str, known: Known, *, unread: bool) -> tuple[Tree, str, Producer] | Refused:
    """Return a tree with one view of a tensor, the name of that, and the kernel that makes the tensor before it."""
    root, source = _view_of(tree, tensor)
    if not root:
        return refused("TR738", tensor=tensor, known=", ".join(tree.bounds))
    kernel = known.producer(source, unread)
    if kernel is None:
        return refused("TR733", tensor=tensor)
    tree = with_one_root(tree, root)
    uses = [use for leaf in leaves(tree.body) for use in leaf.uses if use.root == root]
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
    """Return which view of a kernel is called so, or shows memory of the program that is, and that memory."""
    used = {use.root for leaf in leaves(tree.body) for use in leaf.uses if use.direction.reads}
    views = [each for each in tree.kernel.refinements if each.name in used and each.source]
    called = [each for each in views if each.name == tensor] or [each for each in views if each.source == tensor]
    return (called[0].name, called[0].source) if called else ("", "")


def _chosen_by_data(tree: Tree, tensor: str) -> bool:
    """Return whether data decide which element of a tensor is read."""
    for leaf in leaves(tree.body):
        names = {use.name for use in leaf.uses if use.root == tensor}
        if any(isinstance(s, stripe.Load) and s.source in names and s.index is not None for s in leaf.statements):
            return True
    return False


def _with_leaves(items: tuple[Item, ...], function: Callable[[Leaf], Replaced]) -> Replaced:
    """Return items with something else in place of each leaf; memory for it is made by the loop around."""
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
