"""Views of a typed function: its graph, its users, how long its values live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core import schema
from tileir.core.graphs import PLAIN, Vertex, frozen_graph
from tileir.typed.ir import Elementwise, Value, operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    import networkx as nx

    from tileir.typed.ir import Function, Operation


def dataflow(function: Function) -> nx.DiGraph[str]:
    """Link each value to its users: a frozen graph whose nodes are in program order, parameters first.

    The successors of a node are its users. Beside the attributes of :mod:`tileir.core.graphs` it has ``last_use``: a
    value is live from its ``position`` to that, the entries of :func:`order` and :func:`last_uses`.
    """
    positions, ends, results = order(function), last_uses(function), set(function.outputs)
    vertices = (
        Vertex(name, _kind(each), str(each), each, positions[name], name in results, {"last_use": ends[name]})
        for name, each in definitions(function).items()
    )
    edges = ((name, operation.name, PLAIN) for operation in function.operations for name in operands(operation))
    return frozen_graph(vertices, edges)


def _kind(definition: Value | Operation) -> str:
    """Return the word for an operation that its text has."""
    match definition:
        case Value():
            return "input"
        case Elementwise(op=op):
            return op.value
        case _:
            return type(definition).__name__.lower()


def definitions(function: Function) -> dict[str, Value | Operation]:
    """Return what defines each value, in program order, parameters first."""
    return {definition.name: definition for definition in (*function.inputs, *function.operations)}


def order(function: Function) -> dict[str, int]:
    """Return the position of each value: -1 for parameters, else that of its operation."""
    positions = {value.name: -1 for value in function.inputs}
    positions.update((operation.name, position) for position, operation in enumerate(function.operations))
    return positions


def users(function: Function) -> dict[str, tuple[str, ...]]:
    """Return for each value, in program order, the operations that read it, each once and in program order."""
    found: dict[str, dict[str, None]] = {name: {} for name in definitions(function)}
    for operation in function.operations:
        for name in operands(operation):
            found[name][operation.name] = None
    return {name: tuple(readers) for name, readers in found.items()}


def last_uses(function: Function) -> dict[str, int]:
    """Return the position of the last operation that reads each value.

    An output lives to the end, which is the number of operations; a value that nothing reads ends where it is defined.
    """
    ends = order(function)
    for position, operation in enumerate(function.operations):
        for name in operands(operation):
            ends[name] = position
    ends.update((name, len(function.operations)) for name in function.outputs)
    return ends


def live_after(function: Function) -> tuple[tuple[str, ...], ...]:
    """Return for each operation the values, in program order, that something after it still reads or returns.

    The answer can be quadratic in size; :func:`last_uses` says the same in linear space.
    """
    ends = last_uses(function)
    starts: Mapping[str, int] = order(function)
    return tuple(
        tuple(name for name, start in starts.items() if start <= position < ends[name])
        for position in range(len(function.operations))
    )


def alive(function: Function) -> frozenset[str]:
    """Return the names of all values that some output depends on."""
    needed = set(function.outputs)
    for operation in reversed(function.operations):
        if operation.name in needed:
            needed.update(operands(operation))
    return frozenset(needed)


def without_dead(function: Function) -> Function:
    """Return ``function`` without operations on which no output depends, and without labels of what is gone."""
    needed = alive(function)
    operations = tuple(operation for operation in function.operations if operation.name in needed)
    defined = {operation.name for operation in operations}
    labels = tuple(dict.fromkeys(pair for pair in function.labels if pair[0] in defined))
    return attrs.evolve(function, operations=operations, labels=labels)


def with_operands(operation: Operation, names: Mapping[str, str]) -> Operation:
    """Return ``operation`` reading other values; ``operation`` itself where no operand is in ``names``."""
    return schema.with_used(operation, names)
