"""Register tiles whose steps are dot products: each lane adds the products of a few neighbours by one instruction.

Processors have such instructions for narrow factors and wide sums, as VNNI has for bytes. The reduction index along
which one factor is contiguous is split, its inner part is bound to ``dot``, and the panel of the other factor is
packed so that the terms of each lane are neighbours.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from tileir.core.fragments import usable
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.cost import Tiling
from tileir.schedule.nest import Nest, Segment, Use
from tileir.schedule.products import dtype_of_product, factors_of_product
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding


def with_dots(nest: Nest, plan: Tiling, fragments: Collection[str]) -> tuple[Nest, Tiling]:
    """Return a nest and its plan with dot products by one of ``fragments``; both as they are where none fits."""
    reducing = [segment for segment in nest.segments if segment.loops]
    if len(reducing) != 1:
        return nest, plan
    segment = reducing[0]
    factors = _factors(nest, segment, plan.vector.name)
    product = dtype_of_product(segment.statements, segment.uses)
    if factors is None or product is None:
        return nest, plan
    still, moved = factors
    orders = ((still.dtype, moved.dtype, product), (moved.dtype, still.dtype, product))
    row = next((row for row in usable(fragments, rounded=True) if row.is_dot and row.dtypes in orders), None)
    if row is None:
        return nest, plan
    terms = row.mnk[2]
    index = _split_index(nest, segment, plan, factors, terms)
    if index is None:
        return nest, plan
    term = sch.index(nest.taken_names().fresh(f"{index.name}_term"), terms, Binding.DOT)
    outer = attrs.evolve(index, range=index.range // terms)
    mapping = {index.name: sch.part(outer, terms) + sch.part(term)}
    loops = tuple(outer if loop is index else loop for loop in segment.loops)
    uses = tuple(use.substitute(mapping) for use in segment.uses)
    split = attrs.evolve(segment, loops=loops, uses=uses)
    after = attrs.evolve(nest, segments=tuple(split if s is segment else s for s in nest.segments))
    return after, attrs.evolve(plan, packed=(moved.substitute(mapping),), term=term)


def _factors(nest: Nest, segment: Segment, vector: str) -> tuple[Use, Use] | None:
    """Return what a segment reads: the factor that stays along the lanes, and the one that moves; each once."""
    factors = factors_of_product(segment.statements, segment.uses)
    if factors is None or len(sch.reads_of(nest, segment)) != 2:
        return None
    still, moved = sorted(factors, key=lambda use: use.stride(vector) != 0)
    if still.stride(vector) or not moved.stride(vector) or still.dtype.itemsize != moved.dtype.itemsize:
        return None
    return still, moved


def _split_index(
    nest: Nest, segment: Segment, plan: Tiling, factors: tuple[Use, Use], terms: int
) -> stripe.Index | None:
    """Return the loop whose neighbours become the terms of dot products."""
    still, moved = factors
    constrained = sch.constrained_indices(nest)
    stays = not any(moved.stride(r.index.name) for r in plan.rows)
    if terms < 2 or not stays or any(i in constrained for a in moved.access for i in a.indices):
        return None
    for index in segment.loops:
        whole = index.range % terms == 0 and index.range > terms and index.name not in constrained
        if whole and still.stride(index.name) == 1 and moved.stride(index.name):
            return index
    return None
