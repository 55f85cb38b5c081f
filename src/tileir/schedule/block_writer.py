"""Writing of the blocks of a loop tree, with each refinement displaced by the indices of its own level only.

Also gives memory made by schedules its initial content, as accumulators need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine, exact
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tileir.schedule.nest import Node, Use


def emit(root: Node, kernel: stripe.Block) -> stripe.Block:
    """Write the blocks of a tree; ``kernel`` gives the roots, comments and tags of the outermost one."""
    ranges: dict[str, int] = {}
    _collect(root, ranges)
    roots = {r.name: r.source for r in kernel.refinements if r.direction is not stripe.Direction.NONE}
    given = frozenset(r.name for r in kernel.refinements if r.direction.reads)
    uses = _subtree_uses(root)
    block = _Emitter(ranges, given, uses, _outside_indices(root, uses)).block(root, {}, roots, frozenset(), given)
    return attrs.evolve(block, name=root.name or kernel.name, comments=kernel.comments, tags=kernel.tags)


def _collect(node: Node, ranges: dict[str, int]) -> None:
    ranges.update((i.name, i.range) for i in node.indices)
    for child in node.children:
        _collect(child, ranges)


def _subtree_uses(root: Node) -> dict[int, tuple[Use, ...]]:
    """Return the distinct uses of memory from outside of each node, by the node's identity."""
    uses: dict[int, tuple[Use, ...]] = {}

    def visit(node: Node) -> tuple[Use, ...]:
        found: dict[Use, None] = dict.fromkeys(node.uses)
        for child in node.children:
            found.update(dict.fromkeys(visit(child)))
        own = {r.name for r in node.allocations}
        below = uses[id(node)] = tuple([use for use in found if use.root not in own])
        return below

    visit(root)
    return uses


def _outside_indices(root: Node, uses: Mapping[int, tuple[Use, ...]]) -> dict[int, tuple[str, ...]]:
    """Return the indices that each node takes from above, by the node's identity, in a stable order.

    These occur in constraints and load_index statements of the node and its descendants, and in its views of memory
    that its parent allocates, as no view further up is displaced by them.
    """
    outside: dict[int, tuple[str, ...]] = {}

    def visit(node: Node, allocated: frozenset[str], bound: frozenset[str]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for constraint in node.constraints:
            names.update(dict.fromkeys(constraint.indices))
        for statement in node.statements:
            if isinstance(statement, stripe.LoadIndex):
                names.update(dict.fromkeys(statement.affine.indices))
        for use in uses[id(node)]:
            if use.root in allocated:
                names.update((name, None) for affine in use.access for name in affine.indices if name in bound)
        own = frozenset(i.name for i in node.indices)
        below = frozenset(r.name for r in node.allocations)
        for child in node.children:
            names.update(dict.fromkeys(visit(child, below, bound | own)))
        taken = outside[id(node)] = tuple([name for name in names if name not in own])
        return taken

    visit(root, frozenset(), frozenset())
    return outside


def _spanning(views: Mapping[Use, stripe.Refinement]) -> dict[Use, stripe.Refinement]:
    """Return one view per group of views that differ only in start and size, spanning them all."""
    access, dims = [], []
    for axis, dim in enumerate(next(iter(views.values())).shape.dims):
        starts = [view.access[axis] for view in views.values()]
        low = min(start.offset for start in starts)
        ends = (view.access[axis].offset + view.shape.dims[axis].size for view in views.values())
        access.append(attrs.evolve(starts[0], offset=low))
        dims.append(attrs.evolve(dim, size=int(max(ends) - low)))
    return {
        use: attrs.evolve(view, access=tuple(access), shape=attrs.evolve(view.shape, dims=tuple(dims)))
        for use, view in views.items()
    }


@attrs.frozen(repr=False)
class _Source:
    """A refinement of the surrounding block, and the position in it of the least element that a use touches."""

    name: str
    start: tuple[int, ...]


@attrs.define(eq=False, repr=False)
class _Emitter:
    """Writer of the blocks of one tree.

    Attributes:
        ranges: Ranges of all indices of the tree.
        given: Roots defined outside of the tree; the tree defines the rest.
        uses: Uses below each node, by its identity.
        outside: Indices that each node takes from above, by its identity.
    """

    ranges: Mapping[str, int]
    given: frozenset[str]
    uses: Mapping[int, tuple[Use, ...]]
    outside: Mapping[int, tuple[str, ...]]

    def block(
        self,
        node: Node,
        inherited: Mapping[Use, _Source],
        roots: Mapping[str, str],
        bound: frozenset[str],
        defined: frozenset[str],
    ) -> stripe.Block:
        """Write one node.

        ``inherited`` is the parent's refinement for each use, ``roots`` the parent's names of roots, ``bound`` the
        indices of all ancestors, and ``defined`` the roots that are defined before the node runs.
        """
        own = frozenset([index.name for index in node.indices])
        views: dict[Use, stripe.Refinement] = {}
        for use in self.uses[id(node)]:
            source = inherited.get(use)
            name = use.name if node.statements else ""
            if source is None:
                views[use] = self._view(name, use, roots[use.root], own, bound, None)
            else:
                views[use] = self._view(name, use, source.name, own, bound, source.start)
        written: Iterable[stripe.Refinement] = views.values()
        children: tuple[stripe.Block, ...] = ()
        if not node.statements:
            written, chosen = self._chosen(node, views, defined)
            children = tuple(self._inside(node, chosen, own | bound, defined))
        elif len({use.name for use in views}) < len(views):
            written = dict.fromkeys(written)
        passed = tuple(stripe.Index(n, 1, Affine.index(n)) for n in self.outside[id(node)])
        return stripe.Block(
            name=node.name,
            indices=(*passed, *node.indices),
            constraints=node.constraints,
            refinements=(*node.allocations, *written),
            statements=(*node.statements, *children),
            tags=node.tags,
            instruction=node.instruction,
        )

    def _inside(
        self, node: Node, chosen: Mapping[Use, _Source], seen: frozenset[str], defined: frozenset[str]
    ) -> Iterator[stripe.Block]:
        """Write the children of a node, which see the refinements ``chosen`` for their uses."""
        below = {r.name: r.name for r in node.allocations}
        for child in node.children:
            yield self.block(child, chosen, below, seen, defined)
            defined |= {use.root for use in self.uses[id(child)] if use.direction.writes}

    def _chosen(
        self, node: Node, views: Mapping[Use, stripe.Refinement], defined: Collection[str]
    ) -> tuple[Iterable[stripe.Refinement], dict[Use, _Source]]:
        """Return the refinements of a node with children, and for each use its refinement and its start in it.

        ``views`` has the refinement that each use alone would need, without a name.
        """
        names = NameScope.of(r.name for r in node.allocations)
        if len({use.root for use in views}) == len({view.source for view in views.values()}) == len(views):
            alone = {use: attrs.evolve(view, name=names.fresh(use.root)) for use, view in views.items()}
            return alone.values(), {use: _Source(view.name, (0,) * len(view.access)) for use, view in alone.items()}
        shared = self._with_one_view_each(self._with_what_is_read_in_what_is_written(views, defined))
        written: dict[stripe.Refinement, stripe.Refinement] = {}
        chosen: dict[Use, _Source] = {}
        for use, view in shared.items():
            known = written.get(view)
            if known is None:
                known = written[view] = attrs.evolve(view, name=names.fresh(use.root))
            starts = zip(views[use].access, view.access, strict=True)
            chosen[use] = _Source(known.name, tuple([int(a.offset - b.offset) for a, b in starts]))
        return written.values(), chosen

    def _with_what_is_read_in_what_is_written(
        self, views: Mapping[Use, stripe.Refinement], defined: Collection[str]
    ) -> dict[Use, stripe.Refinement]:
        """Let uses of undefined memory share a view where some of them read elements that others write in pieces.

        The view spans them all, so that readers are known to be preceded by writers.
        """
        together: dict[object, list[Use]] = {}
        for use, view in views.items():
            if use.root not in defined:
                terms = tuple(affine.terms for affine in view.access)
                together.setdefault((use.root, view.shape.strides, terms), []).append(use)
        result = dict(views)
        for uses in together.values():
            ways = {use: views[use] for use in uses}
            if any(w.direction.writes for w in ways.values()) and any(w.direction.reads for w in ways.values()):
                result.update(_spanning(ways))
        return result

    def _with_one_view_each(self, views: Mapping[Use, stripe.Refinement]) -> dict[Use, stripe.Refinement]:
        """Let uses of equal elements share a view, as readers and writers of one element.

        For memory that the tree defines, and for other memory that is plainly written first.
        """
        if len({view.source for view in views.values()}) == len(views):
            return dict(views)
        together: dict[object, list[Use]] = {}
        for use, view in views.items():
            if use.root not in self.given or view.aggregation is None:
                together.setdefault((view.source, view.access, view.shape), []).append(use)
        result = dict(views)
        for uses in together.values():
            ways = [views[use] for use in uses]
            defined_here = uses[0].root not in self.given
            if any(way != ways[0] for way in ways) and (defined_here or ways[0].direction is stripe.Direction.OUT):
                writes = any(way.direction.writes for way in ways)
                later = stripe.Direction.INOUT if writes else stripe.Direction.IN
                first = ways[0].direction
                direction = first if first is stripe.Direction.OUT else later
                shared = attrs.evolve(ways[0], direction=direction, aggregation=None)
                result.update((use, shared) for use in uses)
        return result

    def _view(
        self,
        name: str,
        use: Use,
        source: str,
        own: frozenset[str],
        bound: frozenset[str],
        start: tuple[int, ...] | None,
    ) -> stripe.Refinement:
        """Return the refinement for the part of a use that this node's indices move.

        It starts at the least element touched by any point of the levels below; the parent's starts ``start`` elements
        into its own refinement. The outermost level has no parent, and neither has memory that this node's parent
        allocates: its view is displaced by the indices around this node, too.
        """
        access, dims = [], []
        sizes = use.sizes or (1,) * len(use.access)
        for axis, (affine, size, stride) in enumerate(zip(use.access, sizes, use.strides, strict=True)):
            low = high = above = 0  # the least and greatest value of the levels below, and the least with this one
            terms = []
            for term in affine.terms:
                index, coefficient = term
                move = int(coefficient) * (self.ranges[index] - 1)
                outside = index in bound
                if move < 0 and not outside:
                    above += move
                if index in own or (start is None and outside):
                    terms.append(term)
                elif outside:
                    continue
                elif move < 0:
                    low += move
                else:
                    high += move
            first = affine.offset + low if start is None else start[axis] + low - above
            access.append(Affine(tuple(terms), exact(first)))
            dims.append(stripe.Dim(size + high - low, stride))
        shape = stripe.TensorShape(use.dtype, tuple(dims))
        return stripe.Refinement(name, use.direction, source, tuple(access), shape, use.aggregation)


def identity_of(use: Use, into: str) -> stripe.Constant:
    """Return the identity element of a use's aggregation; the use must have one."""
    assert use.aggregation is not None
    return stripe.Constant(into, use.dtype, use.aggregation.identity(use.dtype))
