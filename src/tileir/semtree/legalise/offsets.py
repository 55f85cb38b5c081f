"""Offsets of array elements as sums, for short text and for the distance between elements.

An offset cannot overflow in a correct program, so sums of signed integers may be reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

from tileir.core import DType, Op, attrs
from tileir.semtree.ir import Apply, Broadcast, Cast, Const, Expr, Ramp, Subscript, Type
from tileir.semtree.rewrite import children, with_children

LANE: Final = "lane"
"""The term for the number of the lane."""

OFFSET: Final = Type(DType.I64)
"""Dtype of reassociated sums: the old order may be what kept i32 from overflowing."""

_WIDE: Final = frozenset({DType.I32, DType.I64})


@attrs.frozen
class Sum:
    """``constant`` plus each term times its nonzero factor, in the order of the terms' first use."""

    constant: int
    terms: Mapping[Expr | Literal["lane"], int]

    def minus(self, other: Sum) -> int | None:
        """Return the difference if it is a constant, else None."""
        return self.constant - other.constant if dict(self.terms) == dict(other.terms) else None

    def without_lane(self) -> Sum:
        """Return the offset of lane 0."""
        return Sum(self.constant, MappingProxyType({term: by for term, by in self.terms.items() if term != LANE}))

    @property
    def step(self) -> int:
        """The distance between the offsets of neighbouring lanes, as far as it is visible."""
        return self.terms.get(LANE, 0)

    def expression(self, one: Callable[[Expr], Expr], lane: Expr | None = None) -> Expr:
        """Return the sum as an expression: terms as ``one`` returns them, then the constant, then ``lane``."""
        parts = [(factor, one(term)) for term, factor in self.terms.items() if not isinstance(term, str)]
        if not self.constant and not self.step and len(parts) == 1 and parts[0][0] == 1:
            return parts[0][1]
        scaled = [(factor, part if part.type == OFFSET else Cast(part, OFFSET)) for factor, part in parts]
        if self.constant or not self.terms:
            scaled.append((self.constant, Const(1, OFFSET)))
        if self.step and lane is not None:
            scaled.append((self.step, lane))
        scaled.sort(key=lambda part: part[0] < 0)  # nothing has to be negated that can be subtracted
        total: Expr | None = None
        for factor, part in scaled:
            size = _scaled(part, abs(factor) if total is not None else factor)
            total = size if total is None else Apply(Op.SUB if factor < 0 else Op.ADD, (total, size))
        assert total is not None
        return total


def _scaled(value: Expr, factor: int) -> Expr:
    if isinstance(value, Const):
        return Const(int(value.value) * factor, value.type)
    return value if factor == 1 else Apply(Op.MUL, (value, Const(factor, value.type)))


def offset_of(place: Subscript) -> Sum:
    """Return the offset of the element of a lane."""
    total = sum_of(place.offset)
    if place.type.lanes == 1 or place.offset.type.lanes > 1:
        return total
    return Sum(total.constant, {**total.terms, LANE: 1})


def ramp_of(offset: Expr) -> tuple[Expr, int] | None:
    """Return the offset of lane 0, its terms in order, and the distance to the next lane; None if it varies.

    A scalar offset is that of the first of contiguous elements.
    """
    match offset:
        case _ if offset.type.lanes == 1:
            return offset, 1
        case Ramp(base=base, stride=stride) if base.type.dtype in _WIDE:
            return base, stride
        case Broadcast(operand=operand):
            return operand, 0
    total = sum_of(offset)
    even = all(isinstance(term, str) or term.type.lanes == 1 for term in total.terms)
    return (_first_lane(offset), total.step) if even else None


def _first_lane(offset: Expr) -> Expr:
    match offset:
        case Broadcast(operand=first) | Ramp(base=first):
            return first
        case Const(value=value, type=kind):
            return Const(value, Type(kind.dtype))
        case _:
            return with_children(offset, tuple(map(_first_lane, children(offset))))


def sum_of(offset: Expr) -> Sum:
    """Return an integer expression as a sum; any other expression is a single term."""
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
