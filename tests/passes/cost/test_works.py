"""Costs of programs with loops and branches: one step where data decide how many, and the dearer side of a branch."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.stripe_works import ALL, BRANCH, NESTED, WHILE, add, copy, less, program, programs_of_works
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.passes.cost.figures import KernelCost
from tileir.passes.cost.machine import machine_of
from tileir.stripe.ir import Branch, Launch, Loop, Program, While, Work
from tileir.stripe.works import launches
from tileir_performance.cost.placed import predict_on
from tileir_performance.cost.prediction import predict

TARGET = Target("cpu", vector_bytes=64, vector_registers=32, threads=2, pipeline="cpu")
MODEL = hardware_of(TARGET)
MACHINE = machine_of(MODEL, TARGET)


def facts(cost: KernelCost) -> tuple[str, int, tuple[str, ...], bool]:
    return cost.name, cost.runs, cost.conditions, cost.counted


def test_a_while_counts_one_step() -> None:
    cost = predict(WHILE, MACHINE)
    assert list(map(facts, cost.kernels)) == [
        ("K", 1, (), True),
        ("C", 1, (), True),
        ("M", 1, ("while C",), True),
        ("D", 1, ("while C",), True),
        ("O", 1, (), True),
    ]
    assert cost.seconds == pytest.approx(sum(kernel.seconds for kernel in cost.kernels))


def test_the_dearer_side_of_a_branch_counts() -> None:
    cost = predict(BRANCH, MACHINE)
    assert [facts(kernel)[2:] for kernel in cost.kernels] == [((), True), (("if C",), True), (("unless C",), False)]
    assert cost.kernels[1].seconds >= cost.kernels[2].seconds
    assert cost.seconds == pytest.approx(cost.kernels[0].seconds + cost.kernels[1].seconds)


def test_counts_and_conditions_are_those_of_all_works_around() -> None:
    inner = Loop(While("C"), (Branch("D", (copy("K", "O"),), (Loop(3, (add("K", "Y", "O"),)),)), less("O", "C")))
    cost = predict(program(less("X", "C"), less("X", "D"), copy("X", "K"), Loop(2, (inner,))), MACHINE)
    assert list(map(facts, cost.kernels[3:])) == [
        ("O", 2, ("while C", "if D"), False),
        ("O", 6, ("while C", "unless D"), True),
        ("C", 2, ("while C",), True),
    ]


def test_a_side_of_a_branch_that_is_not_counted_has_no_part_that_is() -> None:
    cheap = Branch("D", (copy("X", "O"),), (copy("Y", "O"),))
    whole = program(less("X", "C"), less("X", "D"), Branch("C", (cheap,), (Loop(9, (copy("X", "O"),)),)))
    assert [kernel.counted for kernel in predict(whole, MACHINE).kernels] == [True, True, False, False, True]


@given(whole=programs_of_works())
@examples(60)
def test_any_works_are_predicted(whole: Program) -> None:
    cost = predict(whole, MACHINE)
    assert predict_on(whole, MACHINE, MODEL) == cost
    assert [kernel.name for kernel in cost.kernels] == [launch.name for launch in launches(whole.works)]
    counted = sum(kernel.seconds * kernel.runs for kernel in cost.kernels if kernel.counted)
    assert cost.seconds == pytest.approx(counted)
    assert cost.seconds == pytest.approx(_seconds(whole, whole.works))


def _seconds(whole: Program, works: tuple[Work, ...]) -> float:
    """Return what works take, each launch predicted in a program of its own, where it has as much memory around it."""
    total = 0.0
    for work in works:
        match work:
            case Launch():
                total += predict(attrs.evolve(whole, works=(work,)), MACHINE).seconds
            case Loop(times=times, works=inner):
                total += _seconds(whole, inner) * (times if isinstance(times, int) else 1)
            case Branch(then=then, otherwise=otherwise):
                total += max(_seconds(whole, then), _seconds(whole, otherwise))
    return total


@pytest.mark.parametrize("name", ALL)
def test_all_forms_are_predicted(name: str) -> None:
    assert len(predict(ALL[name], MACHINE).kernels) == len(list(launches(ALL[name].works)))


def test_equal_kernels_have_the_names_of_their_launches() -> None:
    cost = predict(NESTED, MACHINE)
    assert [kernel.name for kernel in cost.kernels] == [kernel.whole.name for kernel in cost.kernels]
    assert len({kernel.name for kernel in cost.kernels}) > 1
