"""A layered drawing of a directed graph without cycles, by Sugiyama, Tagawa and Toda (1981).

A node stands one layer below the lowest that it reads. A wire that passes layers takes a place in each of them. Within
layers all are ordered by the mean place of their neighbours above, then of those below, some times over.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean
from typing import Final

from tileir.core.nodes import attrs

_SWEEPS: Final = 6


@attrs.frozen
class Wire:
    """One thing that another reads; ``places`` are a layer and a slot in each layer that the wire passes."""

    source: str
    target: str
    places: tuple[tuple[int, float], ...]


@attrs.frozen
class Drawing:
    """Places of nodes and wires.

    Attributes:
        layers: Of each node, from 0 at the top.
        slots: The place of each node within its layer; layers are centred, so that halves occur.
        wires: In the order of their targets.
        height: The number of layers.
        width: The number of slots of the widest layer.

    """

    layers: dict[str, int]
    slots: dict[str, float]
    wires: tuple[Wire, ...]
    height: int
    width: float


def drawing_of(reads: Mapping[str, tuple[str, ...]]) -> Drawing:
    """Return a drawing of nodes, each of which reads some of those before it; names hold no blanks."""
    layers = _layers(reads)
    chains = {(source, name): _chain(source, name, layers) for name, above in reads.items() for source in above}
    slots = _slots(chains, layers)
    wires = tuple(
        Wire(source, target, tuple((layers[source] + step, slots[each]) for step, each in enumerate(chain)))
        for (source, target), chain in chains.items()
    )
    return Drawing(
        layers,
        {name: slots[name] for name in reads},
        wires,
        max(layers.values(), default=-1) + 1,
        max(slots.values(), default=0.0) + 1,
    )


def _layers(reads: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    layers: dict[str, int] = {}
    for name, above in reads.items():
        layers[name] = max((layers[each] for each in above), default=-1) + 1
    return layers


def _chain(source: str, target: str, layers: Mapping[str, int]) -> tuple[str, ...]:
    """Return the route of a wire: its source, a place in each layer between, and its target."""
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
