"""Operations that OpenCL C has, for :func:`tileir.semtree.legalise.legaliser.legalise`.

f16 is a float in registers, with the value of a half: operations without rounding are those of f32. bf16 is its bits.
Signed numbers in vectors overflow as in C; scalars of less than 32 bits are computed in ``int``, and cast back.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Final

from tileir.core import Domain, DType, Op
from tileir.semtree.ir import Prefetch
from tileir.semtree.legalise.capabilities import (
    COMPARISONS,
    INTEGERS,
    WIDE_FLOATS,
    Capabilities,
    Support,
    casts,
    table,
)
from tileir.semtree.transform.expansions import EXPANDED

BITS: Final = frozenset(dtype for dtype in DType if dtype.is_narrow and dtype is not DType.F16)
"""Floats represented by integers."""

NATIVE: Final = frozenset({Op.RSQRT})
"""Operations with an expansion that every device computes at least as accurately: ``rsqrt`` errs by at most 2 ulp."""

SINGLE: Final = NATIVE | {Op.SIN, Op.COS, Op.TAN}
"""Native operations without f64, which their f32 expansions need; OpenCL's own err by at most 4, 4 and 5 ulp."""

FAST: Final = SINGLE | {Op.EXP, Op.LOG}
"""Operations with a ``native_`` function, for ``fast_math``; f64 takes the ordinary one."""

_CONNECTIVES: Final = (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.BIT_NOT)
_RING: Final = (Op.ADD, Op.SUB, Op.MUL, Op.NEG)
_LIMITED: Final = (Op.DIV, Op.MOD, Op.BIT_LEFT, Op.BIT_RIGHT)
_EXTREMA: Final = (Op.MAX, Op.MIN)
_EXACT: Final = (Op.NEG, Op.ABS, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.MOD, *COMPARISONS)
_UNSIGNED: Final = tuple(dtype for dtype in INTEGERS if not dtype.is_signed)
_SIGNED: Final = tuple(dtype for dtype in INTEGERS if dtype.is_signed)
_SMALL: Final = tuple(dtype for dtype in INTEGERS if dtype.bits < 32)


_NUMBERS: Final = (*INTEGERS, *WIDE_FLOATS)
_CASTS: Final = {**casts(_NUMBERS, _NUMBERS), **casts((DType.F16,), (DType.F32,)), **casts((DType.F32,), (DType.F16,))}


@cache
def capabilities(native: frozenset[Op] = NATIVE) -> Capabilities:
    """Return the capabilities if the operations ``native`` are not expanded."""
    arithmetic = (op for op in Op if op.info.domain is not Domain.BITS and op not in (EXPANDED - native) | {Op.IDENT})
    common = {
        **table(Support.TOTAL, _CONNECTIVES, (DType.BOOL, *INTEGERS)),
        **table(Support.TOTAL, (*COMPARISONS, *_EXTREMA), INTEGERS),
        **table(Support.DEFINED, (*_RING, *_LIMITED), INTEGERS),
        **table(Support.TOTAL, _RING, _UNSIGNED),
        **table(Support.TOTAL, arithmetic, WIDE_FLOATS),
        **table(Support.TOTAL, _EXACT, (DType.F16,)),
        **table(Support.DEFINED, _EXTREMA, (DType.F16, *WIDE_FLOATS)),
    }
    scalar = {
        **common,
        **table(Support.TOTAL, _RING, _SMALL),
        **table(Support.TOTAL, (Op.ABS,), _SIGNED),
        (Op.MUL, DType.U16): Support.DEFINED,  # an int may be too small for it
    }
    valued = frozenset({DType.F16})
    vectors = Capabilities(MappingProxyType(common), MappingProxyType(_CASTS), valued=valued)
    of_scalars = MappingProxyType({**_CASTS, **casts((DType.BOOL,), _NUMBERS)})
    return Capabilities(MappingProxyType(scalar), of_scalars, vectors=vectors, hints=(Prefetch,), valued=valued)
