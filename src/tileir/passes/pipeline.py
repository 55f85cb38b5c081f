"""Pipelines as text and as JSON: ``fuse{max_statements=64},localise,tile{sizes=(8,32)}``.

An option is an integer, a number, ``true`` or ``false``, a word or a quoted string, or a tuple of these; what a
pass takes follows from the annotations of its fields. Options at their defaults are not written.
"""

from __future__ import annotations

import json
import re
import types
import typing
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core.errors import Diagnostic, ParseError, TileError
from tileir.core.names import nearest
from tileir.core.span import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tileir.passes.base import Pass

Scalar: TypeAlias = bool | int | float | str
Option: TypeAlias = Scalar | tuple[Scalar, ...]

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)(?![\w.]))|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<sign>[{}(),=]))""",
)
_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[^\W\d]\w*\Z")
_RESERVED: Final = ("true", "false", "inf", "nan")
_MOST_DIGITS: Final = 400


def to_text(passes: Iterable[Pass]) -> str:
    """Return the text of a pipeline; :func:`parse` reads it back."""
    return ",".join(_pass_text(step) for step in passes)


def parse(text: str, catalogue: Sequence[type[Pass]], name: str = "<pipeline>") -> tuple[Pass, ...]:
    """Return the passes that ``text`` names.

    Raises:
        ParseError: TIL102 where the text does not follow the grammar; TIL541, TIL542, TIL543 for unknown passes and
            options and for values that do not fit, all of them at once.

    """
    parser = _Parser(Source(text, name))
    requests = parser.pipeline()
    return _built(requests, catalogue, ParseError)


def to_json(passes: Iterable[Pass]) -> str:
    """Return a JSON list with an object ``{"name": …, "options": {…}}`` for each pass."""
    return json.dumps([{"name": step.name, "options": _set_options(step)} for step in passes], indent=2)


def from_json(text: str, catalogue: Sequence[type[Pass]]) -> tuple[Pass, ...]:
    """Return the passes that a JSON list names.

    Raises:
        TileError: TIL601 for what is not JSON, TIL602 for JSON of another shape, TIL541 to TIL543 as :func:`parse`.

    """
    try:
        items: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TileError((Diagnostic("TIL601", f"this pipeline is not JSON: {error}"),)) from None
    if not isinstance(items, list):
        raise TileError((Diagnostic("TIL602", "a pipeline in JSON is a list of passes"),))
    requests, faults = [], []
    for number, item in enumerate(items):
        request = _request_of(item)
        if request is None:
            message = f'entry {number} of the pipeline must be {{"name": text, "options": {{name: value}}}}'
            faults.append(Diagnostic("TIL602", message))
        else:
            requests.append(request)
    if faults:
        raise TileError(faults)
    return _built(requests, catalogue, TileError)


@attrs.frozen
class _Setting:
    """An option as it was written."""

    name: str
    value: Option
    name_span: Span | None = None
    value_span: Span | None = None


@attrs.frozen
class _Request:
    """A pass as it was written."""

    name: str
    settings: tuple[_Setting, ...]
    span: Span | None = None


def _options(kind: type[Pass]) -> Mapping[str, object]:
    """Return the type of each option of a pass."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in attrs.fields(kind)}  # type: ignore[arg-type]


def _set_options(step: Pass) -> dict[str, Option]:
    """Return the options of a pass that are not at their defaults."""
    default = type(step)()
    values = {name: (getattr(step, name), getattr(default, name)) for name in _options(type(step))}
    return {name: value for name, (value, usual) in values.items() if value != usual}


def _pass_text(step: Pass) -> str:
    options = ",".join(f"{name}={_value_text(value)}" for name, value in _set_options(step).items())
    return f"{step.name}{{{options}}}" if options else step.name


def _value_text(value: Option) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value if _WORD.match(value) and value not in _RESERVED else json.dumps(value)
        case tuple():
            return f"({','.join(map(_value_text, value))})"
        case _:
            return repr(value)


def _built(
    requests: Iterable[_Request],
    catalogue: Sequence[type[Pass]],
    error: Callable[[list[Diagnostic]], TileError],
) -> tuple[Pass, ...]:
    kinds = {kind.name: kind for kind in catalogue}
    faults: list[Diagnostic] = []
    passes = []
    for request in requests:
        if (kind := kinds.get(request.name)) is None:
            message = f"there is no pass {_shown(request.name)}{nearest(request.name, kinds)}"
            faults.append(Diagnostic("TIL541", message, request.span))
            continue
        before = len(faults)
        arguments = _arguments(request, _options(kind), faults)
        if len(faults) == before:
            try:
                passes.append(kind(**arguments))
            except ValueError as refusal:
                faults.append(Diagnostic("TIL543", f"pass {kind.name}: {refusal}", request.span))
    if faults:
        raise error(faults)
    return tuple(passes)


def _arguments(request: _Request, options: Mapping[str, object], faults: list[Diagnostic]) -> dict[str, Option]:
    arguments: dict[str, Option] = {}
    for setting in request.settings:
        if setting.name not in options:
            message = f"pass {request.name} has no option {_shown(setting.name)}{nearest(setting.name, options)}"
            faults.append(Diagnostic("TIL542", message, setting.name_span))
        elif setting.name in arguments:
            message = f"option {setting.name} of pass {request.name} is given twice; drop one"
            faults.append(Diagnostic("TIL542", message, setting.name_span))
        else:
            hint = options[setting.name]
            arguments[setting.name] = value = _adapted(setting.value, hint)
            if not _fits(value, hint):
                message = f"option {setting.name} of pass {request.name} takes {_described(hint)}"
                faults.append(Diagnostic("TIL543", message, setting.value_span))
    return arguments


def _adapted(value: Option, hint: object) -> Option:
    """Let a single value stand for a tuple of one, and an integer for a number."""
    if typing.get_origin(hint) is tuple:
        items = value if isinstance(value, tuple) else (value,)
        item = typing.get_args(hint)[0]
        return tuple(float(v) if item is float and type(v) is int else v for v in items)
    return float(value) if hint is float and type(value) is int else value


def _fits(value: Option, hint: object) -> bool:
    if isinstance(hint, types.UnionType):
        return any(_fits(value, case) for case in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, typing.get_args(hint)[0]) for item in value)
    return type(value) is hint


def _described(hint: object) -> str:
    if isinstance(hint, types.UnionType):
        return " or ".join(_described(case) for case in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"a tuple, each item {_described(typing.get_args(hint)[0])}"
    return {bool: "true or false", int: "an integer", float: "a number", str: "a text"}.get(
        typing.cast("type", hint), str(hint)
    )


def _shown(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}…"


def _request_of(item: object) -> _Request | None:
    """Return the pass that a JSON value describes; None where it has another shape."""
    if not isinstance(item, dict) or not item.keys() <= {"name", "options"}:
        return None
    name, options = item.get("name"), item.get("options", {})
    if not isinstance(name, str) or not isinstance(options, dict):
        return None
    settings = []
    for key, value in options.items():
        option: object = tuple(value) if isinstance(value, list) else value
        if not isinstance(option, bool | int | float | str | tuple):
            return None
        settings.append(_Setting(key, option))
    return _Request(name, tuple(settings))


@attrs.define
class _Parser:
    """Recursive descent over one text; the only mutable state is the position."""

    source: Source
    position: int = 0

    def pipeline(self) -> tuple[_Request, ...]:
        """Parse all of the text."""
        requests: list[_Request] = []
        if self._peek() is None:
            return ()
        requests.append(self._request())
        while self._peek() is not None:
            self._expect(",")
            requests.append(self._request())
        return tuple(requests)

    def _request(self) -> _Request:
        name, span = self._word("the name of a pass")
        if self._next_sign() != "{":
            return _Request(name, (), span)
        self._expect("{")
        settings = [] if self._next_sign() == "}" else self._settings()
        self._expect("}")
        return _Request(name, tuple(settings), span)

    def _settings(self) -> list[_Setting]:
        settings = [self._setting()]
        while self._next_sign() == ",":
            self._expect(",")
            settings.append(self._setting())
        return settings

    def _setting(self) -> _Setting:
        name, name_span = self._word("the name of an option")
        self._expect("=")
        start = self._skip_space()
        value: Option = self._tuple() if self._next_sign() == "(" else self._scalar()
        return _Setting(name, value, name_span, Span(self.source, start, self.position))

    def _tuple(self) -> tuple[Scalar, ...]:
        self._expect("(")
        items: list[Scalar] = []
        while self._next_sign() != ")":
            items.append(self._scalar())
            if self._next_sign() != ")":
                self._expect(",")
        self._expect(")")
        return tuple(items)

    def _scalar(self) -> Scalar:
        token = self._peek()
        if token is None or token.lastgroup == "sign":
            raise self._unexpected("a value")
        text = token[token.lastgroup or 0]
        try:
            value = _scalar_of(token.lastgroup, text)
        except ValueError:
            raise self._unexpected("a value that can be read") from None
        self.position = token.end()
        return value

    def _word(self, what: str) -> tuple[str, Span]:
        token = self._peek()
        if token is None or token.lastgroup != "word":
            raise self._unexpected(what)
        self.position = token.end()
        return token["word"], Span(self.source, token.start("word"), token.end())

    def _expect(self, sign: str) -> None:
        if self._next_sign() != sign:
            raise self._unexpected(f"'{sign}'")
        token = self._peek()
        self.position = self.position if token is None else token.end()

    def _next_sign(self) -> str | None:
        token = self._peek()
        return None if token is None else token["sign"]

    def _skip_space(self) -> int:
        match = _SPACE.match(self.source.text, self.position)
        return self.position if match is None else match.end()

    def _peek(self) -> re.Match[str] | None:
        """Return the next token; None at the end."""
        if self._skip_space() == len(self.source.text):
            return None
        token = _TOKEN.match(self.source.text, self.position)
        if token is None:
            raise self._unexpected("a name, a value or one of {}(),=")
        return token

    def _unexpected(self, what: str) -> ParseError:
        start = self._skip_space()
        token = _TOKEN.match(self.source.text, self.position)
        stop = token.end() if token is not None else min(start + 1, len(self.source.text))
        return ParseError((Diagnostic("TIL102", f"write {what} here", Span(self.source, start, stop)),))


def _scalar_of(group: str | None, text: str) -> Scalar:
    """Return the value of a token.

    Raises:
        ValueError: A number with too many digits, or an unknown escape in a string.

    """
    if group == "string":
        return str(json.loads(text))
    if group == "word":
        return {"true": True, "false": False}.get(text, text)
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(text) if text.lstrip("+-").isdigit() else float(text)
