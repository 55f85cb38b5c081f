"""Elementwise kernels over vector lanes and a grid of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.passes import schedule as sch
from tileir.passes.base import expand_kernels
from tileir.passes.nest import Nest, Node, analyse, emit, leaf, product

if TYPE_CHECKING:
    from tileir.poly.affine import Affine
    from tileir.stripe import ir as stripe


@attrs.frozen
class Vectorise:
    """Give kernels without reductions vector lanes along an index that moves every output by one element.

    Attributes:
        vector_bytes: Width of a vector register.
        chunk: About how many points one group of the grid takes.
    """

    name: ClassVar[str] = "vectorise"
    vector_bytes: int = 32
    chunk: int = 16 * 1024

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with its elementwise kernels vectorised."""
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> tuple[stripe.Block, ...]:
        nest = analyse(kernel)
        if nest is None or any(s.loops for s in nest.segments) or len(nest.segments) != 1 or nest.allocations:
            return (kernel,)
        vector = self._vector_index(nest)
        if vector is None:
            return (kernel,)
        return tuple(emit(node, kernel) for node in self._nodes(nest, vector))

    def _vector_index(self, nest: Nest) -> stripe.Index | None:
        constrained = sch.constrained_indices(nest)
        if nest.segments[0].has_indirect_store or not sch.written_uses(nest):
            return None
        candidates = [
            i
            for i in nest.indices
            if i.range >= 4 and i.name not in constrained and all(u.stride(i.name) == 1 for u in sch.written_uses(nest))
        ]
        # Among candidates prefer the one along which most inputs are contiguous or constant, then the longest.
        reads = sch.read_uses(nest)
        return max(
            candidates,
            key=lambda i: (sum(u.stride(i.name) in (0, 1) for u in reads), i.range),
            default=None,
        )

    def _nodes(self, nest: Nest, vector: stripe.Index) -> list[Node]:
        lanes = min(max(1, self.vector_bytes // sch.widest_itemsize(nest)), sch.power_of_two_below(vector.range))
        names = NameScope.of([i.name for i in nest.indices] + [u.name for u in nest.uses])
        others = [i for i in nest.indices if i.name != vector.name]
        rest = product(i.range for i in others)
        vectors = vector.range // lanes
        # One group takes whole rows while rows are short, else a part of one row.
        per_group = max(1, self.chunk // lanes) if rest == 1 or vector.range > self.chunk else vectors
        groups, left = divmod(vectors, per_group)
        grid = self._grid_of_rows(others, vector.range)
        nodes = []
        tail = _Run(groups * per_group * lanes, left, lanes), vector.range - vectors * lanes
        if groups > 1 or (groups == 1 and left == 0 and not tail[1]):
            block = sch.index(names.fresh(f"{vector.name}_chunk"), groups, sch.GRID)
            child = self._vectors(nest, vector, names, _Run(0, per_group, lanes), sch.part(block, per_group * lanes))
            nodes.append(_rows(grid, sch.present((block,)), (child,)))
            runs = [tail[0]]
        else:
            runs = [_Run(0, vectors, lanes)]
        children = [self._vectors(nest, vector, names, run, None) for run in runs if run.count]
        if tail[1]:
            children.append(self._vectors(nest, vector, names, _Run(vectors * lanes, tail[1], 1), None))
        if children:
            nodes.append(_rows(grid, (), tuple(children)))
        return nodes

    def _grid_of_rows(self, others: list[stripe.Index], row: int) -> list[stripe.Index]:
        """Mark outer indices as grid axes until a group has about ``chunk`` points; at most two of them."""
        result = []
        points = product(i.range for i in others) * row
        for position, index in enumerate(others):
            marked = position < 2 and points > self.chunk
            points //= index.range
            result.append(attrs.evolve(index, tags=index.tags.add("grid")) if marked else index)
        return result

    def _vectors(self, nest: Nest, vector: stripe.Index, names: NameScope, run: _Run, base: Affine | None) -> Node:
        """Return the loop over one run of vectors, with the leaf that it repeats."""
        step = sch.index(names.fresh(f"{vector.name}_vector"), run.count)
        lane = sch.index(names.fresh(f"{vector.name}_lane"), run.lanes, sch.VECTOR)
        value = sch.part(step, run.lanes) + sch.part(lane) + run.start
        if base is not None:
            value = value + base
        inner = leaf(nest.segments[0], {vector.name: value}, sch.present((lane,)))
        inside = attrs.evolve(inner, constraints=())
        return Node(sch.present((step,)), children=(inside,), constraints=inner.constraints)


@attrs.frozen
class _Run:
    """``count`` vectors of ``lanes`` elements from ``start`` on."""

    start: int
    count: int
    lanes: int


def _rows(grid: list[stripe.Index], blocks: tuple[stripe.Index, ...], children: tuple[Node, ...]) -> Node:
    return Node((*grid, *blocks), children=children)
