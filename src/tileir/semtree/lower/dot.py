"""Blocks with an index bound to ``dot`` as dot products: each lane adds the products of a few neighbours at once.

Such a block is an ordinary one, which adds products of what it loads to sums. Its two factors are neighbours along that
index; along the lanes, each stays the same, or goes on where the terms of the lane before end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.errors import fail
from tileir.core.fragments import usable
from tileir.core.ops import Aggregation
from tileir.semtree import ir as sem
from tileir.semtree.lower.offsets import LANE, TERM
from tileir.semtree.lower.product import only_multiplies
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.targets.target import Target
    from tileir.semtree.lower.offsets import OffsetBuilder
    from tileir.semtree.lower.views import View


def dot_index(block: stripe.Block) -> stripe.Index | None:
    """Return the index of a block that numbers the terms of dot products; None where it has none.

    Raises:
        TileError: TIL502, there are two of them, a constraint or an outer index decides about one, or the block does
            not just add products to sums.
    """
    indices = [index for index in block.indices if index.binding is Binding.DOT]
    if not indices:
        return None
    (index, *others), name = indices, block.name or "(unnamed)"
    tested = {name for constraint in block.constraints for name in constraint.indices}
    if others or index.name in tested or index.affine is not None:
        raise fail("TIL502", f"one index of block {name} is for dot products, and it starts at 0 without constraints")
    directions = [r.direction for r in block.refinements]
    whole = directions.count(stripe.Direction.IN) == 2 and directions.count(stripe.Direction.INOUT) == 1
    if not whole or len(directions) != 3 or not only_multiplies(block):
        message = f"index {index.name} of block {name} is for dot products, but the block does not just add products"
        raise fail("TIL502", f"{message} of two elements to a third")
    return index


def dot_product(
    block: stripe.Block,
    views: Mapping[str, View],
    shape: tuple[int, int],
    target: Target,
    offsets: OffsetBuilder,
) -> sem.Assign:
    """Return the statement for a block for which :func:`dot_index` holds.

    Args:
        block: The block.
        views: Its views, by name.
        shape: Lanes, and terms of each lane.
        target: The device: factors are in the order of one of its fragments.
        offsets: Turns offsets into expressions.

    Raises:
        TileError: TIL502, the elements of a view are not where the instruction expects them.
    """
    lanes, terms = shape
    factors = [r for r in block.refinements if r.direction is stripe.Direction.IN]
    (sums,) = (r for r in block.refinements if r.direction is stripe.Direction.INOUT)
    view = views[sums.name]
    steps = _steps(view)
    if sums.aggregation is not Aggregation.SUM or steps != ((1 if lanes > 1 else steps[0]), 0):
        raise fail("TIL502", f"dot products are added to neighbours in {sums.name}, each by one lane")
    total: sem.Var | sem.Subscript
    if view.variable is not None:
        total = view.variable
        offsets.mark_mutable(total)
    else:
        total = _run(view, lanes, offsets)
    left, right = (_factor(r.name, views[r.name], lanes, terms, offsets) for r in factors)
    rows = {row.dtypes for row in usable(target.fragments, rounded=target.approximate) if row.is_dot}
    a, b, c = (part.type.dtype for part in (left, right, total))
    turned = (a, b, c) not in rows and (b, a, c) in rows
    return sem.Assign(total, sem.Dot(right, left, total) if turned else sem.Dot(left, right, total))


def _steps(view: View) -> tuple[int, int]:
    return int(view.offset.coefficient(LANE)), int(view.offset.coefficient(TERM))


def _run(view: View, count: int, offsets: OffsetBuilder) -> sem.Subscript:
    """Return neighbours from where a view starts."""
    start = offsets.scalar(view.offset.substitute({LANE: 0, TERM: 0}))
    return sem.Subscript(view.array, start, sem.Type(view.shape.dtype, count))


def _factor(name: str, view: View, lanes: int, terms: int, offsets: OffsetBuilder) -> sem.Expr:
    """Return the terms of all lanes, lane after lane."""
    lane, term = _steps(view)
    if term == 1 and lane in (terms, 0) and view.variable is None:
        if lane or lanes == 1:
            return _run(view, lanes * terms, offsets)
        return sem.Shuffle((_run(view, terms, offsets),), tuple(range(terms)) * lanes)
    raise fail(
        "TIL502", f"the terms of dot products are neighbours in {name}, and those of one lane follow the other's"
    )
