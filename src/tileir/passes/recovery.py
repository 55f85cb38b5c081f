"""Pipelines that skip failing passes, so that a user's program runs even if a pass has a bug.

This is for default pipelines; a pipeline that a user wrote ends with an error.
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
    """A skipped pass and its fault; without a label, a fault that did not occur a second time."""

    label: str | None
    problem: str

    def __str__(self) -> str:
        """Return a sentence for users."""
        return self.problem if self.label is None else f"the pass {self.label!r} was left out: {self.problem}"


def run_without_failing(
    passes: Iterable[Pass], program: Program, *, lowered: bool = False
) -> tuple[Program, tuple[Skipped, ...]]:
    """Run a pipeline without the passes that fail or break the rules of Stripe; return the program and these passes.

    A skipped pass leaves the program as it was. A refusal, a :class:`TileError` of the pass itself, is not a failure.

    Args:
        passes: The pipeline.
        program: The program.
        lowered: Whether the program comes from the lowering, not from a user: it is then verified only if a pass fails,
            to find the one at fault.

    Raises:
        VerifyError: The program was not valid.
        TileError: A pass refuses the program, as ``schedule`` does if data do not fit a memory.
        MemoryError: As it comes.
    """
    if not lowered:
        verify_program(program)
    steps = tuple(passes)
    outcome = unchecked(steps, program)
    if isinstance(outcome, Program):
        return outcome, ()
    problem = None if outcome is None else _told(outcome)
    del outcome  # its traceback and this frame would keep each other, and with them what all callers hold
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
        except Exception as error:  # the program of the user must run in any case
            skipped.append(Skipped(label_of(step), f"it failed with {_told(error)}"))
        for each in skipped[failed:]:
            remark("", refused("TR004", problem=each.problem))
    if problem is not None and not skipped:
        skipped.append(Skipped(None, f"{problem}; {NOT_REPEATED}"))
    return program, tuple(skipped)


def _told(error: Exception) -> str:
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
