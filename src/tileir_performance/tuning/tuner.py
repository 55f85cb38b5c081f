"""The search for the fastest pipeline of a program on a device: the model ranks, the device decides.

The search (:class:`tileir_performance.tuning.candidates.Search`) makes candidates by changing options of the device's
pipeline. The best by the model are compiled and timed in turn, each result is compared with that of the usual pipeline,
and the best few are timed again in rounds, one after the other, so that a busy machine slows all of them alike.

The search for scripts goes on in rounds that learn from those before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Final

import attrs

from tileir.core.errors import TileError
from tileir.core.targets.target_file import hardware_of
from tileir.driver.compilation import Request
from tileir.driver.compiler import stripe_of
from tileir.driver.programs import output_names
from tileir.driver.tuned_pipelines import (
    TUNING,
    WINNER,
    Trial,
    store_trials,
    store_winner,
    stored_trials,
    winner_key,
)
from tileir.passes.base import Pass
from tileir.passes.cost.machine import machine_of
from tileir.passes.pipelines.pipeline import to_json as pipeline_json
from tileir.runtime import Context, DeviceInfo
from tileir_performance.tuning.candidates import Candidate, Search, chosen
from tileir_performance.tuning.contest import Contest, Entrant
from tileir_performance.tuning.drawn_scripts import ScriptedPipeline, ScriptSearch
from tileir_performance.tuning.search import Progress, Tuned

FINALISTS: Final = 4
"""How many are timed again, beside the usual pipeline."""

SEARCH_SHARE: Final = 0.3
"""The part of the time that the search by the model may take."""

LEAST_GAIN: Final = 0.01
"""A pipeline that is faster by less than this part is not worth an entry: it may be chance."""


@attrs.define(eq=False, repr=False)
class Tuner:
    """One search.

    Attributes:
        share: For which part of the usual time a pipeline is timed when it enters.
        kept: Whether the cache on disk gets the trials and the winner.
    """

    share: ClassVar[float] = 1.0
    request: Request
    context: Context
    device: DeviceInfo
    top: int
    deadline: float
    time_limit: float
    progress: Callable[[Progress], None] | None
    kept: bool = True
    trials: list[Trial] = attrs.field(factory=list)
    key: str | None = None

    def run(self, resume: bool) -> Tuned:
        """Search, time, and keep the winner."""
        disk = self.context.disk_cache
        if disk is not None and self.kept:
            self.key = winner_key(self.request, self.context.compiler(self.device), self.device)
        before = stored_trials(disk, self.key) if disk is not None and self.key is not None and resume else ()
        known = {trial.passes: trial for trial in before}
        contest = Contest.of(self.request, self.context, self.device)
        self.explore(contest, known)
        seconds = self._finals(contest)
        usual = contest.usual
        winner = min(contest.entrants, key=lambda entrant: seconds[entrant.passes])
        if seconds[winner.passes] > (1 - LEAST_GAIN) * seconds[usual.passes]:
            winner = usual
        stored = self._store(winner, seconds[winner.passes], seconds[usual.passes])
        return Tuned(
            self.device.id,
            winner.passes,
            seconds[winner.passes],
            seconds[usual.passes],
            tuple(self.trials),
            stored,
        )

    def explore(self, contest: Contest, known: dict[str, Trial]) -> None:
        """Time pipelines, those first of which ``known`` has the times from a search that was killed."""
        ranked = self._search()
        for number, candidate in enumerate(ranked):
            if time.monotonic() > self.deadline and number:
                break
            self.tell("timing", number, len(ranked))
            self.trial(contest, candidate.passes, candidate.seconds, known)
        self.tell("timing", len(ranked), len(ranked))

    def tell(self, phase: str, done: int, total: int) -> None:
        """Say where the search stands."""
        if self.progress is not None:
            times = [trial.seconds for trial in self.trials if trial.seconds is not None]
            self.progress(Progress(phase, done, total, min(times, default=None)))

    def _search(self) -> list[Candidate]:
        stop = time.monotonic() + SEARCH_SHARE * self.time_limit
        target = self.request.scheduling or self.device.target
        program = stripe_of(self.request.program, self.request.types, target)
        search = Search(program, machine_of(hardware_of(target), target), lambda: time.monotonic() > stop)
        found = search.run(self.request.pipeline, lambda done, total: self.tell("searching", done, total))
        self.trials += [Trial(pipeline_json(each.passes), 0.0, None, str(each.error)) for each in search.failed]
        return chosen(found, self.top)

    def trial(self, contest: Contest, passes: tuple[Pass, ...], predicted: float, known: dict[str, Trial]) -> Trial:
        """Return the time of a pipeline, or why it fails, and keep that, so that a search that is killed can go on."""
        text = pipeline_json(passes)
        trial = known.get(text)
        if trial is None or (trial.seconds is None and not trial.fault):
            trial = self._try(contest, passes, predicted, text)
        elif trial.seconds is not None:
            contest.expect(passes, trial.seconds)
        self.trials.append(trial)
        if self.context.disk_cache is not None and self.key is not None:
            store_trials(self.context.disk_cache, self.key, self.trials, self.device.name)
        return trial

    def _try(self, contest: Contest, passes: tuple[Pass, ...], predicted: float, text: str) -> Trial:
        try:
            return Trial(text, predicted, contest.enter(passes, self.share))
        except TileError as error:
            return Trial(text, predicted, None, str(error))

    def _finals(self, contest: Contest) -> dict[tuple[Pass, ...], float]:
        """Return the times of the best few and of the usual pipeline, taken in rounds."""
        self.tell("deciding", 0, 1)
        left = max(0.1 * self.time_limit, self.deadline - time.monotonic())
        seconds = contest.finals(FINALISTS, min(left, 0.3 * self.time_limit))
        self.tell("deciding", 1, 1)
        return seconds

    def _store(self, winner: Entrant, seconds: float, usual: float) -> bool:
        disk = self.context.disk_cache
        self.context.programs.clear()  # what was compiled with the usual pipeline is compiled anew
        if disk is None or self.key is None:
            return False
        disk.remove(TUNING, self.key)
        if winner.passes == self.request.pipeline:
            disk.remove(WINNER, self.key)
            return False
        names = ", ".join(output_names(self.request.program))
        note = f"{names}: {seconds * 1e3:.4g} ms instead of {usual * 1e3:.4g} ms"
        return store_winner(disk, self.key, winner.passes, f"{self.device.backend}: {self.device.name}", note)


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
        timed: list[tuple[ScriptedPipeline, float]] = []
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
