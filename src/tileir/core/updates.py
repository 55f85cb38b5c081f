"""Updates by threads at the same time: merges whose result does not depend on their order."""

from __future__ import annotations

from typing import Final

from tileir.core.dtype import DType
from tileir.core.ops import Op

_INTEGERS: Final = (DType.I32, DType.U32, DType.I64, DType.U64)

UPDATES: Final = frozenset(
    [
        *((op, dtype) for op in (Op.ADD, Op.MAX, Op.MIN) for dtype in _INTEGERS),
        *((op, dtype) for op in (Op.MAX, Op.MIN) for dtype in (DType.F32, DType.F64)),
    ]
)
"""The atomic updates of devices, each with a dtype."""


WIDEST_UPDATE: Final = max(dtype.itemsize for _, dtype in UPDATES)
"""Bytes of the widest element."""


def updated_in(op: Op, dtype: DType) -> DType | None:
    """Return the dtype of updates for elements of ``dtype``, wider if they are narrow; None if there is none."""
    if dtype.is_float:
        wide = DType.F64 if dtype is DType.F64 else DType.F32
    else:
        wide = dtype if dtype.bits >= _INTEGERS[0].bits else DType.I32 if dtype.is_signed else DType.U32
    return wide if (op, wide) in UPDATES else None
