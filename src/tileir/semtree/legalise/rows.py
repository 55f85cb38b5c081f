"""Which row expresses an operation, a conversion or a merge of lanes that a back end lacks."""

from __future__ import annotations

from typing import Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.functions.draft import Term
from tileir.semtree.ir import Shuffle
from tileir.semtree.legalise import float_rows, integer_rows, narrow_rows
from tileir.semtree.legalise.capabilities import Capabilities, Support
from tileir.semtree.legalise.float_rows import CLAMPED, OF_TRUTH, SATURATING, TRUTH, WIDENED
from tileir.semtree.legalise.integer_rows import OVERFLOWING, promoted, wrapping
from tileir.semtree.legalise.row import Drafting, Row, unsigned

_SAME: Final = Row("f(x) = x", lambda _, x: x)
_SAME_OF_INTEGERS: Final = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})
_CHOICES: Final = frozenset({Op.MAX, Op.MIN, Op.ABS})
"""Operations on small integers that are no shorter on wide ones."""


def operation_row(here: Capabilities, op: Op, dtype: DType) -> Row | None:
    """Return the row for an operation that a back end lacks, or has where C defines it only; None where there is none.

    Args:
        here: What the back end has for as many lanes.
        op: The operation, but ``COND``.
        dtype: That of the operands.

    """
    if op is Op.IDENT or (dtype.is_integer and op in _SAME_OF_INTEGERS):
        return _SAME
    if dtype.is_bool:
        return integer_rows.OF_BOOLS.get(op)
    if dtype.is_narrow:
        return narrow_rows.SPELT.get(op) or narrow_rows.computed_in_f32(op)
    if dtype.is_float:
        return float_rows.SPELT.get(op)
    defined = (op, dtype) in here.operations
    narrow = dtype.bits < 32 and (op, DType.I32) in here.operations
    if defined and op in OVERFLOWING:
        wraps = dtype.is_signed and here.operations.get((op, unsigned(dtype))) is Support.TOTAL
        return wrapping(op) if wraps else promoted(op) if narrow else None
    if defined:
        return integer_rows.GUARDED.get(op)
    return promoted(op) if narrow and op not in _CHOICES else integer_rows.SPELT.get(op)


def cast_row(here: Capabilities, source: DType, target: DType) -> Row | None:
    """Return the row for a conversion that a back end lacks, or has where C defines it only."""
    if target.is_bool:
        return narrow_rows.BY_F32 if source.is_narrow else TRUTH
    if source.is_bool:
        return OF_TRUTH
    if source.is_narrow or target.is_narrow:
        return narrow_rows.cast_row(source, target)
    if source.is_float and target.is_integer:
        defined = (source, target) in here.casts
        return SATURATING if defined else CLAMPED if target.bits < 32 else None
    return WIDENED if source.is_integer and source.bits < 32 and target.is_float else None


def bitcast_row(here: Capabilities, source: DType, target: DType) -> Row | None:
    """Return the row that reads or makes the bits of a float of which a back end has the value only."""
    return narrow_rows.OF_VALUE if source in here.valued else narrow_rows.TO_VALUE if target in here.valued else None


def reduction_row(op: Op) -> Row:
    """Return the row that merges one half of the lanes with the other, so that few operations wait for each other."""

    def spell(draft: Drafting, value: Term) -> Term:
        lanes = value.type.lanes
        if lanes == 1:
            return value
        value = draft.let("lanes", value)
        half = lanes // 2
        merged = _picked(value, 0, half).apply(op, _picked(value, half, half))
        merged = spell(draft, merged)
        return merged if lanes == 2 * half else merged.apply(op, _picked(value, lanes - 1, 1))

    return Row(f"reduce<{op.value}>(x) = reduce<{op.value}>({op.value}(lower half, upper half))", spell)


def _picked(value: Term, first: int, count: int) -> Term:
    return Term(Shuffle((value.expr,), tuple(range(first, first + count))))
