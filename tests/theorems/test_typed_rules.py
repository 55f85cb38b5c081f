"""Laws of the typed simplifier: proved by z3 for integers of every width, tried on all halves for floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.expressions import chains, difference, trees
from strategies.smt import counterexample, is_integral
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Cast, Const, Expr, Type, Var
from tileir.semtree.rewrite import walk
from tileir.semtree.text.printer import expr_text
from tileir.typed import ir as typed
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Iterable


@attrs.define
class Writer:
    """The operations of a typed function that computes an expression."""

    operations: list[typed.Operation] = attrs.field(factory=list)

    def value(self, expr: Expr) -> str:
        if isinstance(expr, Var):
            return expr.name
        name = f"v{len(self.operations)}"
        made: typed.Operation
        match expr:
            case Const(value=value, type=kind):
                made = typed.Constant(name, kind.dtype, value)
            case Cast(operand=operand, type=kind):
                source = self.value(operand)
                name = f"v{len(self.operations)}"
                made = typed.Cast(name, source, kind.dtype, ())
            case Apply(op=op, args=args):
                inputs = tuple([self.value(arg) for arg in args])
                name = f"v{len(self.operations)}"
                made = typed.Elementwise(name, op, inputs, expr.type.dtype, ())
            case _:
                raise TypeError(expr)
        self.operations.append(made)
        return name


def function_of(expr: Expr) -> typed.Function:
    writer = Writer()
    names = {node.name: node.type.dtype for node in walk(expr) if isinstance(node, Var)}
    result = writer.value(expr)
    copy = typed.Elementwise("result", Op.IDENT, (result,), expr.type.dtype, ())
    inputs = tuple(typed.Value(name, dtype, ()) for name, dtype in sorted(names.items()))
    return typed.Function(inputs, ("result",), (*writer.operations, copy))


def expression_of(function: typed.Function) -> Expr:
    known: dict[str, Expr] = {value.name: Var(value.name, Type(value.dtype)) for value in function.inputs}
    for operation in function.operations:
        match operation:
            case typed.Constant(name=name, dtype=dtype, value=value):
                known[name] = Const(value, Type(dtype))
            case typed.Cast(name=name, input=source, dtype=dtype):
                known[name] = Cast(known[source], Type(dtype))
            case typed.Elementwise(name=name, op=op, inputs=inputs):
                known[name] = Apply(op, tuple(known[each] for each in inputs))
            case _:
                raise TypeError(operation)
    return known[function.outputs[0]]


def prove(expressions: Iterable[Expr]) -> int:
    """Prove that simplified functions compute the same; return how many became simpler."""
    faults, applied = [], 0
    for expr in expressions:
        new = expression_of(simplify(function_of(expr)))
        if new in (expr, Apply(Op.IDENT, (expr,))):
            continue
        applied += 1
        found = counterexample(expr, new) if is_integral(expr) and is_integral(new) else difference(expr, new)
        faults += [f"{expr_text(expr)} is not {expr_text(new)} for {found}"] if found else []
    assert faults[:10] == []
    return applied


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DType, ids=str)
def test_rules_keep_every_value(dtype: DType) -> None:
    assert prove(trees(dtype, deeper=60)) > 30


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", DType, ids=str)
def test_conversions_by_way_of_another_type(source: DType) -> None:
    assert prove(chains(source)) > 5
