"""Guards of partial tiles in readable form, for languages that people read."""

from __future__ import annotations

from tileir.core import Op
from tileir.semtree.analysis.ranges import Ranges, is_defined
from tileir.semtree.ir import Apply, Const, Expr


def guard(expr: Apply, ranges: Ranges) -> Apply | None:
    """Apply ``c - x - y >= 0`` → ``x + y < c + 1`` and ``x - c >= 0`` → ``x >= c`` if no sum overflows.

    Generated guards have the first forms; the second forms are readable. Differences do not overflow.
    """
    match expr:
        case Apply(op=Op.CMP_GE, args=(Apply(op=Op.SUB, args=(x, Const() as c)), Const(value=0))):
            return Apply(Op.CMP_GE, (x, c))
        case Apply(op=Op.CMP_GE, args=(Apply(op=Op.SUB) as left, Const(value=0, type=kind))) if kind.lanes == 1:
            terms: list[Expr] = []
            rest: Expr = left
            while isinstance(rest, Apply) and rest.op is Op.SUB:
                rest, term = rest.args
                terms.insert(0, term)
            if not isinstance(rest, Const) or rest.value >= kind.dtype.maximum:
                return None
            total, *others = terms
            for term in others:
                if not is_defined(Op.ADD, kind.dtype, (ranges.at(total), ranges.at(term))):
                    return None
                total = Apply(Op.ADD, (total, term))
            return Apply(Op.CMP_LT, (total, Const(rest.value + 1, kind)))
        case _:
            return None
