"""Parser of expressions in kernel text, by precedence climbing. Operand types are checked while reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NoReturn

from tileir.core import DType, Op, Span, attrs, fits
from tileir.core.text.lexing import Token
from tileir.core.text.pratt import Operators, Pratt
from tileir.semtree.check.type_rules import MAX_DEPTH, expression_faults
from tileir.semtree.ir import Apply, Const, Expr, GridIndex, KernelFunction, Subscript, Type, Var
from tileir.semtree.text.cursor import NAME, NUMBER, WORD, Cursor
from tileir.semtree.text.language import EXPRESSIONS, OperandReader
from tileir.semtree.text.syntax import CALLS, GRID_FUNCTIONS, OPERATORS, PREFIX, type_of

_MAX_WEIGHT: Final = 2 * MAX_DEPTH + 2
"""Maximum depth of recursion: one for each bracket or right operand, two for each operand in brackets."""
_PREFIX_OPS: Final[Mapping[str, Op]] = MappingProxyType({sign: op for op, sign in PREFIX.items()})
_GRID_LEVELS: Final = MappingProxyType({name: level for level, name in GRID_FUNCTIONS.items()})


@attrs.frozen
class ParsedExpression:
    """An expression, with its span and depth."""

    expr: Expr
    span: Span
    depth: int


@attrs.define(eq=False, repr=False)
class ExpressionParser(Pratt[ParsedExpression]):
    """Parser of the expressions of one kernel, whose header ``kernel`` has the index type and the grid."""

    most: ClassVar[int] = _MAX_WEIGHT
    of_branch: ClassVar[int] = 2
    cursor: Cursor
    kernel: KernelFunction
    operators: Operators = attrs.field(default=OPERATORS, init=False)

    def expression(self, rank: int = 0, weight: int = 1) -> ParsedExpression:
        """Read an expression whose infix operations bind at least as tightly as ``rank``."""
        return self.climb(rank, weight)

    def joined(self, operator: Any, left: ParsedExpression, right: ParsedExpression, start: int) -> ParsedExpression:  # noqa: ARG002
        """Return an infix operation."""
        return self._apply(operator, (left, right))

    def chosen(
        self,
        test: ParsedExpression,
        then: ParsedExpression,
        otherwise: ParsedExpression,
        start: int,  # noqa: ARG002
    ) -> ParsedExpression:
        """Return a conditional."""
        return self._apply(Op.COND, (test, then, otherwise))

    def too_deep(self) -> NoReturn:
        """Report that an expression is nested too deeply, and abandon all enclosing constructs."""
        self.cursor.fail("TIL103", "this expression is nested too deeply: declare a part of it")

    def restart(self) -> None:
        """Reset the depth after a fault in an expression."""
        self.weight = 0

    def of_type(self, parsed: ParsedExpression, kind: Type) -> Expr:
        """Return the expression, which must have this type."""
        if parsed.expr.type != kind:
            self.cursor.fail("TIL552", f"this is {parsed.expr.type}, and should be {kind}: cast it", parsed.span)
        return parsed.expr

    def operand(self) -> ParsedExpression:
        """Read prefix signs and their operand."""
        cursor = self.cursor
        signs: list[Token] = []
        while cursor.token.kind in _PREFIX_OPS:
            signs.append(cursor.advance())
        token = cursor.token
        if token.kind == NUMBER:
            result = self._number(signs.pop() if signs and signs[-1].text == "-" else None)
        elif cursor.accept("("):
            inner = self.expression()
            result = attrs.evolve(inner, span=cursor.span_of(token).to(cursor.span_of(cursor.expect(")"))))
        elif token.kind == WORD and token.text in EXPRESSIONS:
            result = self._form()
        elif token.kind == WORD and self._starts_constant(token.text):
            result = self._constant()
        elif token.kind in (WORD, NAME):
            result = self.reference()
        else:
            cursor.reject("an expression")
        for sign in reversed(signs):
            operand = attrs.evolve(result, span=cursor.span_of(sign).to(result.span))
            result = self._apply(_PREFIX_OPS[sign.text], (operand,))
        return result

    def reference(self) -> ParsedExpression:
        """Read a name: a variable, an element or elements of an array, or a call of an operation."""
        cursor = self.cursor
        name = cursor.name()
        if cursor.at("(") and name.text in CALLS:
            op = CALLS[name.text]
            args: list[ParsedExpression] = []
            while cursor.accept("," if args else "("):
                args.append(self.expression(0, 2))
            span = cursor.span_of(name).to(cursor.span_of(cursor.expect(")")))
            if len(args) != op.info.arity:
                cursor.fail("TIL552", f"{op.value} takes {op.info.arity} operands, not {len(args)}", span)
            return self._made(Apply(op, tuple(arg.expr for arg in args)), span, tuple(args))
        known = cursor.known.get(name.text)
        if known is None:
            cursor.fail("TIL201", f"{name.text!r} is not declared here", cursor.span_of(name))
        if isinstance(known, Type):
            if cursor.at("["):
                cursor.fail("TIL552", f"{name.text!r} is a variable, and has no subscripts")
            return self._made(Var(name.text, known), cursor.span_of(name))
        cursor.expect("[")
        offset = self.expression(0, 2)
        lanes = cursor.integer() if cursor.accept(":") else offset.expr.type.lanes
        span = cursor.span_of(name).to(cursor.span_of(cursor.expect("]")))
        return self._made(Subscript(name.text, offset.expr, Type(known, lanes)), span, (offset,))

    def _apply(self, op: Op, args: tuple[ParsedExpression, ...]) -> ParsedExpression:
        span = args[0].span.to(args[-1].span)
        return self._made(Apply(op, tuple(arg.expr for arg in args)), span, args)

    def _made(self, expr: Expr, span: Span, operands: tuple[ParsedExpression, ...] = ()) -> ParsedExpression:
        depth = 1 + max((operand.depth for operand in operands), default=0)
        if depth > MAX_DEPTH:
            self.cursor.fail("TIL103", f"this expression is nested more than {MAX_DEPTH} deep: declare a part", span)
        for message in expression_faults(expr, self.kernel):
            self.cursor.fail("TIL552", message, span)
        return ParsedExpression(expr, span, depth)

    # constants

    def _number(self, sign: Token | None) -> ParsedExpression:
        """Read a bare number: an integer of the index type, or a float of f32."""
        text = self.cursor.token.text
        return self._literal(sign, Type(self.kernel.index if text.isdigit() else DType.F32))

    def _literal(self, sign: Token | None, kind: Type) -> ParsedExpression:
        """Read a number as a constant of a type."""
        token = self.cursor.advance()
        span = self.cursor.span_of(token) if sign is None else self.cursor.span_of(sign).to(self.cursor.span_of(token))
        value: int | float
        if kind.dtype.is_float:
            value = float(token.text) * (-1 if sign else 1)
            if not fits(value, kind.dtype) or math.isinf(value):
                self.cursor.fail("TIL104", f"this number is out of the range of {kind.dtype.value}", span)
            return self._made(Const.of(value, kind), span)
        if kind.dtype.is_bool or not token.text.isdigit():
            self.cursor.fail("TIL102", f"this is not a value of {kind.dtype.value}", span)
        value = self.cursor.digits(token) * (-1 if sign else 1)
        if not fits(value, kind.dtype):
            self.cursor.fail("TIL104", f"this number is out of the range of {kind.dtype.value}", span)
        return self._made(Const(value, kind), span)

    def _starts_constant(self, word: str) -> bool:
        return word in ("true", "false") or word in _GRID_LEVELS or type_of(word) is not None

    def _constant(self) -> ParsedExpression:
        """Read a truth value, a grid coordinate, or a constant such as ``f32x16(-0.5)``."""
        cursor = self.cursor
        token = cursor.token
        if token.text in _GRID_LEVELS:
            return self._grid_index()
        if token.text in ("true", "false"):
            cursor.advance()
            return self._made(Const(token.text == "true", Type(DType.BOOL)), cursor.span_of(token))
        kind = cursor.kind()
        cursor.expect("(")
        sign = cursor.advance() if cursor.at("-") else None
        word = cursor.token.text
        if cursor.token.kind == NUMBER:
            value = self._literal(sign, kind).expr
        elif word in ("nan", "inf") and kind.dtype.is_float:
            cursor.advance()
            value = Const(-float(word) if sign else float(word), kind)
        elif word in ("true", "false") and kind.dtype.is_bool and sign is None:
            cursor.advance()
            value = Const(word == "true", kind)
        else:
            cursor.reject(f"a value of {kind.dtype.value}, or cast<{kind}>( ) around an expression")
        return self._made(value, cursor.span_of(token).to(cursor.span_of(cursor.expect(")"))))

    def _grid_index(self) -> ParsedExpression:
        token = self.cursor.advance()
        self.cursor.expect("(")
        axis = self.cursor.integer()
        span = self.cursor.span_of(token).to(self.cursor.span_of(self.cursor.expect(")")))
        return self._made(GridIndex(_GRID_LEVELS[token.text], axis, Type(self.kernel.index)), span)

    def _form(self) -> ParsedExpression:
        """Read an expression that begins with a reserved word."""
        word = self.cursor.advance()
        form = OperandReader(self.cursor, self)
        node = form.node(EXPRESSIONS[word.text], {}, 1)
        assert isinstance(node, Expr)
        # The token before the current one is the last of the form.
        return self._made(node, self.cursor.span_of(word).to(self.cursor.last), tuple(form.operands))
