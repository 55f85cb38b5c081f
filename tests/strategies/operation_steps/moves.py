"""Steps that move elements, join tensors, or run along an axis."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from hypothesis import strategies as st

from strategies.operation_steps.step import Array, Step, require
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.tile.builder import Tensor


@st.composite
def slices(draw: st.DrawFn, rank: int) -> Step:
    bound = st.none() | st.integers(-6, 6)
    keys = [slice(draw(bound), draw(bound), draw(st.sampled_from((1, 2, 3, -1, -2, -3)))) for _ in range(rank)]
    return Step(f"slice {keys}", rank, lambda x: ops.slice(x, *keys), lambda a: a[tuple(keys)])


@st.composite
def parts(draw: st.DrawFn, rank: int) -> Step:
    """Slices whose bounds are computed from sizes."""
    axis, divisor, factor = draw(st.integers(0, rank - 1)), draw(st.integers(2, 3)), draw(st.integers(1, 2))
    shift, end = draw(st.integers(-1, 1)), draw(st.booleans())

    def key(size: Any) -> tuple[slice, ...]:
        bound = size // divisor * factor + shift
        return (*[slice(None)] * axis, slice(None, bound) if end else slice(bound, None))

    def compute(a: Array) -> Array:
        require(a.shape[axis] // divisor * factor + shift >= 0)
        return np.asarray(a[key(a.shape[axis])])

    return Step(
        f"part at {factor} * (n // {divisor}) + {shift} of {axis}, end {end}",
        rank,
        lambda x: ops.slice(x, *key(x.dims[axis])),
        compute,
    )


@st.composite
def selections(draw: st.DrawFn, rank: int) -> Step:
    axis, place = draw(st.integers(0, rank - 1)), draw(st.sampled_from((0, -1)))

    def compute(a: Array) -> Array:
        require(a.shape[axis] > 0)
        return np.asarray(np.take(a, place, axis))

    return Step(f"select {place} of {axis}", rank - 1, lambda x: ops.select(x, axis, place), compute)


@st.composite
def halves(draw: st.DrawFn, rank: int) -> Step:
    axis, last = draw(st.integers(0, rank - 1)), draw(st.booleans())

    def build(x: Tensor) -> Tensor:
        size = x.dims[axis]
        return ops.narrow(x, axis, size - (size + 1) // 2 if last else 0, (size + 1) // 2)

    def compute(a: Array) -> Array:
        count = (a.shape[axis] + 1) // 2
        return np.take(a, range(a.shape[axis])[-count if last and count else 0 :][:count], axis)

    return Step(f"half of {axis}, last {last}", rank, build, compute)


@st.composite
def flips(draw: st.DrawFn, rank: int) -> Step:
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    return Step(f"flip {axes}", rank, lambda x: ops.flip(x, axes), lambda a: np.flip(a, tuple(axes)))


@st.composite
def repeats(draw: st.DrawFn, rank: int) -> Step:
    axis, count = draw(st.integers(0, rank - 1)), draw(st.integers(1, 3))
    return Step(f"repeat {count} {axis}", rank, lambda x: ops.repeat(x, count, axis), lambda a: a.repeat(count, axis))


@st.composite
def tiles(draw: st.DrawFn, rank: int) -> Step:
    counts = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    return Step(f"tile {counts}", rank, lambda x: ops.tile(x, *counts), lambda a: np.tile(a, counts))


@st.composite
def rolls(draw: st.DrawFn, rank: int) -> Step:
    axis, shift = draw(st.integers(0, rank - 1)), draw(st.integers(-4, 4))
    return Step(f"roll {shift} {axis}", rank, lambda x: ops.roll(x, shift, axis), lambda a: np.roll(a, shift, axis))


@st.composite
def half_rolls(draw: st.DrawFn, rank: int) -> Step:
    axis = draw(st.integers(0, rank - 1))

    def shift(size: Any) -> Any:
        return -(size // 2)

    return Step(
        f"roll -(n // 2) {axis}",
        rank,
        lambda x: ops.roll(x, shift(x.dims[axis]), axis),
        lambda a: np.roll(a, shift(a.shape[axis]), axis),
    )


@st.composite
def joins(draw: st.DrawFn, rank: int) -> Step:
    """A tensor beside a part of itself, or that part beside another one."""
    axis = draw(st.integers(0, rank - 1))
    whole = slice(None)
    keys = draw(st.lists(st.sampled_from((whole, slice(None, None, 2), slice(1, None, 2), slice(None, None, -1),
                                          slice(1, None), slice(None, -1))), min_size=2, max_size=3))  # fmt: skip
    before = [whole] * axis
    return Step(
        f"concatenate {keys} along {axis}",
        rank,
        lambda x: ops.concatenate([ops.slice(x, *before, key) for key in keys], axis),
        lambda a: np.concatenate([a[(*before, key)] for key in keys], axis),
    )


@st.composite
def stacks(draw: st.DrawFn, rank: int) -> Step:
    axis = draw(st.integers(0, rank))
    return Step(
        f"stack {axis}",
        rank + 1,
        lambda x: ops.stack([x, ops.flip(x, 0)], axis),
        lambda a: np.stack([a, np.flip(a, 0)], axis),
    )


@st.composite
def splits(draw: st.DrawFn, rank: int) -> Step:
    """Two parts that are joined again the other way round."""
    axis, count = draw(st.integers(0, rank - 1)), draw(st.integers(1, 3))

    def compute(a: Array) -> Array:
        require(a.shape[axis] % count == 0)
        return np.concatenate(np.split(a, count, axis)[::-1], axis)

    return Step(
        f"split {count} {axis}", rank, lambda x: ops.concatenate(ops.split(x, count, axis)[::-1], axis), compute
    )


@st.composite
def uneven_splits(draw: st.DrawFn, rank: int) -> Step:
    axis = draw(st.integers(0, rank - 1))

    def build(x: Tensor) -> Tensor:
        half = x.dims[axis] // 2
        return ops.concatenate(ops.split(x, [half, x.dims[axis] - half], axis)[::-1], axis)

    return Step(
        f"split n // 2 {axis}",
        rank,
        build,
        lambda a: np.concatenate(np.split(a, [a.shape[axis] // 2], axis)[::-1], axis),
    )


@st.composite
def pads(draw: st.DrawFn, rank: int) -> Step:
    mode = draw(st.sampled_from(("constant", "edge", "reflect", "symmetric", "wrap")))
    widths = [(draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank)]

    def compute(a: Array) -> Array:
        least = 1 if mode == "reflect" else 0
        require(mode == "constant" or all(max(w) <= n - least for w, n in zip(widths, a.shape, strict=True) if any(w)))
        require(mode == "constant" or 0 not in a.shape)
        return np.pad(a, widths, mode=mode)  # type: ignore[call-overload, no-any-return]

    return Step(f"pad {mode} {widths}", rank, lambda x: ops.pad(x, widths, mode=mode), compute)


@st.composite
def flattenings(draw: st.DrawFn, rank: int) -> Step:
    first = draw(st.integers(0, rank - 2))

    def merged(a: Array) -> Array:
        return a.reshape(*a.shape[:first], math.prod(a.shape[first:]))

    return Step(f"flatten from {first}", first + 1, lambda x: ops.flatten(x, first=first), merged)


@st.composite
def foldings(draw: st.DrawFn, rank: int) -> Step:
    """An axis whose size is even as two axes."""
    axis = draw(st.integers(0, rank - 1))

    def shape(sizes: Sequence[Any]) -> list[Any]:
        return [*sizes[:axis], sizes[axis] // 2, 2, *sizes[axis + 1 :]]

    def compute(a: Array) -> Array:
        require(a.shape[axis] % 2 == 0)
        return a.reshape(shape(a.shape))

    return Step(f"fold {axis}", rank + 1, lambda x: ops.reshape(x, shape(x.dims)), compute)


@st.composite
def transpositions(draw: st.DrawFn, rank: int) -> Step:
    order = draw(st.permutations(range(rank)))
    return Step(f"transpose {order}", rank, lambda x: ops.transpose(x, order), lambda a: a.transpose(order))


@st.composite
def takings(draw: st.DrawFn, rank: int) -> Step:
    """Elements at every second position, and by the end of the axis; positions outside are clamped."""
    axis, start, step = draw(st.integers(0, rank - 1)), draw(st.integers(0, 2)), draw(st.integers(1, 2))

    def build(x: Tensor) -> Tensor:
        return ops.take(x, ops.arange(x, start, x.dims[axis] + 1, step), axis)

    def compute(a: Array) -> Array:
        require(a.shape[axis] > 0)
        return np.take(a, np.arange(start, a.shape[axis] + 1, step), axis, mode="clip")

    return Step(f"take {start}::{step} of {axis}", rank, build, compute)


@st.composite
def runs(draw: st.DrawFn, rank: int) -> Step:
    axis, reverse, exclusive = draw(st.integers(0, rank - 1)), draw(st.booleans()), draw(st.booleans())

    def compute(a: Array) -> Array:
        turned = np.flip(a, axis) if reverse else a
        total = np.cumsum(turned, axis)
        total = total - turned if exclusive else total
        return np.flip(total, axis) if reverse else total

    return Step(
        f"cumsum {axis}, reverse {reverse}, exclusive {exclusive}",
        rank,
        lambda x: ops.cumsum(x, axis, reverse=reverse, exclusive=exclusive),
        compute,
    )


@st.composite
def sortings(draw: st.DrawFn, rank: int) -> Step:
    axis, descending = draw(st.integers(0, rank - 1)), draw(st.booleans())

    def compute(a: Array) -> Array:
        ascending = np.sort(a, axis)
        return np.flip(ascending, axis) if descending else ascending

    return Step(
        f"sort {axis}, descending {descending}",
        rank,
        lambda x: ops.sort(x, axis, descending=descending),
        compute,
        linear=False,
    )


@st.composite
def differences(draw: st.DrawFn, rank: int) -> Step:
    axis = draw(st.integers(0, rank - 1))

    def compute(a: Array) -> Array:
        require(a.shape[axis] > 0)
        return np.diff(a, axis=axis)

    return Step(f"diff {axis}", rank, lambda x: ops.diff(x, axis=axis), compute)


@st.composite
def reductions(draw: st.DrawFn, rank: int) -> Step:
    """A tensor less its mean."""
    axis = draw(st.integers(0, rank - 1))

    def compute(a: Array) -> Array:
        require(a.shape[axis] > 0)
        return np.asarray(a - a.mean(axis, keepdims=True))

    return Step(f"less the mean of {axis}", rank, lambda x: x - ops.mean(x, axis, keepdims=True), compute)


def _turned(x: Tensor, axis: int) -> Tensor:
    return x + ops.flip(x, axis)


@st.composite
def sums(draw: st.DrawFn, rank: int) -> Step:
    """A tensor and itself the other way round."""
    axis = draw(st.integers(0, rank - 1))
    return Step(f"plus flipped {axis}", rank, partial(_turned, axis=axis), lambda a: a + np.flip(a, axis))


ANY_RANK: Final = (
    slices, slices, parts, halves, flips, repeats, tiles, rolls, half_rolls, joins, joins, splits, uneven_splits, pads,
    pads, transpositions, takings, runs, sortings, differences, reductions, sums,
)  # fmt: skip
"""Strategies that draw steps of tensors of any rank."""
