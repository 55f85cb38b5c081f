"""Reading nodes by the forms that their classes declare."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

import attrs

from tileir.core import Span, schema
from tileir.semtree.ir import Expr, LValue, Subscript, Type, Var
from tileir.semtree.text.forms import Field, Literal, Piece, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.text.cursor import Cursor
    from tileir.semtree.text.expression_parser import ExpressionParser, Parsed

_BRACKETS: Final = 2
"""How much deeper an expression is whose operands stand between brackets."""
Values: TypeAlias = "dict[str, Any]"


@attrs.define(eq=False, repr=False)
class FormParser:
    """Reads one node behind the word that its form starts with, and gathers its operands."""

    expressions: ExpressionParser
    operands: list[Parsed] = attrs.field(factory=list)

    @property
    def cursor(self) -> Cursor:
        """The place in the text."""
        return self.expressions.cursor

    def node(self, kind: type, skipped: int = 1) -> object:
        """Read a node of a class; ``skipped`` signs and words of its form are behind the cursor already."""
        start = self.cursor.here
        values: Values = {}
        self._pieces(kind, pieces(kind), values, skipped)
        given = {name: values.pop(name) for name in tuple(values) if name not in attrs.fields_dict(kind)}
        made = kind(**values)
        self._check_properties(made, given, start)
        return made

    def _check_properties(self, node: object, given: Mapping[str, int], start: Span) -> None:
        for name, value in given.items():
            actual = getattr(node, name)
            if actual != value:
                message = f"{name} is {actual} for these operands, not {value}"
                self.cursor.fail("TIL552", message, start.to(self.cursor.here))

    def _pieces(self, kind: type, form: tuple[Piece, ...], values: Values, skipped: int) -> None:
        for piece in form:
            if isinstance(piece, Literal):
                for sign in piece.signs[skipped:]:
                    self.cursor.expect(sign)
                skipped = 0
            elif isinstance(piece, Field):
                values[piece.name] = self._field(kind, piece)
            else:
                first = piece.pieces[0]
                if isinstance(first, Literal) and self.cursor.accept(first.signs[0]):
                    self._pieces(kind, piece.pieces, values, 1)

    def _field(self, kind: type, field: Field) -> object:
        """Read what a field of this type can hold."""
        hint = field.hint
        if hint == Expr:
            return self._operand()
        if hint in (Subscript, LValue):
            return self._written(hint)
        if hint is int:
            return self.cursor.integer()
        if hint is Type:
            return self.cursor.kind()
        if hint is str:
            return self.cursor.name().text
        if get_origin(hint) is tuple:
            return self._several(get_args(hint))
        assert isinstance(hint, type)
        return self._word(kind, field.name, hint) if issubclass(hint, enum.Enum) else self.node(hint, 0)

    def _operand(self) -> Expr:
        found = self.expressions.expression(0, _BRACKETS)
        self.operands.append(found)
        return found.expr

    def _written(self, hint: object) -> LValue:
        found = self.expressions.reference()
        if isinstance(found.expr, Subscript) or (isinstance(found.expr, Var) and hint is not Subscript):
            return found.expr
        what = "elements of an array" if hint is Subscript else "a variable or elements of an array"
        return self.cursor.fail("TIL102", f"expected {what}", found.span)

    def _several(self, inside: tuple[object, ...]) -> tuple[object, ...]:
        """Read operands or integers with commas between them: as many as the type has, or any number from one on."""
        start = self.cursor.here
        found = [self._operand() if inside[0] == Expr else self.cursor.integer()]
        while self.cursor.accept(","):
            found.append(self._operand() if inside[0] == Expr else self.cursor.integer())
        if inside[-1] is not Ellipsis and len(found) != len(inside):
            span = start.to(self.cursor.here)
            self.cursor.fail("TIL102", f"expected {len(inside)} integers, found {len(found)}", span)
        return tuple(found)

    def _word(self, kind: type, name: str, hint: type[enum.Enum]) -> enum.Enum:
        """Read the word of a member of an enumeration."""
        allowed: dict[str, enum.Enum] = {member.value: member for member in schema.choices(kind, name) or tuple(hint)}
        word = self.cursor.advance()
        if word.text not in allowed:
            self.cursor.fail("TIL102", f"expected one of {', '.join(sorted(allowed))}", self.cursor.span_of(word))
        return allowed[word.text]
