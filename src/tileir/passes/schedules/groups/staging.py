"""Tiles of inputs in local memory: their layout, and the cooperative loads that fill them.

Loads are coalesced. Loads that may pass the end of a tensor are clamped into it instead of tested: their values must
not reach any result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tileir.core import DType, NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine, total
from tileir.schedule.nest import Nest, Node, Segment, Use, product
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class TileShape:
    """Extents of a tile along its indices, slowest first in local memory.

    It is read in vectors of ``lanes`` along the index ``vector``.
    """

    extents: Mapping[str, int]
    vector: str | None = None
    lanes: int = 1

    def axes(self, use: Use) -> tuple[str, ...]:
        """Return the indices of the tile that move a use, slowest first in local memory."""
        return tuple(name for name, extent in self.extents.items() if extent > 1 and use.stride(name))

    def layout(self, use: Use) -> tuple[int, ...]:
        """Return the extents of a tile of an input in local memory, padding included; none without axes.

        If adjacent threads read down a column, the row stride is odd, so that their reads are in distinct banks; except
        for vectors, which need alignment.
        """
        axes = self.axes(use)
        if not axes:
            return ()
        *rows, width = (self.extents[name] for name in axes)
        if rows and min(axes, key=lambda name: abs(use.stride(name))) != axes[-1]:
            width += self.lanes if axes[-1] == self.vector and self.lanes > 1 else 1 - width % 2
        return (*rows, width)

    def local_bytes(self, use: Use) -> int:
        """Return the local memory of an input's tile in bytes; 0 without axes."""
        layout = self.layout(use)
        return product(layout) * use.dtype.itemsize if layout else 0


@attrs.frozen(eq=False)
class _Staging:
    """Builder of the loads that fill the tiles of one kernel.

    Attributes:
        shape: The tiles.
        indices: All indices of the kernel.
        tested: Indices that occur in constraints.
        threads: Threads in a group.
        elements: The size of the tensor behind each root.
        names: Names in use in the kernel.
    """

    shape: TileShape
    indices: tuple[stripe.Index, ...]
    tested: frozenset[str]
    threads: int
    elements: Mapping[str, int]
    names: NameScope

    def memory(self, use: Use) -> stripe.Refinement:
        """Return the allocation of a tile of an input."""
        return stripe.allocation(self.names.fresh(f"{use.root}_stage"), use.dtype, self.shape.layout(use), sch.LOCAL)

    def staged(self, use: Use, stage: stripe.Refinement, places: Mapping[str, Affine]) -> Use:
        """Return a use of the tile in place of the input; ``places`` holds the place of each index in the tile."""
        access = tuple(places[name] for name in self.shape.axes(use))
        return Use(use.name, stage.name, access, stage.shape.strides, use.dtype, stripe.Direction.IN)

    def fill(self, use: Use, stage: stripe.Refinement, starts: Mapping[str, Affine]) -> Node:
        """Return the block that loads a tile of an input, which begins at ``starts``."""
        left = self.threads
        team: list[stripe.Index] = []
        loops: list[stripe.Index] = []
        places: dict[str, Affine] = {}
        tests: list[Affine] = []
        for name in sorted(self.shape.axes(use), key=lambda axis: abs(use.stride(axis))):
            extent = self.shape.extents[name]
            size = min(left, 1 << (extent - 1).bit_length())
            left //= size
            thread = sch.index(self.names.fresh(f"{name}_thread"), size, stripe.Binding.THREAD)
            more = sch.index(self.names.fresh(f"{name}_more"), -(-extent // size), stripe.Binding.UNROLL)
            places[name] = sch.part(more, size) + sch.part(thread)
            if extent % size:
                tests.append(extent - 1 - places[name])
            team.insert(0, thread)
            loops.insert(0, more)
        values = {**starts, **{name: starts[name] + place for name, place in places.items()}}
        target = attrs.evolve(self.staged(use, stage, places), name=stage.name, direction=stripe.Direction.OUT)
        around = Node(sch.present(loops), children=(self._load(use, target, values),), constraints=tuple(tests))
        return Node(sch.present(team), children=(around,))

    def _load(self, use: Use, target: Use, values: Mapping[str, Affine]) -> Node:
        """Return the load of an element, with its place clamped to the tensor if it may be outside."""
        moved = use.substitute(values)
        if not self._may_miss(use):
            plain = (stripe.Load(use.name, "value"), stripe.Store("value", target.name))
            return Node(statements=plain, uses=(moved, target))
        size = self.elements[use.root]
        dtype = DType.I32 if size < 1 << 30 else DType.I64
        whole = attrs.evolve(use, access=(Affine(), Affine()), strides=(1, 1), sizes=(size, 1))
        statements = (
            stripe.LoadIndex(moved.address, "place", dtype),
            stripe.Load(use.name, "value", "place"),
            stripe.Store("value", target.name),
        )
        return Node(statements=statements, uses=(whole, target))

    def _may_miss(self, use: Use) -> bool:
        """Return whether a tile of an input may extend beyond the tensor."""
        moving = [i for i in self.indices if use.stride(i.name)]
        if any(i.range % self.shape.extents.get(i.name, 1) for i in moving):
            return True
        if not any(i.name in self.tested for i in moving):
            return False
        steps = zip(use.access, use.strides, strict=True)
        low, high = total(affine * stride for affine, stride in steps).bounds({i.name: i.range for i in self.indices})
        return low < 0 or high >= self.elements.get(use.root, 0)


def copied_whole(
    nest: Nest,
    uses: Collection[Use],
    shape: TileShape,
    threads: int,
    elements: Mapping[str, int],
    names: NameScope,
    column: tuple[str, Affine, Affine],
) -> tuple[tuple[stripe.Refinement, ...], tuple[Node, ...], Segment]:
    """Return local memory, its fills, and a reduction that reads ``uses`` there, for all of its terms.

    Copies begin at the first value of the index in ``column``; its last value is that of a thread relative to the
    first.
    """
    segment = nest.reductions[0]
    tested = frozenset(name for constraint in segment.constraints for name in constraint.indices)
    staging = _Staging(shape, (*nest.indices, *segment.loops), tested, threads, elements, names)
    stages = {use: staging.memory(use) for use in uses}
    name, first, behind = column
    starts = {**{i.name: Affine() for i in segment.loops}, name: first}
    places = {**{i.name: Affine.index(i.name) for i in segment.loops}, name: behind}
    fills = tuple(staging.fill(use, stage, starts) for use, stage in stages.items())
    seen = tuple(staging.staged(use, stages[use], places) if use in stages else use for use in segment.uses)
    return tuple(stages.values()), fills, attrs.evolve(segment, uses=seen)
