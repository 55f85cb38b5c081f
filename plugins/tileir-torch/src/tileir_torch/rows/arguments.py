"""Common arguments of rows: dtypes to compute in, axes and numbers for each axis."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.dtypes import DTYPES
from tileir_torch.importing import Call

BELOW_F32 = 32
"""Bits of floats with which multi-step formulas lose accuracy."""


def wide(dtype: DType) -> DType:
    """Return the dtype of multi-step formulas, so that they round once."""
    return DType.F32 if dtype.is_float and dtype.bits < BELOW_F32 else dtype


def widened(x: Tensor) -> Tensor:
    """Return a tensor in the dtype of multi-step formulas."""
    return x if wide(x.dtype) is x.dtype else ops.cast(x, wide(x.dtype))


def common(call: Call, *positions: int) -> DType:
    """Return the common dtype of arguments by PyTorch's rules of promotion."""
    values = [call.given(position) for position in positions]
    first, second = values if len(values) > 1 else (values[0], values[0])
    return DTYPES[torch.result_type(first, second)]


def axes_of(axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """Return axes as numbers from 0; all of them if none are given."""
    if axes is None or (not isinstance(axes, int) and not axes):
        return list(range(rank))
    given = [axes] if isinstance(axes, int) else axes
    return [axis % rank if rank else 0 for axis in given]


def per_axis(numbers: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return a number for each axis; a single number applies to all."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(given * count if len(given) == 1 else given)


def with_axis(x: Tensor) -> Tensor:
    """Return a tensor with at least one axis, of 1 element if it had none."""
    return x if x.rank else ops.reshape(x, 1)


def space_of(call: Call) -> int:
    """Return the number of spatial axes in an operation's name, such as 3 for ``avg_pool3d``; 2 by default."""
    return 3 if "3d" in str(call.node.target) else 1 if "1d" in str(call.node.target) else 2


def batched(x: Tensor, space: int) -> Tensor:
    """Return data with an axis of examples, added if missing."""
    return x if x.rank == space + 2 else ops.expand_dims(x, 0)
