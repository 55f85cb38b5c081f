"""The data flow of a typed function as a layered drawing, by Sugiyama, Tagawa and Toda (1981).

A value stands one layer below the lowest that it reads. Within layers values are ordered by the mean place of their
neighbours above, then of those below, some times over. Constants are no nodes: those who read them show their values.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final

from tileir.studio.views import GraphView, NodeView
from tileir.typed.ir import Cast, Constant, Contraction, Elementwise, TensorType, Value, operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.studio.linking import Origins
    from tileir.typed.ir import Function, Operation

MOST_NODES: Final = 300
"""Values that are drawn: more are a thicket that nobody reads."""

_SWEEPS: Final = 6


def graph_of(function: Function, found: Origins) -> GraphView:
    """Return the first values of the data flow, in program order, each with its place."""
    definitions = {
        name: data["definition"]
        for name, data in function.graph().nodes(data=True)
        if not isinstance(data["definition"], Constant)
    }
    shown = dict(list(definitions.items())[:MOST_NODES])
    reads = {name: _reads(definition, shown) for name, definition in shown.items()}
    layers = _layers(reads)
    slots = _slots(reads, layers)
    nodes = tuple(
        NodeView(
            name,
            f"{_kind(definition)}: {TensorType(definition.dtype, definition.shape)}",
            "input" if isinstance(definition, Value) else "output" if name in function.outputs else "value",
            reads[name],
            layers[name],
            slots[name],
            found.names.get(name),
        )
        for name, definition in shown.items()
    )
    width = max(slots.values(), default=0.0) + 1
    return GraphView(nodes, max(layers.values(), default=-1) + 1, width, len(definitions) - len(shown))


def _reads(definition: Value | Operation, shown: Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(definition, Value):
        return ()
    return tuple(dict.fromkeys(name for name in operands(definition) if name in shown))


def _kind(definition: Value | Operation) -> str:
    match definition:
        case Value():
            return "input"
        case Elementwise(op=op):
            return op.value
        case Cast():
            return "cast"
        case Contraction(aggregation=aggregation, combination=combination):
            return f"{aggregation.value} of {combination.value}"
        case _:
            return type(definition).__name__.lower()


def _layers(reads: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    layers: dict[str, int] = {}
    for name, above in reads.items():
        layers[name] = max((layers[each] for each in above), default=-1) + 1
    return layers


def _slots(reads: Mapping[str, tuple[str, ...]], layers: Mapping[str, int]) -> dict[str, float]:
    """Return a place within its layer for each value: whole numbers, shifted so that each layer is centred."""
    below: dict[str, list[str]] = {name: [] for name in reads}
    for name, above in reads.items():
        for each in above:
            below[each].append(name)
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for name, layer in layers.items():
        rows[layer].append(name)
    places = _placed(rows)
    for sweep in range(_SWEEPS):
        neighbours: Mapping[str, tuple[str, ...] | list[str]] = below if sweep % 2 else reads
        for row in reversed(rows) if sweep % 2 else rows:
            keys = {n: fmean(places[each] for each in neighbours[n]) if neighbours[n] else places[n] for n in row}
            row.sort(key=keys.__getitem__)
            places.update(_placed([row]))
    widest = max(map(len, rows), default=0)
    return {name: place + (widest - len(row)) / 2 for row in rows for place, name in enumerate(row)}


def _placed(rows: list[list[str]]) -> dict[str, float]:
    """Return places from -n/2 on, so that means of layers of different widths can be compared."""
    return {name: place - len(row) / 2 for row in rows for place, name in enumerate(row)}
