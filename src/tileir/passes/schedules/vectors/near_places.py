"""Kernels over pixels at constant places, and the vectors of neighbours that contain these places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tileir.core.nodes import attrs
from tileir.core.numbers.arithmetic import Array
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.kernels.forms import against_flat
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.stripe.ir import Block, Direction, Index, Load, LoadIndex, Refinement, Store, scalar_inputs


@attrs.frozen(eq=False)
class Neighbours:
    """Contiguous vectors from which some gathers of one view read.

    Attributes:
        view: The view that they read.
        extent: Number of elements that it shows from its first one.
        starts: First element of each vector, one per vector of results.
        lanes: For each gather, by its result, the lane of each element of the results.
    """

    view: Refinement
    extent: int
    starts: Array
    lanes: Mapping[str, Array]


@attrs.frozen(eq=False)
class NearPlaces:
    """An elementwise kernel whose points, along its last one or two indices, are a line of results.

    Attributes:
        kernel: The kernel.
        line: The indices along the line: pixels and, if there are several, channels.
        count: Elements of a line.
        width: Lanes of a vector.
        firsts: First elements of the vectors of results; the last two vectors may overlap.
        neighbours: The neighbours that gathers read.
        places: Removed scalars that only the gathers used as addresses.
        tables: Constants along the line, per vector and element, by the scalar that loads them.
    """

    kernel: Block
    line: tuple[Index, ...]
    count: int
    width: int
    firsts: Array
    neighbours: tuple[Neighbours, ...]
    places: frozenset[str]
    tables: Mapping[str, Array]

    @classmethod
    @refusing
    def of(cls, kernel: Block, known: Mapping[str, Array], width: int) -> NearPlaces | Refused:
        """Analyse a kernel, given the elements of constant tensors; refused if some place is not near."""
        if not any(isinstance(s, Load) and s.index is not None for s in kernel.statements):
            return refused("TR313")
        line = accepted(_line(kernel))
        pixels, channels = line[0], line[1].range if len(line) > 1 else 1
        count = pixels.range * channels
        if count < width:
            return refused("TR301", index=pixels.name, range=count, lanes=width)
        reader = _Reader(kernel, line, channels, known)
        rule_out(reader.against())
        firsts = np.arange(0, count - width + 1, width)
        if count % width:
            firsts = np.append(firsts, count - width)
        elements = firsts[:, None] + np.arange(width)
        neighbours = reader.neighbours(elements, width)
        if not neighbours:
            return refused("TR322", lanes=width)
        tables = {into: np.repeat(values, channels)[elements].reshape(-1) for into, values in reader.values.items()}
        return cls(kernel, line, count, width, firsts, neighbours, frozenset(reader.places), tables)


@refusing
def _line(kernel: Block) -> tuple[Index, ...] | Refused:
    """Return the indices of the line along which all results are contiguous; refused if there is none."""
    rule_out(_against_plain(kernel))
    stored = [kernel.refinement(s.into) for s in kernel.statements if isinstance(s, Store)]
    *others, last = kernel.indices
    line = (others[-1], last) if others and last.range <= _MOST_CHANNELS else (last,)
    steps = (last.range, 1) if len(line) > 1 else (1,)
    for view in stored:
        where = address(view)
        if any(where.coefficient(index.name) != step for index, step in zip(line, steps, strict=True)):
            return refused("TR320", output=view.name)
    written = {view.source for view in stored}
    both = [r.source for r in kernel.refinements if r.direction is Direction.IN and r.source in written]
    return refused("TR203", memory=both[0]) if both else line


@refusing
def _against_plain(kernel: Block) -> Refused | None:
    """Return why a kernel does not compute each point of its indices independently, without inner loops."""
    if kernel.constraints:
        return refused("TR306", index=kernel.constraints[0].indices[0] if kernel.constraints[0].indices else "")
    rule_out(against_flat(kernel))
    if not kernel.indices:
        return refused("TR211", indices=0)
    stores = [s for s in kernel.statements if isinstance(s, Store)]
    if not stores or any(s.index is not None for s in stores):
        return refused("TR208" if stores else "TR207")
    for view in kernel.refinements:
        if view.direction not in (Direction.IN, Direction.OUT) or view.merges:
            return refused("TR206", memory=view.name)
    return None


_MOST_CHANNELS = 4


@attrs.define(eq=False, repr=False)
class _Reader:
    """Loads of a kernel along a line.

    Attributes:
        kernel: The kernel.
        line: The indices of the line.
        channels: Number of channels of a pixel.
        known: The elements of constant tensors.
        values: Constants of the pixels, by the scalar that loads them.
        places: Constants among these that are places.
        gathers: Gathers, with the numbers of pixels' places.
    """

    kernel: Block
    line: tuple[Index, ...]
    channels: int
    known: Mapping[str, Array]
    values: dict[str, Array] = attrs.field(factory=dict, init=False)
    places: dict[str, Array] = attrs.field(factory=dict, init=False)
    gathers: list[tuple[str, Refinement, Array]] = attrs.field(factory=list, init=False)

    def against(self) -> Refused | None:
        """Refuse a load that is neither a constant of pixels, nor constant along pixels, nor a gather there."""
        names = {index.name for index in self.line}
        used_at = {s.index for s in self.kernel.statements if isinstance(s, Load) and s.index is not None}
        other_uses = {
            name
            for s in self.kernel.statements
            for name in scalar_inputs(s)
            if not (isinstance(s, Load) and s.index == name)
        }
        for statement in self.kernel.statements:
            if isinstance(statement, LoadIndex) and not names.isdisjoint(statement.affine.indices):
                return refused("TR321", defines=statement.into)
            if not isinstance(statement, Load):
                continue
            view = self.kernel.refinement(statement.source)
            if statement.index in self.places:
                if not self._gathers(statement, view):
                    return refused("TR323", view=view.name)
            elif statement.index is not None or not names.isdisjoint(address(view).indices):
                values = None if statement.index is not None else self._values(view)
                if values is None:
                    return refused("TR321", view=view.name)
                is_place = statement.into in used_at and statement.into not in other_uses
                (self.places if is_place else self.values)[statement.into] = values
        return None if self.gathers else refused("TR313")

    def _values(self, view: Refinement) -> Array | None:
        """Return the constants of a view along the pixels of a line; None for other views."""
        where, pixels = address(view), self.line[0]
        if view.source not in self.known or where.indices != (pixels.name,) or not is_element(view):
            return None
        step, first = int(where.coefficient(pixels.name)), int(where.offset)
        return self.known[view.source][first + step * np.arange(pixels.range)]

    def _gathers(self, load: Load, view: Refinement) -> bool:
        """Record a gather; return whether its channels are contiguous, at arbitrary pixels."""
        assert load.index is not None
        where, names = address(view), [index.name for index in self.line]
        wanted = [0, 1] if len(names) > 1 else [0]
        if [int(where.coefficient(name)) for name in names] != wanted or view.shape.dtype.itemsize != 4:
            return False
        if any(dim.size > 1 for dim in view.shape.dims[1:]) or view.shape.dims[0].stride < 0:
            return False
        first = view.shape.dims[0]
        places = np.clip(self.places[load.index].astype(np.int64), 0, first.size - 1) * first.stride
        self.gathers.append((load.into, view, places))
        return True

    def neighbours(self, elements: Array, width: int) -> tuple[Neighbours, ...]:
        """Return vectors, as few as possible, that contain all gathered elements; none if some do not fit."""
        channel = np.arange(elements.max() + 1) % self.channels
        found: list[Neighbours] = []
        views = dict.fromkeys(view.name for _, view, _ in self.gathers)
        for name in views:
            mine = [gather for gather in self.gathers if gather[1].name == name]
            group: list[tuple[str, Refinement, Array]] = []
            window: Neighbours | None = None
            for gather in sorted(mine, key=lambda each: int(each[2].sum())):
                wider = _window([*group, gather], self.channels, channel, elements, width)
                if wider is None and window is not None:
                    found.append(window)
                    group, wider = [], _window([gather], self.channels, channel, elements, width)
                if wider is None:
                    return ()
                group, window = [*group, gather], wider
            assert window is not None  # each view is one of a gather
            found.append(window)
        return tuple(found)


def _window(
    group: Sequence[tuple[str, Refinement, Array]], channels: int, channel: Array, elements: Array, width: int
) -> Neighbours | None:
    """Return vectors that contain a group of gathers; None if some places are too far apart."""
    view = group[0][1]
    first = view.shape.dims[0]
    extent = first.stride * (first.size - 1) + channels
    if extent < width:
        return None
    chosen = [(np.repeat(places, channels) + channel)[elements] for _, _, places in group]
    low = np.minimum.reduce([each.min(axis=1) for each in chosen])
    high = np.maximum.reduce([each.max(axis=1) for each in chosen])
    starts = np.minimum(low, extent - width)
    if (high - starts).max() >= width:
        return None
    lanes = {into: (each - starts[:, None]).reshape(-1) for (into, _, _), each in zip(group, chosen, strict=True)}
    return Neighbours(view, extent, starts, lanes)
