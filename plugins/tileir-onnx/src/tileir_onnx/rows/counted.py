"""Operators with data-dependent result sizes: computed at their upper bound, with a count."""

from __future__ import annotations

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call, Sized
from tileir_onnx.rows.table import row


@row("NonZero")
def nonzero(call: Call, x: Tensor) -> Sized:
    places, count = ops.nonzero(x)
    return Sized(ops.cast(places, "i64"), count, 1)


@row("Compress")
def compress(call: Call, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Sized:
    found, count = ops.compress(x, condition, axis)
    return Sized(found, count, 0 if axis is None else axis % x.rank)


@row("Unique")
def unique(
    call: Call,
    x: Tensor,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002  ONNX's name
) -> tuple[Sized | Tensor, ...]:
    found, first, often, inverse, count = ops.unique(x, axis, ordered=bool(sorted))
    along = 0 if axis is None else axis % x.rank
    places, numbers = (Sized(ops.cast(each, "i64"), count) for each in (first, often))
    return Sized(found, count, along), places, ops.cast(inverse, "i64"), numbers


@row("NonMaxSuppression", known=("most",))
def non_max_suppression(
    call: Call,
    boxes: Tensor,
    scores: Tensor,
    most: Array | None = None,
    overlap: Tensor | None = None,
    least_score: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Sized:
    bound = 0 if most is None else max(0, int(most.reshape(())))
    form = "centre" if center_point_box else "corners"
    found, count = ops.non_max_suppression(
        boxes, scores, bound, overlap=0.0 if overlap is None else overlap, least_score=least_score, form=form
    )
    return Sized(ops.cast(found, "i64"), count)
