"""Simplification laws of expressions, by the kind of their node.

The tests prove every rule by the interpreter, over all dtypes that it claims.

Most are laws of :mod:`tileir.core.nodes.patterns`, which become rules of expressions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, attrs, fits
from tileir.core.nodes.patterns import Law, Scalar
from tileir.core.nodes.rewrite import Rule
from tileir.semtree.ir import Apply, Bitcast, Broadcast, Cast, Const, Expr, Ramp, Reduce
from tileir.semtree.simplify.conversion_rules import (
    cast_of_broadcast,
    cast_of_exact_cast,
    cast_of_wrapping_cast,
    flat_ramp,
    fold_bitcast,
    fold_broadcast,
    fold_cast,
    fold_operation,
    operation_on_broadcasts,
    reduction_of_broadcast,
    same_cast,
)
from tileir.semtree.simplify.linear_rules import canonical_sum, ramp_multiple, ramp_sum
from tileir.semtree.simplify.operation_rules import (
    compared_with_itself,
    comparison_with_truth,
    constant_to_the_right,
    double_negation,
    float_zero,
    idempotence,
    known_choice,
    negated_comparison,
    neutral_bits,
    power_of_two_divisor,
    rounding_of_integers,
    sign_under_abs,
    trivial_fma,
    truth_of_cast_truth,
    unit_factor,
    unit_modulus,
)

_EVERY_OPERATION: Final = (fold_operation, operation_on_broadcasts)
_ON_BITS: Final = (constant_to_the_right, neutral_bits, idempotence)
_ON_COMPARISONS: Final = (constant_to_the_right, compared_with_itself, comparison_with_truth, truth_of_cast_truth)

OPERATION_RULES: Final[Mapping[Op, tuple[Rule[Expr], ...]]] = MappingProxyType(
    {
        **dict.fromkeys(Op, _EVERY_OPERATION),
        **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), (*_EVERY_OPERATION, rounding_of_integers)),
        **{op: (*_EVERY_OPERATION, *_ON_COMPARISONS) for op in Op if op.info.compares},
        **dict.fromkeys((Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR), (*_EVERY_OPERATION, *_ON_BITS)),
        **dict.fromkeys((Op.BIT_LEFT, Op.BIT_RIGHT), (*_EVERY_OPERATION, neutral_bits)),
        **dict.fromkeys((Op.MAX, Op.MIN), (*_EVERY_OPERATION, idempotence)),
        Op.IDENT: (*_EVERY_OPERATION, rounding_of_integers),
        Op.ADD: (*_EVERY_OPERATION, constant_to_the_right, float_zero, ramp_sum, canonical_sum),
        Op.SUB: (*_EVERY_OPERATION, float_zero, ramp_sum, canonical_sum),
        Op.MUL: (*_EVERY_OPERATION, constant_to_the_right, unit_factor, ramp_multiple, canonical_sum),
        Op.NEG: (*_EVERY_OPERATION, double_negation, canonical_sum),
        Op.DIV: (*_EVERY_OPERATION, unit_factor, power_of_two_divisor),
        Op.MOD: (*_EVERY_OPERATION, unit_modulus),
        Op.ABS: (*_EVERY_OPERATION, sign_under_abs),
        Op.FMA: (*_EVERY_OPERATION, trivial_fma),
        Op.BIT_NOT: (*_EVERY_OPERATION, double_negation, negated_comparison),
        Op.COND: (*_EVERY_OPERATION, known_choice),
    }
)
"""Rules for an operation; the first rule that fits wins."""

CONVERSION_RULES: Final = (
    fold_cast,
    fold_bitcast,
    same_cast,
    cast_of_broadcast,
    cast_of_exact_cast,
    cast_of_wrapping_cast,
)
LANE_RULES: Final = (fold_broadcast, flat_ramp, reduction_of_broadcast)


def rules_for(expr: Expr) -> tuple[Rule[Expr], ...]:
    """Return the rules that may apply to a node."""
    match expr:
        case Apply(op=op):
            return OPERATION_RULES[op]
        case Cast() | Bitcast():
            return CONVERSION_RULES
        case Broadcast() | Ramp() | Reduce():
            return LANE_RULES
        case _:
            return ()


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
