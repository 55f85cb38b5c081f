"""Laws as rules of the simplifier of typed functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.laws import ENDLESS, SOUND
from strategies.loops import arguments, functions
from strategies.tile import Case, assert_equal, cases
from tileir.core.dtype import DType
from tileir.core.errors import DivergenceError
from tileir.core.nodes.patterns import Law
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType
from tileir.typed.simplify.laws import rule_of
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify

RULES = tuple(rule_of(Law(text)) for text in SOUND)


def changed(text: str, *laws: str, shape: tuple[int, ...] = (3,), dtype: DType = DType.F32) -> list[str]:
    """Return the lines of a function of X and Y after laws."""
    function = infer(parse(text), {"X": TensorType(dtype, shape), "Y": TensorType(dtype, shape[-1:])})
    after = simplify(function, rules=tuple(rule_of(Law(law)) for law in laws))
    verify(after)
    return [str(each) for each in after.operations]


@examples(50)
@given(cases(functions=True))
def test_sound_laws_keep_results(case: Case) -> None:
    function = case.typed()
    after = simplify(function, rules=RULES)
    verify(after)
    assert after.outputs == function.outputs
    assert not [each for each in after.operations if str(each).partition(" = ")[2].startswith(("sub(", "cmp_lt("))]
    assert_equal(interpret(after, case.inputs), interpret(function, case.inputs))


@examples(25)
@given(functions())
def test_laws_reach_steps_of_loops(function: Function) -> None:
    after = simplify(function, rules=RULES)
    verify(after)
    assert " sub(" not in str(after)
    inputs = arguments(function)
    for name, array in interpret(function, inputs).items():
        np.testing.assert_array_equal(interpret(after, inputs)[name], array)


def test_new_operations_stand_before_what_reads_them() -> None:
    text = "function (X[N, M], Y[M]) -> (O) { O = X / sqrt(Y); }"
    first, second = changed(text, "div(x, sqrt(y)) -> mul(x, rsqrt(y))", shape=(2, 3))
    name = first.partition(":")[0]
    assert (first, second) == (f"{name}: f32[3] = rsqrt(Y)", f"O: f32[2, 3] = mul(X, {name})")


def test_values_are_forwarded_where_their_type_allows() -> None:
    text = "function (X, Y) -> (O) { O = exp(log(X)) + Y; }"
    assert changed(text, "exp(log(x)) -> x") == ["O: f32[3] = add(X, Y)"]
    wide = "function (X[N, M], Y[M]) -> (O) { O = Y + (X - X); }"
    assert len(changed(wide, "add(x, sub(y, y)) -> x", shape=(2, 3))) == 2  # X makes the result wider than Y


def test_numbers_are_rounded_to_the_dtype() -> None:
    lines = changed("function (X, Y) -> (O) { O = exp(X); }", "exp(x) -> pow(2.718281828459045, x)")
    assert lines[0].endswith("constant(2.7182817459106445)")
    assert changed("function (X, Y) -> (O) { O = -X; }", "neg(x) -> mul(x, 0.5)", dtype=DType.I32) == [
        "O: i32[3] = neg(X)"
    ]


def test_own_rules_come_first_and_results_are_simplified() -> None:
    text = "function (X, Y) -> (O) { O = max(X, Y); }"
    assert changed(text, "max(x, y) -> add(mul(x, 1), mul(y, 1))") == ["O: f32[3] = add(X, Y)"]


def test_endless_laws_are_told() -> None:
    with pytest.raises(DivergenceError, match="still fits after many changes"):
        changed("function (X, Y) -> (O) { O = X + Y; }", ENDLESS)
    with pytest.raises(DivergenceError, match="still fits after many changes"):
        changed("function (X, Y) -> (O) { O = X + Y; }", "add(x, y) -> add(add(x, y), y)")


def test_without_rules_nothing_changes() -> None:
    function = infer(parse("function (X) -> (O) { O = exp(X); }"), {"X": TensorType(DType.F32, (3,))})
    assert simplify(function) is function
    assert simplify(function, rules=RULES) is function
