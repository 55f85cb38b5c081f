"""Dtypes of PyTorch that Tile has, and the host's device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import torch

from tileir import DType

DTYPES: Final[Mapping[torch.dtype, DType]] = MappingProxyType(
    {
        torch.bool: DType.BOOL,
        torch.int8: DType.I8,
        torch.int16: DType.I16,
        torch.int32: DType.I32,
        torch.int64: DType.I64,
        torch.uint8: DType.U8,
        torch.uint16: DType.U16,
        torch.uint32: DType.U32,
        torch.uint64: DType.U64,
        torch.float8_e4m3fn: DType.F8E4M3FN,
        torch.float8_e5m2: DType.F8E5M2,
        torch.float16: DType.F16,
        torch.bfloat16: DType.BF16,
        torch.float32: DType.F32,
        torch.float64: DType.F64,
    }
)
TORCH: Final[Mapping[DType, torch.dtype]] = MappingProxyType({ours: theirs for theirs, ours in DTYPES.items()})
