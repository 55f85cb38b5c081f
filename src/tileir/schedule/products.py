"""Recognition of multiply-add statements, for which devices have instructions."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import Aggregation, DType, Op
from tileir.schedule.nest import Use
from tileir.stripe import ir as stripe


def dtype_of_product(statements: Sequence[stripe.Statement], uses: Sequence[Use]) -> DType | None:
    """Return the dtype in which statements multiply and add two elements; None if they do anything else."""
    stores = [s for s in statements if isinstance(s, stripe.Store)]
    products = [s for s in statements if isinstance(s, stripe.Intrinsic)]
    others = (stripe.Store, stripe.Intrinsic, stripe.Load, stripe.Convert)
    if len(stores) != 1 or len(products) != 1 or not all(isinstance(s, others) for s in statements):
        return None
    (store,), (found,) = stores, products
    sums = next(use for use in uses if use.name == store.into)
    adds = sums.aggregation is Aggregation.SUM and sums.direction is stripe.Direction.INOUT
    whole = found.op is Op.MUL and store.source == found.into and sums.dtype is found.dtype
    converted = all(s.dtype is found.dtype for s in statements if isinstance(s, stripe.Convert))
    indirect = any(s.index is not None for s in statements if isinstance(s, stripe.Load | stripe.Store))
    return found.dtype if adds and whole and converted and not indirect else None


def factors_of_product(statements: Sequence[stripe.Statement], uses: Sequence[Use]) -> tuple[Use, Use] | None:
    """Return the two uses that each give a product one element; None if there are not two."""
    loads = [s.source for s in statements if isinstance(s, stripe.Load)]
    found = [use for use in uses if use.name in loads]
    return (found[0], found[1]) if len(loads) == len(found) == 2 else None
