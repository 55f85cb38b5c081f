"""Laws of :mod:`tileir.core.patterns` as rules of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.arithmetic import fits
from tileir.core.ops import Op
from tileir.core.rewrite import Rule
from tileir.semtree.ir import Apply, Const

if TYPE_CHECKING:
    from tileir.core.dtype import DType
    from tileir.core.patterns import Law, Scalar
    from tileir.semtree.ir import Expr


def rule_of(law: Law) -> Rule[Expr]:
    """Return a law as a rule of :func:`tileir.semtree.simplify.simplifier.simplify`."""

    def apply(expr: Expr) -> Expr | None:
        new = law.rewritten(_Terms(), expr)
        return new if new is not None and new.type == expr.type else None

    return Rule(law.text, apply)


@attrs.frozen(repr=False)
class _Terms:
    """Expressions, which are values themselves."""

    def operation(self, value: Expr) -> tuple[Op, tuple[Expr, ...]] | None:
        return (value.op, value.args) if isinstance(value, Apply) else None

    def number(self, value: Expr) -> Scalar | None:
        return value.value if isinstance(value, Const) else None

    def dtype(self, value: Expr) -> DType:
        return value.type.dtype

    def apply(self, op: Op, operands: tuple[Expr, ...]) -> Expr | None:
        typed = operands[1:] if op is Op.COND else operands
        kind = typed[0].type
        if any(each.type != kind for each in typed) or not op.works_on(kind.dtype):
            return None
        if op is Op.COND and operands[0].type != kind.with_dtype(type(kind.dtype).BOOL):
            return None
        return Apply(op, operands)

    def constant(self, number: int | float, like: Expr) -> Expr | None:
        dtype = like.type.dtype
        if dtype.is_bool or dtype.is_storage or not fits(number, dtype):
            return None
        return Const.of(number, like.type)
