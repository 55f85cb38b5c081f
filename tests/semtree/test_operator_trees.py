"""Trees of operators in one text of Python, against one call for each operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.semtree_values import constants, special_values
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, cast
from tileir.core.numbers.number_system import REAL
from tileir.core.ops import Op
from tileir.semtree.interpret.evaluation import DEEPEST, ExpressionCompiler
from tileir.semtree.ir import Apply, Cast, Const, Expr, Type, Var

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

INTEGERS = [dtype for dtype in DType if dtype.is_integer]
ARITHMETIC = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.MAX, Op.MIN, Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR]
COMPARISONS = [op for op in Op if op.info.compares]


@st.composite
def trees(draw: DrawFn, dtype: DType, depth: int) -> Expr:
    """Draw integer expressions, with casts and choices, over variables that are named after their dtypes."""
    kind = Type(dtype)
    if depth == 0:
        return draw(st.one_of(st.sampled_from([Var(f"{dtype.value}_{name}", kind) for name in "xy"]), constants(kind)))
    match draw(st.sampled_from(["binary"] * 5 + ["negative", "cast", "choice"])):
        case "binary":
            op = draw(st.sampled_from(ARITHMETIC))
            return Apply(op, (draw(trees(dtype, depth - 1)), draw(trees(dtype, depth - 1))))
        case "negative":
            return Apply(Op.NEG, (draw(trees(dtype, depth - 1)),))
        case "cast":
            return Cast(draw(trees(draw(st.sampled_from(INTEGERS)), depth - 1)), kind)
        case _:
            other = draw(st.sampled_from(INTEGERS))
            sides = (draw(trees(other, depth - 1)), draw(trees(other, depth - 1)))
            test: Expr = Apply(draw(st.sampled_from(COMPARISONS)), sides)
            if draw(st.booleans()):
                test = Apply(draw(st.sampled_from([Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR])), (test, Const(True, test.type)))
            return Apply(Op.COND, (test, draw(trees(dtype, depth - 1)), draw(trees(dtype, depth - 1))))


def defined(expr: Expr, values: dict[str, int]) -> np.ndarray[Any, Any]:
    """Compute each operator by the definition."""
    match expr:
        case Const(value=value, type=kind):
            return np.asarray(value, kind.dtype.numpy)
        case Var(name=name, type=kind):
            return np.asarray(values[name], kind.dtype.numpy)
        case Cast(operand=operand, type=kind):
            return np.asarray(cast(defined(operand, values), kind.dtype))
        case Apply(op=op, args=args):
            return np.asarray(apply(op, *(defined(arg, values) for arg in args)))
        case _:
            raise AssertionError(expr)


def computed(expr: Expr, values: dict[str, int]) -> Any:
    compiler = ExpressionCompiler("k", False, REAL)
    function = compiler.evaluator(expr)
    frame: list[Any] = [0] * (compiler.frame_size + len(values))
    for name, value in values.items():
        frame[compiler.slot(name)] = value
    return function(frame)


@examples(300)
@given(data=st.data())
def test_trees_of_integers_are_those_of_the_definition(data: st.DataObject) -> None:
    expr = data.draw(trees(data.draw(st.sampled_from(INTEGERS)), data.draw(st.integers(1, 4))))
    values = {
        f"{dtype.value}_{name}": data.draw(st.sampled_from(special_values(dtype).tolist()))
        for dtype in INTEGERS
        for name in "xy"
    }
    with np.errstate(all="ignore"):
        found, wanted = computed(expr, values), defined(expr, values)
    assert type(found) is int
    assert found == wanted.item()


@pytest.mark.sampled(42)
@pytest.mark.parametrize("inner", INTEGERS)
@pytest.mark.parametrize("outer", INTEGERS)
def test_casts_of_casts_wrap_at_each(inner: DType, outer: DType) -> None:
    """Also where the outer one changes nothing."""
    for source in INTEGERS:
        expr = Cast(Cast(Cast(Var("x", Type(source)), Type(inner)), Type(inner)), Type(outer))
        for value in special_values(source).tolist():
            with np.errstate(all="ignore"):
                assert computed(expr, {"x": value}) == defined(expr, {"x": value}).item()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL])
def test_long_chains_wrap_as_their_parts_do(op: Op, dtype: DType) -> None:
    x = Var("x", Type(dtype))
    expr: Expr = x
    for number in range(4 * DEEPEST):
        expr = Apply(op, (expr, Const(number % 5 + 1, x.type)) if number % 2 else (x, expr))
    for value in special_values(dtype).tolist():
        with np.errstate(all="ignore"):
            assert computed(expr, {"x": value}) == defined(expr, {"x": value}).item()
