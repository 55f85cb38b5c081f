"""Warnings about a Tile function that hold for all shapes: unused values, and indices that cancel out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set as AbstractSet
from fractions import Fraction
from typing import Final

from tileir.core import Diagnostic, meant
from tileir.core.codes import WARNINGS
from tileir.tile.ir import (
    Attribute,
    Binary,
    BinaryOperator,
    Constant,
    Contraction,
    Expr,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Scan,
    Statement,
    Unary,
    While,
    parts,
)
from tileir.tile.traversal import (
    Role,
    asserts,
    children,
    expressions,
    index_names,
    named,
    names_read,
    result_sizes,
    walk,
)

ATTRIBUTES: Final = frozenset({"allow", "finite", "pid", "shard", "ties"})
"""Attributes with a meaning."""

ALLOW: Final = "allow"
"""The attribute that silences warnings of its statement: ``[[allow(TIL232)]]``."""


def warnings_for_all_shapes(function: Function) -> tuple[Diagnostic, ...]:
    """Return warnings about a verified function, in the order of the text."""
    return in_order(_found(function, frozenset()))


def in_order(diagnostics: Iterable[Diagnostic], *, every: bool = False) -> tuple[Diagnostic, ...]:
    """Return diagnostics in the order of the text, each once.

    Those about statements of the operation library are left out, unless ``every`` asks for them.
    """
    told = (d for d in diagnostics if every or d.span is None or not d.span.by_library)
    once = {(d.code, d.message, d.span and (d.span.start, d.span.stop)): d for d in told}
    return tuple(sorted(once.values(), key=lambda d: -1 if d.span is None else d.span.start))


def allowed(attributes: Iterable[Attribute]) -> frozenset[str]:
    """Return the codes of the warnings that the attributes of a statement silence."""
    return frozenset(code for attribute in attributes if attribute.name == ALLOW for code in attribute.parameters)


def _found(function: Function, kept: AbstractSet[str]) -> Iterator[Diagnostic]:
    """Yield the warnings about a function and the steps in it; the inputs ``kept`` cannot be left out."""
    needed = needed_names(function)
    yield from _unused_inputs(function.inputs, function.statements, needed, kept)
    taken: set[str] = set()  # parts of tuples, some of which may be unread
    for position, statement in enumerate(function.statements):
        silenced = allowed(statement.attributes)
        members = [part.name for part in parts(function.statements, position)]
        told = "TIL232" in silenced or statement.name in taken
        if not told and not needed.intersection(defined(statement)):
            names = ", ".join(map(repr, members or [statement.name]))
            message = f"no result depends on {names}; remove it, or make it an output"
            yield Diagnostic("TIL232", message, statement.name_span or statement.span)
        taken.update(members)
        yield from _unknown_attributes(statement)
        if isinstance(statement, Contraction) and "TIL233" not in silenced:
            yield from _cancelled(statement)
        elif isinstance(statement, Scan):
            carries = frozenset(i.name for i in statement.step.inputs[: len(statement.carries)])
            yield from _found(statement.step, carries)
        elif isinstance(statement, While):
            for inner in statement.functions:
                yield from _found(inner, frozenset(each.name for each in inner.inputs))


def _unknown_attributes(statement: Statement) -> Iterator[Diagnostic]:
    for attribute in statement.attributes:
        known: Collection[str] = WARNINGS if attribute.name == ALLOW else ATTRIBUTES
        words = attribute.parameters if attribute.name == ALLOW else (attribute.name,)
        for word in words:
            if word not in known:
                near = meant(word, known)
                hint = f"known are {', '.join(sorted(known))}" if near is None else f"did you mean {near}?"
                yield Diagnostic("TIL234", f"nothing reads {word!r} here; {hint}", attribute.span)


def needed_names(function: Function, *, asserting: bool = True) -> set[str]:
    """Return the names on which some output depends or, if ``asserting``, an assertion."""
    needed = {output.name for output in function.outputs}
    needed.update(node.name for root in result_sizes(function) for node in walk(root) if isinstance(node, Name))
    for statement in reversed(function.statements):
        if asserting and asserts(statement):
            needed.add(statement.name)
        if needed.intersection(defined(statement)):
            needed.update(names_read(statement))
    return needed


def defined(statement: Statement) -> Iterator[str]:
    """Yield the names that a statement introduces: its tensor, and the dimensions of a constant."""
    yield statement.name
    if isinstance(statement, Constant):
        yield from (dim.name for dim in named(statement))


def _unused_inputs(
    inputs: Iterable[Input], statements: Iterable[Statement], needed: AbstractSet[str], kept: AbstractSet[str]
) -> Iterator[Diagnostic]:
    """Yield inputs that provide neither elements nor a size that no other tensor in use has."""
    inputs = tuple(inputs)
    read = [each for each in inputs if each.name in needed]
    sized = {dim.name for each in read for dim in named(each)}
    sized.update(name for each in statements if isinstance(each, Constant) for name in defined(each))
    for each in inputs:
        sizes = {dim.name for dim in named(each)} & needed
        if each.name in needed or each.name in kept or sizes - sized:
            sized |= sizes
            continue
        yield Diagnostic("TIL231", f"no result depends on input {each.name!r}; remove it, or use it", each.span)


def _cancelled(statement: Contraction) -> Iterator[Diagnostic]:
    for place, root in expressions(statement):
        if place is Role.POLYNOMIAL and not isinstance(root, IndexName):
            for name in dict.fromkeys(index.name for index in index_names(root)):
                if _coefficient(root, name) == 0:
                    span = next(index.span for index in index_names(root) if index.name == name)
                    yield Diagnostic("TIL233", f"index {name!r} cancels out here: remove it", span)


def _coefficient(root: Expr, index: str) -> Fraction | None:
    """Return the coefficient of an index, with a distinct number for each size; None if it is not affine."""
    at = [_value(root, index, Fraction(value)) for value in (0, 1)]
    return None if at[0] is None or at[1] is None else at[1] - at[0]


def _value(node: Expr, index: str, value: Fraction) -> Fraction | None:
    match node:
        case IntLiteral(value=number):
            return Fraction(number)
        case Name(name=name):
            return Fraction(int.from_bytes(name.encode(), "big"))
        case IndexName(name=name):
            return value if name == index else Fraction(0)
        case Unary() | Binary():
            operands = [_value(child, index, value) for child in children(node)]
            known = [operand for operand in operands if operand is not None]
            return None if len(known) < len(operands) else _computed(node, known)
        case _:
            return None


def _computed(node: Unary | Binary, operands: list[Fraction]) -> Fraction | None:
    if isinstance(node, Unary):
        return -operands[0]
    left, right = operands
    match node.operator:
        case BinaryOperator.ADD:
            return left + right
        case BinaryOperator.SUB:
            return left - right
        case BinaryOperator.MUL:
            return left * right
        case BinaryOperator.DIV:
            return left / right if right else None
        case _:
            return None
