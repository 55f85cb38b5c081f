"""Spelling of the fields of nodes in kernel text; the forms of their classes define the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, get_args

from tileir.core import attrs
from tileir.core.text.forms import FormReader, Language, Part, Spelling
from tileir.core.text.writer import bytes_text, listed
from tileir.semtree.ir import Expr, LValue, MatrixOperand, Stmt, Subscript, Var

if TYPE_CHECKING:
    from tileir.core.text.lexing import Token
    from tileir.semtree.text.cursor import Cursor
    from tileir.semtree.text.expression_parser import ExpressionParser, ParsedExpression

_BRACKETS: Final = 2
"""Additional depth of an expression whose operands are between brackets."""


@attrs.define(eq=False, repr=False)
class Reader(FormReader):
    """Reader of one node without operands.

    Attributes:
        cursor: The place in the text.
        declared: The name of an array that the node introduces.
    """

    cursor: Cursor
    declared: Token | None = attrs.field(default=None, init=False)

    def name(self) -> str:
        """Read a name that the node introduces, which becomes visible after the node."""
        self.declared = self.cursor.name()
        return self.declared.text

    def alone(self, values: dict[str, Any]) -> None:
        """Read whether an array overlaps no other one."""
        values["no_alias"] = self.cursor.accept("noalias")

    def begins(self, sign: str, last: bool) -> bool:  # noqa: ARG002  statements end with semicolons
        """Take the first sign or word of an option if it is present."""
        return self.cursor.accept(sign)


@attrs.define(eq=False, repr=False)
class OperandReader(Reader):
    """Reader of one node behind the first word of its form, which collects its operands."""

    expressions: ExpressionParser
    operands: list[ParsedExpression] = attrs.field(factory=list, init=False)

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
        """Read an lvalue."""
        found = self.expressions.reference()
        if isinstance(found.expr, Subscript | Var):
            return found.expr
        return self.cursor.fail("TIL102", "expected a variable or elements of an array", found.span)


def _expression(writer: Any, expr: Expr) -> str:
    text: str = writer.text(expr)
    return text


def _names(writer: Any, names: tuple[str, ...]) -> str:
    return f"({listed(map(writer.name, names))})"


LANGUAGE: Final = Language(
    types=MappingProxyType(
        {
            "Expr": Spelling(_expression, OperandReader.operand),
            "Subscript": Spelling(_expression, OperandReader.elements),
            "LValue": Spelling(_expression, OperandReader.target),
            "Type": Spelling(lambda _, kind: str(kind), lambda reader: reader.cursor.kind()),
            "str": Spelling(lambda _, name: str(name), lambda reader: reader.cursor.name().text),
            "element": Spelling(lambda _, dtype: dtype.value, lambda reader: reader.cursor.dtype()),
            "name": Spelling(lambda writer, name: writer.name(name), lambda reader: reader.cursor.name().text),
            "declared": Spelling(lambda writer, name: writer.name(name), Reader.name),
            "names": Spelling(_names, lambda r: tuple([name.text for name in r.cursor.enclosed(r.cursor.name)])),
            "sizes": Spelling(
                lambda _, sizes: f"[{listed(sizes)}]",
                lambda reader: reader.cursor.enclosed(reader.cursor.integer, "[]"),
            ),
            "Content": Spelling(lambda _, data: f'"{bytes_text(data)}"', lambda reader: reader.cursor.content()),
            "int": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.integer()),
        }
    ),
    nodes=MappingProxyType({"MatrixOperand": MatrixOperand}),
    parts=MappingProxyType({"noalias": Part(lambda _, param: " noalias" if param.no_alias else "", Reader.alone)}),
    lists_end=False,
)
Reader.language = LANGUAGE


def _openings(kinds: Any) -> Mapping[str, type]:
    found = LANGUAGE.openings(kind for kind in get_args(kinds) if hasattr(kind, "form"))
    return MappingProxyType({word: kind for word, (kind, _) in found.items()})


EXPRESSIONS: Final = _openings(Expr)
"""The expressions with a form, by its first word."""
STATEMENTS: Final = _openings(Stmt)
"""The statements with a form, by its first word."""
