from __future__ import annotations

import json

import pytest

from strategies.stripe_works import BRANCH, COUNTED, WHILE
from tileir.core.targets.target import Target
from tileir.core.text.quantities import count_text, runs_text, seconds_text, size_text
from tileir_performance.explain.explanation import explain_program


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (3 << 20, "3 MiB"), (200 << 30, "200 GiB")],
)
def test_sizes_are_binary(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (0.25, "0.25"), (999, "999"), (1000, "1k"), (2147483648, "2.15G"), (9.6e12, "9.6T")]
)
def test_counts_are_decimal(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0"), (2.5e-9, "2.5 ns"), (1e-6, "1 us"), (0.0123, "12.3 ms"), (90.0, "90 s")]
)
def test_times_have_a_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("runs", "conditions", "text"),
    [
        (1, (), ""),
        (3, (), "3 times"),
        (1, ("if odd",), "if odd"),
        (3, ("unless odd",), "3 times unless odd"),
        (1, ("while go",), "once per iteration while go"),
        (3, ("while go", "if odd"), "3 times per iteration while go, if odd"),
    ],
)
def test_runs_tell_their_conditions(runs: int, conditions: tuple[str, ...], text: str) -> None:
    assert runs_text(runs, conditions) == text


def test_the_number_of_iterations_is_said_to_be_unknown() -> None:
    found = explain_program(WHILE, Target())
    text = str(found)
    assert "; runs once per iteration while C\n" in text
    assert ", with one iteration of each while: data decide how many there are\n" in text
    document = json.loads(found.to_json())
    assert [kernel["conditions"] for kernel in document["kernels"]] == [[], [], ["while C"], ["while C"], []]
    assert document["assumptions"] == ["one iteration of each while: data decide how many there are"]


def test_both_sides_of_a_branch_are_shown_and_the_dearer_one_counts() -> None:
    found = explain_program(BRANCH, Target())
    text = str(found)
    assert "; runs if C\n" in text
    assert "; runs unless C; not counted, as the other side of the branch takes longer\n" in text
    assert text.endswith(", with the dearer side of each branch\n")
    assert [kernel["counted"] for kernel in json.loads(found.to_json())["kernels"]] == [True, True, False]


def test_nothing_is_taken_for_granted_of_counted_loops() -> None:
    found = explain_program(COUNTED, Target())
    assert found.assumptions == ()
    assert "; runs 3 times\n" in str(found)
