"""Laws as rules of the simplifier of kernels."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.laws import ENDLESS, SOUND
from strategies.tile import Case, cases
from tileir.core.errors import DivergenceError
from tileir.core.nodes.patterns import Law
from tileir.semtree.check.verifier import verify
from tileir.semtree.ir import Program
from tileir.semtree.simplify.expression_rules import rule_of
from tileir.semtree.simplify.simplifier import simplify

TANH = Law("tanh(x) -> sub(1, div(2, add(exp(mul(2, x)), 1)))")


def with_laws(program: Program, *laws: str | Law) -> Program:
    rules = tuple(rule_of(Law(law) if isinstance(law, str) else law) for law in laws)
    return attrs.evolve(program, kernels=tuple(simplify(kernel, rules) for kernel in program.kernels))


def computes(program: Program, operation: str) -> bool:
    lines = (line for line in str(program).splitlines() if not line.strip().startswith("//"))
    return any(f"{operation}(" in line for line in lines)


@examples(30)
@given(cases(functions=True))
def test_sound_laws_keep_results(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    after = with_laws(executable.sem, SOUND[2])
    for kernel in after.kernels:
        verify(kernel)
    found = tileir.evaluate(after, case.inputs)
    case.check(dict(zip(executable.outputs, found if isinstance(found, tuple) else (found,), strict=True)))


@pytest.mark.parametrize("size", [1, 4, 37])
def test_an_operation_is_lowered_to_others(size: int) -> None:
    executable = tileir.compile("function (X) -> (Y) { Y = tanh(X) * 2.0; }", [(size,)])
    after = with_laws(executable.sem, TANH)
    assert computes(executable.sem, "tanh")
    assert not computes(after, "tanh")
    x = np.linspace(-4, 4, size, dtype=np.float32)
    for found in (tileir.evaluate(after, [x]), tileir.compile(after)(x)):
        np.testing.assert_allclose(found, 2 * np.tanh(x), rtol=1e-4, atol=1e-5)


def test_endless_laws_are_told() -> None:
    program = tileir.compile("function (X, Y) -> (O) { O = X + Y; }", [(3,), (3,)]).sem
    for law in (ENDLESS, "add(x, y) -> mul(add(x, y), y)"):
        with pytest.raises(DivergenceError, match="still fits after many changes"):
            with_laws(program, law)


def test_kernels_that_no_law_fits_stay() -> None:
    program = tileir.compile("function (X, Y) -> (O) { O = X + Y; }", [(3,), (3,)]).sem
    assert all(simplify(kernel, (rule_of(TANH),)) is kernel for kernel in program.kernels)
