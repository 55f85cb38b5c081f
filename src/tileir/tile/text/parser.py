"""Parser of Tile functions. All faults are reported at once: recovery is at ``;`` and ``}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import truediv
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from tileir.core import (
    ArrayValue,
    Diagnostic,
    DType,
    ParseError,
    Span,
    TileError,
    VerifyError,
    attrs,
    collection_paused,
    dtype_meant,
    fail,
    meant,
    with_short_traceback,
)
from tileir.core.text.lexing import END, AbandonError, More, Token, everything, source_of
from tileir.tile.checks.verifier import faults_beside
from tileir.tile.ir import (
    Assignment,
    Attribute,
    Contraction,
    Expr,
    Function,
    Input,
    Name,
    Output,
    Scan,
    Statement,
    While,
    part_of,
    tuple_name,
)
from tileir.tile.text.constant_parser import DTYPES, ConstantParser
from tileir.tile.text.contraction_parser import TENSOR, ContractionParser
from tileir.tile.text.expression_parser import ExpressionParser
from tileir.tile.text.file import Definition, File, Import
from tileir.tile.text.grammar import MAX_SCANS, is_index_name
from tileir.tile.text.lexer import INDEX, NAME, Cursor
from tileir.tile.text.linking import Unit, check, program_of, units_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from tileir.core.array_value import Array

SUFFIX: Final = ".tile"
"""Suffix of the files that can be imported."""


@attrs.frozen
class Folder:
    """A folder of files, on disk or in a package, however it is stored.

    Attributes:
        root: The folder.
        prefix: The prefix of file names in errors.
        is_installed: Whether it is that of a package, which installers may build from links.
    """

    root: Traversable
    prefix: str
    is_installed: bool = False

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Return a folder on disk."""
        return cls(path, "" if path == Path() else f"{path}/")

    def file(self, parts: Sequence[str], span: Span) -> SourceFile:
        """Return a file in it.

        Raises:
            TileError: TIL230, there is none, or a link leads out of the folder.
        """
        name = self.prefix + "/".join(parts)
        inside = reduce(truediv, parts[:-1], self.root)
        place = inside / parts[-1]
        try:
            if not self.is_installed and not Path(str(place)).resolve().is_relative_to(Path(str(self.root)).resolve()):
                raise fail("TIL230", f"{name} is a link out of the folder, from which nothing is read", span)
            if not place.is_file():
                raise fail("TIL230", f"there is no file {name}", span)
            text = place.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise fail("TIL230", f"cannot read {name}: {error}", span) from None
        key = str(place.resolve() if isinstance(place, Path) else place)
        prefix = self.prefix + "".join(f"{part}/" for part in parts[:-1])
        return SourceFile(key, name, text, attrs.evolve(self, root=inside, prefix=prefix))


@attrs.frozen
class SourceFile:
    """A file that was read: its identity, its name in errors, its text, and its folder."""

    key: str
    name: str
    text: str
    folder: Folder


def imported(file: File, folder: Folder | None, read: Callable[[str, str], File]) -> Mapping[str, Unit]:
    """Return the functions that a text imports, by their names there.

    Args:
        file: The parsed text.
        folder: Its folder; None for a text without one.
        read: Reads a text, given its name in errors.

    Raises:
        TileError: TIL230, something is not there.
        ParseError: The text of a file is wrong.
        VerifyError: A function in a file breaks a rule.
    """
    scope: dict[str, Unit] = {}
    files: dict[str, tuple[File, tuple[Unit, ...], Import]] = {}
    pending: list[tuple[File, Folder | None, dict[str, Unit]]] = [(file, folder, scope)]
    while pending:
        current, here, names = pending.pop()
        for each in current.imports:
            found = _found(each, here)
            if found.key not in files:
                other, inside = _file_of(found, each, read), dict[str, Unit]()
                files[found.key] = other, units_of(other, inside), each
                pending.append((other, found.folder, inside))
            names[each.name] = _function(each, files[found.key][1], found.name)
    for other, units, each in files.values():
        try:
            check(other, units)
        except VerifyError as error:
            raise VerifyError(_noted(error, each)) from None
    return scope


def _file_of(found: SourceFile, each: Import, read: Callable[[str, str], File]) -> File:
    try:
        return read(found.text, found.name)
    except ParseError as error:
        raise ParseError(_noted(error, each)) from None


def _noted(error: TileError, each: Import) -> list[Diagnostic]:
    note = f"imported at {each.path_span.source.name}:{each.path_span.line}"
    return [attrs.evolve(fault, notes=(*fault.notes, note)) for fault in error.diagnostics]


def _function(each: Import, units: Sequence[Unit], name: str) -> Unit:
    known = {unit.name: unit for unit in units if unit.name}
    found = known.get(each.function)
    if found is None:
        near = meant(each.function, known)
        hint = f"it has {', '.join(known) or 'none that has a name'}"
        hint = hint if near is None else f"did you mean {near!r}?"
        raise fail("TIL230", f"{name} has no function {each.function!r}; {hint}", each.span)
    return found


def _found(each: Import, folder: Folder | None) -> SourceFile:
    package, colon, inside = each.path.rpartition(":")
    parts = inside.split("/")
    if not inside.endswith(SUFFIX) or "\\" in inside or not {"", ".", ".."}.isdisjoint(parts):
        message = (
            f"{each.path!r:.80} is no file to import from; write the path of one below the folder of this text, as in"
            f" 'layers{SUFFIX}' or 'nets/layers{SUFFIX}', or one of a package, 'package:layers{SUFFIX}'"
        )
        raise fail("TIL230", message, each.path_span)
    if colon:
        return _package(package, parts, each.path_span).file(parts, each.path_span)
    if folder is None:
        message = (
            "this text is in no folder, so that nothing is beside it: read it from its pathlib.Path, or say"
            " tileir.parse(text, folder=…)"
        )
        raise fail("TIL230", message, each.path_span)
    return folder.file(parts, each.path_span)


def _package(name: str, parts: Sequence[str], span: Span) -> Folder:
    """Return the folder of a package that contains a file, if one does; no code of the package is run."""
    from importlib import resources, util  # few programs import anything

    try:
        spec = util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        raise fail(
            "TIL230", f"there is no package {name!r:.80}; the word in front of ':' is that of an installed one", span
        )
    places = [Path(each) for each in spec.submodule_search_locations]
    found = [place for place in places if place.joinpath(*parts).is_file()] or [p for p in places if p.is_dir()]
    root = found[0] if found else resources.files(util.module_from_spec(spec))
    return Folder(root, f"{name}:", is_installed=True)


T = TypeVar("T")


@with_short_traceback
def parse(
    text: str,
    name: str = "<text>",
    *,
    arrays: Iterable[ArrayValue | Array] = (),
    entry: str | None = None,
    folder: Path | None = None,
) -> Function:
    """Read ``function (inputs) -> (outputs) { statements }`` and verify it; ``name`` appears in errors.

    A text may have several functions, ``function word(inputs) -> (outputs) { … }``, which call each other. One of them
    is the program, into which the others are inlined.

    Args:
        text: The program.
        name: The name of the text in errors.
        arrays: Arrays that the text may name by digests alone, as printed programs name their long constants.
        entry: The name of the function that is the program; by default the one without a name, or else the last one.
        folder: The folder of the text, for files that it imports.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each fault, and for each rule that the
            readable parts break.
        VerifyError: The program breaks a rule; one diagnostic for each fault. TIL229, a function calls itself.
        ArgumentError: TIL206, there is no function called ``entry``.
        TileError: TIL702, tileir does not support an array; TIL230, an import does not exist; a call does not match its
            function.
    """
    values = (array if isinstance(array, ArrayValue) else ArrayValue.of(array) for array in arrays)
    known = {value.digest: value for value in values}
    with collection_paused():
        file = _file(text, name, known)
        scope: dict[str, Unit] = {}
        if file.imports:
            place = None if folder is None else Folder.at(folder)
            scope = dict(imported(file, place, partial(_file, arrays=known)))
        return program_of(file, scope, entry)


def _file(text: str, name: str, arrays: Mapping[str, ArrayValue]) -> File:
    """Read the functions of a text."""
    unread = SkippedNames()

    def beside(file: File, known: Sequence[Span]) -> Iterator[Diagnostic]:
        """Check the rules, except for statements with a fault of their text, which is reported."""
        callees: dict[str, Function | None] = dict.fromkeys(each.name for each in file.imports)
        callees.update((each.name, each.function) for each in file.definitions if each.name is not None)
        for definition in file.definitions:
            spans = list(_spans(definition.function))
            told = {_innermost(spans, place) for place in known}
            faults = faults_beside(definition.function, unread.names, callees)
            yield from (f for f in faults if f.span is None or (_innermost(spans, f.span) or f.span) not in told)

    return _read(text, name, _Parser.file, arrays, unread, beside)


def _spans(function: Function) -> Iterator[Span]:
    for statement in function.statements:
        if statement.span is not None:
            yield statement.span
        if isinstance(statement, Scan):
            yield from _spans(statement.step)


def _innermost(spans: Sequence[Span], place: Span) -> Span | None:
    return min((span for span in spans if span.holds(place)), key=lambda span: span.stop - span.start, default=None)


def parse_unverified(text: str, name: str = "<text>") -> Function:
    """Read a function and check only its grammar, since it calls functions that Tile does not know.

    Raises:
        ParseError: The text does not follow the grammar.
    """
    return _read(text, name, _Parser.function)


def parse_expression(text: str, name: str = "<text>") -> Expr:
    """Read one elementwise expression, bare or as ``expression E;``.

    Raises:
        ParseError: The text does not follow the grammar.

    """
    return _read(text, name, lambda parser: parser.wrapped("expression", parser.expressions.expression))


def parse_polynomial(text: str, name: str = "<text>") -> Expr:
    """Read one index polynomial, bare or as ``polynomial P;``.

    Raises:
        ParseError: The text does not follow the grammar.

    """
    return _read(text, name, lambda parser: parser.wrapped("polynomial", parser.expressions.polynomial))


def parse_contraction(text: str, name: str = "<text>") -> Contraction:
    """Read one contraction, bare or as ``contraction C;``. Its rules are not verified: it has no function.

    Raises:
        ParseError: The text does not follow the grammar.

    """
    return _read(text, name, lambda parser: parser.wrapped("contraction", parser.bare_contraction))


@attrs.define(eq=False, repr=False)
class SkippedNames:
    """Names in skipped statements and headers, which they may define."""

    names: set[str] = attrs.field(factory=set)

    def add(self, text: str) -> None:
        """Add the names in a skipped text."""
        self.names.add("")  # its intended name is unknown
        self.names.update(_NAME.findall(text), _NAME.findall(text.upper()), _QUOTED.findall(text))


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*'?")
_QUOTED: Final = re.compile(r'"([^"\\\n]*)"')


def _read(
    text: str,
    name: str,
    read: Callable[[_Parser], T],
    arrays: Mapping[str, ArrayValue] = MappingProxyType({}),
    unread: SkippedNames | None = None,
    more: More[T] | None = None,
) -> T:
    """Run one entry point of the grammar over the whole text."""
    source = source_of(text, name)

    def whole(cursor: Cursor) -> T:
        expressions = ExpressionParser(cursor)
        contractions, constants = ContractionParser(cursor, expressions), ConstantParser(cursor, arrays)
        return read(_Parser(cursor, expressions, contractions, constants, unread or SkippedNames()))

    return everything(Cursor, source, whole, more)


@attrs.frozen(repr=False)
class _Parser:
    """The grammar of functions and statements, at a cursor."""

    cursor: Cursor
    expressions: ExpressionParser
    contractions: ContractionParser
    constants: ConstantParser
    unread: SkippedNames
    scans: int = 0  # around the current text

    def wrapped(self, keyword: str, read: Callable[[], T]) -> T:
        """Read something with an optional ``keyword`` before and ``;`` after it."""
        self.cursor.skip(keyword)
        result = read()
        self.cursor.skip(";")
        return result

    def bare_contraction(self) -> Contraction:
        """Read a contraction without attributes and without its ``;``."""
        name = self.cursor.expect(NAME, TENSOR)
        return self.contractions.read(name, (), name.start)

    def function(self) -> Function:
        """Read a whole function, which has no name."""
        return self._function(self._unnamed)

    def file(self) -> File:
        """Read functions, which may have names, and their imports."""
        cursor = self.cursor
        imports: list[Import] = []
        while cursor.at_word("import"):
            start = cursor.token.start
            try:
                imports.extend(self._import())
            except AbandonError:
                cursor.recover()
                self.unread.add(cursor.source.text[start : cursor.token.start])
            cursor.skip(";")
        definitions = [self._definition()]
        while cursor.at("function"):
            definitions.append(self._definition())
        if cursor.at_word("import"):
            raise cursor.unexpected("the end of the text", "imports stand in front of all functions")
        return File(tuple(definitions), tuple(imports))

    def _import(self) -> list[Import]:
        """Read ``import function as name, … from "path"``."""
        cursor = self.cursor
        cursor.advance()
        form = 'as in import softmax, layer as dense from "layers.tile";'
        words = cursor.list(partial(self._imported, form))
        if not cursor.skip_word("from"):
            raise cursor.unexpected(f"',' or 'from', {form}")
        if not cursor.at(NAME) or not cursor.here.text.startswith('"'):
            raise cursor.unexpected(f"the path of a file between quotes, {form}")
        path = cursor.advance()
        if not cursor.at(";"):
            raise cursor.unexpected("';'")
        where = cursor.span_of(path)
        return [Import(word.text, name.text, path.text, cursor.span_of(word), where) for word, name in words]

    def _imported(self, form: str) -> tuple[Token, Token]:
        word = self._word(f"the name of a function, {form}")
        return word, self._word("the name of it here") if self.cursor.skip_word("as") else word

    def _definition(self) -> Definition:
        found: list[Token] = []

        def named() -> None:
            if self.cursor.at(NAME) or self.cursor.at(INDEX):
                found.append(self._word("the name of a function"))

        function = self._function(named)
        if not found:
            return Definition(None, function, function.span)
        return Definition(found[0].text, function, self.cursor.span_of(found[0]))

    def _word(self, what: str) -> Token:
        """Read a word that may precede the arguments of a call."""
        cursor = self.cursor
        quoted = cursor.here.text.startswith('"')
        if quoted or not (cursor.at(NAME) or cursor.at(INDEX)) or not is_index_name(cursor.token.text):
            raise cursor.unexpected(what, "one has letters, digits and _, and begins with no digit")
        return cursor.advance()

    def _unnamed(self) -> None:
        if self.cursor.at(NAME) or self.cursor.at(INDEX):
            raise self.cursor.unexpected("'('", "this function has no name; write function (A) -> (B) { … }")

    def _function(self, name: Callable[[], None]) -> Function:
        """Read a whole function, whose name, if it may have one, is read by ``name``."""
        cursor = self.cursor
        start = cursor.token.start
        inputs: tuple[Input, ...] = ()
        outputs: tuple[Output, ...] = ()
        try:
            inputs, outputs = self._header(name)
        except AbandonError:
            cursor.recover_header()
            self.unread.add(cursor.source.text[start : cursor.token.start])
        statements = self._statements()
        return Function(inputs, outputs, statements, span=cursor.span_from(start))

    def _statements(self) -> tuple[Statement, ...]:
        """Read ``{ statements }``; after a faulty one, reading continues."""
        cursor = self.cursor
        cursor.expect("{")
        statements: list[Statement] = []
        while not cursor.at("}") and not cursor.at(END):
            start = cursor.token.start
            try:
                statements.extend(self._statement())
            except AbandonError:
                cursor.recover()
                self.unread.add(cursor.source.text[start : cursor.token.start])
                cursor.skip(";")
        self._end_of_statements()
        return tuple(statements)

    def _end_of_statements(self) -> None:
        """Read ``}``; if the text ends before it, the statements are checked nevertheless."""
        try:
            self.cursor.expect("}")
        except AbandonError:
            if self.scans or not self.cursor.at(END):
                raise

    def _header(self, name: Callable[[], None]) -> tuple[tuple[Input, ...], tuple[Output, ...]]:
        cursor = self.cursor
        if cursor.at(INDEX) and meant(cursor.token.text, ("function",)):
            raise cursor.unexpected("'function (inputs) -> (outputs) { statements }'", "did you mean function?")
        cursor.expect("function", "'function (inputs) -> (outputs) { statements }'")
        name()
        inputs = cursor.enclosed(self._input)
        cursor.expect("->")
        cursor.expect("(")
        outputs = cursor.list(self._output)
        cursor.expect(")", "',' or ')'")
        if not cursor.at("{"):
            raise cursor.unexpected("'{'")
        return inputs, outputs

    def _input(self) -> Input:
        cursor = self.cursor
        name = cursor.expect(NAME, TENSOR)
        dtype = self._dtype()
        dims = cursor.enclosed(self.constants.dimension, "[]") if cursor.at("[") else None
        return Input(name.text, dims, dtype, span=cursor.span_from(name.start))

    def _output(self) -> Output:
        cursor = self.cursor
        name = cursor.expect(NAME, TENSOR)
        dtype = self._dtype()
        dims = cursor.enclosed(self.expressions.expression, "[]") if cursor.at("[") else None
        return Output(name.text, dims, dtype, span=cursor.span_from(name.start))

    def _dtype(self) -> DType | None:
        """Read the optional ``: f32`` of a signature."""
        cursor = self.cursor
        if not cursor.skip(":"):
            return None
        word = cursor.token.text
        if word not in DTYPES:
            raise cursor.unexpected("a dtype and maybe sizes, as in A: f32[N, 3]", dtype_meant(word))
        cursor.advance()
        return DTYPES[word]

    def _statement(self) -> Sequence[Statement]:
        """Read a statement, which may become several: one for each part of its value."""
        cursor = self.cursor
        start = cursor.token.start
        attributes = []
        while cursor.at("["):
            attributes.append(self._attribute())
        statement: Statement
        if cursor.at_word("constant"):
            statement = self.constants.read(tuple(attributes), start)
            self._end_of_statement()
            return (statement,)
        if cursor.at("("):
            return self._in_parts(tuple(attributes), start)
        name = cursor.expect(NAME, TENSOR)
        if cursor.at("["):
            statement = self.contractions.read(name, tuple(attributes), start)
        elif cursor.skip("="):
            statement = self._assigned(name, tuple(attributes), start)
        else:
            raise cursor.unexpected("'=' or '['", *self.contractions.augmented())
        self._end_of_statement()
        return (statement,)

    def _in_parts(self, attributes: tuple[Attribute, ...], start: int) -> Sequence[Statement]:
        """Read ``(name, name…) = value;``: a tuple, which is named after its first part, and its parts."""
        cursor = self.cursor
        cursor.advance()
        names = cursor.list(lambda: cursor.expect(NAME, TENSOR))
        if len(names) == 1:
            raise cursor.unexpected("','", "a single result goes without parentheses")
        cursor.expect(")", "',' or ')'")
        cursor.expect("=")
        whole = names[0]._replace(text=tuple_name(names[0].text), stop=names[-1].stop)
        statement = self._assigned(whole, attributes, start)
        self._end_of_statement()
        spans = [cursor.span_of(name) for name in names]
        return statement, *(
            Assignment(name.text, part_of(whole.text, place, span), span=span, name_span=span)
            for place, (name, span) in enumerate(zip(names, spans, strict=True))
        )

    def _assigned(self, name: Token, attributes: tuple[Attribute, ...], start: int) -> Assignment | Scan | While:
        """Read the text after ``=``."""
        cursor = self.cursor
        if cursor.at_word("scan"):
            return self._scan(name, attributes, start)
        if cursor.at_word("while"):
            return self._while(name, attributes, start)
        value = self.expressions.expression()
        where, span = cursor.span_of(name), cursor.span_from(start)
        return Assignment(name.text, value, attributes, span=span, name_span=where)

    def _scan(self, name: Token, attributes: tuple[Attribute, ...], start: int) -> Scan:
        """Read ``scan (carries; sequences; constants) count times reverse function …``."""
        cursor = self.cursor
        inner = self._inside("scan(carries; sequences; constants) function (…) -> (…) { … }")
        try:
            parts, count, reverse = self._passed()
        except AbandonError:
            cursor.recover_header()
            inner._statements()
            raise
        step = inner.function()
        where, span = cursor.span_of(name), cursor.span_from(start)
        return Scan(name.text, *parts, step, count, reverse, attributes, span=span, name_span=where)

    def _while(self, name: Token, attributes: tuple[Attribute, ...], start: int) -> While:
        """Read ``while (carries; constants) function … do function …``."""
        cursor = self.cursor
        inner = self._inside("while(carries; constants) function (…) -> (…) { … } do function (…) -> (…) { … }")
        try:
            carries = self._operands()
            constants = self._operands() if cursor.skip(";") else ()
            cursor.expect(")", "',', ';' or ')'")
        except AbandonError:
            cursor.recover_header()
            inner._statements()
            raise
        condition = inner.function()
        if not cursor.skip_word("do"):
            fault = cursor.unexpected("'do' and the function of a step")
            if not cursor.at("function"):
                raise fault
        step = inner.function()
        where, span = cursor.span_of(name), cursor.span_from(start)
        return While(name.text, carries, constants, condition, step, attributes, span=span, name_span=where)

    def _inside(self, form: str) -> _Parser:
        """Read the word of a loop and the following ``(``, and return a parser for its functions."""
        cursor = self.cursor
        cursor.advance()
        cursor.expect("(", f"'(', as in {form}")
        if self.scans == MAX_SCANS:
            cursor.report(f"scans stand inside one another at most {MAX_SCANS} deep", cursor.here, "TIL103")
            raise AbandonError
        return attrs.evolve(self, scans=self.scans + 1)

    def _passed(self) -> tuple[tuple[tuple[Name, ...], tuple[Name, ...], tuple[Name, ...]], Expr | None, bool]:
        """Read the operands, the number of steps and the direction of a scan."""
        cursor = self.cursor
        carries = self._operands()
        sequences = self._operands() if cursor.skip(";") else ()
        constants = self._operands() if cursor.skip(";") else ()
        cursor.expect(")", "',', ';' or ')'")
        count: Expr | None = None
        if not cursor.at("function") and not cursor.at_word("reverse"):
            count = self.expressions.expression()
            if not cursor.skip_word("times"):
                raise cursor.unexpected("'times' after the number of steps")
        return (carries, sequences, constants), count, cursor.skip_word("reverse")

    def _operands(self) -> tuple[Name, ...]:
        """Read names separated by commas, or none."""
        cursor = self.cursor
        return () if cursor.at(";") or cursor.at(")") else cursor.list(self._operand)

    def _operand(self) -> Name:
        name = self.cursor.expect(NAME, f"{TENSOR} as anything else goes into a statement of its own,")
        return Name(name.text, span=self.cursor.span_of(name))

    def _end_of_statement(self) -> None:
        """Read ``;``. If it is obviously missing at the end of a line, report that and continue."""
        cursor = self.cursor
        if cursor.skip(";"):
            return
        begins = cursor.at(NAME) or cursor.at("[") or cursor.at("(") or cursor.at_word("constant")
        if not cursor.at("}") and not (cursor.on_new_line and begins):
            raise cursor.unexpected("';'")
        cursor.report("a statement ends with ';', which is missing after this", cursor.last)

    def _attribute(self) -> Attribute:
        cursor = self.cursor
        start = cursor.advance().start
        cursor.expect("[", "'[[name]]' or a tensor name")
        name = cursor.expect(INDEX, "the name of an attribute, in lower case,")
        parameters: tuple[str, ...] = ()
        if cursor.skip("("):
            parameters = cursor.list(self._parameter)
            cursor.expect(")", "',' or ')'")
        cursor.expect("]", "']]'")
        cursor.expect("]", "']]'")
        return Attribute(name.text, parameters, span=cursor.span_from(start))

    def _parameter(self) -> str:
        if self.cursor.at(INDEX):
            return self.cursor.advance().text
        return self.cursor.expect(NAME, "a name").text
