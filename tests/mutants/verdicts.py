"""Plants a fault in a process of its own, and says what becomes of it there."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from typing import TYPE_CHECKING, Any, Final

import attrs

from mutants import emitters
from mutants.judging import trails
from mutants.nets import pipelines, subjects
from mutants.planting import plant
from mutants.suites import NIGHTLY, PUSH, first_failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from mutants.judging import Trail
    from mutants.mutant import Mutant

LIMIT_SECONDS: Final = 300
"""Of a processor, for one fault."""

CAUGHT, SURVIVED, NONE = "caught", "SURVIVED", "NO VERDICT"


@attrs.frozen
class Verdict:
    """Verdict on a fault.

    Attributes:
        word: :data:`CAUGHT`, :data:`SURVIVED` or, where the time was up, :data:`NONE`.
        message: What caught it, or what is known otherwise.

    """

    word: str
    message: str


def judged(mutant: Mutant, usual: Sequence[Trail] = ()) -> Verdict:
    """Plant a fault in a process of its own and see what comes of it.

    Args:
        mutant: The fault.
        usual: What came of programs in pipelines without it, beside those that it asks for itself.

    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_judge, args=(mutant, usual, theirs))
    process.start()
    theirs.close()
    told: Any = "", "the process did not begin"
    try:
        while True:
            told = ours.recv()
    except EOFError:
        process.join()
    word, message = told
    if word:
        return Verdict(word, message)
    ended = process.exitcode or 0
    if ended in (-signal.SIGXCPU, -signal.SIGKILL):
        return Verdict(NONE, f"more than {LIMIT_SECONDS} s")
    if ended < 0 and mutant.is_emitter:
        return Verdict(CAUGHT, f"{signal.Signals(-ended).name} in {message}")
    return Verdict(NONE, f"the process ended with {ended}")


def _judge(mutant: Mutant, usual: Sequence[Trail], pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    verdict = _of_emitter(mutant, pipe) if mutant.is_emitter else _of_pass(mutant, usual)
    pipe.send((verdict.word, verdict.message))


def _of_emitter(mutant: Mutant, pipe: Connection) -> Verdict:
    plant(mutant)
    package = mutant.module.partition(".")[0]
    found = emitters.caught(package, lambda kernel: pipe.send(("", kernel)))
    return Verdict(SURVIVED, "no kernel shows it") if found is None else Verdict(CAUGHT, found)


def _of_pass(mutant: Mutant, usual: Sequence[Trail]) -> Verdict:
    own = () if mutant.tests else trails(subjects(), pipelines(mutant))
    known = [*own, *usual]
    plant(mutant)
    for run, effort in (("a push", PUSH), ("the nightly run", NIGHTLY)) if mutant.tests else ():
        if (failure := first_failure(mutant.tests, effort)) is not None:
            return Verdict(CAUGHT, f"in {run}, {failure}")
    differ = 0
    for trail in known:
        other, finding = trail.finding()
        differ += other
        if finding is not None:
            return Verdict(CAUGHT, str(finding))
    found = emitters.caught_in_rules() if mutant.module.startswith("semtree.") else None
    if found is not None:
        return Verdict(CAUGHT, found)
    return Verdict(SURVIVED, f"{differ} of {len(known)} programs in pipelines come out different, and right")
