"""Operations that LLVM has, for :func:`tileir.semtree.legalise.legaliser.legalise`.

Sums wrap, extrema and magnitudes are intrinsics; divisions and shifts are undefined as in C. f16 is only converted to
and from f32, if processors support that, and bf16 is its bits, since conversion instructions flush subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.ir import Prefetch
from tileir.semtree.legalise.capabilities import COMPARISONS, INTEGERS, WIDE_FLOATS, Capabilities, Support, table
from tileir.semtree.transform.expansions import EXPANDED
from tileir_emit.storage import STORED

_PLAIN: Final = (DType.BOOL, *INTEGERS)
_CONNECTIVES: Final = (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.BIT_NOT)
_WRAPPING: Final = (Op.ADD, Op.SUB, Op.MUL)
_TRAPPING: Final = (Op.DIV, Op.MOD, Op.BIT_LEFT, Op.BIT_RIGHT)
_MERGES: Final = (Op.ADD, Op.MUL, Op.MAX, Op.MIN)


def _casts(floats_to_integers: Support) -> Iterator[tuple[tuple[DType, DType], Support]]:
    for source, target in product((*_PLAIN, *WIDE_FLOATS), (*INTEGERS, *WIDE_FLOATS)):
        saturates = source.is_float and target.is_integer
        yield (source, target), floats_to_integers if saturates else Support.TOTAL
    yield (DType.F16, DType.F32), Support.TOTAL
    yield (DType.F32, DType.F16), Support.TOTAL


def _capabilities(floats_to_integers: Support, vectors: Capabilities | None = None) -> Capabilities:
    operations = {
        **table(Support.TOTAL, (*_CONNECTIVES, *COMPARISONS), _PLAIN),
        **table(Support.TOTAL, (*_WRAPPING, Op.MAX, Op.MIN), INTEGERS),
        **table(Support.TOTAL, (Op.ABS,), (dtype for dtype in INTEGERS if dtype.is_signed)),
        **table(Support.DEFINED, _TRAPPING, INTEGERS),
        # If LLVM sees the count, it narrows products of 64 bits to their upper halves and moves these to and fro.
        **table(Support.TOTAL, (Op.BIT_RIGHT,), (DType.I64, DType.U64)),
        **table(Support.TOTAL, set(Op) - EXPANDED, WIDE_FLOATS),
        **table(Support.TOTAL, (Op.ERF,), (DType.F32,)),  # if it was not expanded before
    }
    merged = frozenset(product(_MERGES, (*_PLAIN, *WIDE_FLOATS)))
    return Capabilities(
        MappingProxyType(operations),
        MappingProxyType(dict(_casts(floats_to_integers))),
        merged,
        vectors,
        hints=(Prefetch,),
    )


CAPABILITIES: Final = _capabilities(Support.TOTAL, _capabilities(Support.DEFINED))
"""Capabilities; LLVM scalarises vectors for the saturating conversion of floats to integers."""


def stored_floats(features: Collection[str]) -> frozenset[DType]:
    """Return the floats that a processor cannot even convert, including f16 on x86 without F16C."""
    converts = "f16c" in features or "sse2" not in features
    return STORED if converts else STORED | {DType.F16}
