"""Files that describe functions of formulas: lines behind ``///`` that say what a control has to know, then Tile.

.. code-block:: text

    /// gaussian: blurs by a Gaussian window, rows first.
    /// sigma = 1.5 from 0.1 to 50 step 0.1: standard deviation, in pixels
    /// Radius = int(3 * sigma + 1)
    /// boundary = mirror
    /// source: Gonzalez and Woods, Digital Image Processing, 2018
    function (I[H, W, C], Sigma, Radius) -> (O) { … }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tileir.core import ArgumentError, Diagnostic, ParseError, Source, Span, TileError, VerifyError, attrs, nearest
from tileir.core.targets.template_expressions import ExpressionError, parse
from tileir.core.text.versions import check_version, unversioned
from tileir.tile import ir as tile
from tileir.tile.text.parser import parse_unverified
from tileir.tile.traversal import walk
from tileir_formula.definitions.function_checks import faults_of
from tileir_formula.definitions.functions import Derived, Function
from tileir_formula.definitions.parameters import (
    NO,
    YES,
    ChoiceParameter,
    ColourParameter,
    FlagParameter,
    NumberParameter,
    Parameter,
    WeightsParameter,
)
from tileir_formula.ir import Argument, Boundary, Colour, Number, Step, Value, Weights, Word
from tileir_formula.text.parser import parse as parse_formula

MAX_CHARACTERS: Final = 1_000_000
"""Of a file."""

_HEADER: Final = re.compile(r"(?:^///[^\n]*\n)+", re.MULTILINE)
_TITLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):\s*(.*)")
_SOURCE: Final = re.compile(r"source:\s*(.*)")
_BOUNDARY: Final = re.compile(r"boundary\s*=\s*(\w+)")
_DERIVED: Final = re.compile(r"([A-Z][A-Za-z0-9_]*)\s*=\s*(.+)")
_PARAMETER: Final = re.compile(
    r"""
    (?P<name> [a-z_][A-Za-z0-9_]* ) \s* = \s* (?P<default> \[[^\]]*\] | [^\s:]+ )
    (?: \s+ from \s+ (?P<low> \S+ ) \s+ to \s+ (?P<high> \S+ ) \s+ step \s+ (?P<step> [^\s:]+ )
      | \s+ among \s+ (?P<words> [^:]+? )
      | \s+ up \s+ to \s+ (?P<most> [0-9]{1,3} )
    )?
    \s* (?: : \s* (?P<about> .* ) )?
    """,
    re.VERBOSE,
)
_FORMS: Final = (
    "write `name = number from low to high step distance: …`, `name = word among word, word: …`, `name = yes: …`, "
    "`name = #rrggbb: …`, `name = [1 2; 3 4] up to size: …`, `Name = expression`, `boundary = …` or `source: …`"
)


def read_functions(text: str, name: str = "<functions>") -> tuple[Function, ...]:
    """Read the functions that a file describes.

    Raises:
        ParseError: A description or a body cannot be read; all faults of the file. TIL106, it names a newer version.
        VerifyError: A body breaks a rule of Tile.
        ArgumentError: TIL105, the text is too long.

    """
    if len(text) > MAX_CHARACTERS:
        raise ArgumentError.of("TIL105", f"a file of functions has at most {MAX_CHARACTERS:,} characters")
    source = check_version(Source(text, name))
    text = unversioned(text)
    headers = list(_HEADER.finditer(text))
    functions: list[Function] = []
    faults: list[Diagnostic] = []
    if not headers or text[: headers[0].start()].strip():
        faults.append(_fault("a function begins with a line `/// name: what it does`", Span(source, 0, 0)))
    ends = [*(header.start() for header in headers[1:]), len(text)][: len(headers)]
    for header, end in zip(headers, ends, strict=True):
        try:
            functions.append(_read(source, header, end, tuple(functions)))
        except TileError as error:
            faults.extend(error.diagnostics)
    names = [function.name for function in functions]
    faults.extend(
        Diagnostic("TIL202", f"{each!r} is described twice", Span(source, headers[0].start(), headers[0].end()))
        for each in sorted({each for each in names if names.count(each) > 1})
    )
    if faults:
        raise ParseError(tuple(faults))
    return tuple(functions)


def _read(source: Source, header: re.Match[str], end: int, above: tuple[Function, ...]) -> Function:
    """Read one function, whose body may call those above it.

    Raises:
        ParseError: Its description or body cannot be read.
        VerifyError: Its body breaks a rule.

    """
    description = _Description(source)
    for start, line in _lines(header):
        description.take(start, line)
    faults = description.faults
    before = re.sub(r"[^\n]", " ", source.text[: header.end()])  # so that places in the body are those of the file
    try:
        body = parse_unverified(before + source.text[header.end() : end], source.name)
    except ParseError as error:
        raise ParseError((*faults, *error.diagnostics)) from None
    called = {node.function for node in _calls(body)}
    function = description.function(body, tuple(helper for helper in above if helper.name in called))
    whole = Span(source, header.start(), header.end())
    if not faults:
        faults.extend(attrs.evolve(fault, span=fault.span or whole) for fault in faults_of(function))
    if faults:
        raise VerifyError(tuple(faults))
    return function


def _calls(body: tile.Function) -> Iterator[tile.Call]:
    for statement in body.statements:
        if isinstance(statement, tile.Assignment):
            yield from (node for node in walk(statement.value) if isinstance(node, tile.Call))


def _lines(header: re.Match[str]) -> Iterator[tuple[int, str]]:
    start = header.start()
    for line in header.group().splitlines(keepends=True):
        words = line[3:].strip()
        yield start + line.index(words, 3), words
        start += len(line)


@attrs.define(eq=False, repr=False)
class _Description:
    """The header of a function, as far as it was read."""

    source: Source
    name: str = ""
    about: str = ""
    origin: str = ""
    boundary: Boundary = Boundary.MIRROR
    parameters: list[Parameter] = attrs.field(factory=list)
    derived: list[Derived] = attrs.field(factory=list)
    faults: list[Diagnostic] = attrs.field(factory=list)

    def function(self, body: tile.Function, helpers: tuple[Function, ...]) -> Function:
        return Function(
            self.name,
            body,
            tuple(self.parameters),
            tuple(self.derived),
            self.boundary,
            self.about,
            self.origin,
            helpers,
        )

    def take(self, start: int, line: str) -> None:
        span = Span(self.source, start, start + len(line))
        if not self.name:
            title = _TITLE.fullmatch(line)
            self.name, self.about = title.groups() if title else ("unnamed", "")
            if title is None:
                self.faults.append(_fault("a function begins with a line `/// name: what it does`", span))
        elif match := _SOURCE.fullmatch(line):
            self.origin = match[1]
        elif match := _BOUNDARY.fullmatch(line):
            self.take_boundary(match[1], span)
        elif match := _DERIVED.fullmatch(line):
            self.take_derived(match[1], match[2], span)
        elif match := _PARAMETER.fullmatch(line):
            self.take_parameter(match, span)
        elif self.parameters or self.derived or not line:
            self.faults.append(_fault(_FORMS, span))
        else:  # the sentence goes on
            self.about = f"{self.about} {line}"

    def take_boundary(self, word: str, span: Span) -> None:
        words = [each.value for each in Boundary]
        if word in words:
            self.boundary = Boundary(word)
        else:
            self.faults.append(_fault(f"a boundary is one of {', '.join(words)}{nearest(word, words)}", span))

    def take_derived(self, name: str, expression: str, span: Span) -> None:
        try:
            parse(expression)
        except ExpressionError as error:
            self.faults.append(_fault(str(error), span))
        else:
            self.derived.append(Derived(name, expression))

    def take_parameter(self, match: re.Match[str], span: Span) -> None:
        """Read a parameter of one of the forms, and check its default against its own bounds."""
        try:
            default = _value(match["default"])
            parameter = _parameter(match, default)
        except (TileError, ValueError):
            self.faults.append(_fault(_FORMS, span))
            return
        fault = parameter.fault(default)
        if fault is not None:
            self.faults.append(_fault(f"the default of {parameter.name} {fault}", span))
        self.parameters.append(parameter)


def _parameter(match: re.Match[str], default: Value) -> Parameter:
    """Return the parameter that a line describes.

    Raises:
        ValueError: The bounds do not go with the default.

    """
    name, about = match["name"], match["about"] or ""
    bounds = [match[each] for each in ("low", "words", "most")]
    match default:
        case Number() if match["low"] is not None:
            low, high, step = (_number(match[each]) for each in ("low", "high", "step"))
            if step <= 0 or low > high:
                raise ValueError
            return NumberParameter(name, default, low, high, step, about)
        case Word() if match["words"] is not None:
            return ChoiceParameter(name, default, tuple(word.strip() for word in match["words"].split(",")), about)
        case Weights() if match["most"] is not None:
            return WeightsParameter(name, default, int(match["most"]), about)
        case Word(word=word) if bounds == [None] * 3 and word in (YES, NO):
            return FlagParameter(name, default, about)
        case Colour() if bounds == [None] * 3:
            return ColourParameter(name, default, about)
    raise ValueError


def _value(text: str) -> Value:
    """Return a value as formulas write it.

    Raises:
        ParseError: It is none.
        ValueError: It is more than a value.

    """
    step = parse_formula(f"f(x={text})").steps[0]
    match step:
        case Step(arguments=(Argument(value=value),)):
            return value
    raise ValueError


def _number(text: str) -> float:
    value = _value(text)
    if not isinstance(value, Number):
        raise ValueError
    return float(value.value)


def _fault(message: str, span: Span) -> Diagnostic:
    return Diagnostic("TIL226", message, span)
