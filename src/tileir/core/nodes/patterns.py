"""Laws over operations, for every representation: ``div(x, sqrt(y)) -> mul(x, rsqrt(y))``.

A law has a pattern and a replacement. Names in it are holes, which match any value, and equal values for one name;
numbers are constants; and operations are those of :class:`tileir.core.ops.Op`, with operands in either order if they
commute. :class:`Terms` describes the values of a representation, so that one law serves all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final, Protocol, TypeAlias, TypeVar

from tileir.core.dtype import DType
from tileir.core.errors import DivergenceError
from tileir.core.nodes import attrs
from tileir.core.ops import Op
from tileir.core.text.lexing import Cursor, Lexer, everything, source_of
from tileir.core.text.names import nearest

V = TypeVar("V")
Scalar: TypeAlias = bool | int | float

MOST_CHANGES: Final = 64
"""Greatest number of successive applications of laws at one place."""

_MOST_DEPTH: Final = 32
_MOST_CHARACTERS: Final = 4096
_WORD: Final = "word"
_NUMBER: Final = "number"
_PATTERN: Final = re.compile(
    r"""
    [ \t\r\n]*+
    (?: (?P<word> [A-Za-z_][A-Za-z0-9_]* )
      | (?P<number> -?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? )
      | (?P<sign> -> | [(),] )
      | (?P<end> \Z )
      | (?P<unknown> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPS: Final = {op.value: op for op in Op}


@attrs.frozen
class Hole:
    """Any value; equal values if the name occurs several times."""

    name: str


@attrs.frozen
class Number:
    """A constant of that value."""

    value: int | float


@attrs.frozen
class Operation:
    """An operation on matches of its operands."""

    op: Op
    operands: tuple[Term, ...]


Term: TypeAlias = Hole | Number | Operation


@attrs.frozen
class Operand:
    """The value of a hole for conditions of laws; ``number`` if it is a constant."""

    dtype: DType
    number: Scalar | None


class Terms(Protocol[V]):
    """The values of a representation, and constructors of new ones."""

    def operation(self, value: V) -> tuple[Op, tuple[V, ...]] | None:
        """Return the operation that a value is, with its operands; None for anything else."""

    def number(self, value: V) -> Scalar | None:
        """Return the constant that a value equals in all its elements, or None."""

    def dtype(self, value: V) -> DType:
        """Return the element type of a value."""

    def apply(self, op: Op, operands: tuple[V, ...]) -> V | None:
        """Return a new value; None if operands do not match."""

    def constant(self, number: int | float, like: V) -> V | None:
        """Return a constant of the type of another value; None if that cannot hold the number."""


@attrs.frozen
class Law:
    """A law of replacement: ``text`` is ``pattern -> replacement``.

    Attributes:
        text: The law.
        where: The condition on the values of the holes; None if it always holds. Laws are equal by both.

    Raises:
        ParseError: The text is no law.
    """

    text: str
    where: Callable[[Mapping[str, Operand]], bool] | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse invalid laws at their definition."""
        _sides(self.text)

    def rewritten(self, terms: Terms[V], value: V) -> V | None:
        """Return the replacement of a value, or None if the law does not apply."""
        pattern, replacement = _sides(self.text)
        for found in _matches(terms, pattern, value, {}):
            if self.where is not None and not self.where(_operands(terms, found)):
                continue
            new = _built(terms, replacement, found, value)
            if new is not None:
                return new
        return None


@attrs.define(eq=False, repr=False)
class Changes:
    """Counter of applied laws, which detects endless cycles."""

    left: int

    def note(self, law: object) -> None:
        """Count one.

        Raises:
            DivergenceError: There were too many.
        """
        self.left -= 1
        if self.left < 0:
            raise DivergenceError(f"{law} still fits after many changes: laws must not undo or feed one another")


def _operands(terms: Terms[V], found: Mapping[str, V]) -> dict[str, Operand]:
    return {name: Operand(terms.dtype(value), terms.number(value)) for name, value in found.items()}


def _matches(terms: Terms[V], term: Term, value: V, found: dict[str, V]) -> Iterator[dict[str, V]]:
    """Yield the values of holes, for each match of a term with a value."""
    match term:
        case Hole(name=name):
            if name not in found:
                yield {**found, name: value}
            elif found[name] == value:
                yield found
        case Number(value=number):
            known = terms.number(value)
            if known is not None and known == number and not isinstance(known, bool):
                yield found
        case Operation(op=op, operands=operands):
            made = terms.operation(value)
            if made is None or made[0] is not op:
                return
            orders = [operands, operands[::-1]] if op.info.commutes else [operands]
            for order in orders:
                yield from _all(terms, order, made[1], found)


def _all(
    terms: Terms[V], wanted: tuple[Term, ...], values: tuple[V, ...], found: dict[str, V]
) -> Iterator[dict[str, V]]:
    if not wanted:
        yield found
        return
    for first in _matches(terms, wanted[0], values[0], found):
        yield from _all(terms, wanted[1:], values[1:], first)


def _built(terms: Terms[V], term: Term, found: Mapping[str, V], like: V) -> V | None:
    """Return the value of a term; numbers have the type of an operand beside them, or else of ``like``."""
    match term:
        case Hole(name=name):
            return found[name]
        case Number(value=number):
            return terms.constant(number, like)
        case Operation(op=op, operands=operands):
            made: dict[Term, V | None] = {}
            for each in sorted(operands, key=_is_number):  # numbers take their types from the other operands
                beside = next((made[other] for other in operands[op is Op.COND :] if made.get(other) is not None), None)
                if each not in made:
                    made[each] = _built(terms, each, found, like if beside is None else beside)
            whole = tuple(value for each in operands if (value := made[each]) is not None)
            return terms.apply(op, whole) if len(whole) == len(operands) else None


def _is_number(term: Term) -> bool:
    return isinstance(term, Number)


# --- the text ---


class _Cursor(Cursor):
    """A place in the text of a law."""

    __slots__ = ()
    lexer = staticmethod(
        partial(
            Lexer, pattern=_PATTERN, code="TIL101", advice=lambda word: f"{word!r} has no meaning in a law: remove it"
        )
    )


@lru_cache(maxsize=1024)
def _sides(text: str) -> tuple[Term, Term]:
    return everything(_Cursor, source_of(text, "<law>", _MOST_CHARACTERS), _law)


def _law(cursor: Cursor) -> tuple[Term, Term]:
    start = cursor.here
    holes: set[str] = set()
    pattern = _term(cursor, holes, None, 0)
    if not isinstance(pattern, Operation):
        raise cursor.report_and_abandon("a law is about an operation, as in neg(neg(x)) -> x", start, "TIL102")
    cursor.expect("->")
    return pattern, _term(cursor, set(), holes, 0)


def _term(cursor: Cursor, holes: set[str], known: set[str] | None, depth: int) -> Term:
    """Read a term; ``known`` are the holes of the pattern, if that is read already."""
    if depth > _MOST_DEPTH:
        raise cursor.report_and_abandon(f"terms of laws are at most {_MOST_DEPTH} deep", cursor.here, "TIL103")
    if cursor.at(_NUMBER):
        text = cursor.advance().text
        return Number(float(text) if any(sign in text for sign in ".eE") else int(text))
    where = cursor.here
    word = cursor.expect(_WORD, "an operation, a hole or a number").text
    if not cursor.skip("("):
        holes.add(word)
        if known is not None and word not in known:
            cursor.report(f"the pattern has no {word}{nearest(word, known)}", where, "TIL201")
        return Hole(word)
    if word not in _OPS:
        raise cursor.report_and_abandon(f"there is no operation {word}{nearest(word, _OPS)}", where, "TIL102")
    op = _OPS[word]
    operands = cursor.list(lambda: _term(cursor, holes, known, depth + 1))
    cursor.expect(")", "',' or ')'")
    if len(operands) != op.info.arity:
        cursor.report(f"{word} takes {op.info.arity} operands, not {len(operands)}", where, "TIL207")
    return Operation(op, operands)
