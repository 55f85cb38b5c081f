"""Text to a Tile function. All faults are reported at once: recovery is at ``;`` and ``}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tileir.core.errors import ParseError
from tileir.core.ops import Aggregation, Combination
from tileir.tile.cursor import AbandonError, Cursor
from tileir.tile.expression_parser import ExpressionParser
from tileir.tile.grammar import AGGREGATIONS, COMBINATIONS
from tileir.tile.ir import (
    Access,
    Assignment,
    Attribute,
    Constraint,
    Contraction,
    Function,
    Input,
    Name,
    Output,
)
from tileir.tile.lexer import END, INDEX, NAME, Faults, Token, TooManyFaultsError, source_of
from tileir.tile.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.ir import Expr, Statement

T = TypeVar("T")

_AGGREGATION_FORMS: Final = "an aggregation: +(…), *(…), >(…), <(…) or =(…)"
_TENSOR: Final = "a tensor name, which begins with a capital letter or '#',"


def parse(text: str, name: str = "<text>") -> Function:
    """Read ``function (inputs) -> (outputs) { statements }`` and verify it; ``name`` stands in errors.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each fault.
        VerifyError: The program breaks a rule; one diagnostic for each fault.

    """
    function = _read(text, name, _Parser.function)
    verify(function)
    return function


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


def _read(text: str, name: str, read: Callable[[_Parser], T]) -> T:
    """Run one entry point of the grammar over the whole text."""
    faults = Faults()
    try:
        cursor = Cursor.at_start(source_of(text, name), faults)
        result = read(_Parser(cursor, ExpressionParser(cursor)))
        if not cursor.at(END):
            raise cursor.unexpected("the end of the text")
        if not faults.found:
            return result
    except (AbandonError, TooManyFaultsError):
        pass  # each of them follows a report
    raise ParseError(faults.in_order())


@attrs.frozen
class _Parser:
    """The grammar of functions and statements, at a cursor."""

    cursor: Cursor
    expressions: ExpressionParser

    def wrapped(self, keyword: str, read: Callable[[], T]) -> T:
        """Read something that may have ``keyword`` in front and ``;`` behind."""
        self.cursor.skip(keyword)
        result = read()
        self.cursor.skip(";")
        return result

    def bare_contraction(self) -> Contraction:
        """Read a contraction without attributes and without its ``;``."""
        name = self.cursor.expect(NAME, _TENSOR)
        return self._contraction(name, (), name.start)

    def function(self) -> Function:
        """Read a whole function."""
        cursor = self.cursor
        start = cursor.token.start
        inputs: tuple[Input, ...] = ()
        outputs: tuple[Output, ...] = ()
        try:
            inputs, outputs = self._header()
        except AbandonError:
            cursor.recover_header()
        cursor.expect("{")
        statements = []
        while not cursor.at("}") and not cursor.at(END):
            try:
                statements.append(self._statement())
            except AbandonError:
                cursor.recover()
                cursor.skip(";")
        cursor.expect("}")
        return Function(inputs, outputs, tuple(statements), span=cursor.span_from(start))

    def _header(self) -> tuple[tuple[Input, ...], tuple[Output, ...]]:
        cursor = self.cursor
        cursor.expect("function", "'function (inputs) -> (outputs) { statements }'")
        cursor.expect("(")
        inputs = () if cursor.at(")") else self._list(self._input)
        cursor.expect(")", "',' or ')'")
        cursor.expect("->")
        cursor.expect("(")
        outputs = self._list(self._output)
        cursor.expect(")", "',' or ')'")
        if not cursor.at("{"):
            raise cursor.unexpected("'{'")
        return inputs, outputs

    def _list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Read one item or more, with commas between them."""
        items = [item()]
        while self.cursor.skip(","):
            items.append(item())
        return tuple(items)

    def _input(self) -> Input:
        cursor = self.cursor
        name = cursor.expect(NAME, _TENSOR)
        if not cursor.skip("["):
            return Input(name.text, span=cursor.span_of(name))
        dims = () if cursor.at("]") else self._list(self._dimension)
        cursor.expect("]", "',' or ']'")
        return Input(name.text, dims, span=cursor.span_from(name.start))

    def _dimension(self) -> Name:
        name = self.cursor.expect(NAME, "the name of a dimension, which begins with a capital letter or '#',")
        return Name(name.text, span=self.cursor.span_of(name))

    def _output(self) -> Output:
        name = self.cursor.expect(NAME, _TENSOR)
        return Output(name.text, span=self.cursor.span_of(name))

    def _statement(self) -> Statement:
        cursor = self.cursor
        start = cursor.token.start
        attributes = []
        while cursor.at("["):
            attributes.append(self._attribute())
        name = cursor.expect(NAME, _TENSOR)
        statement: Statement
        if cursor.at("["):
            statement = self._contraction(name, tuple(attributes), start)
        elif cursor.skip("="):
            value = self.expressions.expression()
            where = cursor.span_of(name)
            span = cursor.span_from(start)
            statement = Assignment(name.text, value, tuple(attributes), span=span, name_span=where)
        else:
            raise cursor.unexpected("'=' or '['", *self._augmented())
        self._end_of_statement()
        return statement

    def _augmented(self) -> tuple[str, ...]:
        """Say how to write what other languages write as ``O += …``."""
        sign = self.cursor.token.kind
        return (f"an aggregation is written O[i : N] = {sign}(A[i, j]);",) if sign in AGGREGATIONS else ()

    def _end_of_statement(self) -> None:
        """Take the ``;``. Where a line was plainly meant to be ended by one, report it and go on."""
        cursor = self.cursor
        if cursor.skip(";"):
            return
        if not cursor.at("}") and not (cursor.on_new_line and (cursor.at(NAME) or cursor.at("["))):
            raise cursor.unexpected("';'")
        cursor.report("a statement ends with ';', which is missing after this", cursor.last)

    def _attribute(self) -> Attribute:
        cursor = self.cursor
        start = cursor.advance().start
        cursor.expect("[", "'[[name]]' or a tensor name")
        name = cursor.expect(INDEX, "the name of an attribute, in lower case,")
        parameters: tuple[str, ...] = ()
        if cursor.skip("("):
            parameters = self._list(self._parameter)
            cursor.expect(")", "',' or ')'")
        cursor.expect("]", "']]'")
        cursor.expect("]", "']]'")
        return Attribute(name.text, parameters, span=cursor.span_from(start))

    def _parameter(self) -> str:
        if self.cursor.at(INDEX):
            return self.cursor.advance().text
        return self.cursor.expect(NAME, "a name").text

    def _contraction(self, name: Token, attributes: tuple[Attribute, ...], start: int) -> Contraction:
        cursor = self.cursor
        indices, sizes = self._target()
        aggregation = self._aggregation()
        combination, inputs = self._combination()
        constraints = []
        while cursor.skip(","):
            constraints.append(self._constraint())
        no_defract, default = self._options()
        return Contraction(
            name.text,
            indices,
            sizes,
            aggregation,
            combination,
            inputs,
            tuple(constraints),
            no_defract,
            default,
            attributes,
            span=cursor.span_from(start),
            name_span=cursor.span_of(name),
        )

    def _target(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Read ``[indices : sizes]``."""
        cursor = self.cursor
        cursor.expect("[")
        indices: tuple[Expr, ...] = ()
        sizes: tuple[Expr, ...] = ()
        if not cursor.at("]") and not cursor.at(":"):
            indices = self._list(self.expressions.polynomial)
        if cursor.skip(":") and not cursor.at("]"):
            sizes = self._list(self.expressions.expression)
        cursor.expect("]", "',' or ']'" if sizes else "',', ':' or ']'")
        return indices, sizes

    def _aggregation(self) -> Aggregation:
        """Read ``= sign (``."""
        cursor = self.cursor
        if cursor.at("=="):
            raise cursor.unexpected("'='", "an assigning contraction is written O[i : N] = =(A[i]);")
        if not cursor.skip("="):
            raise cursor.unexpected("'='", *self._augmented())
        aggregation = AGGREGATIONS.get(cursor.token.kind)
        if aggregation is None:
            raise cursor.unexpected(_AGGREGATION_FORMS)
        cursor.advance()
        cursor.expect("(")
        return aggregation

    def _combination(self) -> tuple[Combination, tuple[Access, ...]]:
        """Read the inputs and the closing parenthesis."""
        cursor = self.cursor
        accesses = [self._access()]
        combination = COMBINATIONS.get(cursor.token.kind, Combination.NONE)
        if combination is not Combination.NONE:
            sign = cursor.advance()
            accesses.append(self._access())
            if cursor.skip("?"):
                if combination is not Combination.EQ:
                    message = "a conditional combination compares for equality: +(A[i] == B[i] ? C[i])"
                    cursor.report(message, cursor.span_of(sign))
                combination = Combination.COND
                accesses.append(self._access())
        if not cursor.at(")"):
            raise cursor.unexpected(*_after_inputs(combination))
        cursor.advance()
        return combination, tuple(accesses)

    def _access(self) -> Access:
        cursor = self.cursor
        form = "a tensor with its indices, as in A[i, j]"
        if not cursor.at(NAME):
            raise cursor.unexpected(form, "anything but indexing goes into a statement of its own")
        name = cursor.advance()
        if not cursor.at("["):
            raise cursor.unexpected(f"'[': a contraction reads {form}")
        cursor.advance()
        indices = () if cursor.at("]") else self._list(self.expressions.polynomial)
        cursor.expect("]", "',' or ']'")
        return Access(name.text, indices, span=cursor.span_from(name.start))

    def _constraint(self) -> Constraint:
        cursor = self.cursor
        start = cursor.token.start
        polynomial = self.expressions.polynomial()
        if not cursor.at("<"):
            note = "a constraint is 'polynomial < bound' and means 0 <= polynomial < bound"
            raise cursor.unexpected("'<'", note)
        cursor.advance()
        bound = self.expressions.expression()
        return Constraint(polynomial, bound, span=cursor.span_from(start))

    def _options(self) -> tuple[bool, Name | None]:
        """Read ``no_defract`` and ``default D``, in either order, each at most once."""
        cursor = self.cursor
        no_defract = False
        default: Name | None = None
        while cursor.at("no_defract") or cursor.at("default"):
            option = cursor.advance()
            if no_defract if option.kind == "no_defract" else default is not None:
                cursor.report(f"'{option.kind}' is said twice", cursor.span_of(option))
            if option.kind == "no_defract":
                no_defract = True
                continue
            name = cursor.expect(NAME, _TENSOR)
            default = Name(name.text, span=cursor.span_of(name))
        return no_defract, default


def _after_inputs(combination: Combination) -> tuple[str, str]:
    """Say what may follow the inputs of a contraction, and what to do about anything else."""
    match combination:
        case Combination.NONE:
            return "'+', '*', '==' or ')'", "any other operation goes into a statement of its own"
        case Combination.EQ:
            return "'?' or ')'", "a contraction combines one or two tensors, or A[i] == B[i] ? C[i]"
        case Combination.COND:
            return "')'", "where the condition is false a contraction contributes 0"
        case Combination.ADD | Combination.MUL:
            return "')'", "a contraction combines two tensors at most; multiply others in a statement of their own"
