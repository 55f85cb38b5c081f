"""The derivative of every elementwise operation: against finite differences, and at special points."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.ops import COMPUTING, Op
from tileir.tile.text.parser import parse
from tileir.typed.derivatives.elementwise import PARTIALS
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Elementwise, Function, TensorType, Value
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify
from tileir_testing.gradients import check_gradients

CONSTANT: Final = {
    Op.BIT_NOT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.BIT_LEFT, Op.BIT_RIGHT,
    Op.CMP_EQ, Op.CMP_NE, Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE,
}  # fmt: skip
"""Operations that are constant between their jumps."""

ANYWHERE: Final = np.array([-2.3, -1.4, -0.45, 0.3, 0.8, 1.7])
INSIDE: Final = np.array([-0.9, -0.35, 0.2, 0.75])
POSITIVE: Final = np.array([0.15, 0.6, 1.3, 4.2])
COLUMN: Final = np.array([[0.7], [-1.2], [2.1]])

UNARY: Final = {
    **dict.fromkeys(("ident", "neg", "abs", "exp", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"), ANYWHERE),
    **dict.fromkeys(("sigmoid", "erf", "relu", "recip", "sign", "floor", "round"), ANYWHERE),
    **dict.fromkeys(("asin", "acos"), INSIDE),
    **dict.fromkeys(("sqrt", "rsqrt", "log"), POSITIVE),
}


def partials_of(text: str, *values: float, ties: str = "all") -> list[float]:
    """Return the partial derivatives of an expression of A, B, … at one point."""
    names = "ABC"[: len(values)]
    attribute = "" if ties == "all" else f"[[ties({ties})]] "
    results = "".join(f"R{name} = element(G, {place}); " for place, name in enumerate(names))
    outputs = ", ".join(f"R{name}" for name in names)
    function = (
        f"function ({', '.join(names)}) -> ({outputs}) {{ Y = {text}; "
        f"{attribute}G = gradient(Y, {', '.join(names)}{', Y' if len(names) == 1 else ''}); {results}}}"
    )
    found = tileir.evaluate(function, [np.float64(value) for value in values])
    return [float(value) for value in (found if isinstance(found, tuple) else (found,))]


def test_every_operation_has_a_rule_or_is_constant() -> None:
    assert PARTIALS.keys() | CONSTANT == set(COMPUTING)  # derivatives by the bits of a number are refused
    assert PARTIALS.keys() & CONSTANT == set()
    assert all(len(row) == op.info.arity for op, row in PARTIALS.items())


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name: str) -> None:
    check_gradients(f"function (X) -> (Y) {{ Y = {name}(X); }}", UNARY[name], order=2)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", ["A + B", "A - B", "A * B", "A / B", "max(A, B)", "min(A, B)", "mod(A, B)"])
def test_functions_of_two_arguments(text: str) -> None:
    check_gradients(f"function (A, B) -> (Y) {{ Y = {text}; }}", (COLUMN, ANYWHERE), order=2)
    check_gradients(f"function (A, B) -> (Y) {{ Y = {text}; }}", (ANYWHERE, COLUMN), order=2)


@pytest.mark.parametrize("text", ["A * A", "A + A * A", "A / A", "A - A", "max(A, 0.5)", "2.0 / A", "A * -1.0"])
def test_functions_of_one_argument_twice(text: str) -> None:
    check_gradients(f"function (A) -> (Y) {{ Y = {text}; }}", ANYWHERE, order=2)


def test_powers() -> None:
    check_gradients("function (A, B) -> (Y) { Y = pow(A, B); }", (POSITIVE, COLUMN), order=2)
    check_gradients("function (A, B) -> (Y) { Y = pow(A, B); }", (POSITIVE, np.array([0.0, 1.0, 2.0, -1.0])), order=2)


@pytest.mark.parametrize("exponent", ["0", "1", "2", "3", "-2", "0.5", "2.5"])
def test_powers_with_a_known_exponent(exponent: str) -> None:
    negative = "." not in exponent
    check_gradients(f"function (A) -> (Y) {{ Y = pow(A, {exponent}); }}", ANYWHERE if negative else POSITIVE, order=2)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_powers_of_zero_and_of_negative_numbers(exponent: float) -> None:
    check_gradients("function (A, B) -> (Y) { Y = pow(A, B); }", (np.array([0.0, -1.5]), exponent), wrt="A", order=2)


def test_choices() -> None:
    text = "function (A, B) -> (Y) { Y = A < B * B ? A * B : sin(A); }"
    check_gradients(text, (COLUMN, ANYWHERE), order=2)


def test_broadcasts_are_undone() -> None:
    inputs = {"A": np.array(0.7), "B": COLUMN, "C": np.ones((1, 1, 4)) * 0.3, "D": np.array([0.1, 0.2, 0.3, 0.4])}
    check_gradients("function (A, B, C, D) -> (Y) { Y = A * B + C * D / A; Z = A + B; }", inputs, order=2)
    check_gradients("function (A, B, C, D) -> (Y) { Y = (A + B) + (C - D); }", inputs)


@pytest.mark.parametrize("bits", [16, 32])
def test_fused_multiplication(bits: int) -> None:
    dtype = DType(f"f{bits}")
    inputs = tuple(Value(name, dtype, (2,)) for name in "ABC")
    function = Function(inputs, ("Y",), (Elementwise("Y", Op.FMA, ("A", "B", "C"), dtype, (2,)),))
    made = gradient(function, "ABC", ("Y",), even_ties=False)
    verify(made)
    values = {name: np.array([k, k + 1], dtype.numpy) for k, name in enumerate("ABC")}
    found = interpret(made, values)
    assert [list(value) for value in found.values()] == [[1, 2], [0, 1], [1, 1]]
    assert {value.dtype for value in found.values()} == {dtype.numpy}


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("max(A, B)", (1, 1), [1, 0]),
        ("min(A, B)", (1, 1), [0, 1]),
        ("max(A, B)", (-math.inf, 1), [0, 1]),
        ("abs(A)", (0,), [1]),
        ("abs(A)", (-math.inf,), [-1]),
        ("relu(A)", (0,), [0]),
        ("A < 0 ? 0 : A", (0,), [0]),
        ("sign(A)", (0,), [0]),
        ("sqrt(A)", (0,), [math.inf]),
        ("rsqrt(A)", (math.inf,), [0]),
        ("rsqrt(A) * B", (1e-300, 0), [0, 1e150]),
        ("exp(A)", (-math.inf,), [0]),
        ("tanh(A)", (math.inf,), [0]),
        ("sigmoid(A)", (-math.inf,), [0]),
        ("erf(A)", (math.inf,), [0]),
        ("atan(A)", (math.inf,), [0]),
        ("A / B", (3, math.inf), [0, 0]),
        ("mod(A, B)", (7.5, 2), [1, -3]),
        ("mod(A, B)", (-7.5, 2), [1, 3]),
        ("pow(A, B)", (0, 2), [0, 0]),
        ("pow(A, B)", (0, 1), [1, 0]),
        ("pow(A, B)", (0, 0), [0, 0]),
        ("pow(A, B)", (0, 0.5), [math.inf, 0]),
        ("pow(A, B)", (2, 0), [0, math.log(2)]),
        ("pow(A, 2)", (0,), [0]),
        ("pow(A, 0)", (0,), [0]),
        ("cond(A < B, A, B)", (1, 1), [0, 1]),
        ("floor(A) * A", (1.5,), [1]),
    ],
)
def test_special_points(text: str, values: tuple[float, ...], expected: list[float]) -> None:
    assert partials_of(text, *values) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("max(A, B)", (1, 1), [0.5, 0.5]),
        ("min(A, B)", (1, 1), [0.5, 0.5]),
        ("max(A, B)", (1, 2), [0, 1]),
        ("min(A, B)", (1, 2), [1, 0]),
        ("min(A, B)", (2, 1), [0, 1]),
        ("abs(A)", (0,), [0]),
        ("abs(A)", (-2,), [-1]),
        ("relu(A)", (0,), [0.5]),
        ("relu(A)", (2,), [1]),
        ("relu(A)", (-2,), [0]),
    ],
)
def test_ties_can_be_split_evenly(text: str, values: tuple[float, ...], expected: list[float]) -> None:
    assert partials_of(text, *values, ties="even") == expected


@pytest.mark.parametrize("op", ["max", "min"])
def test_not_a_number_is_the_operand_that_the_result_is(op: str) -> None:
    gradients = partials_of(f"{op}(A, B)", math.nan, 1.0)
    assert sum(gradients) == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A + B", 0),
        ("A - B", 0),
        ("A * B", 0),
        ("-A * B", 1),
        ("exp(A)", 1),
        ("A * A", 1),
        ("tanh(A)", 3),
        ("A * 3.0", 0),
        ("A + 1.0", 0),
    ],
)
def test_gradients_are_small(text: str, count: int) -> None:
    """Count the elementwise operations; a result that is an input, or one number, is written out by a contraction."""
    types = {name: TensorType(DType.F64, (3,)) for name in "AB"}
    function = simplify(infer(parse(f"function (A, B) -> (R) {{ Y = {text}; R = gradient(Y, A); }}"), types))
    operations = [o for o in function.operations if isinstance(o, Elementwise) and o.op is not Op.IDENT]
    assert len(operations) == count


def test_squares_double_what_has_fewer_elements() -> None:
    types = {"A": TensorType(DType.F64, (4, 3)), "B": TensorType(DType.F64, (3,))}
    function = simplify(infer(parse("function (A, B) -> (R) { R = vjp(A * A, B, A); }"), types))
    assert [operation.shape for operation in function.operations] == [(3,), (4, 3)]
