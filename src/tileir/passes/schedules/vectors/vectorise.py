"""Elementwise kernels over vector lanes and a grid of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.text.names import NameScope
from tileir.passes.base import at_least, expand_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import elementwise_nest
from tileir.passes.kernels.jam import is_merge, jammed
from tileir.passes.regions.strips import STRIP
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, emit, leaf, product
from tileir.schedule.remarks import Done, Refused, refused
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tileir.schedule.nest import Segment, Use


@attrs.frozen
class Vectorise:
    """Give kernels without reductions vector lanes along an index that moves every output by one element.

    Attributes:
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        chunk: About how many points one group of the grid takes.
        rows: At most so many rows are computed at the same time where they read some of the same elements, as those of
            stencils do.
        terms: Twice as many where each element is an aggregate of at least so many terms, most of which rows share.
        statements: No more rows than have so many statements: caches of instructions do not hold longer loops.
    """

    name: ClassVar[str] = "vectorise"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    chunk: int = attrs.field(default=16 * 1024, validator=at_least(1))
    rows: int = attrs.field(default=4, validator=at_least(1))
    terms: int = attrs.field(default=20, validator=at_least(2))
    statements: int = attrs.field(default=1024, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with its elementwise kernels vectorised."""
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        nest = elementwise_nest(kernel)
        if isinstance(nest, Refused):
            return nest
        vector = self._vector_index(nest)
        if isinstance(vector, Refused):
            return vector
        parts = self._parts(nest, vector)
        made = tuple(emit(node, kernel) for part, count in parts for node in self._nodes(part, vector, count))
        return Done(made, (("index", vector.name), ("lanes", self._lanes(nest, vector)), ("rows", parts[0][1])))

    def _parts(self, nest: Nest, vector: stripe.Index) -> list[tuple[Nest, int]]:
        """Return the nest, and how many of its rows to compute together; in two parts where some rows are left."""
        row = _shared_index(nest, vector, self.rows)
        points = product(i.range for i in nest.indices)
        if row is None or points < 2 * self.chunk:
            return [(nest, 1)]
        merged = sum(map(is_merge, nest.segments[0].statements))
        rows = 2 * self.rows if merged + 1 >= self.terms and row.range >= 2 * self.rows else self.rows
        rows = min(rows, self.statements // len(nest.segments[0].statements))
        if rows < 2:
            return [(nest, 1)]
        whole, left = divmod(row.range, rows)
        parts = [(_rows_of(nest, row, 0, whole * rows), rows)]
        return [*parts, (_rows_of(nest, row, whole * rows, left), 1)] if left else parts

    def _vector_index(self, nest: Nest) -> stripe.Index | Refused:
        constrained = sch.constrained_indices(nest)
        if scattered := [i.name for i in nest.indices if sch.scatters(nest.segments[0], i.name)]:
            return refused("TR208", index=scattered[0])
        if not sch.written_uses(nest):
            return refused("TR207")
        candidates = [
            (i, steps)
            for i in nest.indices
            if i.range >= _LEAST and i.name not in constrained and STRIP not in i.tags
            if (steps := _whole_steps(nest, i.name)) is not None
        ]
        if not candidates:
            return _against_lanes(nest, constrained)
        # Among candidates prefer the one along which most outputs, then most inputs are contiguous or constant, then
        # the longest.
        reads = sch.read_uses(nest)
        return max(
            candidates,
            key=lambda c: (-max(c[1]), sum(u.stride(c[0].name) in (0, 1) for u in reads), c[0].range),
        )[0]

    def _lanes(self, nest: Nest, vector: stripe.Index) -> int:
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        return min(lanes, sch.power_of_two_below(vector.range))

    def _nodes(self, nest: Nest, vector: stripe.Index, rows: int) -> list[Node]:
        lanes = self._lanes(nest, vector)
        names = nest.taken_names()
        others = [i for i in nest.indices if i.name != vector.name]
        vectors, left = divmod(vector.range, lanes)
        shape = _Shape(vector, lanes, names)
        crossed = _crossed_index(nest, vector)
        row = _shared_index(nest, vector, rows) if rows > 1 else None
        if row is not None:
            others, shape = self._jammed(others, nest, row, rows, shape)
            per_group = vectors
        elif crossed is not None:
            others, shape = self._blocked(others, crossed, shape)
            per_group = max(1, crossed.size // lanes)
        elif not others or (vector.range > self.chunk and STRIP not in nest.kernel.tags):
            # One group takes whole rows while rows are short, else a part of one row.
            per_group = max(1, self.chunk // lanes)
        else:
            per_group = vectors
        groups, rest = divmod(vectors, per_group)
        grid = self._grid_of_rows(others, vector.range)
        nodes = []
        runs = [_Run(groups * per_group * lanes, rest, lanes)]
        if groups > 1 or (rest == 0 and not left):
            block = sch.index(names.fresh(f"{vector.name}_chunk"), groups, Binding.GRID)
            inside = shape.node(nest, _Run(0, per_group, lanes), sch.part(block, per_group * lanes))
            nodes.append(Node((*grid, *sch.present((block,))), children=(inside,)))
        else:
            runs = [_Run(0, vectors, lanes)]
        several = others and "border" not in nest.kernel.tags
        runs.extend(_ends(vectors * lanes, left, vectors if several else 0))
        children = tuple(shape.node(nest, run, Affine()) for run in runs if run.count)
        if children:
            nodes.append(Node(tuple(grid), children=children))
        return nodes

    def _blocked(
        self, others: list[stripe.Index], crossed: _Crossed, shape: _Shape
    ) -> tuple[list[stripe.Index], _Shape]:
        """Cut the index along which an input is contiguous, so that its cache lines are used whole."""
        index = crossed.index
        block = sch.index(shape.names.fresh(f"{index.name}_block"), index.range // crossed.size)
        inner = sch.index(shape.names.fresh(f"{index.name}_in"), crossed.size)
        value = sch.part(block, crossed.size) + sch.part(inner)
        others = [block if i.name == index.name else i for i in others]
        return list(sch.present(others)), attrs.evolve(shape, inner=(inner,), mapping={index.name: value})

    def _jammed(
        self, others: list[stripe.Index], nest: Nest, row: stripe.Index, rows: int, shape: _Shape
    ) -> tuple[list[stripe.Index], _Shape]:
        """Let each vector of a row stand beside those of the rows after it."""
        block = sch.index(shape.names.fresh(f"{row.name}_block"), row.range // rows)
        inner = sch.index(shape.names.fresh(f"{row.name}_in"), rows, Binding.UNROLL)
        others = [block if i.name == row.name else i for i in others]
        mapping = {row.name: sch.part(block, rows) + sch.part(inner)}
        sources = {r.name: r.source for r in nest.kernel.refinements}
        values = [sch.part(block, rows) + number for number in range(rows)]
        together = jammed(nest.segments[0], row.name, values, sources)
        shape = attrs.evolve(shape, beside=(inner,), mapping=mapping, together=together)
        return list(sch.present(others)), shape

    def _grid_of_rows(self, others: list[stripe.Index], row: int) -> list[stripe.Index]:
        """Mark outer indices as grid axes until a group has about ``chunk`` points; at most two of them."""
        if any(STRIP in i.tags for i in others):
            return [i.bound(Binding.GRID) if STRIP in i.tags else i for i in others]
        result = []
        points = product(i.range for i in others) * row
        for position, index in enumerate(others):
            marked = position < 2 and points > self.chunk
            points //= index.range
            result.append(index.bound(Binding.GRID) if marked else index)
        return result


@attrs.frozen(repr=False)
class _Run:
    """``count`` vectors of ``lanes`` elements from ``start`` on."""

    start: int
    count: int
    lanes: int


def _ends(start: int, left: int, vectors: int) -> Iterator[_Run]:
    """Yield runs over the ``left`` last elements of a row: by ever shorter vectors where rows have few ``vectors``."""
    while left:
        lanes = sch.power_of_two_below(left) if 0 < vectors < _SHORT_ROW else 1
        yield _Run(start, left // lanes, lanes)
        start, left = start + left // lanes * lanes, left % lanes


_SHORT_ROW = 256
"""From so many vectors on, elements that fill none take no time beside them."""


@attrs.frozen(repr=False)
class _Crossed:
    """An index along which an input is contiguous while the vector index strides through it, and its block size."""

    index: stripe.Index
    size: int


def _crossed_index(nest: Nest, vector: stripe.Index) -> _Crossed | None:
    """Return the index to block for a transposed input; None where no input is transposed."""
    constrained = sch.constrained_indices(nest)
    for use in sch.read_uses(nest):
        if use.stride(vector.name) in (0, 1):
            continue
        for index in nest.indices:
            if use.stride(index.name) == 1 and index.name not in constrained:
                sizes = [d for d in range(8, 65) if index.range % d == 0]
                return _Crossed(index, min(sizes, key=lambda d: abs(d - _CROSSED_BLOCK))) if sizes else None
    return None


def _whole_steps(nest: Nest, index: str) -> set[int] | None:
    """Return by how many elements an index moves outputs of which it then writes all; None where it leaves gaps.

    It leaves none where it moves one element, or as many as there are channels, all of which are written.
    """
    sources = {r.name: r.source for r in nest.kernel.refinements}
    channels: dict[tuple[str, int, tuple[int, ...]], set[int]] = {}
    for use in sch.written_uses(nest):
        step = use.stride(index)
        if not 1 <= step <= _MOST_CHANNELS:
            return None
        strides = tuple(use.stride(other.name) for other in nest.indices)
        channels.setdefault((sources[use.root], step, strides), set()).add(_offset(use) % step)
    return {step for _, step, _ in channels} if all(len(c) == step for (_, step, _), c in channels.items()) else None


def _against_lanes(nest: Nest, constrained: Collection[str]) -> Refused:
    """Return why no index of a nest can have the lanes: what keeps the longest one that leaves no gaps from it."""
    whole = [index for index in nest.indices if _whole_steps(nest, index.name) is not None]
    if not whole:
        return refused("TR302", outputs=len(sch.written_uses(nest)))
    index = max(whole, key=lambda i: i.range)
    if index.range < _LEAST:
        return refused("TR301", index=index.name, range=index.range, lanes=_LEAST)
    return refused("TR306", index=index.name) if index.name in constrained else refused("TR310", index=index.name)


_LEAST = 4
"""Fewer values of an index are not worth the lanes."""

_MOST_CHANNELS = 4
"""Up to so many interleaved channels are written by whole vectors."""


def _shared_index(nest: Nest, vector: stripe.Index, rows: int) -> stripe.Index | None:
    """Return an index fewer than ``rows`` steps along which lead from one read to another; None where there is none."""
    constrained = sch.constrained_indices(nest)
    names = [i.name for i in nest.indices]
    sources = {r.name: r.source for r in nest.kernel.refinements}
    reads = [
        (sources[use.root], tuple(use.stride(name) for name in names), _offset(use)) for use in sch.read_uses(nest)
    ]
    for index, name in zip(nest.indices, names, strict=True):
        least = rows if STRIP in nest.kernel.tags else 2 * rows
        if index is vector or index.is_marked or name in constrained or index.range < least:
            continue
        for number, (source, strides, offset) in enumerate(reads):
            step = strides[names.index(name)]
            if step and any(
                other[:2] == (source, strides)
                and (other[2] - offset) % step == 0
                and 0 < abs(other[2] - offset) < rows * abs(step)
                for other in reads[:number]
            ):
                return index
    return None


def _offset(use: Use) -> int:
    """Return the element that a use begins with."""
    return sum(int(affine.offset) * stride for affine, stride in zip(use.access, use.strides, strict=True))


def _rows_of(nest: Nest, row: stripe.Index, start: int, count: int) -> Nest:
    """Return ``count`` values of an index, from ``start`` on, of a nest without loops inside."""
    (segment,) = nest.segments
    moved = leaf(segment, {row.name: Affine.index(row.name) + start}, ())
    part = attrs.evolve(segment, uses=moved.uses, statements=moved.statements, constraints=moved.constraints)
    indices = tuple(attrs.evolve(i, range=count) if i is row else i for i in nest.indices)
    return attrs.evolve(nest, indices=indices, segments=(part,))


_CROSSED_BLOCK = 32
"""Rows and columns of a transposed block: two cache lines of f32 each way, well within the first-level cache."""


@attrs.frozen(repr=False)
class _Shape:
    """How the loops below the grid look: ``inner`` loops around the vectors of one run, ``beside`` for each of them.

    Where the points of ``beside`` have something in common, ``together`` does for all of them what each one would do.
    """

    vector: stripe.Index
    lanes: int
    names: NameScope
    inner: tuple[stripe.Index, ...] = ()
    beside: tuple[stripe.Index, ...] = ()
    mapping: Mapping[str, Affine] = attrs.field(factory=dict)
    together: Segment | None = None

    def node(self, nest: Nest, run: _Run, base: Affine) -> Node:
        """Return the loops over one run of vectors from ``base`` on, with the leaf that they repeat."""
        step = sch.index(self.names.fresh(f"{self.vector.name}_vector"), run.count)
        lane = sch.index(self.names.fresh(f"{self.vector.name}_lane"), run.lanes, Binding.LANE)
        value = sch.part(step, run.lanes) + sch.part(lane) + run.start + base
        whole = run.lanes == self.lanes
        # The ends of rows are one after the other: they are not worth a copy for each row.
        beside = self.beside if whole else tuple(i.bound(None) for i in self.beside)
        segment, tile = nest.segments[0], (*beside, *sch.present((lane,)))
        if whole and self.together is not None:
            segment, tile = self.together, sch.present((lane,))
        inside = leaf(segment, {**self.mapping, self.vector.name: value}, tile)
        loops = (*self.inner, *sch.present((step,)))
        return Node(loops, children=(attrs.evolve(inside, constraints=()),), constraints=inside.constraints)
