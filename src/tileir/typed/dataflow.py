"""Views of a typed function: its graph, the users of its values, live ranges.

Loops of typed functions: the operations of a loop, its results, and the removal of parts that nothing reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core import DType, attrs, grouped, rewritten, schema
from tileir.core.graphs.frozen import PLAIN, Vertex, frozen_graph
from tileir.typed.ir import Elementwise, Function, Operation, Scan, ScanPart, ScanResult, TensorType, Value, operands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import networkx as nx


def dataflow(function: Function) -> nx.DiGraph[str]:
    """Build the frozen graph from values to their users, with nodes in program order, parameters first.

    Beside the attributes of :mod:`tileir.core.graphs.frozen`, a node has ``last_use``: a value is live from its
    ``position`` to its ``last_use``, the entries of :func:`order` and :func:`last_uses`.
    """
    positions, ends, results = order(function), last_uses(function), set(function.outputs)
    vertices = (
        Vertex(name, _kind(each), str(each), each, positions[name], name in results, {"last_use": ends[name]})
        for name, each in definitions(function).items()
    )
    edges = ((name, operation.name, PLAIN) for operation in function.operations for name in operands(operation))
    return frozen_graph(vertices, edges)


def _kind(definition: Value | Operation) -> str:
    match definition:
        case Value():
            return "input"
        case Elementwise(op=op):
            return op.value
        case _:
            return type(definition).__name__.lower()


def definitions(function: Function) -> dict[str, Value | Operation]:
    """Return the definition of each value, in program order, parameters first."""
    return {definition.name: definition for definition in (*function.inputs, *function.operations)}


def order(function: Function) -> dict[str, int]:
    """Return the position of each value: -1 for parameters, otherwise that of its operation."""
    positions = {value.name: -1 for value in function.inputs}
    positions.update((operation.name, position) for position, operation in enumerate(function.operations))
    return positions


def users(function: Function) -> dict[str, tuple[str, ...]]:
    """Return the operations that read each value; values and operations are in program order, without duplicates."""
    found: dict[str, dict[str, None]] = {name: {} for name in definitions(function)}
    for operation in function.operations:
        for name in operands(operation):
            found[name][operation.name] = None
    return {name: tuple(readers) for name, readers in found.items()}


def last_uses(function: Function) -> dict[str, int]:
    """Return the position of the last operation that reads each value.

    An output lives to the end, the number of operations; a value that nothing reads ends at its definition.
    """
    ends = order(function)
    ends.update((name, number) for number, each in enumerate(function.operations) for name in operands(each))
    ends.update((name, len(function.operations)) for name in function.outputs)
    return ends


def alive(function: Function) -> frozenset[str]:
    """Return the names of all values that some output depends on."""
    needed = set(function.outputs)
    for operation in reversed(function.operations):
        if operation.name in needed:
            needed.update(operands(operation))
    return frozenset(needed)


def without_dead(function: Function) -> Function:
    """Return ``function`` without operations on which no output depends, and without their labels."""
    needed = alive(function)
    operations = tuple(operation for operation in function.operations if operation.name in needed)
    defined = {operation.name for operation in operations}
    labels = tuple(dict.fromkeys(pair for pair in function.labels if pair[0] in defined))
    return attrs.evolve(function, operations=operations, labels=labels)


def with_operands(operation: Operation, names: Mapping[str, str]) -> Operation:
    """Return ``operation`` with operands replaced by ``names``; ``operation`` itself if none is in ``names``."""
    return schema.with_used(operation, names)


MAX_NESTING: Final = 8
"""Greatest depth of nested loops."""

_ANY: Final = ScanResult(ScanPart.FINAL, 0)


def loop_of(scan: Scan) -> Scan:
    """Return the key of a loop: it is equal for two operations exactly if they are results of one loop."""
    return attrs.evolve(scan, name="", result=_ANY, dtype=DType.BOOL, shape=())


def results_of(body: Function, carries: int) -> tuple[ScanResult, ...]:
    """Return all results of a loop with ``carries`` carries: last values, outputs, and values before each step."""
    outputs = len(body.outputs) - carries
    return (
        *(ScanResult(ScanPart.FINAL, number) for number in range(carries)),
        *(ScanResult(ScanPart.OUTPUT, number) for number in range(outputs)),
        *(ScanResult(ScanPart.HISTORY, number) for number in range(carries)),
    )


def result_type(body: Function, carries: int, count: int | None, result: ScanResult) -> TensorType:
    """Return dtype and shape of a result of a loop; ``count`` is None if the number of steps is unknown."""
    definitions = {operation.name: operation for operation in body.operations}
    made = definitions[body.outputs[_place(result, carries)]]
    shape = made.shape if result.part is ScanPart.FINAL or count is None else (count, *made.shape)
    return TensorType(made.dtype, shape)


def loops_of(function: Function) -> dict[Scan, tuple[Scan, ...]]:
    """Return the loops of a function, in program order, each with the operations that are its results."""
    found = grouped((loop_of(each), each) for each in function.operations if isinstance(each, Scan))
    return {loop: tuple(results) for loop, results in found.items()}


def with_bodies(function: Function, change: Callable[[Function], Function]) -> Function:
    """Return the function with ``change`` applied to the bodies of its outermost loops; itself if nothing changes."""
    bodies = {
        operation.body: change(operation.body) for operation in function.operations if isinstance(operation, Scan)
    }
    if all(new is old for old, new in bodies.items()):
        return function
    return with_operations(
        function, lambda each: attrs.evolve(each, body=bodies[each.body]) if isinstance(each, Scan) else each
    )


def with_operations(function: Function, change: Callable[[Operation], Operation]) -> Function:
    """Return the function with ``change`` applied to each operation; itself if nothing changes."""
    operations = rewritten(function.operations, lambda operation: (change(operation),))
    return function if operations is function.operations else attrs.evolve(function, operations=operations)


def without_idle_parts(function: Function) -> Function:
    """Remove carries, outputs and inputs of loops that do not affect the results in use; itself if there are none."""
    new = {name: scan for results in loops_of(function).values() for name, scan in _reduced(results).items()}
    return with_operations(function, lambda operation: new.get(operation.name, operation))


def _reduced(results: tuple[Scan, ...]) -> dict[str, Scan]:
    """Return the operations of one loop without idle parts, by name; an empty dict if no part is idle."""
    first = results[0]
    carries, body = len(first.carries), first.body
    needed = _needed_outputs(first, [scan.result for scan in results])
    kept = tuple(number for number in range(carries) if number in needed)
    outputs = tuple(number for number in range(carries, len(body.outputs)) if number in needed)
    trimmed = attrs.evolve(body, outputs=tuple(body.outputs[number] for number in (*kept, *outputs)))
    read = alive(trimmed)
    operands = (*first.carries, *first.sequences, *first.constants)
    used = [number in needed if number < carries else value.name in read for number, value in enumerate(body.inputs)]
    if all(used) and len(trimmed.outputs) == len(body.outputs):
        return {}
    trimmed = attrs.evolve(
        trimmed,
        inputs=tuple(value for value, keep in zip(body.inputs, used, strict=True) if keep),
        operations=tuple(operation for operation in body.operations if operation.name in read),
        labels=tuple(pair for pair in body.labels if pair[0] in read),
    )
    given = [name for name, keep in zip(operands, used, strict=True) if keep]
    sequences = sum(used[carries : carries + len(first.sequences)])
    renumbered = {number: position for position, number in enumerate(kept)}
    renumbered.update((number, position) for position, number in enumerate(outputs))
    return {
        scan.name: attrs.evolve(
            scan,
            body=trimmed,
            carries=tuple(given[: len(kept)]),
            sequences=tuple(given[len(kept) : len(kept) + sequences]),
            constants=tuple(given[len(kept) + sequences :]),
            result=attrs.evolve(scan.result, number=renumbered[_place(scan.result, carries)]),
        )
        for scan in results
    }


def _place(result: ScanResult, carries: int) -> int:
    return result.number + (carries if result.part is ScanPart.OUTPUT else 0)


def _needed_outputs(scan: Scan, results: Iterable[ScanResult]) -> frozenset[int]:
    """Return the positions of the body's outputs that the results depend on, over any number of steps."""
    carries, body = len(scan.carries), scan.body
    needed = {_place(result, carries) for result in results}
    if scan.count is None:
        needed.add(0)  # the condition
    while True:
        read = alive(attrs.evolve(body, outputs=tuple(body.outputs[number] for number in sorted(needed))))
        more = {number for number in range(carries) if body.inputs[number].name in read} - needed
        if not more:
            return frozenset(needed)
        needed |= more
