"""Steps with windows: pools, convolutions, and images of other sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from hypothesis import strategies as st

from strategies.operation_steps.step import Array, Step, require
from tileir import ops

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor


def _window_counts(size: int, kernel: int, stride: int, padding: int, ceil: bool) -> int:
    """Return how many windows PyTorch has along an axis."""
    require(size > 0)
    reach = size + 2 * padding - kernel
    require(reach >= 0)
    count = (reach + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _windows(a: Array, kernel: int, stride: int, padding: int, ceil: bool, fill: float) -> Array:
    """Return the windows along the last axis, as a new last axis."""
    count = _window_counts(a.shape[-1], kernel, stride, padding, ceil)
    wide = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(padding, padding + stride + kernel)], constant_values=fill)
    return np.stack([wide[..., k * stride : k * stride + kernel] for k in range(count)], -2)


@st.composite
def pools(draw: st.DrawFn, rank: int) -> Step:
    """Pools over the last axis of what is reshaped to (1, C, X)."""
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding, ceil = draw(st.integers(0, kernel // 2)), draw(st.booleans())
    name = draw(st.sampled_from(("max_pool", "average_pool", "sum_pool")))

    def compute(a: Array) -> Array:
        require(0 not in a.shape)
        if name == "max_pool":
            return np.asarray(_windows(a, kernel, stride, padding, ceil, -math.inf).max(-1))
        total = _windows(a, kernel, stride, padding, ceil, 0).sum(-1)
        if name == "sum_pool":
            return np.asarray(total)
        wide = np.pad(np.ones(a.shape), [(0, 0)] * (a.ndim - 1) + [(padding, padding)], constant_values=1)
        counted = _windows(wide, kernel, stride, 0, True, 0).sum(-1)[..., : total.shape[-1]]
        return np.asarray(total / counted)

    def build(x: Tensor) -> Tensor:
        image = ops.reshape(x, 1, *([1] if rank == 1 else []), *([x.dims[0] * x.dims[1]] if rank == 3 else x.dims[:-1]),
                            x.dims[-1])  # fmt: skip
        result = getattr(ops, name)(image, kernel, stride=stride, padding=padding, ceil_mode=ceil)
        return ops.reshape(result, *x.dims[:-1], result.dims[-1])

    return Step(
        f"{name} {kernel}, stride {stride}, padding {padding}, ceil {ceil}",
        rank,
        build,
        compute,
        linear=name != "max_pool",
    )


@st.composite
def convolutions(draw: st.DrawFn, rank: int) -> Step:
    """Convolutions of the last axis of two; channels do not mix."""
    taps, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = draw(st.integers(0, taps // 2))

    def build(x: Tensor) -> Tensor:
        images = ops.reshape(x, x.dims[0] if rank == 2 else 1, 1, x.dims[-1])
        result = ops.conv(images, ops.ones(x, (1, 1, taps), dtype="f64"), stride=stride, padding=padding)
        return ops.reshape(result, *x.dims[:-1], result.dims[-1])

    def compute(a: Array) -> Array:
        require(0 not in a.shape)
        sums: Array = _windows(a, taps, stride, padding, False, 0).sum(-1)
        return sums

    return Step(f"conv {taps}, stride {stride}, padding {padding}", rank, build, compute)


@st.composite
def samplings(draw: st.DrawFn, rank: int) -> Step:
    factor = draw(st.integers(1, 3))
    return Step(
        f"upsample {factor}",
        rank,
        lambda x: ops.reshape(ops.upsample(ops.reshape(x, 1, 1, *x.dims), factor), *[dim * factor for dim in x.dims]),
        lambda a: np.kron(a, np.ones([factor] * a.ndim)),
    )


@st.composite
def interpolations(draw: st.DrawFn, rank: int) -> Step:
    """Interpolation of the last axis to the nearest pixel, by a scale."""
    scale = draw(st.sampled_from((0.5, 1.5, 2.0, 0.75)))

    def build(x: Tensor) -> Tensor:
        image = ops.reshape(x, 1, *([1] if rank == 1 else [x.dims[0]]), x.dims[-1])
        result = ops.interpolate(image, scale=scale)
        return ops.reshape(result, *x.dims[:-1], result.dims[-1])

    def compute(a: Array) -> Array:
        require(0 not in a.shape and int(a.shape[-1] * scale) > 0)
        places = np.floor(np.arange(int(a.shape[-1] * scale)) / scale).astype(int)
        return np.asarray(np.take(a, np.minimum(places, a.shape[-1] - 1), -1))

    return Step(f"interpolate {scale}", rank, build, compute)


ANY_RANK: Final = (pools, pools, samplings)
"""Strategies that draw steps of tensors of any rank."""
