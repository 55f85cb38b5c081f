"""Reductions whose inputs are contiguous along a reduction index: each lane keeps an accumulator of its own."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Aggregation
from tileir.passes import schedule as sch
from tileir.passes.base import at_least, expand_kernels
from tileir.passes.merge import reduction_nest
from tileir.passes.nest import Nest, Node, Segment, Use, emit, leaf
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe


@attrs.frozen
class VectoriseReduction:
    """Vectorise along a reduction index, with several vectors in flight to hide the latency of adding.

    Attributes:
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        unroll: How many accumulator vectors a reduction keeps.
    """

    name: ClassVar[str] = "vectorise_reduction"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    unroll: int = attrs.field(default=4, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such reductions vectorised."""
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> tuple[stripe.Block, ...]:
        nest = reduction_nest(kernel)
        if nest is None:
            return (kernel,)
        chosen = {n: i for n, s in enumerate(nest.segments) if (i := self._index(nest, s)) is not None}
        if not chosen:
            return (kernel,)
        return (emit(_Builder(self, nest).kernel(chosen), kernel),)

    def _index(self, nest: Nest, segment: Segment) -> stripe.Index | None:
        """Return the reduction index to vectorise along, if any."""
        constrained = {i for c in segment.constraints for i in c.indices}
        local = {r.name for r in nest.allocations if r.shape.elements == 1}
        writes = [u for u in segment.uses if u.direction.writes]
        if segment.has_indirect_store or not all(u.root in local and _merges(u) for u in writes):
            return None
        if any(isinstance(s, stripe.Load) and segment.use(s.source).direction.writes for s in segment.statements):
            return None
        reads = [u for u in segment.uses if not u.direction.writes]
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        candidates = [
            i
            for i in segment.loops
            if i.range >= lanes
            and i.name not in constrained
            and any(u.stride(i.name) == 1 for u in reads)
            and all(u.stride(i.name) in (0, 1) for u in reads)
        ]
        return max(candidates, key=lambda i: i.range, default=None)


def _merges(use: Use) -> bool:
    return use.aggregation is not None and use.aggregation is not Aggregation.ASSIGN


@attrs.define
class _Builder:
    """Builds one kernel."""

    options: VectoriseReduction
    nest: Nest
    names: NameScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = sch.taken_names(self.nest)

    def kernel(self, chosen: dict[int, stripe.Index]) -> Node:
        """Return the tree of the kernel, with segment number n vectorised along ``chosen[n]``."""
        children: list[Node] = []
        allocations = list(self.nest.allocations)
        for number, segment in enumerate(self.nest.segments):
            if number in chosen:
                added, nodes = self._reduction(segment, chosen[number])
                allocations.extend(added)
                children.extend(nodes)
            else:
                children.append(leaf(segment, {}, segment.loops))
        return Node(self.nest.indices, tuple(allocations), tuple(children))

    def _reduction(self, segment: Segment, index: stripe.Index) -> tuple[list[stripe.Refinement], list[Node]]:
        """Return the lanes' accumulators, and nodes that set, fill and merge them, and take the rest by scalars."""
        lanes = sch.vector_lanes(self.options.vector_bytes, sch.widest_itemsize(self.nest), self.options.max_lanes)
        unroll = min(self.options.unroll, max(1, index.range // lanes))
        width = lanes * unroll
        steps, left = divmod(index.range, width)
        step = sch.index(self.names.fresh(f"{index.name}_step"), steps)
        vector = sch.index(self.names.fresh(f"{index.name}_vector"), unroll, sch.UNROLL)
        lane = sch.index(self.names.fresh(f"{index.name}_lane"), lanes, sch.VECTOR)
        inner = sch.part(vector, lanes) + sch.part(lane)
        tile = sch.present((vector, lane))
        others = tuple(i for i in segment.loops if i.name != index.name)
        outer = (*others, *sch.present((step,)))
        accumulators = {u: self._lanes_of(u, width, inner) for u in segment.uses if u.direction.writes}
        wide = {u: use for u, (_, use) in accumulators.items()}
        moved = attrs.evolve(segment, uses=tuple(wide.get(u, u) for u in segment.uses))
        body = leaf(moved, {index.name: sch.part(step, width) + inner}, tile)
        inside = attrs.evolve(body, constraints=())
        nodes = [self._set(use, tile) for use in wide.values()]
        nodes.append(Node(outer, children=(inside,), constraints=body.constraints, tags=segment.tags))
        if left:
            rest = sch.index(self.names.fresh(f"{index.name}_rest"), left)
            nodes.append(leaf(segment, {index.name: sch.part(rest) + steps * width}, (*others, *sch.present((rest,)))))
        nodes.extend(self._merge(narrow, use, tile) for narrow, use in wide.items())
        return [allocation for allocation, _ in accumulators.values()], nodes

    def _lanes_of(self, use: Use, width: int, inner: Affine) -> tuple[stripe.Refinement, Use]:
        shape = stripe.TensorShape.dense(use.dtype, (width,))
        name = self.names.fresh(f"{use.root}_lanes")
        allocation = stripe.Refinement(name, stripe.Direction.NONE, "", (Affine(),), shape, location=sch.REGISTER)
        return allocation, attrs.evolve(use, root=name, access=(inner,), strides=(1,), sizes=())

    def _set(self, use: Use, tile: tuple[stripe.Index, ...]) -> Node:
        """Set every lane to the identity."""
        assert use.aggregation is not None
        value = use.aggregation.identity(use.dtype)
        constant = stripe.Constant("identity", use.dtype, _typed(value, use))
        plain = attrs.evolve(use, aggregation=None, direction=stripe.Direction.OUT)
        return Node(tile, statements=(constant, stripe.Store("identity", use.name)), uses=(plain,))

    def _merge(self, narrow: Use, use: Use, tile: tuple[stripe.Index, ...]) -> Node:
        """Merge the lanes into the accumulator that the kernel had."""
        source = attrs.evolve(use, name=self.names.fresh("lanes"), direction=stripe.Direction.IN, aggregation=None)
        statements = (stripe.Load(source.name, "lane"), stripe.Store("lane", narrow.name))
        return Node(tile, statements=statements, uses=(source, narrow))


def _typed(value: int | float, use: Use) -> bool | int | float:
    if use.dtype.is_bool:
        return bool(value)
    return float(value) if use.dtype.is_float else value
