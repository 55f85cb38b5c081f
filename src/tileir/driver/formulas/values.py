"""Pictures and parameters as formulas take them, and results as callers see them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, Diagnostic

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

RANKS = (2, 3)
"""Of pictures: [rows, columns], or [rows, columns, channels]."""


def dtype_of(name: str, array: Array) -> DType:
    """Return the dtype of the picture of an input.

    Raises:
        ArgumentError: TIL701, tileir knows no such dtype.
    """
    dtype = DType.of(array.dtype)
    if dtype is None:
        raise ArgumentError((Diagnostic("TIL701", f"{name} has pixels of {array.dtype}, which tileir does not know"),))
    return dtype


def as_passed(value: Any) -> Any:
    """Return the value of a parameter as a call takes it fastest: as an array, but for integers, which make sizes."""
    return np.asarray(value, np.float32) if isinstance(value, float) else value


def shown(results: tuple[Array, ...], flat: bool) -> Any:
    """Return what a caller sees: one array where there is one result, without an axis for one channel where asked."""
    shaped = tuple(_flattened(result, flat) for result in results)
    return shaped if len(shaped) > 1 else shaped[0]


def _flattened(result: Array, flat: bool) -> Array:
    return result[..., 0] if flat and result.ndim == max(RANKS) and result.shape[-1] == 1 else result
