"""All jobs of the page in one table, and the events of their faults."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tileir.core import Source, TileError, fail
from tileir_studio.design.designer import DESIGNER
from tileir_studio.serve.session import Event, Job, Session
from tileir_studio.views.explorer import EXPLORER
from tileir_studio.views.views import faults_of, plain

JOBS: Final[Mapping[str, Job]] = MappingProxyType({**EXPLORER, **DESIGNER})
"""All jobs, by name; a further view of the page adds its own table."""

SHORT: Final = frozenset({"check", "complete", "formula", "formula.edit", "formula.offers", "functions"})
"""Checks of texts, which run nothing."""

PATIENT: Final = frozenset({"formula.steps", "formula.probe", "formula.export"})
"""Jobs that may wait while a control is dragged."""


def answer(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of a request. Faults of it, or of its program, are the last one."""
    try:
        name = str(request.get("job"))
        if name not in JOBS:
            raise fail("TIL913", f"there is no job {name[:64]!r}; they are {', '.join(JOBS)}")
        yield from JOBS[name](session, request)
    except TileError as error:
        text = request.get("text")
        yield faults_event(error, text if isinstance(text, str) else None)
    except MemoryError:
        yield faults_event(fail("TIL708", "there is not enough memory for that; make the arrays smaller"))
    except Exception as error:  # a worker answers every request, whatever tileir does
        traceback.print_exc(file=sys.stderr)
        kind = type(error).__name__
        message = (
            f"tileir failed on this, which is a defect of tileir: please report it with the program ({kind}: {error})"
        )
        yield faults_event(fail("TIL914", message[:1000]))


def faults_event(error: TileError, text: str | None = None) -> Event:
    """Return the event of faults; places count where they lie in ``text``."""
    source = None if text is None else Source(text)
    return Event("faults", [plain(fault) for fault in faults_of(error.diagnostics, source)])
