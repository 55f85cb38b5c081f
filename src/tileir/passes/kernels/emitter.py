"""The blocks of a tree of nodes, each refinement displaced by the indices of its own level only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.names import NameScope
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tileir.passes.kernels.nest import Node, Use


def write(root: Node, kernel: stripe.Block) -> stripe.Block:
    """Write the blocks of a tree; ``kernel`` gives roots, comments and tags of the outermost one."""
    ranges: dict[str, int] = {}
    local: set[str] = set()
    _collect(root, ranges, local)
    roots = {r.name: r.source for r in kernel.refinements if r.direction is not stripe.Direction.NONE}
    block = _Emitter(ranges, local).block(root, {}, roots, frozenset())
    return attrs.evolve(block, name=root.name or kernel.name, comments=kernel.comments, tags=kernel.tags)


def _collect(node: Node, ranges: dict[str, int], local: set[str]) -> None:
    """Gather the ranges of all indices of a tree, and the names of all that it allocates."""
    ranges.update((i.name, i.range) for i in node.indices)
    local.update(r.name for r in node.allocations)
    for child in node.children:
        _collect(child, ranges, local)


def _subtree_uses(node: Node) -> tuple[Use, ...]:
    """Return the uses below a node of what is not allocated below it, each once."""
    own = {r.name for r in node.allocations}
    found: dict[Use, None] = dict.fromkeys(node.uses)
    for child in node.children:
        found.update(dict.fromkeys(_subtree_uses(child)))
    return tuple(use for use in found if use.root not in own)


def _outside_indices(node: Node) -> tuple[str, ...]:
    """Return the indices that constraints and load_index statements below take from above, in a stable order."""
    names: dict[str, None] = {}
    for constraint in node.constraints:
        names.update(dict.fromkeys(constraint.indices))
    for statement in node.statements:
        if isinstance(statement, stripe.LoadIndex):
            names.update(dict.fromkeys(statement.affine.indices))
    for child in node.children:
        names.update(dict.fromkeys(_outside_indices(child)))
    own = {i.name for i in node.indices}
    return tuple(name for name in names if name not in own)


@attrs.define
class _Emitter:
    """Writes the blocks of one tree."""

    ranges: Mapping[str, int]
    local: Collection[str]

    def block(
        self, node: Node, inherited: Mapping[Use, str], roots: Mapping[str, str], bound: frozenset[str]
    ) -> stripe.Block:
        """Write one node.

        ``inherited`` names the parent's refinement for each use, ``roots`` what the parent itself holds under
        the name of a root; ``bound`` are the indices of all ancestors.
        """
        own = frozenset(index.name for index in node.indices)
        seen = own | bound
        names = NameScope.of(r.name for r in node.allocations)
        views: dict[Use, stripe.Refinement] = {}
        for use in _subtree_uses(node):
            source = inherited[use] if use in inherited else roots[use.root]
            views[use] = self._view(use, source, own, bound, whole=use not in inherited)
        if not node.statements:
            views = self._with_one_view_each(views)
        written: dict[stripe.Refinement, str] = {}
        chosen: dict[Use, str] = {}
        for use, view in views.items():
            if node.statements:
                written[attrs.evolve(view, name=use.name)] = use.name
            elif view not in written:
                written[view] = names.fresh(use.root)
            chosen[use] = written.get(view, use.name)
        passed = tuple(stripe.Index(n, 1, Affine.index(n)) for n in _outside_indices(node))
        below = {r.name: r.name for r in node.allocations}
        children = tuple(self.block(child, chosen, below, seen) for child in node.children)
        return stripe.Block(
            name=node.name,
            indices=(*passed, *node.indices),
            constraints=node.constraints,
            refinements=(*node.allocations, *(attrs.evolve(view, name=name) for view, name in written.items())),
            statements=(*node.statements, *children),
            tags=node.tags,
        )

    def _with_one_view_each(self, views: Mapping[Use, stripe.Refinement]) -> dict[Use, stripe.Refinement]:
        """Let uses of the same elements share a view: what one writes others read.

        That holds for memory that the tree allocates, and for other memory that is plainly written first.
        """
        together: dict[stripe.Refinement, list[Use]] = {}
        for use, view in views.items():
            if use.root in self.local or view.aggregation is None:
                neutral = attrs.evolve(view, direction=stripe.Direction.NONE, aggregation=None)
                together.setdefault(neutral, []).append(use)
        result = dict(views)
        for neutral, uses in together.items():
            ways = [views[use] for use in uses]
            local = uses[0].root in self.local
            if any(way != ways[0] for way in ways) and (local or ways[0].direction is stripe.Direction.OUT):
                writes = any(way.direction.writes for way in ways)
                later = stripe.Direction.INOUT if writes else stripe.Direction.IN
                first = ways[0].direction
                direction = first if first is stripe.Direction.OUT else later
                result.update((use, attrs.evolve(neutral, direction=direction)) for use in uses)
        return result

    def _view(
        self, use: Use, source: str, own: frozenset[str], bound: frozenset[str], *, whole: bool
    ) -> stripe.Refinement:
        """Return the refinement for the part of a use that this node's indices move, without a name.

        It starts at the least element that any point of the levels below touches.
        """
        seen = own | bound
        access, dims = [], []
        sizes = use.sizes or (1,) * len(use.access)
        for affine, size, stride in zip(use.access, sizes, use.strides, strict=True):
            low, high = self._reach(affine, seen)
            start = affine.offset + low if whole else low - self._reach(affine, bound)[0]
            access.append(Affine.of({i: c for i, c in affine.terms if i in own}, start))
            dims.append(stripe.Dim(size + high - low, stride))
        shape = stripe.TensorShape(use.dtype, tuple(dims))
        return stripe.Refinement("", use.direction, source, tuple(access), shape, use.aggregation)

    def _reach(self, affine: Affine, seen: frozenset[str]) -> tuple[int, int]:
        """Return the least and the greatest value of the terms of indices that are not ``seen``."""
        moves = [int(c) * (self.ranges[i] - 1) for i, c in affine.terms if i not in seen]
        return sum(min(0, move) for move in moves), sum(max(0, move) for move in moves)
