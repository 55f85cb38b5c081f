"""Spelling of the fields of nodes in kernel text: the forms of their classes say the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, get_args

from tileir.core import attrs
from tileir.core.text.forms import FormReader, Language, Spelling
from tileir.semtree.ir import Expr, LValue, MatrixOperand, Stmt, Subscript, Var

if TYPE_CHECKING:
    from tileir.semtree.text.cursor import Cursor
    from tileir.semtree.text.expression_parser import ExpressionParser, Parsed

_BRACKETS: Final = 2
"""How much deeper an expression is whose operands stand between brackets."""


@attrs.define(eq=False, repr=False)
class Reader(FormReader):
    """Reads one node behind the word that its form starts with, and gathers its operands."""

    cursor: Cursor
    expressions: ExpressionParser
    operands: list[Parsed] = attrs.field(factory=list, init=False)

    def operand(self) -> Expr:
        """Read an expression that the node evaluates."""
        found = self.expressions.expression(0, _BRACKETS)
        self.operands.append(found)
        return found.expr

    def elements(self) -> Subscript:
        """Read elements of an array."""
        found = self.expressions.reference()
        if isinstance(found.expr, Subscript):
            return found.expr
        return self.cursor.fail("TIL102", "expected elements of an array", found.span)

    def target(self) -> LValue:
        """Read what is written."""
        found = self.expressions.reference()
        if isinstance(found.expr, Subscript | Var):
            return found.expr
        return self.cursor.fail("TIL102", "expected a variable or elements of an array", found.span)

    def begins(self, sign: str, last: bool) -> bool:  # noqa: ARG002  statements end with semicolons
        """Take the first sign or word of an option where it stands here."""
        return self.cursor.accept(sign)


def _expression(writer: Any, expr: Expr) -> str:
    text: str = writer.text(expr)
    return text


LANGUAGE: Final = Language(
    types=MappingProxyType(
        {
            "Expr": Spelling(_expression, Reader.operand),
            "Subscript": Spelling(_expression, Reader.elements),
            "LValue": Spelling(_expression, Reader.target),
            "Type": Spelling(lambda _, kind: str(kind), lambda reader: reader.cursor.kind()),
            "str": Spelling(lambda _, name: str(name), lambda reader: reader.cursor.name().text),
            "int": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.integer()),
        }
    ),
    nodes=MappingProxyType({"MatrixOperand": MatrixOperand}),
    lists_end=False,
)
Reader.language = LANGUAGE


def _openings(kinds: Any) -> Mapping[str, type]:
    found = LANGUAGE.openings(kind for kind in get_args(kinds) if hasattr(kind, "form"))
    return MappingProxyType({word: kind for word, (kind, _) in found.items()})


EXPRESSIONS: Final = _openings(Expr)
"""The expressions that have a form, by the word that it starts with."""
STATEMENTS: Final = _openings(Stmt)
"""The statements that have a form, by the word that it starts with."""
