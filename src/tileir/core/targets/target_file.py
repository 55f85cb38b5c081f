"""Target files: a hardware model and a pipeline, as JSON with templates.

``{"name": …, "about": …, "parameters": {"NUM_SRAM": {"default": 4, "meaning": …}}, "settings": {…}, "facts": {…},
"hardware": {…}, "passes": […]}``. ``facts`` override attributes of :class:`~tileir.core.targets.target.Target`;
``settings`` are PlaidML's (:mod:`tileir.core.targets.kernel_settings`), from which facts are derived. ``hardware`` is
a model (:mod:`tileir.core.targets.hardware_json`), by default that of the device. ``passes`` is a pipeline
(:mod:`tileir.passes.pipelines.pipeline`) with ``{"include": target}`` for the passes of another target. ``devices``
is a regular expression for the names of devices that use the model by default.

The sections are templates (:mod:`tileir.core.targets.template`) of the parameters and the device's facts, and for
``passes``, of quantities of the model (:mod:`tileir.core.targets.quantities`). They are parsed and expanded on
demand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache, partial
from typing import Any, Final, TypeAlias, get_type_hints

from tileir.core.companions import nearest_or_wheel
from tileir.core.errors import Diagnostic, TileError, fail
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.json.brackets import misplaced
from tileir.core.json.decoder import FormatError, decoder_of
from tileir.core.json.plain import Path, Reader, places_of, read_json
from tileir.core.json.versions import refusal, version_of
from tileir.core.nodes import attrs
from tileir.core.targets.generic_hardware import generic_hardware
from tileir.core.targets.hardware import HardwareModel
from tileir.core.targets.hardware_json import from_value
from tileir.core.targets.kernel_settings import facts_from, read_settings
from tileir.core.targets.quantities import facts, quantities, settings
from tileir.core.targets.target import Target
from tileir.core.targets.target_names import SUFFIX, folder_of_targets, names_of_targets
from tileir.core.targets.template import FilledTemplate, filled
from tileir.core.targets.template_expressions import Value
from tileir.core.targets.template_parser import TAG
from tileir.core.text.names import nearest
from tileir.core.text.span import Source, Span

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<template>""" + TAG + r""")"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<sign>[,:])|(?P<other>[^\s"\[\]{},:/]+|.)""",
    re.DOTALL,
)
_MOST_CHARACTERS: Final = 1 << 20
"""Greatest length of a file, so that a hostile one costs seconds at most."""

_CLOSES: Final = {"{": "}", "[": "]"}
_OTHER: Final = {"}": "]", "]": "}"}
_NAME: Final = re.compile(r"[^\W\d]\w*")


@attrs.frozen
class Section:
    """The value of a member in its text: characters ``start`` to ``stop`` of ``source``."""

    source: Source = attrs.field(repr=False, eq=lambda source: source.text)
    start: int
    stop: int
    name: Span = attrs.field(repr=False, eq=False)

    def names(self) -> frozenset[str]:
        """Return all words in it, among them the names that it uses as a template."""
        return frozenset(_NAME.findall(self.source.text, self.start, self.stop))

    def read(self, names: Mapping[str, Value] | None = None) -> object:
        """Return its value as plain JSON; with ``names`` it is a template, and filled in first.

        Raises:
            TileError: TIL546, it cannot be filled in; TIL601 and TIL602, it is not JSON then, with the place.
        """
        text = self._filled(names)
        return read_json(text.text, self.source.name, text.place)

    def places(self, names: Mapping[str, Value] | None = None) -> dict[Path, Span]:
        """Return the places of the names and values in it, by the path to them; see :func:`places_of`.

        Raises:
            TileError: As :meth:`read`.
        """
        text = self._filled(names)
        return {path: text.place(start, stop) for path, (start, stop) in places_of(text.text).items()}

    def _filled(self, names: Mapping[str, Value] | None) -> FilledTemplate:
        if names is None:
            span = Span(self.source, self.start, self.stop)
            return FilledTemplate(span.text, (0,), (span,))
        return filled(self.source, self.start, self.stop, names)


def sections_of(text: str, source: str) -> dict[str, Section]:
    """Return the members of the object that ``text`` is, by name.

    Raises:
        TileError: TIL601, the text is no object or too long; TIL602, a name occurs twice.
    """
    sections: dict[str, Section] = {}
    whole = Source(text, source)
    if len(text) > _MOST_CHARACTERS:
        raise fail("TIL601", f"{source}: such a file has at most {_MOST_CHARACTERS} characters")
    tokens = _Tokens(whole, tuple(match for match in _TOKEN.finditer(text) if match.lastgroup != "skip"))
    tokens.take("{")
    while tokens.peek() != "}":
        key, name = tokens.take_string()
        if key in sections:
            raise fail("TIL602", f"{source}: {key[:64]!r} stands twice in one object; drop one")
        tokens.take(":")
        start, stop = tokens.take_value()
        sections[key] = Section(whole, start, stop, name)
        if tokens.peek() != "}":
            tokens.take(",")
    tokens.take("}")
    if tokens.peek():
        raise tokens.unexpected("nothing")
    return sections


@attrs.define(eq=False, repr=False)
class _Tokens:
    """Tokens from left to right; the only mutable state is the position."""

    source: Source
    tokens: tuple[re.Match[str], ...]
    position: int = 0

    def peek(self) -> str:
        """Return the next token; an empty text at the end."""
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def take(self, sign: str) -> None:
        """Go past a sign, which must come next."""
        if self.peek() != sign:
            raise self.unexpected(f"'{sign}'")
        self.position += 1

    def take_string(self) -> tuple[str, Span]:
        """Go past the name of a member and return it, and its place."""
        try:
            key: object = json.loads(self.peek() or "0")
        except ValueError:
            key = None
        if not isinstance(key, str):
            raise self.unexpected('the name of a section, such as "passes",')
        self.position += 1
        return key, Span(self.source, *self.tokens[self.position - 1].span())

    def take_value(self) -> tuple[int, int]:
        """Go past a value, whose brackets must match, and return its start and stop."""
        first, closing = self.position, list[str]()
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            if not closing and token[0] in (",", "}", "]"):
                break
            if token.lastgroup == "open":
                closing.append(_CLOSES[token[0]])
            elif token.lastgroup == "close" and token[0] != closing.pop():
                raise self.unexpected(f"'{_OTHER[token[0]]}'")
            self.position += 1
        if closing or first == self.position:
            raise self.unexpected(f"'{closing[-1]}'" if closing else "a value")
        return self.tokens[first].start(), self.tokens[self.position - 1].end()

    def unexpected(self, wanted: str) -> TileError:
        """Return the error for the next token, or for a bracket that contradicts the layout of lines."""
        seen = self.tokens[: self.position + 1]
        brackets = (token.start() for token in seen if token.lastgroup in ("open", "close"))
        if (found := misplaced(self.source.text, brackets)) is not None:
            return fail("TIL601", found.problem, Span(self.source, found.start, found.start + 1))
        end = len(self.source.text)
        start, stop = self.tokens[self.position].span() if self.position < len(self.tokens) else (end, end)
        return fail("TIL601", f"write {wanted} here", Span(self.source, start, min(stop, start + 1)))


Scalar: TypeAlias = bool | int | float | str

_KEYS: Final = ("name", "about", "version", "devices", "parameters", "settings", "facts", "hardware", "passes")
_PLAIN: Final = ("name", "about", "version", "devices", "parameters")
_FORMAT: Final = "tileir.targets.File"
_NO_FACTS: Final = ("name", "native", "pipeline", "parameters", "hardware")
"""Attributes of targets that files have in other places, or that only back ends know."""


@attrs.frozen
class Parameter:
    """A parameter that a target leaves open; without a default it must be given."""

    name: str
    meaning: str
    default: Scalar | None = None


@attrs.frozen
class TargetFile:
    """A target file, whose templates are not filled in yet.

    Attributes:
        name: Its name.
        about: Its purpose, in a sentence.
        devices: A pattern for the names of devices that have its hardware model; empty for none.
        parameters: Its parameters, in the order of the file.
        facts: The section of that name; None if all facts are the device's.
        hardware: The section of that name; None for the device's model.
        passes: The section of that name; None if no passes are given.
        text: The whole file.
        builtin: Whether it comes with tileir.
        source: The name of the file in messages.
        settings: The section of that name; None if no settings are given.
    """

    name: str
    about: str
    devices: str
    parameters: tuple[Parameter, ...]
    facts: Section | None
    hardware: Section | None
    passes: Section | None
    text: str = attrs.field(repr=False)
    builtin: bool = False
    source: str = attrs.field(default="<target>", eq=False)
    settings: Section | None = None

    def values(self, given: Mapping[str, Scalar]) -> dict[str, Value]:
        """Return the value of each parameter: the given one, or its default.

        Raises:
            TileError: TIL547 for parameters that do not exist, are missing or have the wrong kind, all of them.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        faults = [f"target {self.name} has no parameter {n[:64]}{nearest(n, known)}" for n in given if n not in known]
        values: dict[str, Value] = {}
        for name, parameter in known.items():
            value = given.get(name, parameter.default)
            if value is None:
                faults.append(f"target {self.name} needs {name}=VALUE ({parameter.meaning})")
            elif not _like(value, parameter.default):
                faults.append(f"{name} of target {self.name} takes {_kind(parameter.default)}, not {value!r:.64}")
            values[name] = value
        if faults:
            raise TileError(Diagnostic("TIL547", fault) for fault in faults)
        return values


def load(text: str, source: str = "<target>") -> TargetFile:
    """Return the target that a text describes; its sections are not filled in.

    Args:
        text: The text of the file.
        source: The name of the file in messages.

    Raises:
        TileError: TIL601 and TIL602, the text is not JSON of this form, with the place.
    """
    sections = sections_of(text, source)
    plain = {key: section.read() for key, section in sections.items() if key in _PLAIN}
    reader = Reader(source, lambda: _places(sections))
    reader.members(dict.fromkeys(sections), source, _KEYS)
    refused = refusal(_FORMAT, plain.get("version", version_of(_FORMAT)))
    if refused is not None:
        reader.fault(source, refused, "version")
    listed = reader.members(plain.get("parameters", {}), f"{source}: parameters")
    target = TargetFile(
        reader.text(plain, "name", source),
        reader.text(plain, "about", source, ""),
        reader.text(plain, "devices", source, ""),
        tuple(_parameter(reader, name, value, f"{source}: parameters.{name}") for name, value in listed.items()),
        sections.get("facts"),
        sections.get("hardware"),
        sections.get("passes"),
        text,
        source=source,
        settings=sections.get("settings"),
    )
    if reader.faults:
        raise TileError(reader.faults)
    return target


def _places(sections: Mapping[str, Section]) -> dict[Path, Span]:
    """Return the places of the names of sections, and of values in those that are no templates."""
    places: dict[Path, Span] = {(key, ":"): section.name for key, section in sections.items()}
    for key in [key for key in _PLAIN if key in sections]:
        places |= {(key, *path): span for path, span in sections[key].places().items()}
    return places


def all_names_of_targets() -> tuple[str, ...]:
    """Return the names of the targets that come with tileir or with other distributions, sorted."""
    return tuple(sorted({*names_of_targets(), *EXTENSIONS.names(Kind.TARGET)}))


@cache
def target_called(name: str) -> TargetFile:
    """Return a target that comes with tileir, or with an installed distribution.

    Raises:
        TileError: TIL547, there is none of that name, or that of a distribution is invalid.
        BackendError: TIL811 or TIL812, it cannot be loaded.
    """
    path = folder_of_targets() / f"{name}{SUFFIX}"
    if name.replace("-", "_").isidentifier() and path.is_file():
        return attrs.evolve(load(path.read_text(encoding="utf-8"), f"{name}.json"), builtin=True)
    if name not in EXTENSIONS.entries(Kind.TARGET):
        raise fail("TIL547", f"there is no target {name[:64]!r}{nearest_or_wheel(name, all_names_of_targets())}")
    return loaded(_text_of(EXTENSIONS.get(Kind.TARGET, name, lambda offer: _wrong(offer, name))), f"{name}.json")


def _text_of(offer: object) -> str:
    return offer if isinstance(offer, str) else offer.read_text(encoding="utf-8")  # type: ignore[attr-defined]


def _wrong(offer: object, name: str) -> str | None:
    """Return the reason why something cannot serve as the target of that name; None if it can."""
    if not isinstance(offer, str) and not hasattr(offer, "read_text"):
        return f"is a {type(offer).__name__}, not the text of a target file, or its path"
    try:
        file = load(_text_of(offer), f"{name}.json")
    except TileError as error:
        return f"is no target file: {error.diagnostics[0].message}"
    return None if file.name == name else f"calls itself {file.name!r}; its entry point must have the same name"


_MOST_LOADED: Final = 16
_LOADED: Final[dict[str, TargetFile]] = {}
"""Files by their texts, the least recent first: targets hold texts, but messages need the names of files."""


def loaded(text: str, source: str | None = None) -> TargetFile:
    """Return :func:`load` of a text from a cache; without a source it keeps its earlier name.

    Raises:
        TileError: As :func:`load`.
    """
    file = _LOADED.pop(text, None)
    if file is None or source not in (None, file.source):
        file = load(text, source or "<target>")
    _LOADED[text] = file
    for least_recent in list(_LOADED)[:-_MOST_LOADED]:
        _LOADED.pop(least_recent, None)
    return file


def is_name(text: str) -> bool:
    """Return whether a text is one word, as the name of a target is."""
    return text.replace("-", "_").isidentifier()


def file_of(pipeline: str) -> TargetFile | None:
    """Return the target file whose name or text a target's pipeline is; None for another pipeline.

    Raises:
        TileError: As :func:`load`.
    """
    if pipeline.lstrip().startswith("{"):
        return loaded(pipeline)
    name = pipeline.strip()
    known = name in names_of_targets() or (is_name(name) and name in EXTENSIONS.entries(Kind.TARGET))
    return target_called(name) if known else None


@lru_cache(maxsize=64)
def with_facts(target: Target) -> Target:
    """Return a target with the facts of its file, and with its name if it describes a machine; else itself.

    Raises:
        TileError: As :func:`load`, and TIL546 and TIL602 for invalid facts.
    """
    file = file_of(target.pipeline)
    if file is None or (file.facts is None and file.settings is None and file.hardware is None):
        return target
    hints = get_type_hints(Target)
    names, place = {**facts(target), **file.values(dict(target.parameters))}, f"{file.name}: facts"
    if given := given_settings(file, names):
        target = attrs.evolve(target, name=file.name, hardware=None, **facts_from(given, target))
    if file.facts is None:
        return attrs.evolve(target, name=file.name)
    reader = Reader(place, partial(file.facts.places, names))
    written = reader.members(file.facts.read(names), place, [name for name in hints if name not in _NO_FACTS])
    values: dict[str, Any] = {"name": file.name}
    for name in [name for name in written if name in hints]:
        try:
            values[name] = decoder_of(hints[name])(_whole(written[name]))
        except FormatError as error:
            reader.fault(f"{place}.{name}", error.problem)
    if reader.faults:
        raise TileError(reader.faults)
    return attrs.evolve(target, **values)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=64)
def hardware_of(target: Target) -> HardwareModel:
    """Return the hardware model of a device: that of its target file, or of its back end, or a known or generic one.

    Raises:
        TileError: As :func:`load`, and TIL544, TIL546 and TIL602 for an invalid model.
    """
    file = file_of(target.pipeline)
    if file is not None and file.hardware is not None:
        names = {**facts(target), **file.values(dict(target.parameters))}
        return from_value(file.hardware.read(names), file.name, partial(file.hardware.places, names))
    return _known_hardware(target) or generic_hardware(target) if target.hardware is None else target.hardware


def _known_hardware(target: Target) -> HardwareModel | None:
    """Return the model of a target that comes with tileir for devices of this name; None if there is none."""
    for name in names_of_targets():
        file = target_called(name)
        if file.devices and file.hardware is not None and re.search(file.devices, target.name):
            return from_value(file.hardware.read({**facts(target), **file.values({})}), file.name)
    return None


def passes_value(file: TargetFile, target: Target) -> object:
    """Return the section ``passes`` of a target as plain JSON, filled in for a device; an empty list without one.

    Raises:
        TileError: TIL546, TIL547 and TIL601, it cannot be filled in.
    """
    if file.passes is None and file.settings is not None:
        return [{"include": "cpu" if target.group_threads == 1 else "gpu"}]
    return [] if file.passes is None else file.passes.read(_names_in_passes(file, target))


def passes_places(file: TargetFile, target: Target) -> dict[Path, Span]:
    """Return the places of the parts of :func:`passes_value` in the text, for messages.

    Raises:
        TileError: As :func:`passes_value`.
    """
    return {} if file.passes is None else file.passes.places(_names_in_passes(file, target))


def _names_in_passes(file: TargetFile, target: Target) -> dict[str, Value]:
    own = file.values(dict(target.parameters)) if file == file_of(target.pipeline) else file.values({})
    names = {**facts(target), **own}
    given = {name.upper(): value for name, value in given_settings(file, names).items()}
    if file.passes is not None and not file.passes.names() <= names.keys():
        model = hardware_of(target)
        names = {**quantities(model), **settings(model, target), **given, **names}
    return names


def given_settings(file: TargetFile, names: Mapping[str, Value]) -> dict[str, int]:
    """Return the settings in a target file; TIL602 for their faults."""
    if file.settings is None:
        return {}
    reader = Reader(f"{file.name}: settings", partial(file.settings.places, names))
    given = read_settings(reader, file.settings.read(names), f"{file.name}: settings")
    if reader.faults:
        raise TileError(reader.faults)
    return given


def _parameter(reader: Reader, name: str, value: object, place: str) -> Parameter:
    if not name.isidentifier():
        reader.fault(place, "write a word such as NUM_SRAM for the name of a parameter")
    members = reader.members(value, place, ("default", "meaning"))
    default = members.get("default")
    if default is not None and not isinstance(default, bool | int | float | str):
        reader.fault(place, f"the default must be a number, a text, true or false, not {json.dumps(default)[:40]}")
        default = None
    return Parameter(name, reader.text(members, "meaning", place, ""), default)


def _like(value: Scalar, default: Scalar | None) -> bool:
    if default is None or type(value) is type(default):
        return True
    return (
        isinstance(default, int | float) and isinstance(value, int | float) and bool not in (type(value), type(default))
    )


def _kind(default: Scalar | None) -> str:
    return "true or false" if isinstance(default, bool) else "a text" if isinstance(default, str) else "a number"
