"""Diagnostics as data, and the one family of exceptions that carries them.

Codes are stable. The first digit is the stage: 1 text, 2 names and structure, 3 dtypes and shapes, 4 index mathematics,
5 intermediate representations, 6 JSON, 7 arrays and running, 8 back ends and devices, 9 command line.
:mod:`tileir.core.codes` lists them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from tileir.core.codes import CODES, WARNINGS
from tileir.core.nodes import attrs
from tileir.core.text.span import Span

MAX_FAULTS: Final = 100
"""Greatest number of reported faults of one text; the rest of it is not read."""


def _known(_: object, __: attrs.Attribute[str], code: str) -> None:
    if code not in CODES:
        raise ValueError(f"diagnostic code {code!r} is not in tileir.core.codes")


@attrs.frozen
class Diagnostic:
    """One fault or warning, and its correction."""

    code: str = attrs.field(validator=_known)
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()

    @property
    def severity(self) -> str:
        """``error``, or ``warning`` if the program runs nevertheless."""
        return "warning" if self.code in WARNINGS else "error"

    @property
    def underlined(self) -> str:
        """The text that the carets of :meth:`render` underline; empty without a span."""
        return "" if self.span is None else self.span.text

    @property
    def trail(self) -> tuple[str, ...]:
        """Notes on the calls that lead to the place, if it is in a function that was called."""
        calls = () if self.span is None else self.span.callers
        return tuple(
            f"called at {call.source.name}:{call.line}:{call.column}: {' '.join(call.text.split()):.80}"
            for call in calls
        )

    def render(self) -> str:
        """Return the message with its place, the source excerpt and the notes."""
        span = None if self.span is None or not self.span.is_known else self.span
        named = None if span is None else span.place
        place = "" if span is None else f"{named or f'{span.source.name}:{span.line}:{span.column}'}: "
        lines = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        if span is not None and named is None:
            lines.append(span.excerpt())
        lines.extend(f"note: {note}" for note in (*self.notes, *self.trail))
        return "\n".join(lines)


class TileError(Exception):
    """A fault of a program or its data; ``diagnostics`` has one entry for each."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    @classmethod
    def of(cls, code: str, message: str, span: Span | None = None, *notes: str) -> Self:
        """Return the error with one fault."""
        return cls((Diagnostic(code, message, span, notes),))

    def __reduce__(self) -> tuple[type[TileError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.diagnostics,)


class ParseError(TileError):
    """A text does not follow its grammar."""


class VerifyError(TileError):
    """A program breaks a rule of its intermediate representation."""


class ArgumentError(TileError, ValueError):
    """An array or option that was passed in does not fit the program."""


class BackendError(TileError, RuntimeError):
    """A back end or device is missing, failed to load, or refused a kernel."""


class GroupLimitError(BackendError):
    """Groups of a kernel have more threads than the device can run of this kernel.

    A back end raises it from ``prepare``, when drivers report the registers of a kernel; the program is then compiled
    again for groups of no more than ``threads``.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], threads: int) -> None:
        super().__init__(diagnostics)
        self.threads = threads

    def __reduce__(self) -> tuple[type[GroupLimitError], tuple[tuple[Diagnostic, ...], int]]:  # type: ignore[override]
        return type(self), (self.diagnostics, self.threads)


class DivergenceError(RuntimeError):
    """A fixed point was not reached: a defect of tileir, not of the program."""


class SkippedPassWarning(RuntimeWarning):
    """A pass of tileir failed on a program, which was compiled without it: results are right, but may take longer."""


def fail(code: str, message: str, span: Span | None = None, *notes: str) -> TileError:
    """Build a :class:`TileError` with one diagnostic, to be raised by the caller."""
    return TileError.of(code, message, span, *notes)
