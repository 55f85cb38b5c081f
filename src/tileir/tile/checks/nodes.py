"""The nodes of all expressions of a function by kind, for the checks of it."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core import Diagnostic, Span, attrs
from tileir.tile.functions import SIZE
from tileir.tile.ir import Call, Expr, FloatLiteral, Function, IndexName, IntLiteral, Name
from tileir.tile.text.grammar import MAX_DEPTH, MAX_NODES
from tileir.tile.traversal import Role, expressions, result_sizes, walk, walk_with_depth


@attrs.frozen
class Nodes:
    """The nodes of all expressions by kind, with where their expressions stand, in the order of the text.

    A name comes with the position of its statement, too; the sizes of results stand behind all statements.
    """

    names: list[tuple[int, Role, Name]] = attrs.field(factory=list)
    calls: list[tuple[Role, Call]] = attrs.field(factory=list)
    indices: list[tuple[Role, IndexName]] = attrs.field(factory=list)
    numbers: list[IntLiteral | FloatLiteral] = attrs.field(factory=list)
    too_deep: list[Span | None] = attrs.field(factory=list)


def collect(function: Function) -> Nodes:
    """Sort the nodes of all expressions by kind; an expression that nests too deeply is cut off."""
    nodes = Nodes()
    for position, statement in enumerate(function.statements):
        for place, root in expressions(statement):
            _collect(nodes, position, place, root, statement.span)
    for root in result_sizes(function):
        _collect(nodes, len(function.statements), Role.CONSTANT, root, function.span)
    nodes.numbers.extend(dim for each in function.inputs for dim in each.dims or () if isinstance(dim, IntLiteral))
    return nodes


def _collect(nodes: Nodes, position: int, place: Role, root: Expr, span: Span | None) -> None:
    measured: set[int] = set()  # names of tensors of which only a size is asked for
    for count, (node, depth) in enumerate(walk_with_depth(root)):
        if isinstance(node, Name):
            nodes.names.append((position, Role.VALUE if id(node) in measured else place, node))
        elif isinstance(node, IndexName):
            nodes.indices.append((place, node))
        elif isinstance(node, IntLiteral | FloatLiteral):
            nodes.numbers.append(node)
        elif isinstance(node, Call):
            nodes.calls.append((place, node))
            if node.function == SIZE:
                measured.update(id(each) for argument in node.arguments[:1] for each in walk(argument))
        if depth > MAX_DEPTH or count > MAX_NODES:
            nodes.too_deep.append(node.span or span)
            break


def check_depth(nodes: Nodes) -> Iterator[Diagnostic]:
    """Check that expressions nest at most ``MAX_DEPTH`` levels, and are no larger than any text."""
    for span in nodes.too_deep:
        message = f"this is nested more than {MAX_DEPTH} levels deep; split it into several statements"
        yield Diagnostic("TIL103", message, span)
