r"""Forms: the text of nodes as their classes declare it, which printers write and parsers read back.

A form is the text of a node with fields in braces, such as ``async {target} = {source}``; a property may stand in for a
field, and is compared when it is read. Text in brackets is an option, left out if its fields have their defaults: those
of the class, or ``other`` in ``{field=other}``, or False, None and (). A truth value is an option as a word, its name
or ``word`` in ``{field:word}``; any other ``{field:word}`` is spelt by the rule that a language has for this word.
Brackets of the text itself are escaped by a backslash. A class has its text as ``form``, after that of its ``head``.

A :class:`Language` has the spellings of values of each type. Types are identified by the annotations of fields in the
source, so that nothing is evaluated.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import GenericAlias, MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from tileir.core.nodes import attrs, schema
from tileir.core.text.lexing import Cursor
from tileir.core.text.span import Span

_PIECES: Final = re.compile(
    r"\{(?P<field>\w+)(?:=(?P<like>\w+))?(?::(?P<spelling>\w+))?\}"
    r"|\[(?P<option>(?:[^\]\\]|\\.)*)\]|(?P<literal>(?:[^{}\[\]\\]|\\.)+)"
)
_SIGNS: Final = re.compile(r"[A-Za-z_]\w*|[-+<>=!]=|->|\S")


@attrs.frozen
class Literal:
    """Constant text, and its signs and words."""

    text: str
    signs: tuple[str, ...]


@attrs.frozen
class Field:
    """The text of a field, or of a property of type int.

    Attributes:
        name: Its name.
        hint: Its type in the class.
        spelling: The word of a language's spelling; empty for that of the type.
        is_property: Whether the class has no such field.
    """

    name: str
    hint: str
    spelling: str
    is_property: bool


@attrs.frozen
class Option:
    """Text that is left out if all of its fields have their defaults, or are equal to others.

    Attributes:
        pieces: The text.
        defaults: The default of each field.
        like: Names of fields whose values are defaults of others.
    """

    pieces: tuple[Piece, ...]
    defaults: Mapping[str, object]
    like: Mapping[str, str]

    def is_written(self, node: object) -> bool:
        """Return whether a node needs this text."""
        if any(getattr(node, name) != value for name, value in self.defaults.items()):
            return True
        return any(getattr(node, name) != getattr(node, other) for name, other in self.like.items())


Piece: TypeAlias = Literal | Field | Option


@cache
def pieces(kind: type, of: str = "form") -> tuple[Piece, ...]:
    """Return the pieces of the form of a class, or of its head, in their order."""
    return _split(kind, getattr(kind, of, ""))


def _split(kind: type, form: str) -> tuple[Piece, ...]:
    fields = attrs.fields_dict(kind)
    result: list[Piece] = []
    for match in _PIECES.finditer(form):
        if match["field"]:
            name = match["field"]
            result.append(Field(name, _hint(kind, name), match["spelling"] or "", name not in fields))
        elif match["option"]:
            found = [(each["field"], each["like"]) for each in _PIECES.finditer(match["option"]) if each["field"]]
            like = {name: other for name, other in found if other}
            defaults = {name: _default(kind, name) for name, _ in found if name not in like}
            inside = _split(kind, match["option"])
            result.append(Option(inside, MappingProxyType(defaults), MappingProxyType(like)))
        else:
            text = re.sub(r"\\(.)", r"\1", match["literal"])
            result.append(Literal(text, tuple(_SIGNS.findall(text))))
    return tuple(result)


def _hint(kind: type, name: str) -> str:
    """Return the annotation of a field or a property, with aliases of tuples resolved."""
    fields = attrs.fields_dict(kind)
    hint = str(fields[name].type if name in fields else getattr(kind, name).fget.__annotations__["return"])
    alias = vars(sys.modules[kind.__module__]).get(hint)
    return str(alias) if isinstance(alias, GenericAlias) else hint


def _default(kind: type, name: str) -> object:
    default, hint = attrs.fields_dict(kind)[name].default, _hint(kind, name)
    if default is not attrs.NOTHING:
        return default
    return () if hint.startswith("tuple") else False if hint == "bool" else None


def _unread(*_: object) -> Any:
    raise TypeError("this is text for people alone")


class Spelling(NamedTuple):
    """Text of the values of a type: a function of a writer and a value, and one of a reader if it is read back."""

    write: Callable[[Any, Any], str]
    read: Callable[[Any], Any] = _unread


class Part(NamedTuple):
    """Text of a part of a node that is more than a field.

    Functions of a writer and the node, and of a reader and the fields read so far, to which it adds.
    """

    write: Callable[[Any, Any], str]
    read: Callable[[Any, dict[str, Any]], None] = _unread


@attrs.frozen(eq=False)
class Language:
    """Spellings of one language.

    Attributes:
        types: By annotation, or by a word of forms; elements of tuples are separated by commas.
        nodes: The classes with forms that occur in fields of others, by name.
        words: The words of enumerations, by annotation or by a word of forms; those of others are their values.
        parts: By words of forms.
        expected: Descriptions, for faults, of the text at a sign or a field of a class, or of words.
        lists_end: Whether ``','`` is reported as expected after a list, too, which then may be empty.
    """

    types: Mapping[str, Spelling]
    nodes: Mapping[str, type] = MappingProxyType({})
    words: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    parts: Mapping[str, Part] = MappingProxyType({})
    expected: Mapping[tuple[type, str] | str, str] = MappingProxyType({})
    lists_end: bool = True
    _writers: dict[type, _Writes] = attrs.field(factory=dict, init=False)
    _readers: dict[type, list[_Reads]] = attrs.field(factory=dict, init=False)

    def words_of(self, kind: type, field: Field) -> Mapping[str, Any] | None:
        """Return the values of a field by their words; None if it has values without words."""
        name = field.hint.removesuffix(" | None")
        word = field.spelling or name
        known = self.words.get(word)
        if known is None and word not in self.types:
            hint = vars(sys.modules[kind.__module__]).get(name)
            if isinstance(hint, type) and issubclass(hint, enum.Enum):
                allowed = () if field.is_property else schema.choices(kind, field.name)
                known = {each.value: each for each in allowed or tuple(hint)}
        return known

    def openings(self, kinds: Iterable[type]) -> Mapping[str, tuple[type, Mapping[str, Any]]]:
        """Return the classes whose forms start with words, by these, with the fields that these determine."""
        found: dict[str, tuple[type, Mapping[str, Any]]] = {}
        for kind in kinds:
            first = pieces(kind)[0]
            if isinstance(first, Field):
                words = self.words_of(kind, first) or {}
                found |= {word: (kind, {first.name: value}) for word, value in words.items()}
            elif isinstance(first, Literal) and first.signs[0][0].isalpha():
                found[first.signs[0]] = kind, {}
        return MappingProxyType(found)

    @staticmethod
    @cache
    def properties(kind: type) -> tuple[str, ...]:
        """Return the properties in the form of a class."""
        return tuple(piece.name for piece in pieces(kind) if isinstance(piece, Field) and piece.is_property)

    # --- writing ---

    def text(self, writer: object, node: object) -> str:
        """Return the text of a node that has a form, after its head; ``writer`` is passed to spellings."""
        kind: type = type(node)
        write = self._writers.get(kind)
        if write is None:
            write = self._writers[kind] = self._written(kind, pieces(kind, "head") + pieces(kind))
        return write(writer, node)

    def _written(self, kind: type, form: tuple[Piece, ...]) -> _Writes:
        steps: list[str | _Writes] = [self._step(kind, piece) for piece in form]
        return lambda writer, node: "".join(
            [step if step.__class__ is str else step(writer, node) for step in steps]  # type: ignore[operator]
        )

    def _step(self, kind: type, piece: Piece) -> str | _Writes:
        if isinstance(piece, Literal):
            return piece.text
        if isinstance(piece, Option):
            write = self._written(kind, piece.pieces)
            return lambda writer, node: write(writer, node) if piece.is_written(node) else ""
        name = piece.name
        if piece.spelling in self.parts:
            return self.parts[piece.spelling].write
        if piece.hint == "bool":
            return piece.spelling or name
        words = self.words_of(kind, piece)
        if words is not None:
            texts = {value: word for word, value in words.items()}  # nodes that break rules have others
            return lambda _, node: texts.get(value := getattr(node, name)) or str(value.value)
        spelt = self._spelling(piece.spelling or piece.hint).write
        return lambda writer, node: spelt(writer, getattr(node, name))

    def _spelling(self, hint: str) -> Spelling:
        """Return the spelling of values of a type: itself, None or it, several of it, or a node with a form."""
        hint = hint.removesuffix(" | None")
        if hint in self.types:
            return self.types[hint]
        if hint.startswith("tuple["):
            inside = hint[len("tuple[") : -1]
            write, read = self._spelling(
                inside.removesuffix(", ...") if inside.endswith("...") else inside.split(",")[0]
            )
            return Spelling(lambda writer, values: ", ".join([write(writer, value) for value in values]), read)
        return Spelling(self.text, lambda reader: reader.node(self.nodes[hint], {}))

    # --- reading ---

    def steps(self, kind: type) -> list[_Reads]:
        """Return the functions that read the pieces of a form, one for each sign, word, field and option."""
        found = self._readers.get(kind)
        if found is None:
            found = self._readers[kind] = self._read(kind, pieces(kind))
        return found

    def _read(self, kind: type, form: tuple[Piece, ...]) -> list[_Reads]:
        steps: list[_Reads] = []
        listed = False
        for number, piece in enumerate(form):
            if isinstance(piece, Literal):
                for sign in piece.signs:
                    steps.append(_sign(sign, self.expected.get((kind, sign), f"',' or '{sign}'" if listed else "")))
                    listed = False
            elif isinstance(piece, Field):
                steps.append(self._field(kind, piece, form[number + 1 :]))
                listed = self.lists_end and piece.hint.startswith("tuple[") and piece.spelling not in self.parts
            else:
                last = all(isinstance(each, Option) for each in form[number:])
                steps.append(self._option(kind, piece, last))
                listed = self.lists_end and isinstance(first := piece.pieces[0], Literal) and first.signs == (",",)
        return steps

    def _option(self, kind: type, option: Option, last: bool) -> _Reads:
        """Return the reader of an option; at the end of a form, it has to begin in its line."""
        inside = self._read(kind, option.pieces)
        first = option.pieces[0]
        assert isinstance(first, Literal)
        if not first.signs:
            field = option.pieces[1]
            assert isinstance(field, Field)
            name, word, usual = field.name, field.spelling or field.name, option.defaults[field.name]

            def read_word(reader: FormReader, values: dict[str, Any]) -> None:
                values[name] = reader.begins(word, last) is not usual

            return read_word
        sign, rest, defaults, like = first.signs[0], inside[1:], option.defaults, option.like

        def read(reader: FormReader, values: dict[str, Any]) -> None:
            if reader.begins(sign, last):
                for step in rest:
                    step(reader, values)
            else:
                values.update(defaults)
                for name, other in like.items():
                    values[name] = values[other]

        return read

    def _field(self, kind: type, field: Field, behind: tuple[Piece, ...]) -> _Reads:
        if field.spelling in self.parts:
            return self.parts[field.spelling].read
        name, expected = field.name, self.expected.get((kind, field.name), "")
        words = self.words_of(kind, field)
        if words is not None:
            expected = expected or self.expected.get(field.spelling or field.hint.removesuffix(" | None"), "")

            def read_word(reader: FormReader, values: dict[str, Any]) -> None:
                values[name] = reader.cursor.one_of(words, expected)

            return read_word
        spelling = field.spelling or field.hint
        read = self._spelling(spelling).read
        if field.hint.startswith("tuple[") and spelling not in self.types:
            return self._several(field, read, behind)

        def read_field(reader: FormReader, values: dict[str, Any]) -> None:
            values[name] = read(reader)

        def read_expected(reader: FormReader, values: dict[str, Any]) -> None:
            values[name] = reader.cursor.name(expected)  # type: ignore[attr-defined]

        return read_expected if expected else read_field

    def _several(self, field: Field, read: Callable[[Any], Any], behind: tuple[Piece, ...]) -> _Reads:
        """Return the reader of values separated by commas: as many as the type has, or any number."""
        name, count = field.name, 0 if field.hint.endswith("...]") else field.hint.count(",") + 1
        end = behind[0].signs[0] if self.lists_end and behind and isinstance(behind[0], Literal) else ""

        def read_several(reader: FormReader, values: dict[str, Any]) -> None:
            cursor = reader.cursor
            start = cursor.token.start
            found = [] if end and cursor.at(end) else [read(reader)]
            if found:
                while cursor.skip(","):
                    found.append(read(reader))
            if count and len(found) != count:
                span = cursor.span_of(cursor.token._replace(start=start))
                raise cursor.report_and_abandon(f"expected {count} integers, found {len(found)}", span, "TIL102")
            values[name] = tuple(found)

        return read_several


_Writes: TypeAlias = Callable[[Any, Any], str]
_Reads: TypeAlias = "Callable[[Any, dict[str, Any]], None]"


def _sign(sign: str, expected: str) -> _Reads:
    if sign[0].isalpha():
        return lambda reader, _: reader.cursor.word(sign)
    return lambda reader, _: reader.cursor.expect(sign, expected)


@attrs.define(eq=False, repr=False)
class FormReader:
    """Reader of nodes by the forms of a language, at a cursor."""

    language: ClassVar[Language]
    cursor: Cursor

    def node(self, kind: type, values: dict[str, Any], skipped: int = 0, start: Span | None = None) -> Any:
        """Read a node of a class.

        Args:
            kind: The class.
            values: Fields that are known already.
            skipped: The number of signs, words and fields of its form before the cursor.
            start: The token at which the node begins, if that is not the next one.

        Raises:
            AbandonError: There is something else, which is reported.
        """
        start = start or self.cursor.here
        steps = self.language.steps(kind)
        for step in steps[skipped:] if skipped else steps:
            step(self, values)
        return self.made(kind, values, start)

    def made(self, kind: type, values: dict[str, Any], start: Span) -> Any:
        """Return the node of these fields, which may include properties; ``start`` is its first token."""
        given = {name: values.pop(name) for name in self.language.properties(kind) if name in values}
        node = kind(**values)
        for name, value in given.items():
            if (actual := getattr(node, name)) != value:
                message = f"{name} is {actual} for these operands, not {value}"
                raise self.cursor.report_and_abandon(message, start.to(self.cursor.here), "TIL552")
        return node

    def begins(self, sign: str, last: bool) -> bool:
        """Take the first sign or word of an option if it comes next; one that is ``last`` has to be in this line."""
        if not sign[0].isalpha():
            return self.cursor.skip(sign)
        return not (last and self.cursor.on_new_line) and self.cursor.skip_word(sign)
