"""Offsets of array elements as sums: what makes them short to read, and what tells apart the elements they address.

An offset cannot overflow where the program is right, so sums of signed integers may be put together anew.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Broadcast, Const, Ramp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.semtree.ir import Expr

LANE: Final = "lane"
"""Stands among the terms for the number of the lane."""

_WIDE: Final = frozenset({DType.I32, DType.I64})


@attrs.frozen
class Sum:
    """``constant`` plus each term times its factor, none of which is 0; terms in the order of their first use."""

    constant: int
    terms: Mapping[Expr | Literal["lane"], int]

    def minus(self, other: Sum) -> int | None:
        """Return the difference where it is a constant, else None."""
        return self.constant - other.constant if dict(self.terms) == dict(other.terms) else None

    def without_lane(self) -> Sum:
        """Return the offset of lane 0."""
        return Sum(self.constant, MappingProxyType({term: by for term, by in self.terms.items() if term != LANE}))

    @property
    def step(self) -> int:
        """The distance between the offsets of neighbouring lanes, as far as it shows."""
        return self.terms.get(LANE, 0)


def sum_of(offset: Expr) -> Sum:
    """Return an integer expression as a sum; what is not one itself is a single term of it."""
    constant = 0
    terms: dict[Expr | Literal["lane"], int] = {}
    for term, factor in _terms(offset, 1):
        if term is None:
            constant += factor
        else:
            terms[term] = terms.get(term, 0) + factor
    return Sum(constant, MappingProxyType({term: factor for term, factor in terms.items() if factor}))


def _terms(expr: Expr, factor: int) -> Iterator[tuple[Expr | Literal["lane"] | None, int]]:
    """Yield terms with their factors from left to right; None is the term 1."""
    match expr:
        case Const(value=value):
            yield None, int(value) * factor
        case Broadcast(operand=operand):
            yield from _terms(operand, factor)
        case Ramp(base=base, stride=stride) if base.type.dtype in _WIDE:
            yield from _terms(base, factor)
            yield LANE, stride * factor
        case Apply(op=Op.ADD, args=(left, right)) if expr.type.dtype in _WIDE:
            yield from _terms(left, factor)
            yield from _terms(right, factor)
        case Apply(op=Op.SUB, args=(left, right)) if expr.type.dtype in _WIDE:
            yield from _terms(left, factor)
            yield from _terms(right, -factor)
        case Apply(op=Op.NEG, args=(operand,)) if expr.type.dtype in _WIDE:
            yield from _terms(operand, -factor)
        case Apply(op=Op.MUL, args=(left, Const(value=value))) if expr.type.dtype in _WIDE:
            yield from _terms(left, factor * int(value))
        case Apply(op=Op.MUL, args=(Const(value=value), right)) if expr.type.dtype in _WIDE:
            yield from _terms(right, factor * int(value))
        case _:
            yield expr, factor
