"""Search for the fastest pipeline of a program on a device: its request and its result.

`tuner.py` has the searches, over options of passes and over scripts. The winner is kept in the cache on disk, where
compilations of the program for the device find it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tileir.core import ArgumentError, attrs, counted, with_short_traceback
from tileir.driver.calls.arguments import device_meant
from tileir.driver.compilation import Request
from tileir.driver.compiler import passes_of
from tileir.driver.pass_arguments import refuse_functions
from tileir.driver.programs import Source, described, refuse_semtree, types_of
from tileir.driver.targets import Named, choice_of, scheduling_target
from tileir.driver.tuned_pipelines import Trial
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
        device: The device.
        passes: The fastest pipeline.
        seconds: Its time.
        default_seconds: The time of the usual pipeline, from the same rounds.
        trials: All trials in order, the usual pipeline first.
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


@with_short_traceback
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
        source: The function to tune, in the forms that :func:`tileir.compile` takes; no program of the semtree.
        arguments: Description of the inputs, as for :func:`tileir.compile`; their values are random.
        device: A device or its id; by default that of an array in a device's memory, or the context's choice.
        context: Owner of devices and of the cache on disk; by default the process-wide one.
        target: Target whose passes to start from instead of the device's, as for :func:`tileir.compile`; compilations
            for that target use the winner.
        passes: Passes to start from instead, or the text, JSON or name of a pipeline. The winner is returned but not
            kept, as compilations use other passes by default.
        time_limit: Seconds.
        top: Number of candidates to time; by default 16, and 200 with ``scripts``.
        resume: Whether to take over the trials of an interrupted search.
        scripts: Whether to search for scripts, from empty ones on, instead of options of passes.
        seed: Seed for drawing scripts.
        progress: Called with the progress of the search.

    Raises:
        TileError: The function is wrong or does not fit the arguments, or the pipeline is invalid.
        ArgumentError: TIL707, a limit is not a positive number; TIL712, it is a program of the semtree.
        BackendError: There is no such device, or it refused the program under the usual pipeline.
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
