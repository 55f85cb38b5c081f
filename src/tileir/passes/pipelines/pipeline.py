"""Pipelines as text and as JSON: ``fuse{max_statements=64},localise,tile{sizes=(8,32)}``.

The annotations of a pass's fields give the types of options (:mod:`tileir.passes.pipelines.options`): numbers,
texts, ``true``, ``false``, ``none``, tuples ``(1, 2)`` and records ``{name=SRAM, size=4}``. Options at their defaults
are not written. A step may have a name of its own, ``fuse_add: fusion{…}``.

In JSON a step is ``{"name": pass, "options": {…}}``, or as on Stripe's slides ``{"name": step, pass: {…}}``, or
``{pass: {…}}``; comments from ``//`` to the end of a line are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from tileir.core import Diagnostic, ParseError, Source, Span, TileError, attrs, fail, nearest
from tileir.core.companions import nearest_or_wheel
from tileir.core.json.plain import Path, places_of, read_json
from tileir.core.text.lexing import END, AbandonError, Cursor, Lexer, Token, everything, source_of
from tileir.passes.base import Named, Pass, aliases_of, unnamed
from tileir.passes.pipelines.options import (
    WORDS,
    FitError,
    Written,
    field_called,
    fitted,
    hints_of,
    record_text,
    set_fields,
    written,
)

_TOKEN: Final = re.compile(
    r"""
    \s*+
    (?: (?P<number> [+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)(?![\w.]) )
      | (?P<word> [^\W\d]\w* )
      | (?P<string> "(?:[^"\\\n]|\\.)*" )
      | (?P<sign> [{}(),=:] )
      | (?P<end> \Z )
      | (?P<unknown> . )
    )
    """,
    re.VERBOSE,
)
_MOST_DIGITS: Final = 400
_MOST_DEPTH: Final = 50
"""Maximum nesting of tuples and records."""
_ADVICE: Final = "write a name, a value or one of {}(),=: here"
_SCALARS: Final = frozenset(("number", "word", "string"))


@attrs.frozen
class Setting:
    """A written option."""

    name: str
    value: Written
    name_span: Span | None = None
    value_span: Span | None = None


@attrs.frozen
class Request:
    """A written pass; ``label`` is the step's own name, or empty."""

    name: str
    settings: tuple[Setting, ...]
    span: Span | None = None
    label: str = ""


def parse_requests(text: str, name: str) -> tuple[Request, ...]:
    """Parse a text of the form ``label: pass{option=value, …}, …``.

    Raises:
        ParseError: TIL102 for a syntax error, TIL103 for values nested too deeply; one diagnostic for each faulty pass.
    """
    return everything(_Cursor, source_of(text, name), lambda cursor: _Parser(cursor).pipeline())


@attrs.define(eq=False, repr=False)
class _Cursor(Cursor):
    """Position in the text of a pipeline, with the number of open brackets."""

    lexer = staticmethod(partial(Lexer, pattern=_TOKEN, code="TIL102", advice=lambda _: _ADVICE))
    open: int = attrs.field(default=0, init=False)

    def advance(self) -> Token:
        """Take the current token."""
        if self.token.kind in ("(", "{"):
            self.open += 1
        elif self.token.kind in (")", "}"):
            self.open = max(0, self.open - 1)
        return super().advance()

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the next token differs from the expected one, and return the error to raise."""
        return self.refuse(f"write {expected} here", *notes)

    def recover(self) -> None:
        """Skip the rest of a pass up to the next comma."""
        while not self.at(END) and (self.open or not self.at(",")):
            self.advance()


@attrs.frozen(repr=False)
class _Parser:
    """Recursive-descent parser that goes on after a faulty pass."""

    cursor: _Cursor

    def pipeline(self) -> tuple[Request, ...]:
        """Parse the whole text."""
        if self.cursor.at(END):
            return ()
        requests = list(self._recovered())
        while self.cursor.skip(","):
            requests.extend(self._recovered())
        return tuple(requests)

    def _recovered(self) -> Iterator[Request]:
        try:
            request = self._request()
            if not self.cursor.at(END) and not self.cursor.at(","):
                raise self.cursor.unexpected("','")
            yield request
        except AbandonError:
            self.cursor.recover()

    def _request(self) -> Request:
        cursor = self.cursor
        name = cursor.expect("word", "the name of a pass")
        label = ""
        if cursor.skip(":"):
            label = name.text
            name = cursor.expect("word", "the name of a pass")
        settings = self._settings(0) if cursor.at("{") else ()
        return Request(name.text, settings, cursor.span_of(name), label)

    def _settings(self, depth: int) -> tuple[Setting, ...]:
        return self.cursor.enclosed(lambda: self._setting(depth), "{}")

    def _setting(self, depth: int) -> Setting:
        name = self.cursor.expect("word", "the name of an option")
        self.cursor.expect("=")
        start = self.cursor.token.start
        value = self._value(depth)
        return Setting(name.text, value, self.cursor.span_of(name), self.cursor.span_from(start))

    def _value(self, depth: int) -> Written:
        cursor = self.cursor
        if not cursor.at("(") and not cursor.at("{"):
            named = cursor.at("word")
            scalar = self._scalar()
            if not (named and isinstance(scalar, str) and cursor.at("{")):
                return scalar
            return {scalar: self._value(depth)}
        if depth == _MOST_DEPTH:
            raise cursor.report_and_abandon(f"values are nested more than {_MOST_DEPTH} deep", cursor.here, "TIL103")
        return self._tuple(depth + 1) if cursor.at("(") else self._record(depth + 1)

    def _tuple(self, depth: int) -> tuple[Written, ...]:
        self.cursor.expect("(")
        items: list[Written] = []
        while not self.cursor.at(")"):
            items.append(self._value(depth))
            if not self.cursor.at(")"):
                self.cursor.expect(",")
        self.cursor.expect(")")
        return tuple(items)

    def _record(self, depth: int) -> dict[str, Written]:
        record: dict[str, Written] = {}
        for setting in self._settings(depth):
            if setting.name in record and setting.name_span is not None:
                self.cursor.report(f"{setting.name} is given twice; drop one", setting.name_span, "TIL542")
            record[setting.name] = setting.value
        return record

    def _scalar(self) -> Written:
        token = self.cursor.token
        if token.kind not in _SCALARS:
            raise self.cursor.unexpected("a value")
        try:
            value = _scalar_of(token.kind, token.text)
        except ValueError:
            raise self.cursor.unexpected("a value that can be read") from None
        self.cursor.advance()
        return value


def _scalar_of(group: str, text: str) -> Written:
    """Return the value of a token.

    Raises:
        ValueError: A number with too many digits, or an unknown escape in a string.

    """
    if group == "string":
        return str(json.loads(text))
    if group == "word":
        return WORDS.get(text, text)
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


Catalogue: TypeAlias = "Sequence[type[Pass]] | Callable[[Iterable[str]], Sequence[type[Pass]]]"
"""The known passes; or a function that finds those of some names, or returns all if a name is unknown."""

Places: TypeAlias = "Callable[[], Mapping[Path, Span]]"
"""A function that finds the spans of the values of a JSON list, by path."""

_OPTIONS = "options"


def to_text(passes: Iterable[Pass]) -> str:
    """Return the text of a pipeline; :func:`parse` reads it back."""
    return ",".join(map(_pass_text, passes))


def parse(text: str, catalogue: Catalogue, name: str = "<pipeline>") -> tuple[Pass, ...]:
    """Return the passes that ``text`` names.

    Raises:
        ParseError: TIL102 and TIL103 for syntax errors; TIL541, TIL542, TIL543 for unknown passes and options and for
            values that do not
            fit, all of them at once.
    """
    return _built(parse_requests(text, name), catalogue, ParseError)


def to_json(passes: Iterable[Pass]) -> str:
    """Return a JSON list of steps; :func:`from_json` reads it back."""
    return json.dumps(to_value(passes), indent=2)


def to_value(passes: Iterable[Pass]) -> list[object]:
    """Return the steps as plain JSON values; unnamed steps as ``{"name": …, "options": {…}}``."""
    steps: list[object] = []
    for step in passes:
        inner = unnamed(step)
        options = {name: written(value) for name, value in set_fields(inner).items()}
        if isinstance(step, Named):
            steps.append({"name": step.label, inner.name: options})
        else:
            steps.append({"name": inner.name, _OPTIONS: options})
    return steps


def from_json(text: str, catalogue: Catalogue, name: str = "<pipeline>") -> tuple[Pass, ...]:
    """Return the passes that a JSON list names.

    Raises:
        TileError: TIL601 if the text is not JSON, TIL602 for JSON of another shape, TIL541 to TIL543 as :func:`parse`.
    """
    source = Source(text, name)
    value = read_json(text, name)
    return from_value(value, catalogue, lambda: {p: Span(source, *place) for p, place in places_of(text).items()})


def from_value(items: object, catalogue: Catalogue, places: Places | None = None) -> tuple[Pass, ...]:
    """Return the passes of a parsed JSON list.

    Args:
        items: A list of steps.
        catalogue: The known passes.
        places: Finds the source spans of the values in ``items``, for messages (:func:`places_of`).

    Raises:
        TileError: As :func:`from_json`, but for TIL601.
    """
    try:
        return _built(_requests(items, {}), catalogue, TileError)
    except TileError:
        if places is None:
            raise
    return _built(_requests(items, places()), catalogue, TileError)


def _requests(items: object, places: Mapping[Path, Span]) -> list[Request]:
    if not isinstance(items, list):
        raise fail("TIL602", "a pipeline in JSON is a list of passes", places.get(()))
    requests, faults = [], []
    for number, item in enumerate(items):
        request = _request_of(item, number, places)
        if request is None:
            message = (
                f'entry {number} of the pipeline must be {{"name": pass, "options": {{name: value}}}} or '
                '{"name": step, pass: {name: value}}'
            )
            if isinstance(item, str):
                message += f'; here {{"name": {json.dumps(item)}}}'
            faults.append(Diagnostic("TIL602", message, places.get((number,))))
        else:
            requests.append(request)
    if faults:
        raise TileError(faults)
    return requests


def _pass_text(step: Pass) -> str:
    inner = unnamed(step)
    label = f"{step.label}:" if isinstance(step, Named) else ""
    options = {name: written(value) for name, value in set_fields(inner).items()}
    return f"{label}{inner.name}{record_text(options) if options else ''}"


def _built(
    requests: Sequence[Request],
    catalogue: Catalogue,
    error: Callable[[list[Diagnostic]], TileError],
) -> tuple[Pass, ...]:
    passes_known = catalogue([request.name for request in requests]) if callable(catalogue) else catalogue
    kinds = {alias: kind for kind in passes_known for alias in aliases_of(kind)}
    kinds |= {kind.name: kind for kind in passes_known}
    faults: list[Diagnostic] = []
    passes: list[Pass] = []
    for request in requests:
        if (kind := kinds.get(request.name)) is None:
            known = [*kinds, _OPTIONS] if request.label else kinds
            message = f"there is no pass {_shown(request.name)}{nearest_or_wheel(request.name, known)}"
            faults.append(Diagnostic("TIL541", message, request.span))
            continue
        before = len(faults)
        arguments = _arguments(request, hints_of(kind), faults)
        if len(faults) == before:
            try:
                step = kind(**arguments)
                passes.append(Named(request.label, step) if request.label else step)
            except ValueError as refusal:
                faults.append(Diagnostic("TIL543", f"pass {kind.name}: {refusal}", request.span))
    if faults:
        raise error(faults)
    return tuple(passes)


def _arguments(request: Request, options: Mapping[str, object], faults: list[Diagnostic]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for setting in request.settings:
        name = field_called(setting.name, options)
        if name is None:
            message = f"pass {request.name} has no option {_shown(setting.name)}{nearest(setting.name, options)}"
            faults.append(Diagnostic("TIL542", message, setting.name_span))
        elif name in arguments:
            message = f"option {setting.name} of pass {request.name} is given twice; drop one"
            faults.append(Diagnostic("TIL542", message, setting.name_span))
        else:
            arguments[name] = None
            try:
                arguments[name] = fitted(setting.value, options[name])
            except FitError as refusal:
                message = f"option {setting.name}{refusal.place} of pass {request.name} {refusal.problem}"
                faults.append(Diagnostic("TIL543", message, setting.value_span))
    return arguments


def _shown(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}…"


def _request_of(item: object, number: int, places: Mapping[Path, Span]) -> Request | None:
    """Return the pass of a JSON value; None if it has another shape."""
    if not isinstance(item, dict):
        return None
    label = item.get("name", "")
    others = [key for key in item if key != "name"]
    if not isinstance(label, str) or len(others) > 1:
        return None
    key = others[0] if others else _OPTIONS
    options = item.get(key, {})
    if not isinstance(options, dict) or (key == _OPTIONS and not label):
        return None
    settings = tuple(
        Setting(name, _plain(value), places.get((number, key, name, ":")), places.get((number, key, name)))
        for name, value in options.items()
    )
    if key == _OPTIONS:
        return Request(label, settings, places.get((number, "name")))
    return Request(key, settings, places.get((number, key, ":")), label)


def _plain(value: object) -> Written:
    match value:
        case list():
            return tuple(map(_plain, value))
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise AssertionError("no value of JSON")
