"""Laws applied to programs of each stage by one function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.laws import ENDLESS, SOUND
from strategies.tile import Case, cases
from tileir.core.errors import ArgumentError, DivergenceError, ParseError
from tileir.core.nodes.patterns import Law
from tileir.driver.rewriting import rewrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.nodes.patterns import Operand


@examples(25)
@given(cases(functions=True))
def test_sound_laws_keep_what_programs_compute(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    for program in (
        rewrite(executable.typed, *SOUND),
        rewrite(executable.stripe, *SOUND),
        rewrite(executable.scheduled, SOUND[2]),
        rewrite(executable.sem, SOUND[2]),
    ):
        tileir.verify(program)
        found = tileir.evaluate(program, case.inputs)
        case.check(dict(zip(executable.outputs, found if isinstance(found, tuple) else (found,), strict=True)))


def test_conditions_count_at_each_stage() -> None:
    executable = tileir.compile("function (X, Y) -> (O) { O = X * Y; }", [(3,), (3,)], passes="plain")
    law = "mul(x, y) -> div(x, y)"

    def never(operands: Mapping[str, Operand]) -> bool:
        assert {operand.dtype for operand in operands.values()} == {tileir.DType.F32}
        return False

    typed, stripe, sem = executable.typed, executable.stripe, executable.sem
    assert rewrite(typed, law, where=never) is typed
    assert rewrite(stripe, law, where=never) is stripe
    assert rewrite(sem, law, where=never) is sem
    kernel = sem.kernels[0]
    assert rewrite(kernel, Law(law, never)) is kernel
    assert "div(" in str(rewrite(typed, law))
    assert "= div(" in str(rewrite(stripe, law))
    assert rewrite(sem, law).kernels[0] == rewrite(kernel, law) != kernel


def test_what_is_wrong_is_told() -> None:
    executable = tileir.compile("function (X, Y) -> (O) { O = X + Y; }", [(3,), (3,)])
    with pytest.raises(ArgumentError, match="TIL707"):
        rewrite(executable.tile, ENDLESS)  # type: ignore[call-overload]
    with pytest.raises(ParseError, match="<law>:1:1"):
        rewrite(executable.typed, "nag(x) -> x")
    for program in (executable.typed, executable.stripe, executable.sem):
        with pytest.raises(DivergenceError):
            rewrite(program, ENDLESS)
