"""Boxes in images: their overlap, and non-maximum suppression."""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs
from tileir.ops.arithmetic import reductions
from tileir.ops.arithmetic.reductions import argmax
from tileir.ops.arrays.counting import in_front
from tileir.ops.arrays.indexing import take, take_along_axis
from tileir.ops.arrays.joining import stack
from tileir.ops.arrays.shaping import moveaxis
from tileir.ops.shared.foundation import (
    Aggregation,
    Size,
    Tensor,
    aggregate,
    call,
    chosen,
    dim_like,
    dims_of,
    full,
    indices_of,
    integer_of,
    mistaken,
    narrowed,
    rank_of,
    wide,
)
from tileir.ops.shared.positions import without_gaps
from tileir.tile import builder_functions as tf


def iou(a: Tensor, b: Tensor, *, form: str = "corners") -> Tensor:
    """Return the overlap of each box of ``a`` with each of ``b``: their intersection's area over their union's.

    Boxes are [..., N, 4] and [..., M, 4], the result [..., N, M]; leading axes broadcast. A box is (x0, y0, x1, y1), in
    any order of the two corners, or with the form ``"centre"`` its centre and size (x, y, width, height). Boxes without
    area overlap with nothing.

    Raises:
        TileError: TIL217, a tensor has fewer than two axes, or there is no such form; TIL312 when compiling, boxes have
            not four numbers.

    Source: Jaccard's index, as torchvision's ``box_iou``.
    """
    chosen(form, ("corners", "centre"), "form")
    left, right = _Boxes.of(a, form, 0), _Boxes.of(b, form, 1)
    width = tf.max(tf.min(left.right, right.right) - tf.max(left.left, right.left), 0)
    height = tf.max(tf.min(left.bottom, right.bottom) - tf.max(left.top, right.top), 0)
    both = width * height
    either = left.area + right.area - both
    return narrowed(tf.where(both > 0, both / tf.where(either > 0, either, 1), 0), a, b)


@attrs.frozen(repr=False)
class _Boxes:
    """The edges and areas of boxes, as a column (axis 0) or a row (axis 1)."""

    left: Tensor
    right: Tensor
    top: Tensor
    bottom: Tensor
    area: Tensor

    @classmethod
    def of(cls, boxes: Tensor, form: str, axis: int) -> _Boxes:
        """Take boxes apart."""
        if rank_of(boxes) < _RANK:
            raise mistaken(f"boxes have {_RANK} axes or more, not {rank_of(boxes)}")
        *leading, count, numbers = dims_of(boxes)
        checked = tf.reshape(wide(boxes), *leading, count, numbers.call("match", _NUMBERS))
        *own, _ = indices_of(boxes)
        sizes = [*leading, count]
        parts = [aggregate(Aggregation.ASSIGN, checked[(*own, place)], own, sizes) for place in range(_NUMBERS)]
        x, y, z, w = (tf.reshape(part, *leading, *((count, 1) if axis == 0 else (1, count))) for part in parts)
        if form == "centre":
            x, y, z, w = x - z / 2, y - w / 2, x + z / 2, y + w / 2
        left, right, top, bottom = tf.min(x, z), tf.max(x, z), tf.min(y, w), tf.max(y, w)
        return cls(left, right, top, bottom, (right - left) * (bottom - top))


def nms(
    boxes: Tensor,
    scores: Tensor,
    most: int,
    *,
    overlap: float = 0.5,
    least_score: float | None = None,
    form: str = "corners",
) -> tuple[Tensor, Tensor]:
    """Return the positions of the remaining boxes, and their number: non-maximum suppression.

    The box with the highest score remains, and drops all whose :func:`iou` with it is above ``overlap``; this is
    repeated with the rest, ``most`` times at most. Of equal scores the first one is higher. Boxes with a score of at
    most ``least_score`` never remain. Positions are i32 [most], highest score first, followed by -1; their number is
    i32. Several classes take a call each.

    It is a loop over ``most`` steps, each linear in the number of boxes; overlaps are computed beforehand.

    Raises:
        TileError: As for :func:`iou`; TIL217, ``most`` is no positive integer, or scores have not one axis.

    Source: torchvision's and PlaidML's ``nms``.
    """
    count = integer_of(most, "most")
    if count < 1:
        raise mistaken(f"most is positive, not {count}")
    if rank_of(scores) != 1:
        raise mistaken(f"scores have one axis, not {rank_of(scores)}")
    drops = iou(boxes, boxes, form=form) > overlap
    (size,) = dims_of(scores)
    alive = full(scores, [size], 1)
    if least_score is not None:
        alive = tf.where(scores > least_score, alive, 0)

    def step(alive: Tensor, scores: Tensor, drops: Tensor) -> tuple[Tensor, Tensor]:
        best = _best(alive, scores)
        found = take(alive, best) > 0
        place = tf.index(scores, 0)
        gone = tf.logical_or(take(drops, best), place == best)
        return tf.where(tf.logical_and(found, gone), 0, alive), tf.where(found, best, -1)

    alive, scores, drops = without_gaps(alive, [0]), without_gaps(scores, [0]), without_gaps(drops, [0, 1])
    _, kept = tf.scan(step, [alive], constants=[scores, drops], count=count)
    (i,) = indices_of(kept)
    stays = tf.where(kept >= 0, 1, 0)
    return kept, aggregate(Aggregation.SUM, stays[i], [], [])


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Size,
    *,
    overlap: float | Tensor = 0.0,
    least_score: float | Tensor | None = None,
    form: str = "corners",
) -> tuple[Tensor, Tensor]:
    """Return the boxes that remain in each class of each image by :func:`nms`, and their number.

    Shapes: boxes are [B, N, 4], scores [B, C, N]; the result is [B * C * min(most, N), 3], the numbers of the image,
    the class and the box, those of one class by decreasing score, all of them followed by -1. Dtypes: i32; both bounds
    may be tensors of one element.

    Raises:
        TileError: As for :func:`nms`; TIL217, boxes or scores have not three axes.

    Source: ONNX' ``NonMaxSuppression``.
    """
    if rank_of(boxes) != _BATCHED or rank_of(scores) != _BATCHED:
        raise mistaken(f"boxes and scores have {_BATCHED} axes each, not {rank_of(boxes)} and {rank_of(scores)}")
    batch, classes, size = dims_of(scores)
    bound, lowest = (tf.reshape(each) if isinstance(each, Tensor) else each for each in (overlap, least_score))
    assert bound is not None  # it has a default
    drops = tf.where(iou(boxes, boxes, form=form) > bound, 1, 0)
    alive = full(scores, [batch, classes, size], 1)
    if lowest is not None:
        alive = tf.where(scores > lowest, alive, 0)

    def step(alive: Tensor, scores: Tensor, drops: Tensor) -> tuple[Tensor, Tensor]:
        lives = alive > 0
        highest = tf.where(lives, scores, reductions.min(scores, 2, keepdims=True))
        first = tf.logical_and(lives, scores == reductions.max(highest, 2, keepdims=True))
        best = argmax(tf.where(first, 1, 0), 2, keepdims=True)
        found = take_along_axis(alive, best, 2) > 0
        gone = tf.logical_or(take_along_axis(drops, best, 1) > 0, tf.index(alive, 2) == best)
        kept = tf.reshape(tf.where(found, best, -1), *dims_of(alive)[:2])
        return tf.where(tf.logical_and(found, gone), 0, alive), kept

    alive, scores, drops = without_gaps(alive, [2]), without_gaps(scores, [2]), without_gaps(drops, [1, 2])
    steps = dim_like(scores, most).min(size)
    _, kept = tf.scan(step, [alive], constants=[scores, drops], count=steps)
    flat = tf.reshape(moveaxis(kept, 0, 2), batch * classes * steps)
    place, count = in_front(flat >= 0)
    group = tf.max(place, 0) / steps.max(1)
    columns = (group / classes.max(1), call("mod", group, classes.max(1)), take(flat, tf.max(place, 0)))
    return stack([tf.where(place < 0, -1, column) for column in columns], 1), count


def _best(alive: Tensor, scores: Tensor) -> Tensor:
    """Return the position of the highest score of a box that is alive; any position if there are none."""
    (i,) = indices_of(scores)
    least = tf.where(alive > 0, scores, aggregate(Aggregation.MIN, scores[i], [], []))
    greatest = aggregate(Aggregation.MAX, least[i], [], [])
    return argmax(tf.where(tf.logical_and(alive > 0, scores == greatest), 1, 0), 0)


_RANK: Final = 2
_BATCHED: Final = 3
_NUMBERS: Final = 4
