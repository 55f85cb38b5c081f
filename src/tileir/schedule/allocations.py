"""Memory that schedules give kernels, and what accumulators in it begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.core.dtype import DType
    from tileir.schedule.nest import Use


def allocation(name: str, dtype: DType, sizes: Sequence[int], location: stripe.Location) -> stripe.Refinement:
    """Return dense, row-major memory of these sizes."""
    shape = stripe.TensorShape.dense(dtype, sizes)
    zero = (Affine(),) * len(sizes)
    return stripe.Refinement(name, stripe.Direction.NONE, "", zero, shape, location=location)


def identity_of(use: Use, into: str) -> stripe.Constant:
    """Return the constant that changes nothing when it is merged through ``use``, which must have an aggregation."""
    assert use.aggregation is not None
    value = use.aggregation.identity(use.dtype)
    typed = bool(value) if use.dtype.is_bool else float(value) if use.dtype.is_float else int(value)
    return stripe.Constant(into, use.dtype, typed)
