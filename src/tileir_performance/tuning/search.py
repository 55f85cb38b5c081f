"""Finding the fastest pipeline for a program on a device: what a search is asked, and what it answers.

`tuner.py` has the searches, over options of passes and over scripts. What wins is kept in the cache on disk, where
compilations of the same program for the same device find it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tileir.core import ArgumentError, at_the_call, attrs, counted
from tileir.driver.calls.arguments import device_meant
from tileir.driver.compilation import Request
from tileir.driver.compiler import passes_of
from tileir.driver.given_passes import refuse_functions
from tileir.driver.programs import Source, described, refuse_semtree, types_of
from tileir.driver.targets import Named, choice_of, scheduling_target
from tileir.driver.winners import Trial
from tileir.passes.base import Pass
from tileir.runtime import Context, DeviceInfo, owner_of

TIME_LIMIT: Final = 60.0
"""Seconds that a search takes at most where nobody says otherwise; a trial under way is finished."""

TOP: Final = 16
"""How many candidates are timed where nobody says otherwise."""

SCRIPT_TRIALS: Final = 200
"""The same where scripts are searched."""

_LINE: Final = 100
"""Characters of a line of passes, as far as one alone is not longer."""


@attrs.frozen
class Progress:
    """State of a search: its activity, the share of it that is done, and the best time so far."""

    phase: str
    done: int
    total: int
    best: float | None = None


@attrs.frozen
class Tuned:
    """Result of a search.

    Attributes:
        device: Where.
        passes: The fastest pipeline.
        seconds: Its time, and
        default_seconds: that of the usual pipeline, from the same rounds.
        trials: All that was tried, in order, the usual pipeline first.
        stored: Whether the cache on disk has the winner.

    """

    device: str
    passes: tuple[Pass, ...]
    seconds: float
    default_seconds: float
    trials: tuple[Trial, ...]
    stored: bool

    @property
    def gain(self) -> float:
        """Speed of the winner over that of the usual pipeline."""
        return self.default_seconds / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        """Return the outcome, and below it the passes, a line for some of them."""
        from tileir.passes.pipelines.pipeline import to_text as pipeline_text

        lines = [""]
        for text in (pipeline_text((step,)) for step in self.passes):
            if lines[-1] and len(lines[-1]) + len(text) >= _LINE:
                lines.append("")
            lines[-1] += f"{text},"
        failed = sum(1 for trial in self.trials if trial.fault)
        outcome = (
            f"{self.device}: {self.seconds * 1e3:.4g} ms, {self.gain:.2f} times as fast as without tuning; "
            f"{counted(len(self.trials), 'trial')}, {failed} failed"
        )
        return "\n".join((outcome, *lines)).rstrip(",")


@at_the_call
def tune(
    source: Source,
    arguments: Any = (),
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    target: Named | None = None,
    passes: tuple[Pass, ...] | str | None = None,
    time_limit: float = TIME_LIMIT,
    top: int | None = None,
    resume: bool = False,
    scripts: bool = False,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Tuned:
    """Find the fastest pipeline for a function, and keep it for later compilations.

    Args:
        source: What to tune, in the forms that :func:`tileir.compile` takes; no program of the semtree.
        arguments: What describes the inputs, as for :func:`tileir.compile`; their values are random.
        device: A device or its id; by default that of an array in a device's memory, or what the context chooses.
        context: Owner of devices and of the cache on disk; by default the process-wide one.
        target: Whose passes to start from instead of the device's, as for :func:`tileir.compile`; the winner is used
            where the same target is named.
        passes: What to start from instead, or the text, JSON or name of a pipeline. What wins is returned and not
            kept, as it is not compared with what compilations use where nobody names passes.
        time_limit: Seconds.
        top: How many candidates to time; 16 where it is not said, and 200 with ``scripts``.
        resume: Whether to take over the trials of a search that was killed.
        scripts: Whether to look for scripts, from empty ones on, instead of options of passes.
        seed: Where the drawing of scripts begins.
        progress: Told where the search stands.

    Raises:
        TileError: The function is wrong or does not fit the arguments, or the pipeline is none.
        ArgumentError: TIL707, a limit is no positive number; TIL712, it is a program of the semtree.
        BackendError: There is no such device, or it refused the program as the usual pipeline makes it.
    """
    count = top if top is not None else SCRIPT_TRIALS if scripts else TOP
    if not time_limit > 0 or count < 1:
        raise ArgumentError.of("TIL707", "time_limit and top must be more than 0")
    program, arguments = described(source, arguments)
    refuse_semtree(program)
    types = types_of(program, arguments)
    owner = owner_of(context)
    chosen = owner.device(device_meant(device, arguments, owner))
    choice = choice_of(target)
    scheduling = None if choice is None else scheduling_target(choice, chosen.target, None)
    start = passes_of(passes, scheduling or chosen.target)
    refuse_functions(start)
    request = Request(program, dict(types), chosen.target, start, scheduling)
    from tileir_performance.tuning.tuner import ScriptTuner, Tuner  # importing tileir must stay cheap

    kind = partial(ScriptTuner, seed=seed) if scripts else Tuner
    deadline = time.monotonic() + time_limit
    return kind(request, owner, chosen, count, deadline, time_limit, progress, kept=passes is None).run(resume)
