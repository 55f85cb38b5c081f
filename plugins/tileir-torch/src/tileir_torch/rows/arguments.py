"""Arguments that many rows take alike: dtypes to compute in, axes and numbers for each axis."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.dtypes import DTYPES
from tileir_torch.importing import Call

BELOW_F32 = 32
"""Bits of floats in which steps of a formula would lose accuracy."""


def wide(dtype: DType) -> DType:
    """Return the dtype that formulas of several steps are computed in, so that they round once."""
    return DType.F32 if dtype.is_float and dtype.bits < BELOW_F32 else dtype


def widened(x: Tensor) -> Tensor:
    """Return a tensor in the dtype that formulas are computed in."""
    return x if wide(x.dtype) is x.dtype else ops.cast(x, wide(x.dtype))


def common(call: Call, *positions: int) -> DType:
    """Return the dtype in which PyTorch computes with arguments, by its rules of promotion."""
    values = [call.given(position) for position in positions]
    first, second = values if len(values) > 1 else (values[0], values[0])
    return DTYPES[torch.result_type(first, second)]


def axes_of(axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """Return axes as numbers from 0; all of them where none are given."""
    if axes is None or (not isinstance(axes, int) and not axes):
        return list(range(rank))
    given = [axes] if isinstance(axes, int) else axes
    return [axis % rank if rank else 0 for axis in given]


def per_axis(numbers: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return a number for each axis; one alone is that of all."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(given * count if len(given) == 1 else given)


def with_axis(x: Tensor) -> Tensor:
    """Return a tensor with an axis, of 1 element where it had none."""
    return x if x.rank else ops.reshape(x, 1)


def space_of(call: Call) -> int:
    """Return how many spatial axes an operation has by its name, such as 3 for ``avg_pool3d``; 2 where it has none."""
    return 3 if "3d" in str(call.node.target) else 1 if "1d" in str(call.node.target) else 2


def batched(x: Tensor, space: int) -> Tensor:
    """Return data with an axis of examples, of which there may be none."""
    return x if x.rank == space + 2 else ops.expand_dims(x, 0)
