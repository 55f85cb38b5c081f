"""The first of two tiers: what a formula makes of pictures by kernels that are there already, or compiled quickly.

Compiling a formula well takes longer than anybody wants to wait who drags a control. So what is shown first comes from
a program that was compiled with :attr:`tileir.Options.quick`; then the optimised one is compiled and takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import attrs

from tileir.core.errors import TileError
from tileir.driver.explain.explanation import explain_program
from tileir.runtime.context import default_context

if TYPE_CHECKING:
    from tileir.driver.executable import Executable
    from tileir.driver.formulas.crafting import CraftedFormula
    from tileir.driver.formulas.picture_parts import Rectangle
    from tileir.studio.design.bench import Assignment

Region = tuple[int, int, int, int]

LONGEST: Final = 0.25
"""Seconds of a run, as predicted, up to which the quick program is worth it: the other one is there soon after that."""

SMOOTH: Final = 0.05
"""The same where it ran before: moves that follow closely would never see the optimised one, so one of them waits."""

_predicted: Final[WeakKeyDictionary[Executable, float]] = WeakKeyDictionary()
"""What runs take, since a control that is dragged asks each time."""


def quick_results(assignment: Assignment, region: Region | None) -> tuple[Rectangle | None, tuple[Any, ...]] | None:
    """Return results, or a part of them and where it is, of kernels that are there soon; None where they take too long.

    A fault is none here: the optimised program has it, too, or else need not fail.
    """
    pictures = assignment.pictures
    candidates = tuple(_candidates(assignment))
    try:
        ready = next((each for each in candidates if each.is_compiled(*pictures, region=region)), None)
        formula = candidates[-1] if ready is None else ready
        ran_before = ready is not None and ready.options is not None and ready.options.quick
        executable = formula.executable(*pictures, region=region)
        if executable not in _predicted:
            _predicted[executable] = explain_program(executable.scheduled, executable.device.target).seconds
        if _predicted[executable] > (SMOOTH if ran_before else LONGEST):
            return None
        place, found = (None, formula(*pictures)) if region is None else next(formula.parts(region, *pictures))
    except (TileError, MemoryError):
        return None
    return place, found if isinstance(found, tuple) else (found,)


def _candidates(assignment: Assignment) -> Iterator[CraftedFormula]:
    """Yield formulas that compute the same: as it was dragged, so that a release shows what the last move did."""
    if assignment.dragged is not None:
        yield assignment.dragged
        yield _quickly(assignment.dragged)
    yield _quickly(assignment.formula)


def _quickly(formula: CraftedFormula) -> CraftedFormula:
    return formula.with_options(attrs.evolve((formula.context or default_context()).options, quick=True))
