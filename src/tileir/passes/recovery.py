"""Pipelines that go on without a pass that fails: the program of a user must run, whatever a pass gets wrong.

That is for pipelines that programs get when nobody names passes; one that somebody wrote ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileir.core import TileError, VerifyError, attrs
from tileir.passes.base import NOT_REPEATED, Pass, label_of, run, unchecked
from tileir.schedule.remarks import refused, remark
from tileir.stripe.check.verifier import verify as verify_program
from tileir.stripe.ir import Program


@attrs.frozen
class Skipped:
    """A pass that was left out, and what it did wrong; without a label, what went wrong once and not again."""

    label: str | None
    problem: str

    def __str__(self) -> str:
        """Return a sentence."""
        return self.problem if self.label is None else f"the pass {self.label!r} was left out: {self.problem}"


def run_without_failing(
    passes: Iterable[Pass], program: Program, *, lowered: bool = False
) -> tuple[Program, tuple[Skipped, ...]]:
    """Return what a pipeline makes of a program without the passes that fail or break the rules of Stripe, and these.

    Each pass that is left out leaves the program as it was before. A refusal, which is a :class:`TileError` of the
    pass itself, is none of these failures.

    Args:
        passes: The pipeline.
        program: What it is applied to.
        lowered: Whether the program comes from the lowering, and not from somebody who may have it wrong: it is then
            checked only where a pass fails, to tell whose fault that is.

    Raises:
        VerifyError: The program was not valid.
        TileError: A pass refuses the program, as ``schedule`` does where data do not fit a memory.
        MemoryError: As it comes.
    """
    if not lowered:
        verify_program(program)
    steps = tuple(passes)
    outcome = unchecked(steps, program)
    if isinstance(outcome, Program):
        return outcome, ()
    if lowered:
        verify_program(program)
    skipped: list[Skipped] = []
    for position, step in enumerate(steps):
        failed = len(skipped)
        try:
            program = run((step,), program, verify_first=False, position=position)
        except VerifyError as error:
            skipped.append(Skipped(label_of(step), f"it made an illegal program: {error}"))
        except TileError as error:
            if error.diagnostics[0].code != "TIL549":
                raise
            skipped.append(Skipped(label_of(step), str(error)))
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the program of the user must run
            skipped.append(Skipped(label_of(step), f"it failed with {_told(error)}"))
        for each in skipped[failed:]:
            remark("", refused("TR004", problem=each.problem))
    if outcome is not None and not skipped:
        skipped.append(Skipped(None, f"{_told(outcome)}; {NOT_REPEATED}"))
    return program, tuple(skipped)


def _told(error: Exception) -> str:
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
