"""Live ranges of memory, in programs with loops and branches."""

from __future__ import annotations

import attrs
import pytest

from strategies.catalogue import parse_pipeline
from strategies.stripe_works import add, copy, less, program
from tileir.passes.base import run
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Branch, Loop, Program, While, Work
from tileir.stripe.lifetimes import clashes

SIDES = Branch(
    "C",
    (copy("X", "K"), add("K", "Y", "O")),
    (copy("Y", "M"), add("M", "X", "O")),
)


def placed(*works: Work, at: int = 64) -> Program:
    """Return a program whose temporaries K and M lie at the same bytes."""
    whole = program(less("X", "C"), *works)
    memory = (attrs.evolve(each, offset=at) if each.name in ("K", "M") else each for each in whole.memory)
    return attrs.evolve(whole, memory=tuple(memory))


def found(whole: Program) -> list[tuple[str, str]]:
    return [names for names in clashes(whole.entry, (*whole.inputs, *whole.outputs)) if set(names) <= {"K", "M"}]


def test_sides_of_a_branch_use_the_same_bytes() -> None:
    assert found(placed(SIDES)) == []
    assert found(placed(Loop(2, (SIDES,)))) == []
    assert found(placed(Branch("C", (Loop(2, (SIDES,)),), (copy("X", "O"),)))) == []


def test_what_both_sides_use_is_in_use_in_each() -> None:
    then, otherwise = SIDES.then, SIDES.otherwise
    both = Branch("C", then, (copy("X", "K"), *otherwise, add("K", "Y", "O")))
    assert found(placed(both)) == [("K", "M")]


def test_what_is_used_after_a_branch_is_in_use_in_it() -> None:
    assert found(placed(copy("X", "K"), SIDES, copy("K", "O"))) == [("K", "M")]
    assert found(placed(copy("X", "M"), SIDES, copy("M", "O"))) in ([("K", "M")], [("M", "K")])


def test_one_statement_of_a_side_follows_another() -> None:
    in_turn = (copy("X", "K"), copy("K", "O"), copy("Y", "M"), copy("M", "O"))
    assert found(placed(Branch("C", in_turn))) == []
    assert found(placed(Branch("C", (in_turn[0], in_turn[2], in_turn[1], in_turn[3])))) == [("K", "M")]


def test_what_a_loop_keeps_is_in_use_in_all_of_it() -> None:
    step = (add("K", "Y", "O"), copy("O", "M"), copy("M", "O"), copy("O", "K"), less("K", "C"))
    assert found(placed(copy("X", "K"), Loop(While("C"), step))) == [("K", "M")]


@pytest.mark.parametrize("works", [(SIDES,), (Loop(2, (SIDES,)),), (Branch("C", (), (SIDES, copy("O", "K"))),)])
def test_memory_is_scheduled_for_each_side(works: tuple[Work, ...]) -> None:
    whole = program(less("X", "C"), copy("X", "O"), *works)
    verify(run(parse_pipeline("schedule"), whole))
