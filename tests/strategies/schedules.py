"""Passes that schedule kernels, and what they say of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.passes.base import run, unnamed
from tileir.passes.kernels.expansion import called
from tileir.schedule.remarks import Remark, Remarks, listening
from tileir.stripe.works import launches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program

MODULES: Final = (
    "passes.schedules.",
    "passes.algorithms.scan",
    "passes.algorithms.split_reduction",
    "passes.regions.separate",
    "passes.regions.skip_zeros",
    "passes.regions.split_border",
    "passes.regions.strips",
)
"""Beginnings of the names of modules whose passes say of each kernel what they did, or why they refused."""


def says_why(step: Pass) -> bool:
    """Return whether a pass must have a reason for each kernel."""
    return tells(type(unnamed(step)).__module__)


def tells(module: str) -> bool:
    """Return whether the functions of a module must have reasons."""
    return any(module == f"tileir.{each}" or (each[-1] == "." and each in module) for each in MODULES)


def remarked(steps: Iterable[Pass], program: Program) -> Iterator[tuple[Pass, tuple[str, ...], tuple[Remark, ...]]]:
    """Yield each step with the names of the launches before it, and what it says of these."""
    for step in steps:
        kept = Remarks()
        names = tuple(called(launch) for launch in launches(program.works))
        with listening(kept):
            program = run((step,), program, verify=False)
        yield step, names, kept.all()
