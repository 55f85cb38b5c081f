"""Resizing of tensors along any axes, by all conventions of ONNX' ``Resize``.

Positions are computed in f64 from the given scales, as in ONNX' reference; the exact interpolation of
:mod:`tileir.ops.images.interpolation`, with PyTorch's meaning, is a special case up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.ops.arithmetic import reductions
from tileir.ops.arrays.indexing import NEAREST, cubic_weight, nearest_of, take
from tileir.ops.arrays.shaping import moveaxis
from tileir.ops.arrays.slicing import select
from tileir.ops.images.interpolation import ratios_of
from tileir.ops.networks.linear import tensordot
from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Dim,
    Size,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    call,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    for_sums,
    full,
    index_of,
    mistaken,
    narrowed,
    rank_of,
    tensor_of,
    wide,
)
from tileir.tile import builder_functions as tf

MODES: Final = ("nearest", "linear", "cubic")
COORDINATES: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
POLICIES: Final = ("stretch", "not_larger", "not_smaller")


def resize(
    x: Tensor,
    sizes: Sequence[Size] | None = None,
    *,
    scales: Sequence[float] | None = None,
    axes: Axes = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    coefficient: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    roi: Tensor | Sequence[float] | None = None,
    extrapolation_value: float = 0.0,
    policy: str = "stretch",
) -> Tensor:
    """Return ``x`` with other sizes along ``axes``, by default all: ``sizes``, or ``floor(scale * size)``.

    With old size n, new size m and scale s (m / n, if it is not given), result o of an axis lies at a position p of
    ``x``, which ``coordinates`` defines:

    - "half_pixel": ``(o + 1/2) / s - 1/2``; "pytorch_half_pixel" likewise, but 0 if ``s * n`` is 1, and
      "half_pixel_symmetric" moved by ``n / 2 * (1 - m / (s * n))``, so that centres meet if m was rounded.
    - "align_corners": ``o * (n - 1) / (s * n - 1)``; "asymmetric": ``o / s``.
    - "tf_crop_and_resize": ``(start + o * (end - start) / (s * n - 1)) * (n - 1)``, in the middle if ``s * n`` is 1.
      ``roi`` holds the starts of all axes, then their ends, in units of the axis; if p lies outside of it, the
      result is ``extrapolation_value``.

    "nearest" takes the element that ``nearest`` selects (see :func:`tileir.ops.interpolated_take`), "linear" weights
    two, "cubic" four, with the weights defined there. ``antialias`` stretches the weights of both by ``1 / s`` if s is
    below 1. Beyond the ends of an axis its last elements go on, or with ``exclude_outside`` have the weight 0, and the
    others their share. ``policy`` makes scales of ``sizes`` equal: the least ("not_larger") or most ("not_smaller").

    Dtype: that of ``x``; "linear" and "cubic" of integers give f32.

    Raises:
        TileError: TIL217, an option is invalid; TIL314, there is no such axis.

    Source: ONNX' ``Resize``.
    """
    chosen(mode, MODES, "mode")
    chosen(coordinates, COORDINATES, "coordinates")
    chosen(nearest, NEAREST, "nearest")
    if antialias and mode == "nearest":
        raise mistaken("antialias is an option of the modes 'linear' and 'cubic'")
    places = _axes(x, axes)
    regions = _regions(x, roi, len(places)) if coordinates == "tf_crop_and_resize" else [None] * len(places)
    weights = _Weights(mode, nearest, coefficient, antialias, exclude_outside)
    y = for_sums(x) if mode == "nearest" else wide(x)
    for line, region in zip(_lines(x, places, sizes, scales, policy), regions, strict=True):
        if region is None and line.is_same:
            continue
        at = line.places(coordinates, region)
        y = weights.applied(y, line, at)
        if region is not None:
            last = cast_to(line.old - 1, "f64")
            outside = tf.logical_or(at < 0, at > last)
            outside = tf.reshape(outside, line.new, *[1] * (rank_of(x) - line.axis - 1))
            y = tf.where(outside, tf.as_like(extrapolation_value, y), y)
    return call("as_like", y, x) if mode == "nearest" else narrowed(y, x)


@attrs.frozen(repr=False)
class _Line:
    """An axis, its old and its new size, and its scale: a number of f64 that is known when compiling.

    Attributes:
        x: The tensor.
        axis: The axis.
        old: Its size.
        new: The size of the result.
        scale: Their ratio, given or computed.
        given: The given number.
    """

    x: Tensor
    axis: int
    old: Dim
    new: Dim
    scale: Tensor
    given: float | None

    @property
    def is_same(self) -> bool:
        """Tell whether nothing changes along the axis."""
        return self.old == self.new if self.given is None else self.given == 1

    @property
    def reach(self) -> Dim:
        """An integer that is at least ``1 / scale`` and 1."""
        if self.given is not None:
            return dim_like(self.x, -int(-1 // min(self.given, 1.0)))
        return ((self.old + self.new.max(1) - 1) / self.new.max(1)).max(1)

    def places(self, coordinates: str, region: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the positions of results."""
        o = cast_to(tf.index(full(self.x, [self.new], 0), 0), "f64")
        old = cast_to(self.old, "f64")
        width = old * self.scale
        spans = tf.where(width == 1, 1, width - 1)
        match coordinates:
            case "asymmetric":
                return o / self.scale
            case "align_corners":
                return tf.where(width == 1, 0, o * (old - 1) / spans)
            case "tf_crop_and_resize":
                assert region is not None  # callers have one
                start, end = region
                inner = tf.where(width == 1, (end - start) * (old - 1) / 2, o * (end - start) * (old - 1) / spans)
                return inner + start * (old - 1)
        middle = (o + 0.5) / self.scale
        if coordinates == "half_pixel_symmetric":  # in the order of ONNX's reference: it decides ties
            middle = old / 2 * (1 - cast_to(self.new, "f64") / width) + middle
        return tf.where(width == 1, 0.0, middle - 0.5) if coordinates == "pytorch_half_pixel" else middle - 0.5


@attrs.frozen(repr=False)
class _Weights:
    """Weights of the elements around positions of results."""

    mode: str
    nearest: str
    coefficient: float
    antialias: bool
    exclude_outside: bool

    def applied(self, x: Tensor, line: _Line, at: Tensor) -> Tensor:
        """Return ``x`` with results at these positions along an axis."""
        if self.mode == "nearest":
            return take(x, cast_to(nearest_of(at, self.nearest), "i64"), line.axis)
        if self.antialias:
            return moveaxis(tensordot(x, tf.as_like(self._matrix(line, at), x), ([line.axis], [1])), -1, line.axis)
        low = tf.floor(at)
        offsets = (0, 1) if self.mode == "linear" else (-1, 0, 1, 2)
        weights = [self._weight(at - (low + offset), line, low + offset) for offset in offsets]
        if self.exclude_outside:
            total = weights[0]
            for weight in weights[1:]:
                total = total + weight
            weights = [weight / tf.where(total == 0, 1, total) for weight in weights]
        behind = [1] * (rank_of(x) - line.axis - 1)
        result = None
        for offset, weight in zip(offsets, weights, strict=True):
            taken = take(x, cast_to(low + offset, "i64"), line.axis)
            part = taken * tf.reshape(tf.as_like(weight, x), line.new, *behind)
            result = part if result is None else result + part
        assert result is not None  # there are two elements or more
        return result

    def _weight(self, distance: Tensor, line: _Line, place: Tensor) -> Tensor:
        """Return the weight of the element at a position and this distance from a result."""
        far = tf.abs(distance)
        weight = tf.max(1 - far, 0) if self.mode == "linear" else cubic_weight(far, self.coefficient)
        if not self.exclude_outside:
            return weight
        return tf.where(tf.logical_or(place < 0, place >= cast_to(line.old, "f64")), 0, weight)

    def _matrix(self, line: _Line, at: Tensor) -> Tensor:
        """Return the weight of each element of an axis for each result, as a matrix."""
        reach = line.reach * (1 if self.mode == "linear" else 2) + 1
        count = reach * 2 + 1
        step = cast_to(tf.index(full(line.x, [1, count], 0), 1), "f64") - cast_to(reach, "f64")
        rows = tf.reshape(at, line.new, 1)
        place = tf.floor(rows) + step
        weight = self._weight((rows - place) * tf.min(line.scale, 1), line, place)
        total = reductions.sum(weight, 1, keepdims=True)
        weight = weight / tf.where(total == 0, 1, total)
        inside = cast_to(tf.min(tf.max(place, 0), cast_to(line.old - 1, "f64")), "i64")
        columns = cast_to(tf.index(full(line.x, [line.old], 0), 0), "i64")
        o, k, i = (index_of(line.x, name) for name in "oki")
        found = tf.where(inside[o, k] == columns[i], weight[o, k])
        return aggregate(Aggregation.SUM, found, [o, i], [line.new, line.old])


def _axes(x: Tensor, axes: Axes) -> tuple[int, ...]:
    """Return axes in the order in which sizes are given."""
    known = axes_of(x, axes)
    return tuple(axis_of(x, axis) for axis in axes) if isinstance(axes, list | tuple) else known


def _regions(x: Tensor, roi: Tensor | Sequence[float] | None, count: int) -> list[tuple[Tensor, Tensor]]:
    """Return the start and end of each axis."""
    if roi is None:
        raise mistaken("tf_crop_and_resize needs roi: the starts and then the ends of all axes")
    if isinstance(roi, Tensor):
        if rank_of(roi) != 1:
            raise mistaken(f"roi has one axis, not {rank_of(roi)}")
        bounds = [cast_to(select(roi, 0, place), "f64") for place in range(2 * count)]
    else:
        if len(roi) != 2 * count:
            raise mistaken(f"roi has {count} starts and as many ends, not {len(roi)} numbers")
        bounds = [cast_to(tensor_of(x, float(bound)), "f64") for bound in roi]
    return list(zip(bounds[:count], bounds[count:], strict=True))


def _lines(
    x: Tensor, axes: Sequence[int], sizes: Sequence[Size] | None, scales: Sequence[float] | None, policy: str
) -> list[_Line]:
    if (sizes is None) == (scales is None):
        raise mistaken("give either the sizes or the scales of the result")
    given = sizes if sizes is not None else scales
    if given is None or len(given) != len(axes):
        raise mistaken(f"each of {len(axes)} axes needs its size or scale; given were {given!r:.60}")
    chosen(policy, POLICIES, "policy")
    old = [dims_of(x)[axis] for axis in axes]
    if scales is not None:
        if policy != "stretch":
            raise mistaken("a policy makes scales of sizes equal; leave it out where scales are given")
        ratios = ratios_of(scales, len(axes))
        new = [dim * ratio.numerator // ratio.denominator for dim, ratio in zip(old, ratios, strict=True)]
        numbers = [cast_to(tensor_of(x, float(scale)), "f64") for scale in scales]
        return [_Line(x, *line) for line in zip(axes, old, new, numbers, map(float, scales), strict=True)]
    new = [dim_like(x, size) for size in sizes or ()]
    numbers = [cast_to(size, "f64") / cast_to(dim, "f64") for size, dim in zip(new, old, strict=True)]
    if policy != "stretch":
        pick = "min" if policy == "not_larger" else "max"
        scale = numbers[0]
        for number in numbers[1:]:
            scale = call(pick, scale, number)
        numbers = [scale] * len(axes)
        wanted = list(zip(new, old, strict=True))
        new = []
        for own in old:
            rounded = [(size * own * 2 + dim) / (dim * 2) for size, dim in wanted]
            found = rounded[0]
            for other in rounded[1:]:
                found = found.min(other) if pick == "min" else found.max(other)
            new.append(found)
    return [_Line(x, *line, None) for line in zip(axes, old, new, numbers, strict=True)]
