"""Guards of partial tiles: both forms hold for the same values, and no sum overflows that did not."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.numbers.ranges import Range
from tileir.core.ops import Op
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import Apply, Const, Expr, KernelFunction, Type, Var
from tileir_emit.guards import guard

if TYPE_CHECKING:
    from collections.abc import Mapping

MEANING: Final = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.CMP_GE: operator.ge,
    Op.CMP_LT: operator.lt,
}
"""Operations on integers of Python, which do not overflow."""


def value_of(expr: Expr | None, variables: Mapping[str, int]) -> int:
    match expr:
        case Var(name=name):
            return variables[name]
        case Const(value=value):
            return int(value)
        case Apply(op=op, args=(left, right)):
            return int(MEANING[op](value_of(left, variables), value_of(right, variables)))
        case _:
            raise AssertionError(expr)


@examples(200)
@given(data=st.data())
def test_guards(data: st.DataObject) -> None:
    """Both forms hold for equal values, unless one overflows."""
    dtype = data.draw(st.sampled_from([DType.I32, DType.I64, DType.U32]))
    kind = Type(dtype)
    low = -99 if dtype.is_signed else 0
    values = {name: data.draw(st.integers(low, 99)) for name in "xy"}
    x, y, zero = Var("x", kind), Var("y", kind), Const(0, kind)
    ranges = Ranges.of(KernelFunction("k", (), ()))
    ranges.note(x, Range(low, 99))
    ranges.note(y, Range(low, 99))
    bound = Const(data.draw(st.integers(198 if low == 0 else low, 400)), kind)
    below = Apply(Op.CMP_GE, (Apply(Op.SUB, (Apply(Op.SUB, (bound, x)), y)), zero))
    found = guard(below, ranges)
    assert found == Apply(Op.CMP_LT, (Apply(Op.ADD, (x, y)), Const(bound.value + 1, kind)))
    assert value_of(below, values) == value_of(found, values)
    limit = Const(low, kind)
    above = Apply(Op.CMP_GE, (Apply(Op.SUB, (x, limit)), zero))
    found = guard(above, ranges)
    assert found == Apply(Op.CMP_GE, (x, limit))
    assert value_of(above, values) == value_of(found, values)


def test_sums_that_may_overflow_are_no_guards() -> None:
    kind = Type(DType.I32)
    x, y = Var("x", kind), Var("y", kind)
    rest = Apply(Op.SUB, (Apply(Op.SUB, (Const(5, kind), x)), y))
    assert guard(Apply(Op.CMP_GE, (rest, Const(0, kind))), Ranges.of(KernelFunction("k", (), ()))) is None
