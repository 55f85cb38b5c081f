"""Random number operators, deterministic for a seed; without one, the node's name is the seed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_FLOAT = 1
_INT32 = 6


def _state(call: Call, seed: float | None) -> Tensor:
    """Return the state of a generator for a seed, of which every bit counts."""
    number = zlib.crc32(call.node.outputs[0].encode()) if seed is None else int(np.float32(seed).view(np.uint32))
    return call.importer.builder.constant(ops.random_state(number))


def _uniform(call: Call, sizes: Sequence[Any], dtype: DType, seed: float | None, low: float, high: float) -> Tensor:
    return ops.cast(ops.uniform(_state(call, seed), sizes, low=low, high=high, dtype=_drawn(dtype))[0], dtype)


def _normal(call: Call, sizes: Sequence[Any], dtype: DType, seed: float | None, mean: float, scale: float) -> Tensor:
    return ops.cast(ops.normal(_state(call, seed), sizes, mean=mean, std=scale, dtype=_drawn(dtype))[0], dtype)


def _drawn(dtype: DType) -> DType:
    """Return the dtype in which numbers are drawn."""
    return DType.F64 if dtype is DType.F64 else DType.F32


@row("RandomUniform")
def random_uniform(
    call: Call,
    *,
    shape: Sequence[int],
    dtype: int = _FLOAT,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return _uniform(call, list(shape), call.dtype(dtype), seed, low, high)


@row("RandomUniformLike")
def random_uniform_like(
    call: Call, x: Tensor, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return _uniform(call, x.shape, x.dtype if dtype is None else call.dtype(dtype), seed, low, high)


@row("RandomNormal")
def random_normal(
    call: Call,
    *,
    shape: Sequence[int],
    dtype: int = _FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return _normal(call, list(shape), call.dtype(dtype), seed, mean, scale)


@row("RandomNormalLike")
def random_normal_like(
    call: Call, x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _normal(call, x.shape, x.dtype if dtype is None else call.dtype(dtype), seed, mean, scale)


@row("Bernoulli")
def bernoulli(call: Call, x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return ops.cast(ops.bernoulli(_state(call, seed), x)[0], x.dtype if dtype is None else call.dtype(dtype))


@row("Multinomial")
def multinomial(
    call: Call, x: Tensor, *, dtype: int = _INT32, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Draw classes for each row of log-probabilities."""
    drawn = ops.categorical(_state(call, seed), x, axis=-1, samples=sample_size)[0]
    return ops.cast(ops.transpose(drawn), call.dtype(dtype))
