"""The operations that LLVM has, for :func:`tileir.semtree.legalise.legaliser.legalise`.

Sums wrap, extrema and magnitudes are intrinsics; divisions and shifts are undefined where C's are. f16 is converted to
f32 and back only, and bf16 is its bits, since the conversion instructions of processors flush subnormal numbers.
"""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.ops import Domain, Op
from tileir.semtree.expansions import EXPANDED
from tileir.semtree.legalise.capabilities import INTEGERS, WIDE_FLOATS, Capabilities, Support, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN: Final = (DType.BOOL, *INTEGERS)
_TRAPPING: Final = (Op.DIV, Op.MOD, Op.BIT_LEFT, Op.BIT_RIGHT)
_MERGES: Final = (Op.ADD, Op.MUL, Op.MAX, Op.MIN)


def _casts(floats_to_integers: Support) -> Iterator[tuple[tuple[DType, DType], Support]]:
    for source, target in product((*_PLAIN, *WIDE_FLOATS), repeat=2):
        saturates = source.is_float and target.is_integer
        yield (source, target), floats_to_integers if saturates else Support.TOTAL
    yield (DType.F16, DType.F32), Support.TOTAL
    yield (DType.F32, DType.F16), Support.TOTAL
    yield (DType.BF16, DType.F32), Support.TOTAL


def _capabilities(floats_to_integers: Support, vectors: Capabilities | None = None) -> Capabilities:
    operations = {
        **table(Support.TOTAL, (op for op in Op if op.info.domain is not Domain.FLOAT), _PLAIN),
        **table(Support.DEFINED, _TRAPPING, INTEGERS),
        # Where LLVM sees the count, it narrows products of 64 bits to their upper halves and moves these to and fro.
        **table(Support.TOTAL, (Op.BIT_RIGHT,), (DType.I64, DType.U64)),
        **table(Support.TOTAL, set(Op) - EXPANDED, WIDE_FLOATS),
    }
    merged = frozenset(product(_MERGES, (*_PLAIN, *WIDE_FLOATS)))
    return Capabilities(
        MappingProxyType(operations), MappingProxyType(dict(_casts(floats_to_integers))), merged, vectors
    )


CAPABILITIES: Final = _capabilities(Support.TOTAL, _capabilities(Support.DEFINED))
"""LLVM takes vectors apart for the intrinsic that converts floats to integers and saturates."""
