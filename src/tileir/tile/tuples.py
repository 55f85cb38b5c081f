"""Tuples that are taken apart where they are made: ``(Y, Z) = value;`` is a tuple, and one statement for each part."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import Span
from tileir.tile.ir import Assignment, Call, Expr, IntLiteral, Name, Scan, Statement, While


def tuple_name(first: str) -> str:
    """Return the name of a tuple that is taken apart, by that of its first part."""
    return f"({first})"


def part_of(group: str, place: int, span: Span | None = None) -> Call:
    """Return the expression of a part of a tuple."""
    return Call("element", (Name(group, span=span), IntLiteral(place, span=span)), span=span)


def parts(statements: Sequence[Statement], position: int) -> tuple[Assignment, ...]:
    """Return the statements behind a tuple that take it apart; none where it is not written ``(Y, Z) = value;``."""
    group = statements[position].name
    if not group.startswith("(") or not isinstance(statements[position], Assignment | Scan | While):
        return ()  # of most statements the name tells
    found: list[Assignment] = []
    for statement in statements[position + 1 :]:
        if not isinstance(statement, Assignment) or statement.attributes:
            break
        if statement.value != part_of(group, len(found)) or (not found and group != tuple_name(statement.name)):
            break
        found.append(statement)
    return tuple(found) if len(found) > 1 else ()


def member(value: Expr) -> Expr:
    """Return the part of a tuple that stands there, if ``value`` is ``element(tuple(…), k)``; else itself."""
    match value:
        case Call("element", (Call("tuple", members), IntLiteral(place))) if place < len(members):
            return members[place]
        case _:
            return value
