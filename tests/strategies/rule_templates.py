"""Expressions that the laws of the semtree's simplifier fit, for each dtype and number of lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.check.type_rules import expression_faults
from tileir.semtree.ir import Apply, Bitcast, Broadcast, Cast, Const, KernelFunction, Ramp, Reduce, Type, Var
from tileir.semtree.rewrite import walk
from tileir.semtree.simplify import conversion_rules, linear_rules, operation_rules
from tileir.semtree.simplify.expression_rules import CONVERSION_RULES, LANE_RULES, OPERATION_RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileir.core.nodes.rewrite import Rule
    from tileir.semtree.ir import Expr

    Builder = Callable[[Type], Expr]

ALL_RULES: Final = tuple(
    dict.fromkeys(rule for rules in (*OPERATION_RULES.values(), CONVERSION_RULES, LANE_RULES) for rule in rules)
)


def x(kind: Type) -> Var:
    return Var("x", kind)


def y(kind: Type) -> Var:
    return Var("y", kind)


def scalar(kind: Type) -> Var:
    return Var("s", Type(kind.dtype))


def truth(kind: Type) -> Var:
    return Var("t", kind.with_dtype(DType.BOOL))


def const(value: float, kind: Type) -> Const:
    return Const.of(value, kind)


def binary(op: Op, value: float) -> Builder:
    return lambda kind: Apply(op, (x(kind), const(value, kind)))


def both(op: Op) -> Builder:
    return lambda kind: Apply(op, (x(kind), x(kind)))


def cast_chain(inner: DType, outer: DType) -> Builder:
    return lambda kind: Cast(Cast(x(kind), kind.with_dtype(inner)), kind.with_dtype(outer))


def constants(op: Op, *values: float) -> Builder:
    return lambda kind: Apply(op, tuple(const(value, kind) for value in values[: op.info.arity]))


def converted(form: type[Cast | Bitcast], value: float, source: DType) -> Builder:
    return lambda kind: form(const(value, kind.with_dtype(source)), kind)


def constant_first(op: Op) -> Builder:
    return lambda kind: Apply(op, (const(3, kind), x(kind)))


def with_broadcast(op: Op) -> Builder:
    return lambda kind: Apply(op, (Broadcast(scalar(kind), kind.lanes), const(3, kind)))


def converted_broadcast(form: type[Cast | Bitcast], source: DType) -> Builder:
    return lambda kind: form(Broadcast(Var("s", Type(source)), kind.lanes), kind)


def nested(*ops: Op) -> Builder:
    def build(kind: Type) -> Expr:
        result: Expr = x(kind)
        for op in reversed(ops):
            result = Apply(op, (result,))
        return result

    return build


def not_compared(op: Op) -> Builder:
    return lambda kind: Apply(Op.BIT_NOT, (Apply(op, (x(kind), y(kind))),))


def truth_differs(value: float) -> Builder:
    return lambda kind: Apply(Op.CMP_NE, (Cast(truth(kind), kind), const(value, kind)))


COMPARISONS: Final = tuple(op for op in Op if op.info.compares)
ROUNDINGS: Final = (Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC)
DIVISORS: Final = (2.0, -4.0, 0.5, 2.0**-13, 2.0**-20, 2.0**14, 2.0**15, 2.0**120, 2.0**130, 3.0)

TEMPLATES: Final[dict[Rule[Any], tuple[Builder, ...]]] = {
    conversion_rules.fold_operation: tuple(
        constants(op, *values)
        for op in Op
        if op is not Op.COND
        for values in ((3, 2, 2), (-7, 0, 2), (0, -1, 2), (100, 100, 2))
    ),
    conversion_rules.fold_cast: tuple(
        converted(Cast, value, source) for source in DType for value in (3, -3, 0.75, 70000, -0.0)
    ),
    conversion_rules.fold_bitcast: tuple(
        converted(Bitcast, value, source) for source in DType for value in (3, -3, 0.75, -0.0)
    ),
    operation_rules.constant_to_the_right: tuple(constant_first(op) for op in Op if op.info.commutes),
    conversion_rules.same_cast: (lambda kind: Cast(x(kind), kind), lambda kind: Bitcast(x(kind), kind)),
    conversion_rules.cast_of_exact_cast: tuple(cast_chain(inner, outer) for inner in DType for outer in DType),
    conversion_rules.cast_of_wrapping_cast: tuple(cast_chain(inner, outer) for inner in DType for outer in DType),
    conversion_rules.fold_broadcast: (
        lambda kind: Broadcast(const(3, Type(kind.dtype)), kind.lanes),
        lambda kind: Broadcast(x(kind), 1),
    ),
    conversion_rules.flat_ramp: (
        lambda kind: Ramp(scalar(kind), 0, kind.lanes),
        lambda kind: Ramp(scalar(kind), 3, 1),
    ),
    conversion_rules.operation_on_broadcasts: tuple(with_broadcast(op) for op in Op if op.info.arity == 2),
    conversion_rules.cast_of_broadcast: tuple(
        converted_broadcast(form, source) for form in (Cast, Bitcast) for source in DType
    ),
    conversion_rules.reduction_of_broadcast: (
        lambda kind: Reduce(Op.MAX, Broadcast(scalar(kind), kind.lanes)),
        lambda kind: Reduce(Op.MIN, Broadcast(scalar(kind), kind.lanes)),
        lambda kind: Reduce(Op.ADD, x(kind)),
    ),
    operation_rules.unit_factor: (binary(Op.MUL, 1), binary(Op.DIV, 1)),
    operation_rules.float_zero: (binary(Op.SUB, 0.0), binary(Op.ADD, -0.0), binary(Op.ADD, 0.0)),
    operation_rules.power_of_two_divisor: tuple(binary(Op.DIV, value) for value in DIVISORS),
    operation_rules.unit_modulus: (binary(Op.MOD, 1),),
    operation_rules.double_negation: (nested(Op.NEG, Op.NEG), nested(Op.BIT_NOT, Op.BIT_NOT)),
    operation_rules.sign_under_abs: (nested(Op.ABS, Op.NEG), nested(Op.ABS, Op.ABS)),
    operation_rules.trivial_fma: (
        lambda kind: Apply(Op.FMA, (x(kind), const(1, kind), y(kind))),
        lambda kind: Apply(Op.FMA, (x(kind), const(-1, kind), y(kind))),
        lambda kind: Apply(Op.FMA, (x(kind), y(kind), const(-0.0, kind))),
        lambda kind: Apply(Op.FMA, (x(kind), y(kind), const(0.0, kind))),
    ),
    operation_rules.rounding_of_integers: tuple(map(nested, ROUNDINGS)),
    operation_rules.idempotence: tuple(map(both, (Op.MAX, Op.MIN, Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR))),
    operation_rules.neutral_bits: tuple(
        binary(op, value)
        for op in (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.BIT_LEFT, Op.BIT_RIGHT)
        for value in (0, 1, -1)
    ),
    operation_rules.compared_with_itself: tuple(map(both, COMPARISONS)),
    operation_rules.negated_comparison: tuple(map(not_compared, COMPARISONS)),
    operation_rules.comparison_with_truth: tuple(
        binary(op, value) for op in (Op.CMP_EQ, Op.CMP_NE) for value in (0, 1)
    ),
    operation_rules.truth_of_cast_truth: (truth_differs(0), truth_differs(1)),
    operation_rules.known_choice: (
        lambda kind: Apply(Op.COND, (const(1, kind.with_dtype(DType.BOOL)), x(kind), y(kind))),
        lambda kind: Apply(Op.COND, (const(0, kind.with_dtype(DType.BOOL)), x(kind), y(kind))),
        lambda kind: Apply(Op.COND, (truth(kind), x(kind), x(kind))),
        lambda kind: Apply(Op.COND, (truth(kind), const(1, kind), const(0, kind))),
    ),
    linear_rules.canonical_sum: (
        lambda kind: Apply(Op.ADD, (Apply(Op.ADD, (x(kind), const(1, kind))), const(2, kind))),
        lambda kind: Apply(Op.SUB, (x(kind), x(kind))),
        binary(Op.ADD, 0),
        binary(Op.MUL, 0),
        binary(Op.ADD, -5),
        binary(Op.MUL, -1),
        lambda kind: Apply(Op.SUB, (Apply(Op.NEG, (x(kind),)), Apply(Op.MUL, (y(kind), const(-3, kind))))),
        lambda kind: Apply(Op.SUB, (Apply(Op.NEG, (x(kind),)), Apply(Op.ADD, (y(kind), const(100, kind))))),
        lambda kind: Apply(Op.MUL, (Apply(Op.ADD, (x(kind), const(64, kind))), const(2, kind))),
        lambda kind: Apply(Op.MUL, (Apply(Op.MUL, (x(kind), const(16, kind))), const(8, kind))),
        lambda kind: Apply(Op.NEG, (Apply(Op.SUB, (const(7, kind), x(kind))),)),
        lambda kind: Apply(Op.NEG, (Apply(Op.MUL, (x(kind), const(3, kind))),)),
        lambda kind: Apply(Op.SUB, (x(kind), Apply(Op.MUL, (const(3, kind), x(kind))))),
        lambda kind: Apply(Op.SUB, (Apply(Op.ADD, (x(kind), const(2, kind))), const(2, kind))),
    ),
    linear_rules.ramp_sum: (
        lambda kind: Apply(Op.ADD, (Ramp(scalar(kind), 3, kind.lanes), const(100, kind))),
        lambda kind: Apply(Op.SUB, (Broadcast(scalar(kind), kind.lanes), Ramp(scalar(kind), 3, kind.lanes))),
        lambda kind: Apply(Op.SUB, (Ramp(scalar(kind), 3, kind.lanes), Ramp(scalar(kind), 100, kind.lanes))),
    ),
    linear_rules.ramp_multiple: (
        lambda kind: Apply(Op.MUL, (Ramp(scalar(kind), 3, kind.lanes), const(100, kind))),
        lambda kind: Apply(Op.MUL, (Ramp(scalar(kind), 3, kind.lanes), const(-3, kind))),
    ),
}


def is_legal(expr: Expr) -> bool:
    kernel = KernelFunction("k", (), ())
    nodes = tuple(walk(expr))
    if any(isinstance(node, Apply) and len(node.args) != node.op.info.arity for node in nodes):
        return False
    return not any(fault for node in nodes for fault in expression_faults(node, kernel))


def expressions(rule: Rule[Any]) -> Iterator[Expr]:
    """Yield the legal expressions among the templates of a rule."""
    for build in TEMPLATES[rule]:
        yield from filter(is_legal, (build(Type(dtype, lanes)) for dtype in DType for lanes in (1, 4)))


def instances(rule: Rule[Any]) -> Iterator[tuple[Expr, Expr]]:
    """Yield what the rule matches among its templates, and what it makes of it."""
    for expr in expressions(rule):
        if (new := rule(expr)) is not None:
            yield expr, new
