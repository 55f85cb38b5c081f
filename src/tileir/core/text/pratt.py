"""Operators of a language as data: sign, rank and side of each, for reading and writing expressions.

Reading is by precedence climbing: Pratt, "Top down operator precedence", POPL 1973.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from tileir.core.nodes import attrs

if TYPE_CHECKING:
    from tileir.core.text.lexing import Cursor  # tables are loaded with tileir, and readers of texts are not

E = TypeVar("E")


class Side(enum.Enum):
    """The side to which an infix operator associates."""

    LEFT = "left"
    NEITHER = "neither"  # without parentheses, two of one rank are an error


class Infix(NamedTuple):
    """An infix operator; a higher rank binds tighter."""

    operator: Any
    sign: str
    rank: int
    side: Side = Side.LEFT


@attrs.frozen(eq=False, slots=False)
class Operators:
    """The operators of a language.

    Attributes:
        rows: The infix operators.
        conditional: The rank of ``test ? then : otherwise``, which associates to the right and is lower than all
            others; None if there is none.
    """

    rows: tuple[Infix, ...]
    conditional: int | None = None

    @cached_property
    def infix(self) -> Mapping[str, Infix]:
        """The infix operators by their signs."""
        return MappingProxyType({row.sign: row for row in self.rows})

    @cached_property
    def known(self) -> Mapping[Any, tuple[str, int, int]]:
        """The signs of the infix operators, with their ranks, and the least ranks of their left operands."""
        rows = ((row, row.rank + (row.side is Side.NEITHER)) for row in self.rows)
        return MappingProxyType({row.operator: (f" {row.sign} ", row.rank, least) for row, least in rows})

    def only(self, operators: Iterable[object]) -> Operators:
        """Return the table of some infix operators alone."""
        chosen = set(operators)
        return Operators(tuple(row for row in self.rows if row.operator in chosen))

    def infix_text(self, operator: object, text: Callable[[E, int], str], operands: tuple[E, ...], outer: int) -> str:
        """Return an infix operation, in parentheses if ``outer`` binds tighter; ``text`` writes operands likewise."""
        sign, rank, least = self.known[operator]
        left, right = operands
        written = text(left, least) + sign + text(right, rank + 1)
        return f"({written})" if rank < outer else written

    def conditional_text(self, text: Callable[[E, int], str], operands: tuple[E, ...], outer: int) -> str:
        """Return a conditional, in parentheses if ``outer`` binds tighter."""
        rank = self.conditional or 0
        test, then, otherwise = operands
        written = f"{text(test, rank + 1)} ? {text(then, rank)} : {text(otherwise, rank)}"
        return f"({written})" if rank < outer else written


@attrs.define(eq=False, repr=False)
class Pratt(ABC, Generic[E]):
    """Reader of expressions at a cursor; ``E`` is the result for one. Recursion is bounded by weight.

    Attributes:
        most: The weight at which reading stops to descend; a nested expression weighs 1.
        of_branch: The weight of a branch of a conditional.
        branch: The separator of the branches, for faults.
    """

    most: ClassVar[int]
    of_branch: ClassVar[int] = 1
    branch: ClassVar[str] = ""

    cursor: Cursor
    operators: Operators = attrs.field(init=False)
    weight: int = attrs.field(default=0, init=False)

    @abstractmethod
    def operand(self) -> E:
        """Read prefix operators and their operand."""

    @abstractmethod
    def joined(self, operator: Any, left: E, right: E, start: int) -> E:
        """Return an infix operation, which begins at the offset ``start``."""

    @abstractmethod
    def chosen(self, test: E, then: E, otherwise: E, start: int) -> E:
        """Return a conditional."""

    @abstractmethod
    def too_deep(self) -> Exception:
        """Report an expression that is nested too deeply, and return the exception to raise."""

    def chained(self) -> None:
        """Report an operator that does not associate with the one before."""

    def climb(self, least: int = 0, weight: int = 1) -> E:
        """Read an expression whose infix operators outside of parentheses all have rank ``least`` or more."""
        cursor, infix, conditional = self.cursor, self.operators.infix, self.operators.conditional
        start = cursor.token.start
        self.weight += weight
        if self.weight > self.most:
            raise self.too_deep()
        left = self.operand()
        while (row := infix.get(cursor.token.kind)) is not None and (rank := row.rank) >= least:
            cursor.advance()
            left = self.joined(row.operator, left, self.climb(rank + 1), start)
            if row.side is Side.NEITHER and (again := infix.get(cursor.token.kind)) and again.rank == rank:
                self.chained()
        if cursor.token.kind == "?" and conditional is not None and least <= conditional:
            cursor.advance()
            then = self.climb(conditional, self.of_branch)
            cursor.expect(":", self.branch)
            left = self.chosen(left, then, self.climb(conditional, self.of_branch), start)
        self.weight -= weight
        return left
