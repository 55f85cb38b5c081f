"""Contractions: their targets, aggregations, combinations, constraints and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tileir.core import Aggregation, Combination, attrs, meant
from tileir.core.text import lexing
from tileir.core.text.lexing import Token
from tileir.tile.ir import Access, Attribute, Constraint, Contraction, Expr, Name
from tileir.tile.text.expression_parser import ExpressionParser
from tileir.tile.text.grammar import AGGREGATIONS, COMBINATIONS
from tileir.tile.text.lexer import INDEX, NAME, Cursor

A = TypeVar("A")

TENSOR: Final = "a tensor name, which begins with a capital letter or '#',"
"""Description of the name of a tensor in errors."""

_AGGREGATION_FORMS: Final = "an aggregation: +(…), *(…), >(…), <(…) or =(…)"


@attrs.frozen
class ContractionParser:
    """The grammar of contractions, at a cursor."""

    cursor: Cursor
    expressions: ExpressionParser

    def read(self, name: Token, attributes: tuple[Attribute, ...], start: int) -> Contraction:
        """Read the text after the name: ``[indices : sizes] = aggregation(inputs), constraints options``."""
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
            indices = cursor.list(self.expressions.polynomial)
        if cursor.skip(":") and not cursor.at("]"):
            sizes = cursor.list(self.expressions.expression)
        cursor.expect("]", "',' or ']'" if sizes else "',', ':' or ']'")
        return indices, sizes

    def _aggregation(self) -> Aggregation:
        """Read ``= sign (``."""
        cursor = self.cursor
        if cursor.at("=="):
            raise cursor.unexpected("'='", "an assigning contraction is written O[i : N] = =(A[i]);")
        if not cursor.skip("="):
            raise cursor.unexpected("'='", *self.augmented())
        aggregation = AGGREGATIONS.get(cursor.token.kind)
        if aggregation is None:
            raise cursor.unexpected(_AGGREGATION_FORMS)
        cursor.advance()
        cursor.expect("(")
        return aggregation

    def _combination(self) -> tuple[Combination, tuple[Access, ...]]:
        """Read the inputs and the closing parenthesis."""
        combination, accesses = combined(self.cursor, self._access)
        if not self.cursor.at(")"):
            raise self.cursor.unexpected(*_after_inputs(combination))
        self.cursor.advance()
        return combination, accesses

    def _access(self) -> Access:
        cursor = self.cursor
        form = "a tensor with its indices, as in A[i, j]"
        if not cursor.at(NAME):
            raise cursor.unexpected(form, "anything but indexing goes into a statement of its own")
        name = cursor.advance()
        if not cursor.at("["):
            raise cursor.unexpected(f"'[': a contraction reads {form}")
        indices = cursor.enclosed(self.expressions.polynomial, "[]")
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
            name = cursor.expect(NAME, TENSOR)
            default = Name(name.text, span=cursor.span_of(name))
        if cursor.at(INDEX) and (found := meant(cursor.token.text, ("no_defract", "default"))):
            raise cursor.unexpected("';'", f"did you mean {found}?")
        return no_defract, default

    def augmented(self) -> tuple[str, ...]:
        """Return advice for ``O += …`` of other languages."""
        sign = self.cursor.token.kind
        return (f"an aggregation is written O[i : N] = {sign}(A[i, j]);",) if sign in AGGREGATIONS else ()


def combined(cursor: lexing.Cursor, access: Callable[[], A]) -> tuple[Combination, tuple[A, ...]]:
    """Read the operands of a contraction: one access or more, and the signs between them."""
    accesses = [access()]
    combination = COMBINATIONS.get(cursor.token.kind, Combination.NONE)
    if combination is not Combination.NONE:
        sign = cursor.advance()
        accesses.append(access())
        if cursor.skip("?"):
            if combination is not Combination.EQ:
                message = "a conditional combination compares for equality: +(A[i] == B[i] ? C[i])"
                cursor.report(message, cursor.span_of(sign))
            combination = Combination.COND
            accesses.append(access())
    return combination, tuple(accesses)


def _after_inputs(combination: Combination) -> tuple[str, str]:
    """Return the tokens that may follow the inputs of a contraction, and advice for anything else."""
    match combination:
        case Combination.NONE:
            return "'+', '*', '==' or ')'", "any other operation goes into a statement of its own"
        case Combination.EQ:
            return "'?' or ')'", "a contraction combines one or two tensors, or A[i] == B[i] ? C[i]"
        case Combination.COND:
            return "')'", "where the condition is false a contraction contributes 0"
        case Combination.ADD | Combination.MUL:
            return "')'", "a contraction combines two tensors at most; multiply others in a statement of their own"
