"""Passes as callers give them, and what is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.driver.pass_arguments import FunctionPass, given_passes
from tileir.passes.rewrites.dead_code import DeadCode

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

ADD = tileir.parse("function (A[N]) -> (B) { B = A + 1; }")


def unchanged(program: Program) -> Program:
    return program


def spoilt(program: Program) -> Program:
    raise ZeroDivisionError(program.outputs)


class Counted:
    """A callable that has no name of its own."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, program: Program) -> Program:
        self.calls += 1
        return program


@pytest.mark.parametrize("form", [lambda p: p, lambda p: (p,), lambda p: [p, DeadCode()], lambda p: (DeadCode(), p)])
def test_functions_are_passes_alone_and_among_others(form: Any) -> None:
    counted = Counted()
    executable = tileir.compile(ADD, [(3,)], passes=form(counted))
    assert counted.calls == 1
    np.testing.assert_array_equal(executable(np.ones(3, np.float32)), 2)
    assert tileir.explain(ADD, [(3,)], passes=form(unchanged)).kernels
    kinds = given_passes(form(unchanged))
    assert isinstance(kinds, tuple)
    assert {step.name for step in kinds} <= {"unchanged", "dead_code"}


def test_texts_and_passes_stay_what_they_are() -> None:
    assert given_passes(None) is None
    assert given_passes("fuse,accumulate") == "fuse,accumulate"
    assert given_passes((DeadCode(),)) == (DeadCode(),)
    found = given_passes(unchanged)
    assert found is not None
    assert [*found] == [FunctionPass(unchanged)]


def test_what_a_function_raises_names_it() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        tileir.compile(ADD, [(3,)], passes=(spoilt,))  # type: ignore[arg-type]
    assert caught.value.__notes__ == ["raised by the pass 'spoilt'"]


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        (3, "not a value of type int"),
        ((None,), "not a value of type NoneType"),
        (("fuse", "accumulate"), "write one text for all"),
        (DeadCode, "write DeadCode()"),
        ({"name": "fuse"}, "not a value of type dict"),
    ],
)
def test_what_is_no_pass_is_told(passes: Any, said: str) -> None:
    for call in (tileir.compile, tileir.explain, tileir.tune):
        with pytest.raises(tileir.TileError) as caught:
            call(ADD, [(3,)], passes=passes)
        (fault,) = caught.value.diagnostics
        assert fault.code == "TIL707"
        assert said in fault.message


def test_a_search_writes_pipelines_down() -> None:
    with pytest.raises(tileir.TileError, match="the pass 'unchanged' is a function"):
        tileir.tune(ADD, [(3,)], passes=unchanged)  # type: ignore[arg-type]
