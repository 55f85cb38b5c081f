"""Inputs of a Tile function from which sizes are computed, so that their values must be known when compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.tile.functions import builtin
from tileir.tile.ir import Assignment, Call, Name, Scan
from tileir.tile.traversal import Place, expressions, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.tile.ir import Expr, Function


def sizing_inputs(function: Function) -> frozenset[str]:
    """Return the inputs, integers of rank 0, that a size, a bound, an index polynomial or an axis depends on."""
    found: set[str] = set()
    for statement in reversed(function.statements):
        for place, root in expressions(statement):
            everything = place is not Place.VALUE or (isinstance(statement, Assignment) and statement.name in found)
            found.update(_names(root) if everything else _in_constant_arguments(root))
        if isinstance(statement, Scan):
            found.update(_passed_on(statement))
    return frozenset(found & {parameter.name for parameter in function.inputs})


def _names(root: Expr) -> Iterator[str]:
    return (node.name for node in walk(root) if isinstance(node, Name))


def _in_constant_arguments(root: Expr) -> Iterator[str]:
    """Yield the names in arguments that have to be known when compiling, such as those of ``reshape``."""
    for node in walk(root):
        row = builtin(node.function) if isinstance(node, Call) else None
        if isinstance(node, Call) and row is not None and row.constants is not None:
            for argument in node.arguments[row.constants :]:
                yield from _names(argument)


def _passed_on(statement: Scan) -> Iterator[str]:
    """Yield what a scan passes to its step as an input of this kind."""
    inside = sizing_inputs(statement.step)
    pairs = zip(statement.step.inputs, statement.operands, strict=False)  # before verification lengths may differ
    yield from (operand.name for parameter, operand in pairs if parameter.name in inside)
