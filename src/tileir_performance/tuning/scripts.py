"""The search for the fastest scripts for the kernels of a program, in rounds that learn from those before."""

from __future__ import annotations

import time
from typing import ClassVar, Final

import attrs

from tileir.core.targets.target_file import hardware_of
from tileir.driver.compiler import stripe_of
from tileir.driver.winners import Trial
from tileir.passes.cost.machine import machine_of
from tileir_performance.tuning.contest import Contest
from tileir_performance.tuning.drawn_scripts import Drawn, ScriptSearch
from tileir_performance.tuning.tuner import Tuner

FIRST_SHARE: Final = 0.2
"""The part of the time that drawing may take before anything is timed."""


@attrs.define(eq=False, repr=False)
class ScriptTuner(Tuner):
    """One search over steps and factors.

    Attributes:
        seed: Where drawing begins.
    """

    share: ClassVar[float] = 0.3  # there are many trials, and the best of them are timed again
    seed: int = 0

    def explore(self, contest: Contest, known: dict[str, Trial]) -> None:
        """Time the usual pipeline, then rounds of scripts, until there are ``top`` trials or time runs out."""
        self.trial(contest, self.request.pipeline, 0.0, known)
        target = self.request.scheduling or self.device.target
        program = stripe_of(self.request.program, self.request.types, target)
        machine = machine_of(hardware_of(target), target)
        timed: list[tuple[Drawn, float]] = []
        first = self.deadline - (1 - FIRST_SHARE) * self.time_limit
        search = ScriptSearch(
            program,
            self.request.pipeline,
            machine,
            target.vector_bytes,
            self.seed,
            lambda: time.monotonic() > (self.deadline if timed else first),
        )
        done = 0
        while done < self.top and (chosen := search.round(timed)):
            for drawn in chosen[: self.top - done]:
                if time.monotonic() > self.deadline:
                    return
                self.tell("timing", done, self.top)
                trial = self.trial(contest, drawn.candidate.passes, drawn.candidate.seconds, known)
                done += 1
                if trial.seconds is not None:
                    timed.append((drawn, trial.seconds))
        self.tell("timing", done, done)
