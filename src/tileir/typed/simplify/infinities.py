"""Infinite operands of sums of products and of extrema, when an operand is factored out of an aggregate.

``+(A[i] * B[k])`` is ``A[i] * S[i]`` with the sum S of B, for finite ``A[i]``. An infinite one makes all terms
infinite, and their sum is NaN unless all B have one sign, which the least and the greatest B tell. If S overflows, B is
summed again in a scale that avoids this, and the products are scaled back. ``>(A[i] + B[k])`` is ``A[i]`` plus the
greatest B, except that an infinity that meets the opposite one also meets the least B.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isinf
from typing import Final

import numpy as np

from tileir.core import Aggregation, DType, NameScope, Op, attrs
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Operation,
    Reshape,
    Value,
)

_DEPTH: Final = 8

_KEEPS: Final = frozenset({Op.IDENT, Op.NEG, Op.ABS, Op.MAX, Op.MIN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.COND})
"""Operations whose results are never infinite if no operand is."""

_WIDE: Final = frozenset({DType.BF16, DType.F32, DType.F64})
"""Types of floats that hold the magnitude of every integer."""

_SCALE: Final = 2.0**64
"""Divisor of terms whose sum overflows: no sum exceeds the range of a dtype by a greater factor."""


def never_infinite(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> bool:
    """Return whether no element of a value is infinite for any inputs; False if that is not obvious."""
    value = definitions[name]
    if not value.dtype.is_float:
        return True
    match value:
        case Constant(value=number):
            return not isinf(number)
        case ArrayConstant(value=array):
            return not bool(np.isinf(array.numpy().astype(np.float64)).any())
        case Coordinate():
            return True
        case Reshape(input=source) if depth:
            return never_infinite(source, definitions, depth - 1)
        case Cast(input=source) if depth:
            wide = value.dtype.holds(definitions[source].dtype)
            if not definitions[source].dtype.is_float:
                return wide or value.dtype in _WIDE
            return wide and never_infinite(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth:
            known = (never_infinite(each, definitions, depth - 1) for each in inputs)
            return op.info.bounded or (op in _KEEPS and all(known))
        case _:
            return False


def with_products(
    first: Contraction,
    last: Contraction,
    stays: int,
    values: tuple[Value | Operation, Value | Operation],
    names: NameScope,
    *,
    overflows: bool,
) -> list[Operation]:
    """Return operations that compute sums of products, the sums last, under a new name.

    Args:
        first: The sums of the varying operand.
        last: Their products with the invariant operand, correct if nothing is infinite or overflows.
        stays: The number of the invariant operand of ``last``.
        values: The varying operand and the invariant one.
        names: Names in use.
        overflows: Whether sums of finite values of the varying operand may be infinite.
    """
    steps = _Steps(last, stays, names)
    moving, staying = values
    zero, one, minus, infinity = map(steps.constant, (0.0, 1.0, -1.0, inf))
    unbounded = steps.elementwise(Op.CMP_EQ, steps.elementwise(Op.ABS, staying), infinity)
    sign = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_LT, staying, zero), minus, one)
    bounded = steps.elementwise(Op.COND, unbounded, sign, staying)
    if overflows:
        finite = steps.elementwise(Op.CMP_LT, steps.elementwise(Op.ABS, first), infinity)
        scaled = steps.elementwise(Op.MUL, moving, steps.constant(1 / _SCALE))
        small = steps.aggregate(attrs.evolve(first, inputs=(Access(scaled.name, first.inputs[0].indices),)))
        total = steps.products(steps.elementwise(Op.COND, finite, first, zero), bounded)
        beyond = steps.products(steps.elementwise(Op.COND, finite, zero, small), bounded)
        total = steps.elementwise(Op.ADD, total, steps.elementwise(Op.MUL, beyond, steps.constant(_SCALE)))
    else:
        total = steps.products(first, bounded)
    least, greatest = (
        steps.aggregate(attrs.evolve(first, aggregation=each)) for each in (Aggregation.MIN, Aggregation.MAX)
    )
    # 1 or -1 if all terms have that sign, otherwise 0, which makes NaN with infinity.
    common = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_LT, greatest, zero), minus, zero)
    common = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_GT, least, zero), one, common)
    beside = steps.products(common, steps.elementwise(Op.COND, unbounded, staying, zero))
    steps.elementwise(Op.ADD, total, beside)
    return steps.made


def with_extremes(
    first: Contraction, last: Contraction, stays: int, staying: Value | Operation, names: NameScope
) -> list[Operation]:
    """Return operations that compute extrema of sums, the extrema last, under a new name; arguments as above."""
    steps = _Steps(last, stays, names)
    greatest = first.aggregation is Aggregation.MAX
    opposite = steps.aggregate(attrs.evolve(first, aggregation=Aggregation.MIN if greatest else Aggregation.MAX))
    pair = steps.products(first, staying), steps.products(opposite, staying)
    steps.elementwise(Op.MAX if greatest else Op.MIN, *pair)
    return steps.made


@attrs.define(eq=False, repr=False)
class _Steps:
    """Builder of operations in the dtype of ``last``, which combines an aggregate with the invariant operand."""

    last: Contraction
    stays: int
    names: NameScope
    made: list[Operation] = attrs.field(factory=list, init=False)

    def constant(self, value: float) -> Operation:
        return self._add(Constant(self.names.fresh("constant"), self.last.dtype, value, span=self.last.span))

    def elementwise(self, op: Op, *inputs: Value | Operation) -> Operation:
        """Compute an elementwise operation on values of one shape or scalars."""
        dtype = DType.BOOL if op.info.compares else self.last.dtype
        shape = max((each.shape for each in inputs), key=len)
        names = tuple(each.name for each in inputs)
        return self._add(Elementwise(self._name(), op, names, dtype, shape, span=self.last.span))

    def aggregate(self, contraction: Contraction) -> Operation:
        return self._add(attrs.evolve(contraction, name=self._name()))

    def products(self, part: Operation, staying: Value | Operation) -> Operation:
        """Combine an aggregate with the invariant operand."""
        pair = (staying, part) if self.stays == 0 else (part, staying)
        inputs = tuple(Access(new.name, old.indices) for new, old in zip(pair, self.last.inputs, strict=True))
        return self._add(attrs.evolve(self.last, name=self._name(), inputs=inputs))

    def _name(self) -> str:
        return self.names.fresh(f"{self.last.name}_part")

    def _add(self, operation: Operation) -> Operation:
        self.made.append(operation)
        return operation
