"""Pipelines that go on without a pass that fails: the program of a user must run, whatever a pass gets wrong.

That is for pipelines that programs get when nobody names passes; one that somebody wrote ends with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import TileError, VerifyError
from tileir.passes.base import label_of, run, unchecked
from tileir.stripe.verifier import diagnose
from tileir.stripe.verifier import verify as verify_program

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program


@attrs.frozen
class Skipped:
    """A pass that was left out, and what it did wrong."""

    label: str
    problem: str


def run_without_failing(passes: Iterable[Pass], program: Program) -> tuple[Program, tuple[Skipped, ...]]:
    """Return what a pipeline makes of a program without the passes that fail or break the rules of Stripe, and these.

    Each pass that is left out leaves the program as it was before. A refusal, which is a :class:`TileError` of the
    pass itself, is none of these failures.

    Raises:
        VerifyError: The program was not valid.
        TileError: A pass refuses the program, as ``schedule`` does where data do not fit a memory.
        MemoryError: As it comes.
    """
    verify_program(program)
    steps = tuple(passes)
    result = unchecked(steps, program)
    if result is not None and not diagnose(result):
        return result, ()
    skipped: list[Skipped] = []
    for step in steps:
        try:
            program = run((step,), program, verify_first=False)
        except VerifyError as error:
            skipped.append(Skipped(label_of(step), f"it made an illegal program: {error}"))
        except TileError as error:
            if error.diagnostics[0].code != "TIL549":
                raise
            skipped.append(Skipped(label_of(step), str(error)))
        except MemoryError:
            raise
        except Exception as error:
            notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
            skipped.append(Skipped(label_of(step), f"it failed with {type(error).__name__}: {error}{notes}"))
    return program, tuple(skipped)
