"""Element types of fewer than 8 bits, held in wider types of tileir that represent all of their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import numpy as np
from attrs import frozen

from tileir import DType
from tileir_onnx.kinds import Kind

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor

Array: TypeAlias = np.ndarray[Any, Any]


@frozen
class Narrow:
    """Narrow element type.

    Attributes:
        bits: Bits of an element.
        dtype: Dtype of arrays, one byte for each element.
        held: Element type in which tileir holds elements.
    """

    bits: int
    dtype: np.dtype[Any]
    held: DType

    @property
    def is_float(self) -> bool:
        """True for narrow floats, false for integers."""
        return self.held.is_float

    @property
    def limits(self) -> tuple[int, int]:
        """Minimum and maximum integer."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.held.is_signed else (0, (1 << self.bits) - 1)

    def cast(self, x: Tensor) -> Tensor:
        """Convert elements: integers keep their low bits, floats are rounded and saturate."""
        from tileir import ops  # calls of known models do not need it

        if self.is_float:
            return ops.cast(_rounded(ops.cast(x, DType.F32)), self.held)
        mask, sign = (1 << self.bits) - 1, 1 << self.bits - 1
        last = ops.cast(x, DType.I32) & mask
        return ops.cast((last ^ sign) - sign if self.held.is_signed else last, self.held)

    def unpacked(self, data: memoryview, shape: tuple[int, ...]) -> Array:
        """Return elements packed in bytes, the first in the low bits."""
        packed = np.frombuffer(data, np.uint8).reshape(-1, 1)
        places = np.array(range(0, 8, self.bits), np.uint8)
        flat: Array = (packed >> places & ((1 << self.bits) - 1)).reshape(-1)[: prod(shape)].reshape(shape)
        if self.is_float:
            return flat.view(self.dtype)
        sign = 1 << self.bits - 1
        return np.asarray((flat ^ sign).astype(np.int8) - sign if self.held.is_signed else flat).astype(self.dtype)


def _rounded(x: Tensor) -> Tensor:
    """Return the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, ties to even; 0 for NaN."""
    from tileir import ops  # calls of known models do not need it

    magnitude = ops.minimum(ops.where(ops.isnan(x), 0, ops.abs(x)), 6)
    unit = ops.where(magnitude < 2, 0.5, ops.where(magnitude < 4, 1.0, 2.0))
    return ops.copysign(ops.round(magnitude / unit) * unit, x)


def _types() -> Iterator[tuple[int, Narrow]]:
    """Yield the types of the installed dtype package, by their numbers in ONNX."""
    given = (
        ("INT4", "int4", 4, DType.I8),
        ("UINT4", "uint4", 4, DType.U8),
        ("INT2", "int2", 2, DType.I8),
        ("UINT2", "uint2", 2, DType.U8),
        ("FLOAT4E2M1", "float4_e2m1fn", 4, DType.F8E4M3FN),
    )
    for name, word, bits, held in given:
        if hasattr(ml_dtypes, word):
            yield Kind[name], Narrow(bits, np.dtype(getattr(ml_dtypes, word)), held)


NARROW: Final[Mapping[int, Narrow]] = MappingProxyType(dict(_types()))
"""Narrow types by their numbers in ONNX."""

KINDS: Final[Mapping[np.dtype[Any], int]] = MappingProxyType({each.dtype: kind for kind, each in NARROW.items()})
"""Numbers of narrow types by dtype."""


def held(array: Any) -> Any:
    """Return an array in the type in which tileir holds its elements; other arrays unchanged."""
    kind = KINDS.get(array.dtype) if isinstance(array, np.ndarray) else None
    return array if kind is None else array.astype(NARROW[kind].held.numpy)
