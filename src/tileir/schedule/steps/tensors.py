"""Steps that hand products to instructions of the device: tensorise and interleave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.products import dtype_of_product, factors_of_product
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import no_vector
from tileir.schedule.steps.loops import chain_of
from tileir.schedule.steps.memory import with_memory
from tileir.schedule.tree import Known, Leaf, Loop, Replaced, Size, Tree, leaves, map_uses, with_loops_replaced
from tileir.stripe import ir as stripe


@attrs.frozen
class Tensorise:
    """Run the points of two loops as one instruction: each lane adds the products of a few terms.

    Loops of the same name around other statements become lanes of vectors.

    Attributes:
        lanes: The loop over lanes.
        terms: The loop inside, over the terms of each.
        fragment: The name of a row of :mod:`tileir.core.fragments`.
    """

    name: ClassVar[str] = "tensorise"
    lanes: str
    terms: str
    fragment: str

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with the loops bound to lanes and terms."""
        row = FRAGMENTS.get(self.fragment)
        if row is None or not row.is_dot:
            return refused("TR742", fragment=self.fragment)
        return with_loops_replaced(tree, self.lanes, lambda loop, _: self._bound(loop, row))

    @refusing
    def _bound(self, loop: Loop, row: Fragment) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        if len(loop.body) == 1 and isinstance(loop.body[0], Leaf):
            return no_vector(loop) or Replaced((attrs.evolve(loop, binding=stripe.Binding.LANE),))
        chain = accepted(chain_of(loop, (self.lanes, self.terms)))
        terms = chain[1]
        if (loop.size, terms.size) != row.mnk[1:]:
            return refused("TR743", fragment=row.name, lanes=loop.size, terms=terms.size)
        rule_out(self._against_leaf(terms, row))
        inner = attrs.evolve(terms, binding=stripe.Binding.DOT)
        return Replaced((attrs.evolve(loop, binding=stripe.Binding.LANE, body=(inner,)),))

    def _against_leaf(self, terms: Loop, row: Fragment) -> Refused | None:
        """Return why the statements inside are no such instruction."""
        leaf = terms.body[0]
        if len(terms.body) > 1 or not isinstance(leaf, Leaf) or terms.allocations:
            return refused("TR744", fragment=row.name)
        product, factors = dtype_of_product(leaf.statements, leaf.uses), factors_of_product(leaf.statements, leaf.uses)
        if product is None or factors is None:
            return refused("TR744", fragment=row.name)
        a, b = (use.dtype for use in factors)
        if row.dtypes not in ((a, b, product), (b, a, product)):
            return refused("TR744", fragment=row.name, left=a.value, right=b.value, sums=product.value)
        if any(self.terms in test.indices for test in leaf.constraints):
            return refused("TR722", loop=self.terms)
        for use in leaf.uses:
            lane, term = use.stride(self.lanes), use.stride(self.terms)
            if (lane, term) not in (((0, 1), (terms.size, 1)) if use in factors else ((1, 0),)):
                return refused("TR745", memory=use.root, lane=lane, term=term)
        return None


@attrs.frozen
class Interleave:
    """Let neighbours along an axis of memory stand together, a few at a time: as the last axis.

    Attributes:
        memory: What the kernel allocates.
        axis: The axis, counted from 0 on.
        by: How many neighbours.
    """

    name: ClassVar[str] = "interleave"
    memory: str
    axis: int
    by: Size

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the memory in another order."""
        by = accepted(known.size(self.by, tree))
        ranges = tree.loop_sizes()
        changed: list[stripe.Refinement] = []

        def parted(found: stripe.Refinement) -> stripe.Refinement:
            sizes = list(found.shape.sizes)
            sizes[self.axis] = -(-sizes[self.axis] // by)
            changed.append(stripe.allocation(found.name, found.shape.dtype, [*sizes, by], found.location))
            return changed[-1]

        uses = [use for leaf in leaves(tree.body) for use in leaf.uses if use.root == self.memory]
        if any(not 0 <= self.axis < len(use.access) or any(size > 1 for size in use.sizes) for use in uses):
            return refused("TR714", order=str(self.axis), axes=len(uses[0].access))
        if apart := [use.access[self.axis] for use in uses if _parts(use.access[self.axis], by, ranges) is None]:
            return refused("TR746", memory=self.memory, access=str(apart[0]), by=by)
        new = accepted(with_memory(tree, self.memory, parted))
        if len({each.shape.sizes for each in changed}) > 1:
            return refused("TR752", memory=self.memory)
        return attrs.evolve(new, body=map_uses(new.body, lambda use: self._moved(use, by, ranges, changed[0])))

    def _moved(self, use: Use, by: int, ranges: Mapping[str, int], memory: stripe.Refinement) -> Use:
        parts = _parts(use.access[self.axis], by, ranges) if use.root == self.memory else None
        if parts is None:
            return use
        access = (*use.access[: self.axis], parts[0], *use.access[self.axis + 1 :], parts[1])
        return attrs.evolve(use, access=access, strides=memory.shape.strides, sizes=())


def _parts(place: Affine, by: int, ranges: Mapping[str, int]) -> tuple[Affine, Affine] | None:
    """Return the number of a group of neighbours, and the place in it; None where indices decide about both."""
    whole = Affine.of({name: int(step) // by for name, step in place.terms if step % by == 0}) + place.offset // by
    rest = place - whole * by
    low, high = rest.bounds(ranges)
    return (whole, rest) if low >= 0 and high < by else None
