"""The data flow of a typed function as a layered drawing, by Sugiyama, Tagawa and Toda (1981).

A value stands one layer below the lowest that it reads. A wire that passes layers takes a place in each of them. Within
layers all are ordered by the mean place of their neighbours above, then of those below, some times over. Constants are
no nodes: those who read them show their values.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tileir.core.ops import Combination
from tileir.studio.views import GraphView, NodeView, WireView
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
    chains = {(source, name): _chain(source, name, layers) for name, above in reads.items() for source in above}
    slots = _slots(chains, layers)
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
    wires = tuple(
        WireView(source, target, tuple((layers[source] + step, slots[each]) for step, each in enumerate(chain)))
        for (source, target), chain in chains.items()
    )
    width = max(slots.values(), default=0.0) + 1
    omitted = len(definitions) - len(shown)
    return GraphView(nodes, wires, max(layers.values(), default=-1) + 1, width, omitted)


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
            of = "" if combination is Combination.NONE else f" of {combination.value}"
            return f"{aggregation.value}{of}"
        case _:
            return type(definition).__name__.lower()


def _layers(reads: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    layers: dict[str, int] = {}
    for name, above in reads.items():
        layers[name] = max((layers[each] for each in above), default=-1) + 1
    return layers


def _chain(source: str, target: str, layers: Mapping[str, int]) -> tuple[str, ...]:
    """Return what a wire passes: its source, a place in each layer between, and its target. Values have no blanks."""
    between = range(layers[source] + 1, layers[target])
    return (source, *(f"{source} {target} {layer}" for layer in between), target)


def _slots(chains: Mapping[tuple[str, str], tuple[str, ...]], layers: Mapping[str, int]) -> dict[str, float]:
    """Return a place within its layer for each value and passing wire: whole numbers, shifted to centre each layer."""
    everything = dict(layers)
    above: dict[str, list[str]] = {name: [] for name in layers}
    below: dict[str, list[str]] = {name: [] for name in layers}
    for (source, _), chain in chains.items():
        for step, (one, other) in enumerate(pairwise(chain)):
            everything.setdefault(other, layers[source] + step + 1)
            below.setdefault(one, []).append(other)
            above.setdefault(other, []).append(one)
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for name, layer in everything.items():
        rows[layer].append(name)
    places = _placed(rows)
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            keys = {n: fmean(places[each] for each in neighbours[n]) if neighbours[n] else places[n] for n in row}
            row.sort(key=keys.__getitem__)
            places.update(_placed([row]))
    widest = max(map(len, rows), default=0)
    return {name: place + (widest - len(row)) / 2 for row in rows for place, name in enumerate(row)}


def _placed(rows: list[list[str]]) -> dict[str, float]:
    """Return places from -n/2 on, so that means of layers of different widths can be compared."""
    return {name: place - len(row) / 2 for row in rows for place, name in enumerate(row)}
