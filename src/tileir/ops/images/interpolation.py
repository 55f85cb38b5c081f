"""Resizing of images: interpolation between pixels along any number of spatial axes.

Neighbours and weights are computed in integers, so that they are exact for all sizes; beyond the edges, the pixel at
the edge is repeated. ``layout`` names the axes as in :mod:`tileir.ops.networks.convolution`: ``x`` all spatial axes,
``n`` the batch and ``c`` the channels, either of which may be missing.

Sources: PyTorch's ``interpolate``; Keys, "Cubic convolution interpolation for digital image processing", 1981.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tileir.core.nodes import attrs
from tileir.ops.arrays.indexing import cubic_weights, take
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Tensor,
    call,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    for_sums,
    full,
    index_of,
    indices_of,
    mistaken,
    narrowed,
    rank_of,
    wide,
)
from tileir.ops.shared.layouts import Axis, joined, layout_of, read, written
from tileir.ops.shared.windows import PerAxis, Sizes, per_axis, sizes_per_axis

MODES: Final = ("nearest", "nearest_exact", "linear", "cubic")
_LARGEST: Final = 10_000  # denominator of a scale


def interpolate(
    x: Tensor,
    size: Sizes | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    coefficient: float = -0.75,
    layout: str = "ncx",
) -> Tensor:
    """Return ``x`` with other sizes of its spatial axes: ``size``, or ``floor(scale * size)``.

    Result o lies at ``p = (o + 1/2) * step - 1/2`` of ``x``, where ``step`` is the old size divided by the new one, or
    ``1 / scale``; with ``align_corners`` at ``p = o * (old - 1) / (new - 1)``, so that the first and last pixels stay.

    - "nearest" takes the pixel at ``floor(o * step)``, "nearest_exact" the one at ``floor((o + 1/2) * step)``.
    - "linear" weights the two pixels around p by ``1 - t`` and ``t``, the distance of p from the first one.
    - "cubic" weights the four around p: by ``(c + 2)|d|³ - (c + 3)|d|² + 1`` those at distances ``|d| <= 1``, by
      ``c|d|³ - 5c|d|² + 8c|d| - 4c`` those below 2, where c is ``coefficient`` (PyTorch's -0.75; -0.5 is Keys's).

    An axis whose size ``scale`` does not change, as 1.25 does not change 3, is copied by "linear". Dtype: that of
    ``x``; "linear" and "cubic" of integers give f32. All as in PyTorch (whose "nearest" copies these axes too if there
    are two), with both sides of a scale exact: a float stands for the nearest fraction with a denominator of at most
    10,000.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    chosen(mode, MODES, "mode")
    if (size is None) == (scale is None):
        raise mistaken("give either the size or the scale of the result")
    if align_corners and mode.startswith("nearest"):
        raise mistaken("align_corners is an option of the modes 'linear' and 'cubic'")
    # Pixels are moved without rounding; gradients, which are sums along one axis after the other, are rounded once.
    y = for_sums(x) if mode.startswith("nearest") else wide(x)
    for number, axis in enumerate(form.axes("x")):
        old = dims_of(x)[axis]
        if size is not None:
            new = sizes_per_axis(x, size, form.space, "size")[number]
            step = (old, new)
        else:
            ratio = ratios_of(scale, form.space)[number]
            new = old * ratio.numerator // ratio.denominator
            step = (dim_like(x, ratio.denominator), dim_like(x, ratio.numerator))
            if mode == "linear" and 1 < ratio < 2:  # only these ratios may keep a size
                changed = (new - old).min(1)
                step = ((step[0] - 1) * changed + 1, (step[1] - 1) * changed + 1)
        if align_corners:
            step = (old - 1, (new - 1).max(1))
        y = _along(y, axis, new, _Places(step[0], step[1], centred=not align_corners), mode, coefficient)
    return call("as_like", y, x) if mode.startswith("nearest") else narrowed(y, x)


def upsample(x: Tensor, factor: PerAxis, *, layout: str = "ncx") -> Tensor:
    """Return ``x`` with each pixel repeated ``factor`` times along each spatial axis, by one contraction.

    It is the nearest interpolation with whole scales, PlaidML's ``image_resize`` in that mode.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    factors = per_axis(factor, form.space, "factor")
    source = [Axis((index,), (size,)) for index, size in zip(indices_of(x), dims_of(x), strict=True)]
    result = list(source)
    for axis, count in zip(form.axes("x"), factors, strict=True):
        result[axis] = joined(source[axis], Axis((index_of(x, f"r{axis}"),), (dim_like(x, count),)))
    return written(Aggregation.ASSIGN, read(x, source), result)


@attrs.frozen(repr=False)
class _Places:
    """Positions of results on an axis: ``(o + 1/2) * numerator / denominator - 1/2``, or without the halves."""

    numerator: Dim
    denominator: Dim
    centred: bool

    def split(self, o: Tensor, *, shift: bool = True) -> tuple[Tensor, Tensor, Dim]:
        """Return the integral part of each position, and the rest by its numerator and denominator, all as i64.

        Without ``shift``, 1/2 is not subtracted.
        """
        if not self.centred:
            place, divisor = o * self.numerator, self.denominator
            return place / divisor, call("mod", place, divisor), divisor
        divisor = self.denominator * 2
        place = (o * 2 + 1) * self.numerator
        if not shift:
            return place / divisor, call("mod", place, divisor), divisor
        above = place + self.denominator  # one more than the position, so that nothing is below 0
        return above / divisor - 1, call("mod", above, divisor), divisor


def _along(x: Tensor, axis: int, size: Dim, places: _Places, mode: str, coefficient: float) -> Tensor:
    """Interpolate along one axis."""
    o = cast_to(call("index", full(x, (size,), 0), 0), "i64")
    if mode == "nearest":
        return take(x, _Places(places.numerator, places.denominator, centred=False).split(o)[0], axis)
    if mode == "nearest_exact":
        return take(x, places.split(o, shift=False)[0], axis)
    first, rest, divisor = places.split(o)
    t = _fraction(x, rest, divisor)
    offsets, weights = ((0, 1), (1.0 - t, t)) if mode == "linear" else ((-1, 0, 1, 2), cubic_weights(t, coefficient))
    behind = rank_of(x) - axis - 1
    result = None
    for offset, weight in zip(offsets, weights, strict=True):
        part = take(x, first + offset, axis) * call("reshape", weight, size, *(1,) * behind)
        result = part if result is None else result + part
    assert result is not None  # there are two pixels or more
    return result


def _fraction(x: Tensor, rest: Tensor, divisor: Dim) -> Tensor:
    """Return a fraction of integers in the dtype of ``x``, computed in f32 or wider."""
    wide = call("as_like", call("index", rest, 0) * 0, x) + cast_to(rest, "f32")
    return call("as_like", wide / divisor, x)


def ratios_of(scale: float | Sequence[float] | None, axes: int) -> tuple[Fraction, ...]:
    """Return scales as the nearest fractions with small denominators.

    Raises:
        TileError: TIL217, there is not a finite one above 0 for each axis.
    """
    values = (scale,) * axes if isinstance(scale, int | float) else tuple(scale or ())
    if len(values) != axes or not all(0 < value < math.inf for value in values):
        raise mistaken(f"scale is a finite number above 0, or {axes} of them; it was {scale!r}")
    return tuple(Fraction(value).limit_denominator(_LARGEST) for value in values)
