"""Formulas that a worker remembers from one request to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir_formula.lower import lowering
from tileir_formula.running import crafting
from tileir_studio.design.bench import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from tileir_formula.ir import Formula
    from tileir_formula.lower.lowering import Crafted
    from tileir_formula.running.crafting import CraftedFormula

UPLOAD = "0" * 32
FORMULA = "gaussian(sigma=1.2)\ngamma(gamma={gamma})\nsharpen(amount={amount})"
GAMMA, AMOUNT = "steps[1].arguments.gamma", "steps[2].arguments.amount"
LEVELS = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note each formula that becomes a function."""
    made: list[object] = []

    def noting(formula: Formula, *arguments: Any, **options: Any) -> Crafted:
        made.append(formula)
        return lowering.craft(formula, *arguments, **options)

    monkeypatch.setattr(crafting, "lowered", noting)
    return made


def shown(bench: Bench, folder: Path, text: str, path: str, value: str) -> CraftedFormula:
    """Return the formula of a preview, which agrees with what the text says."""
    with (folder / UPLOAD).open("wb") as file:
        np.save(file, LEVELS)
    request = {"text": text, "path": path, "value": value, "inputs": {"image": UPLOAD}}
    assignment = bench.assignment(request, folder)
    result = assignment.formula(*assignment.pictures)
    expected = crafting.craft(assignment.formula.text, live=path)(LEVELS)
    np.testing.assert_array_equal(result, expected)
    return assignment.formula


def test_moves_of_one_control_are_crafted_once(tmp_path: Path, lowerings: list[object]) -> None:
    bench, seen = Bench(), 0
    for before, after in (("1.5", "1.6"), ("1.6", "1.7"), ("1.7", "0.8")):
        formula = shown(bench, tmp_path, FORMULA.format(gamma=before, amount=1), GAMMA, after)
        assert formula.text == FORMULA.format(gamma=after, amount=1)
        ours = [each for each in lowerings[seen:] if each is formula.formula]
        assert len(ours) == (seen == 0), "what is compared with is crafted each time"
        seen = len(lowerings)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (FORMULA.format(gamma=1.6, amount=2), GAMMA, "1.7"),
        (FORMULA.format(gamma=1.6, amount=1), AMOUNT, "0.5"),
        ("sobel\n" + FORMULA.format(gamma=1.6, amount=1), "steps[2].arguments.gamma", "1.7"),
        ("sobel", "steps[0].arguments.show", "across"),
        (FORMULA.format(gamma=1.6, amount=1).replace("1.2", "9"), GAMMA, "1.7"),
    ],
    ids=["another constant", "another control", "a further step", "another formula", "another window"],
)
def test_what_differs_is_crafted_anew(tmp_path: Path, text: str, path: str, value: str) -> None:
    bench = Bench()
    shown(bench, tmp_path, FORMULA.format(gamma=1.5, amount=1), GAMMA, "1.6")
    shown(bench, tmp_path, text, path, value)
