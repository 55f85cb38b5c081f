"""Operations of a back end, as data: the rows of this stage express all others by these."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.kinds import Hint


class Support(enum.Enum):
    """Operands for which an operation of a back end computes what :mod:`tileir.core.numbers.arithmetic` defines."""

    TOTAL = "total"  # for all
    DEFINED = "defined"
    """Operands for which C defines it: the result fits the type, no divisor is 0, counts of shifts are less than the
    width, and maxima and minima are of floats other than NaN, as with ``fmax`` and ``fmin``.
    """

    __hash__ = object.__hash__


@attrs.frozen(eq=False)
class Capabilities:
    """The operations of a back end; missing operations are expressed by others, or refused.

    Every back end has constants, variables, array elements, selections (``COND``) of all dtypes, broadcasts, ramps and
    shuffles of the lanes that it accepts, and :class:`tileir.semtree.ir.Bitcast` between types of one width. Floats of
    16 bits and less may be represented by their bits.

    Attributes:
        operations: By operation and dtype of the operands.
        casts: By dtype before and after.
        reductions: Operations by which a vector of a dtype is merged.
        valued: Floats represented by their values only, such as in f32, whose bits are computed.
        vectors: Capabilities for several lanes; None if they are equal.
        hints: Classes of supported hints, such as :class:`tileir.semtree.ir.Prefetch`. Others, including those of later
            versions of tileir, are dropped.
    """

    operations: Mapping[tuple[Op, DType], Support]
    casts: Mapping[tuple[DType, DType], Support]
    reductions: frozenset[tuple[Op, DType]] = frozenset()
    vectors: Capabilities | None = None
    hints: tuple[type[Hint], ...] = ()
    valued: frozenset[DType] = frozenset()

    def of_lanes(self, lanes: int) -> Capabilities:
        """Return the capabilities for a number of lanes."""
        return self if lanes == 1 or self.vectors is None else self.vectors

    def with_operations(self, added: Mapping[tuple[Op, DType], Support]) -> Capabilities:
        """Return these capabilities with added or replaced operations."""
        return attrs.evolve(self, operations=MappingProxyType({**self.operations, **added}))

    def without(self, dropped: Iterable[tuple[Op, DType]]) -> Capabilities:
        """Return these capabilities without some operations."""
        gone = frozenset(dropped)
        return attrs.evolve(
            self, operations=MappingProxyType({key: how for key, how in self.operations.items() if key not in gone})
        )


INTEGERS: Final = tuple(dtype for dtype in DType if dtype.is_integer)
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)
WIDE_FLOATS: Final = (DType.F32, DType.F64)
"""Floats with arithmetic in back ends; narrower types are converted to f32, and rounded."""

_RING: Final = (Op.ADD, Op.SUB, Op.MUL, Op.NEG)
_DIVISIONS: Final = (Op.DIV, Op.MOD)
_SHIFTS: Final = (Op.BIT_LEFT, Op.BIT_RIGHT)
_CONNECTIVES: Final = (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR)
_OF_FLOATS: Final = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.NEG, *COMPARISONS)
_LIBRARY: Final = (Op.ABS, Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.MOD, Op.FMA)
"""Float functions that are exact, or rounded once, in the libraries of C-like languages."""


def table(support: Support, ops: Iterable[Op], dtypes: Iterable[DType]) -> dict[tuple[Op, DType], Support]:
    """Return entries of :attr:`Capabilities.operations`: each operation on each dtype."""
    return dict.fromkeys(product(ops, dtypes), support)


def casts(sources: Iterable[DType], targets: Iterable[DType]) -> dict[tuple[DType, DType], Support]:
    """Return entries of :attr:`Capabilities.casts`: C defines floats as integers if these are large enough."""
    pairs = product(sources, targets)
    return {(s, t): Support.DEFINED if s.is_float and t.is_integer else Support.TOTAL for s, t in pairs}


_PLAIN: Final = (DType.BOOL, *INTEGERS, *WIDE_FLOATS)
_UNSIGNED: Final = (DType.U32, DType.U64)
_WIDE: Final = (DType.I32, DType.I64, *_UNSIGNED)
_KEPT_BY_NOT: Final = tuple(dtype for dtype in (DType.BOOL, *INTEGERS) if dtype not in (DType.U8, DType.U16))
"""Types that NOT keeps; others are promoted to ``int``, and the result is negative."""

C_LIKE: Final = Capabilities(
    MappingProxyType(
        {
            **table(Support.TOTAL, (*_CONNECTIVES, *COMPARISONS), (DType.BOOL, *INTEGERS)),
            **table(Support.TOTAL, (Op.BIT_NOT,), _KEPT_BY_NOT),
            **table(Support.DEFINED, (*_RING, *_DIVISIONS), INTEGERS),
            **table(Support.DEFINED, _SHIFTS, _WIDE),  # bits that narrower types lose on the left stay in an ``int``
            **table(Support.TOTAL, _RING, _UNSIGNED),
            **table(Support.TOTAL, (*_OF_FLOATS, *_LIBRARY), WIDE_FLOATS),
        }
    ),
    MappingProxyType(casts(_PLAIN, _PLAIN)),
)
"""Capabilities of C-like languages: operands of 8 and 16 bits become ``int``, and signed overflow is undefined."""
