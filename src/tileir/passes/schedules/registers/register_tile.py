"""Contractions with register tiles: a tile of output elements stays in vector registers during the reduction.

The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008),
in Stripe blocks: a panel of the operand along the vector index is packed into contiguous scratch memory, then rows x
lanes of accumulators pass over the reduction.

Steps may be dot products: each lane adds the products of a few neighbours by one instruction. Processors have such
instructions for narrow factors and wide sums, such as VNNI for bytes. The reduction index along which one factor is
contiguous is split, its inner part is bound to ``dot``, and the panel of the other factor is packed so that the terms
of each lane are adjacent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from tileir.core.fragments import usable
from tileir.core.nodes import attrs
from tileir.passes.base import at_least, expand_kernels
from tileir.passes.kernels import (
    against_parallel,
    against_reading,
    against_scalars,
    nest_of,
    reduction_nest,
    schedule as sch,
)
from tileir.passes.schedules.registers.blocks import kernels
from tileir.passes.schedules.registers.borders import bordered, bordered_kernel
from tileir.passes.schedules.registers.copies import copied_pieces
from tileir.passes.schedules.registers.cost import Limits, Tiling, choose
from tileir.passes.schedules.registers.edges import bears_edges, has_edges
from tileir.passes.schedules.registers.packing import whole_uses
from tileir.passes.schedules.registers.planes import over_planes
from tileir.passes.schedules.registers.prefetching import far_roots
from tileir.passes.schedules.registers.row_blocking import pieces
from tileir.passes.schedules.registers.streaming import is_streamed, streamed_kernels
from tileir.poly.affine import Affine
from tileir.schedule import (
    Done,
    Nest,
    Refused,
    Segment,
    Use,
    accepted,
    dtype_of_product,
    emit,
    factors_of_product,
    product,
    refused,
    refusing,
    rule_out,
)
from tileir.stripe import ir as stripe


@attrs.frozen
class RegisterTile:
    """Schedule contractions on processors: register tiles, packed panels, cache blocks.

    Attributes:
        reqs: Tags of the kernels to schedule.
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        registers: Number of vector registers.
        cache_bytes: Data cache for panels with reuse, in bytes; panels that exceed it are packed.
        panel_bytes: Cache for the panel of a tile, packed or not, in bytes.
        reads: Minimum number of reads of a panel in turn that pays for packing.
        threads: Number of groups that run in parallel; the grid is a few times larger if there is enough work.
        operations: Minimum number of estimated operations of a kernel whose rows are divided among groups.
        dots: Names of available dot-product instructions (:mod:`tileir.core.fragments`).
        rows: Rows of the register tile; 0 for automatic.
        columns: Vectors of the register tile; 0 for automatic.
        edges: Maximum extra cost, in percent, over separate kernels for interior and edges: only kernels whose outer
            indices have constraints, as at the edges of an image, are scheduled. For use before
            :class:`tileir.passes.regions.separate.Separate`, which makes these kernels. If lanes can only run across an
            edge, groups copy padded planes (:mod:`tileir.passes.schedules.registers.borders`). 0 for all kernels.
    """

    name: ClassVar[str] = "register_tile"
    reqs: tuple[str, ...] = ()
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    registers: int = attrs.field(default=16, validator=at_least(1))
    cache_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    panel_bytes: int = attrs.field(default=256 * 1024, validator=at_least(0))
    reads: int = attrs.field(default=512, validator=at_least(1))
    threads: int = attrs.field(default=1, validator=at_least(1))
    operations: int = attrs.field(default=1 << 21, validator=at_least(0))
    dots: tuple[str, ...] = ()
    rows: int = attrs.field(default=0, validator=at_least(0))
    columns: int = attrs.field(default=0, validator=at_least(0))
    edges: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with its contractions scheduled."""
        whole = {view.name: view.shape for view in program.main.refinements if _is_whole(view)}

        def scheduled(kernel: stripe.Block) -> Done | Refused:
            return self._kernel(kernel, {r.name: whole[r.source] for r in kernel.refinements if r.source in whole})

        return expand_kernels(program, scheduled, self.reqs)

    @property
    def _limits(self) -> Limits:
        return Limits(**{field.name: getattr(self, field.name) for field in attrs.fields(Limits)})

    @refusing
    def _kernel(self, kernel: stripe.Block, shapes: Mapping[str, stripe.TensorShape]) -> Done | Refused:
        nest = accepted(reduction_nest(kernel))
        rule_out(against_reading(nest) or against_scalars(nest) or against_parallel(nest))
        if self.edges and not has_edges(nest):
            return refused("TR501")
        planes = None if self.rows or self.columns else self._over_planes(kernel, shapes)
        if planes is not None:
            return planes
        limits = self._limits
        plan = choose(nest, limits, shapes)
        if isinstance(plan, Refused):
            over_edges = self._bordered(kernel, limits, shapes) if self.edges else None
            return plan if over_edges is None else over_edges
        if self.edges and not bears_edges(nest, plan, limits, self.edges):
            return refused("TR502", percent=self.edges)
        plan = attrs.evolve(plan, far=far_roots(nest, limits.cache_bytes, limits.panel_bytes))
        chosen = nest, plan
        nest, plan = with_dots(nest, plan, self.dots, shapes)
        threads = self.threads if sch.total_operations(nest) >= self.operations else 1
        rows = product(row.height for row in plan.rows)
        facts = (("vector", plan.vector.name), ("lanes", plan.lanes), ("vectors", plan.columns), ("rows", rows))
        visit = plan.visit if plan.term is None else None
        streamed = visit is None and is_streamed(nest, plan, limits)
        if streamed or visit is not None:
            nodes = streamed_kernels(nest, plan, threads, limits.panel_bytes // 2)
        else:
            copied = copied_pieces(nest, plan, limits, threads, shapes)
            nodes = kernels(nest, plan, threads, copied or pieces(*chosen, limits))
        packed = 0 if streamed else len(plan.packed)
        steps = 0 if visit is None else visit.steps
        more = (("packed", packed), ("dots", plan.term is not None), ("streamed", streamed), ("steps", steps))
        return Done(tuple(emit(node, kernel) for node in nodes), (*facts, *more))

    def _over_planes(self, kernel: stripe.Block, shapes: Mapping[str, stripe.TensorShape]) -> Done | None:
        """Return a kernel whose lanes run along channels with their own windows; None if it does not qualify."""
        nest = nest_of(kernel)
        if isinstance(nest, Refused):
            return None
        threads = self.threads if sch.total_operations(nest) >= self.operations else 1
        found = over_planes(nest, self._limits, shapes, threads)
        if not found:
            return None
        nodes = [node for part, plan in found for node in kernels(part, plan, 1)]
        plan = found[0][1]
        rows = product(row.height for row in plan.rows)
        facts = (("vector", plan.vector.name), ("lanes", plan.lanes), ("rows", rows), ("planes", len(found)))
        return Done(tuple(emit(node, kernel) for node in nodes), facts)

    @staticmethod
    def _bordered(kernel: stripe.Block, limits: Limits, shapes: Mapping[str, stripe.TensorShape]) -> Done | None:
        """Return a kernel whose lanes run over the edges of an input; None if it does not qualify."""
        nest = nest_of(kernel)
        found = None if isinstance(nest, Refused) else bordered(nest, shapes)
        node = None if found is None else bordered_kernel(found, limits, shapes)
        if found is None or node is None:
            return None
        return Done((emit(node, kernel),), (("vector", found.vector.name), ("bordered", found.window.root)))


def _is_whole(view: stripe.Refinement) -> bool:
    return all(start == Affine() for start in view.access)


def with_dots(
    nest: Nest, plan: Tiling, fragments: Collection[str], shapes: Mapping[str, stripe.TensorShape]
) -> tuple[Nest, Tiling]:
    """Return a nest and its plan with dot products by one of ``fragments``; unchanged if none fits.

    Ordinary instructions add the remainder of an index whose range is no multiple of the terms.
    """
    names, segments = nest.taken_names(), []
    for segment in nest.segments:
        found = _dots(nest, segment, plan, fragments, shapes) if segment.loops else None
        if found is None or (plan.term is not None and plan.term.range != found.terms):
            segments.append(segment)
            continue
        index = found.index
        term = plan.term or sch.index(names.fresh(f"{index.name}_term"), found.terms, stripe.Binding.DOT)
        outer = attrs.evolve(index, range=index.range // found.terms)
        value = sch.part(outer, found.terms) + sch.part(term)
        segments.append(_replaced(segment, index, outer, value))
        if count := index.range % found.terms:
            left = sch.index(names.fresh(f"{index.name}_left"), count)
            segments.append(_replaced(segment, index, left, sch.part(left) + index.range - count))
        others = tuple(use for use in plan.packed if use not in segment.uses)
        plan = attrs.evolve(plan, packed=(*others, found.moved.substitute({index.name: value})), term=term)
    return (nest if plan.term is None else attrs.evolve(nest, segments=tuple(segments))), plan


@attrs.frozen
class _Dots:
    """Dot products of a segment: the loop whose neighbours are their terms, and the factor that has a panel."""

    index: stripe.Index
    terms: int
    moved: Use


def _dots(
    nest: Nest, segment: Segment, plan: Tiling, fragments: Collection[str], shapes: Mapping[str, stripe.TensorShape]
) -> _Dots | None:
    """Return the dot products of a segment by one of ``fragments``; None if none fits."""
    factors = _factors(nest, segment, plan.vector.name)
    product = dtype_of_product(segment.statements, segment.uses)
    if factors is None or product is None:
        return None
    still, moved = factors
    orders = ((still.dtype, moved.dtype, product), (moved.dtype, still.dtype, product))
    row = next((row for row in usable(fragments, rounded=True) if row.is_dot and row.dtypes in orders), None)
    if row is None:
        return None
    index = _split_index(nest, segment, plan, factors, row.mnk[2], shapes)
    return None if index is None else _Dots(index, row.mnk[2], moved)


def _replaced(segment: Segment, index: stripe.Index, loop: stripe.Index, value: Affine) -> Segment:
    """Return a segment with one loop in place of another one, whose values are ``value``."""
    loops = tuple(loop if each is index else each for each in segment.loops)
    return attrs.evolve(segment, loops=loops, uses=tuple(use.substitute({index.name: value}) for use in segment.uses))


def _factors(nest: Nest, segment: Segment, vector: str) -> tuple[Use, Use] | None:
    """Return the two factors of a segment, first the factor that is constant along the lanes."""
    factors = factors_of_product(segment.statements, segment.uses)
    if factors is None or len(sch.reads_of(nest, segment)) != 2:
        return None
    still, moved = sorted(factors, key=lambda use: use.stride(vector) != 0)
    if still.stride(vector) or not moved.stride(vector) or still.dtype.itemsize != moved.dtype.itemsize:
        return None
    return still, moved


def _split_index(
    nest: Nest,
    segment: Segment,
    plan: Tiling,
    factors: tuple[Use, Use],
    terms: int,
    shapes: Mapping[str, stripe.TensorShape],
) -> stripe.Index | None:
    """Return the loop whose neighbours become the terms of dot products."""
    still, moved = factors
    constrained = sch.constrained_indices(nest)
    stays = not any(moved.stride(r.index.name) for r in plan.rows)
    tested = any(i in constrained for a in moved.access for i in a.indices) and moved not in whole_uses(nest, shapes)
    if terms < 2 or not stays or tested:
        return None
    for index in segment.loops:
        whole = index.range > terms and index.name not in constrained
        near = index.range % terms == 0 or moved.stride(plan.vector.name) == 1
        if whole and near and still.stride(index.name) == 1 and moved.stride(index.name):
            return index
    return None
