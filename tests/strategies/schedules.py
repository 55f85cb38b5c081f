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

ROOMS: Final = ("schedules",)
"""Folders of :mod:`tileir.passes` all of whose passes say of each kernel what they did, or why they refused."""


def says_why(step: Pass) -> bool:
    """Return whether a pass must have a reason for each kernel."""
    return type(unnamed(step)).__module__.split(".")[2] in ROOMS


def remarked(steps: Iterable[Pass], program: Program) -> Iterator[tuple[Pass, tuple[str, ...], tuple[Remark, ...]]]:
    """Yield each step with the names of the launches before it, and what it says of these."""
    for step in steps:
        kept = Remarks()
        names = tuple(called(launch) for launch in launches(program.works))
        with listening(kept):
            program = run((step,), program, verify=False)
        yield step, names, kept.all()
