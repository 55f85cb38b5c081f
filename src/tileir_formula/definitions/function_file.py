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
from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    evaluate,
    parse,
)
from tileir.core.text.versions import check_version, unversioned
from tileir.tile import ir as tile
from tileir.tile.checks.verifier import verify
from tileir.tile.text.parser import parse_unverified
from tileir.tile.traversal import walk
from tileir_formula.definitions.bodies import build
from tileir_formula.definitions.functions import DerivedInput, Function, input_name
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
from tileir_formula.text.reading import LARGEST
from tileir_formula.text.spelling import fault_of_value

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
    derived: list[DerivedInput] = attrs.field(factory=list)
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
            self.derived.append(DerivedInput(name, expression))

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


def faults_of(function: Function) -> list[Diagnostic]:
    """Return the faults of a function; where inputs are right, also those of its body."""
    found = [*_of_parameters(function)]
    found = found or [*_of_derived(function), *_of_inputs(function), *_of_words(function)]
    return found or _of_body(function)


def _of_parameters(function: Function) -> Iterator[Diagnostic]:
    names = [each.name for each in function.parameters]
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield _mistake(f"the parameter {name!r} is described twice")
    declared = {each.name: each for each in function.body.inputs}
    for parameter in function.parameters:
        if (fault := fault_of_value(parameter.default) or parameter.fault(parameter.default)) is not None:
            yield _mistake(f"the default of {parameter.name} {fault}")
        if isinstance(parameter, NumberParameter) and not (_is_bounded(parameter) and parameter.step > 0):
            yield _mistake(f"the bounds of {parameter.name} are numbers, the lower one first, with a step above 0")
        name = input_name(parameter.name)
        if name not in declared:
            yield _mistake(f"the body has no input {name!r} for the parameter {parameter.name!r}")
            continue
        dims = declared[name].dims
        rank = _rank(parameter)
        if (0 if dims is None else len(dims)) != rank:
            yield Diagnostic("TIL226", f"{name} of the body has {rank} axes, as its parameter", declared[name].span)


def _is_bounded(parameter: NumberParameter) -> bool:
    return -LARGEST <= parameter.low <= parameter.high <= LARGEST and parameter.step <= LARGEST


def _rank(parameter: Parameter) -> int:
    return 2 if isinstance(parameter, WeightsParameter) else 1 if isinstance(parameter, ColourParameter) else 0


def _of_derived(function: Function) -> Iterator[Diagnostic]:
    inputs = {each.name for each in function.body.inputs}
    for derived in function.derived:
        if derived.name not in inputs:
            yield _mistake(f"the body has no input {derived.name!r}, which is derived")
        try:
            parse(derived.expression)
        except ExpressionError as error:
            yield _mistake(f"{derived.name} has no expression: {error}")
            continue
        for end in ("low", "high"):
            names = {each.name: _end(each, end) for each in function.parameters if _rank(each) == 0}
            yield from _of_value(derived, names)


def _end(parameter: Parameter, end: str) -> int | float:
    """Return the value at one end of the bounds of a parameter, as expressions see it."""
    if not isinstance(parameter, NumberParameter):
        value = parameter.operand(parameter.default)
        assert isinstance(value, int)  # its rank is 0
        return value
    value = parameter.operand(Number(getattr(parameter, end)))
    assert isinstance(value, int | float)
    return value


def _of_value(derived: DerivedInput, names: dict[str, int | float]) -> Iterator[Diagnostic]:
    try:
        value = evaluate(derived.tree, names, Budget())
    except MissingError as error:
        yield _mistake(f"{derived.name} is derived from {error.args[0]!r}, which is no number among the parameters")
    except (ExpressionError, ExhaustedError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        yield _mistake(f"{derived.name} has no value where {names}: {error}")
    else:
        if not isinstance(value, int | float):
            yield _mistake(f"{derived.name} is a number; it is {value!r} where {names}")


def _of_inputs(function: Function) -> Iterator[Diagnostic]:
    if not function.pictures:
        yield _mistake(f"a function reads a picture; all inputs of {function.name} are parameters")
    if len(function.pictures) > 2:
        yield _mistake(f"a function reads one picture or two; {function.name} reads {', '.join(function.pictures)}")
    for each in function.body.inputs:
        if each.name in function.pictures and each.dims is None:
            message = f"{each.name} is a picture, and names its axes, as in {each.name}[H, W, C]"
            yield Diagnostic("TIL226", message, each.span)
    if len(function.body.outputs) != 1:
        yield _mistake(f"a function makes one picture; {function.name} has {len(function.body.outputs)} outputs")


def _of_words(function: Function) -> Iterator[Diagnostic]:
    """Check that words stand in statements of their own, with the names of tensors, then sizes."""
    for statement in function.body.statements:
        if not isinstance(statement, tile.Assignment):
            continue
        call = function.word_call(statement)
        whole = (statement.value,) if call is None else call.arguments
        for node in (part for expression in whole for part in walk(expression)):
            if isinstance(node, tile.Call) and node.function in function.words:
                message = (
                    f"{node.function} stands in a statement of its own: Made = {function.words[node.function].form};"
                )
                yield Diagnostic("TIL226", message, node.span)
        if call is not None:
            word, operands = function.words[call.function], call.arguments
            named = all(isinstance(operand, tile.Name) for n, operand in enumerate(operands) if n in word.tensors)
            if not named or not word.least <= len(operands) <= word.most:
                yield Diagnostic("TIL226", f"write {word.form}, where what has axes is the name of a tensor", call.span)


def _of_body(function: Function) -> list[Diagnostic]:
    """Return the faults of the body by Tile's own rules, as part of a function."""
    try:
        verify(_without_words(function))
    except TileError as error:
        return list(error.diagnostics)
    try:
        build(function)
    except TileError as error:
        return list(error.diagnostics)
    return []


def _without_words(function: Function) -> tile.Function:
    """Return the body with the first tensors of words in their place; other operands are values of their own."""
    statements: list[tile.Statement] = []
    for number, statement in enumerate(function.body.statements):
        call = function.word_call(statement)
        if isinstance(statement, tile.Assignment) and call is not None:
            data, *others = call.arguments
            for place, other in enumerate(others):
                statements.append(tile.Assignment(f"Operand{number}_{place}", other, span=statement.span))
            statement = attrs.evolve(statement, value=data)
        statements.append(statement)
    return attrs.evolve(function.body, statements=tuple(statements))


def _mistake(message: str) -> Diagnostic:
    return Diagnostic("TIL226", message)
