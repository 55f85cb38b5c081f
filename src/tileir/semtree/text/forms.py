"""The text of nodes as their classes declare it: what the printer writes, the parser reads back.

A form is the text of a node with fields in braces, such as ``async {target} = {source}``; a property may stand in for a
field, and is compared when it is read. What is between brackets is left out where its fields have their defaults. The
forms of statements and expressions start with a word of their own, and those of statements end with a semicolon that is
not mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias, get_args, get_type_hints

from tileir.core.nodes import attrs
from tileir.semtree.ir import Expr, Stmt
from tileir.semtree.text.lexer import words_of

_PIECES: Final = re.compile(r"\{(?P<field>\w+)\}|\[(?P<option>[^\]]*)\]|(?P<literal>[^{}\[\]]+)")


@attrs.frozen
class Literal:
    """Text that is always the same, and the signs and words of it."""

    text: str
    signs: tuple[str, ...]


@attrs.frozen
class Field:
    """The text of a field, or of a property of type int; ``hint`` is its type."""

    name: str
    hint: object
    is_property: bool


@attrs.frozen
class Option:
    """Text that is left out where all of its fields have their defaults."""

    pieces: tuple[Piece, ...]
    defaults: Mapping[str, object]

    def is_written(self, node: object) -> bool:
        """Return whether a node needs this text."""
        return any(getattr(node, name) != value for name, value in self.defaults.items())


Piece: TypeAlias = Literal | Field | Option


def _words(kinds: tuple[type, ...]) -> Mapping[str, type]:
    found = ((str(vars(kind)["form"]), kind) for kind in kinds if "form" in vars(kind))
    return MappingProxyType({form[: len(form) - len(form.lstrip(_WORD))]: kind for form, kind in found})


_WORD: Final = "abcdefghijklmnopqrstuvwxyz_"
EXPRESSIONS: Final = _words(get_args(Expr))
"""The expressions that have a form, by the word that it starts with."""
STATEMENTS: Final = _words(get_args(Stmt))
"""The statements that have a form, by the word that it starts with."""


@cache
def pieces(kind: type) -> tuple[Piece, ...]:
    """Return the pieces of the form of a class, in their order."""
    return _split(kind, str(vars(kind)["form"]), get_type_hints(kind))


def _split(kind: type, form: str, hints: Mapping[str, object]) -> tuple[Piece, ...]:
    result: list[Piece] = []
    for match in _PIECES.finditer(form):
        if match["field"]:
            name = match["field"]
            result.append(Field(name, hints.get(name, int), name not in hints))
        elif match["option"]:
            inside = _split(kind, match["option"], hints)
            fields = (piece.name for piece in inside if isinstance(piece, Field))
            defaults = {name: getattr(attrs.fields(kind), name).default for name in fields}
            result.append(Option(inside, MappingProxyType(defaults)))
        else:
            text = match["literal"]
            result.append(Literal(text, tuple(words_of(text))))
    return tuple(result)
