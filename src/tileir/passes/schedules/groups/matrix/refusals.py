"""Reasons against matrix instructions for a contraction."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core.ops import Aggregation, Op
from tileir.passes.schedules.groups.matrix.plan import MatrixTiling
from tileir.poly.affine import total
from tileir.schedule import Nest, Refused, Segment, refused
from tileir.stripe import ir as stripe


def against_product(nest: Nest, segment: Segment) -> Refused | None:
    """Return why a reduction is not only a sum of products of two loads in one dtype."""
    around = (i for other in nest.segments if other is not segment for c in other.constraints for i in c.indices)
    if (index := min(around, default=None)) is not None:
        return refused("TR421", index=index)
    return _against_statements(segment) or _against_sum(segment) or _against_operands(segment)


def _against_statements(segment: Segment) -> Refused | None:
    """Refuse a reduction with a statement that is not a load, conversion, product or store of its only product."""
    counts = {stripe.Load: 0, stripe.Store: 0, stripe.Intrinsic: 0}
    for statement in segment.statements:
        if isinstance(statement, stripe.Intrinsic) and statement.op is not Op.MUL:
            return refused("TR422", statement=statement.op.value, defines=statement.into)
        if type(statement) in counts:
            counts[type(statement)] += 1
        elif not isinstance(statement, stripe.Convert):
            return refused("TR422", statement=type(statement).__name__.lower())
    loads, stores, products = counts.values()
    if (loads, stores, products) != (2, 1, 1):
        return refused("TR423", loads=loads, products=products, stores=stores)
    return None


def _against_sum(segment: Segment) -> Refused | None:
    (store,) = (s for s in segment.statements if isinstance(s, stripe.Store))
    (multiplied,) = (s for s in segment.statements if isinstance(s, stripe.Intrinsic))
    if store.source != multiplied.into:
        return refused("TR426", stored=store.source)
    into = segment.use(store.into)
    if into.aggregation is not Aggregation.SUM:
        return refused("TR427", aggregation="none" if into.aggregation is None else into.aggregation.value)
    writes = [use for use in segment.uses if use.direction.writes]
    return None if len(writes) == 1 else refused("TR423", outputs=len(writes))


def _against_operands(segment: Segment) -> Refused | None:
    """Refuse a product with an operand that is no load, nor a load converted to the dtype of the sum."""
    (multiplied,) = (s for s in segment.statements if isinstance(s, stripe.Intrinsic))
    (total,) = (use.dtype for use in segment.uses if use.direction.writes)
    converts = {s.into: s for s in segment.statements if isinstance(s, stripe.Convert)}
    computed = {**{name: convert.dtype for name, convert in converts.items()}, multiplied.into: multiplied.dtype}
    for scalar, dtype in computed.items():
        if dtype is not total:
            return refused("TR425", scalar=scalar, dtype=dtype.value, sum=total.value)
    loads = {s.into for s in segment.statements if isinstance(s, stripe.Load)}
    sources = {converts[name].input if name in converts else name for name in multiplied.inputs}
    return None if sources == loads else refused("TR424", operands=" ".join(multiplied.inputs))


def against_constraints(nest: Nest, plan: MatrixTiling, sizes: Mapping[str, int]) -> Refused | None:
    """Refuse constraints on an index that prevent copying a tile unconditionally, or adding steps at once.

    A tile is copied under the constraints on its own elements; under other constraints all of it has to be inside its
    tensor, wherever they hold.
    """
    ranges = {i.name: i.range for i in (*nest.indices, *nest.reductions[0].loops)}
    for mask in plan.masks:
        if plan.loop.name in mask.indices:
            return refused("TR421", index=plan.loop.name)
    for panel in (plan.left, plan.right):
        if len(plan.tests(panel)) == len(plan.constraints):
            continue
        use = panel.use
        steps = zip(use.access, use.strides, strict=True)
        low, high = total(affine * stride for affine, stride in steps).bounds(ranges)
        if low < 0 or high >= sizes.get(use.root, 0):
            return refused("TR421", index=panel.index.name)
    return None
