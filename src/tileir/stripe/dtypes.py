"""Dtypes of the scalars of a block body, and their spelling in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from tileir.core import DType, Op
from tileir.stripe.ir import Block, Constant, Convert, Intrinsic, Load, LoadIndex, Special, Statement, Store

SPELLING: Final[Mapping[DType, str]] = MappingProxyType(
    {dtype: f"fp{dtype.value[1:]}" if dtype.value[0] == "f" else dtype.value for dtype in DType}
)
"""Spelling of dtypes in text: Stripe's floats are ``fp32``, not ``f32``."""

DTYPES: Final[Mapping[str, DType]] = MappingProxyType({text: dtype for dtype, text in SPELLING.items()})
"""The inverse of :data:`SPELLING`."""


def intrinsic_dtype(op: Op, operands: Sequence[DType | None]) -> DType | None:
    """Return the dtype of ``op`` applied to operands of these dtypes; None if unknown."""
    if op.info.compares:
        return DType.BOOL
    if op is Op.BITS:
        return None
    position = 1 if op is Op.COND else 0
    return operands[position] if position < len(operands) else None


def scalar_dtype(statement: Statement, views: Mapping[str, DType]) -> DType | None:
    """Return the dtype of the scalar that ``statement`` defines; None if it defines none or the dtype is unknown.

    ``views`` holds the dtypes of the block's refinements.
    """
    match statement:
        case Load(source=source):
            return views.get(source)
        case LoadIndex(dtype=dtype) | Constant(dtype=dtype) | Convert(dtype=dtype) | Intrinsic(dtype=dtype):
            return dtype
        case Store() | Special() | Block():
            return None
        case _:
            assert_never(statement)
