"""Tiles of inputs in local memory: their layout, and the cooperative loads that fill them.

Loads are coalesced. Loads that may pass the end of a tensor are clamped into it instead of tested: their values must
not reach any result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tileir.core import DType, NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine, total
from tileir.schedule.nest import Nest, Node, Segment, Use, product
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class TileShape:
    """Extents of a tile along its indices, slowest first in local memory.

    It is read in vectors of ``lanes`` along the index ``vector``. With ``ahead`` it is filled by asynchronous copies.
    With ``runs`` tiles of tensors that are contiguous along the reduction keep that, if possible (:meth:`in_runs`).
    The indices ``together``, in order, share an axis of local memory if both move an input.
    """

    extents: Mapping[str, int]
    vector: str | None = None
    lanes: int = 1
    ahead: bool = False
    runs: bool = False
    together: tuple[str, ...] = ()

    def axes(self, use: Use) -> tuple[str, ...]:
        """Return the indices of the tile that move a use, slowest first in local memory."""
        found = tuple(name for name, extent in self.extents.items() if extent > 1 and use.stride(name))
        return (*found[1:], found[0]) if self.in_runs(use) else found

    def in_runs(self, use: Use) -> bool:
        """Return whether a tile is contiguous along the reduction in local memory, as its tensor is.

        Prefetching copies are then wide, and threads read several steps of a row at once.
        """
        loop, *others = self.extents
        moving = [name for name in others if self.extents[name] > 1 and use.stride(name)]
        return (
            self.runs
            and bool(moving)
            and self.vector not in moving
            and use.stride(loop) == 1
            and self.extents[loop] % RUN == 0
            and sch.aligned_lanes((use,), loop, RUN) == RUN
        )

    def access(self, use: Use, places: Mapping[str, Affine]) -> tuple[Affine, ...]:
        """Return the place of each index in the tile of an input, by axes of local memory."""
        found = {name: places[name] for name in self.axes(use)}
        if self._share(use):
            above, below = self.together
            found[below] = found.pop(above) * self.extents[below] + found[below]
        return tuple(found.values())

    def _share(self, use: Use) -> bool:
        return bool(self.together) and set(self.together) <= set(self.axes(use))

    def layout(self, use: Use) -> tuple[int, ...]:
        """Return the extents of a tile of an input in local memory, padding included; none without axes.

        If adjacent threads read down a column, the row stride is odd, so that their reads are in distinct banks; except
        for vectors, which need alignment, and for copies of single elements, where coalesced loads along a row count
        more. Runs of adjacent rows are in distinct banks, too.
        """
        axes = self.axes(use)
        if not axes:
            return ()
        sizes = {name: self.extents[name] for name in axes}
        if self._share(use):
            above, below = self.together
            sizes[below] *= sizes.pop(above)
        *rows, width = sizes.values()
        if self.in_runs(use):
            return (*rows, width + RUN)
        if rows and min(axes, key=lambda name: abs(use.stride(name))) != axes[-1]:
            aligned = self.ahead or (axes[-1] == self.vector and self.lanes > 1)
            width += self.lanes if aligned else 1 - width % 2
        return (*rows, width)

    def local_bytes(self, use: Use) -> int:
        """Return the local memory of an input's tile in bytes; 0 without axes."""
        layout = self.layout(use)
        return product(layout) * use.dtype.itemsize if layout else 0


@attrs.frozen(eq=False)
class Staging:
    """Builder of the loads that fill the tiles of one kernel.

    Attributes:
        shape: The tiles.
        indices: All indices of the kernel.
        tested: Indices that occur in constraints.
        threads: Threads in a group.
        load_bytes: Width of a staging load in bytes.
        max_lanes: Maximum number of lanes of a load; 0 for as many as fit.
        elements: The size of the tensor behind each root.
        names: Names in use in the kernel.
    """

    shape: TileShape
    indices: tuple[stripe.Index, ...]
    tested: frozenset[str]
    threads: int
    load_bytes: int
    max_lanes: int
    elements: Mapping[str, int]
    names: NameScope

    def memory(self, use: Use) -> stripe.Refinement:
        """Return the allocation of a tile of an input."""
        return stripe.allocation(self.names.fresh(f"{use.root}_stage"), use.dtype, self.shape.layout(use), sch.LOCAL)

    def staged(self, use: Use, stage: stripe.Refinement, places: Mapping[str, Affine]) -> Use:
        """Return a use of the tile in place of the input; ``places`` holds the place of each index in the tile."""
        access = self.shape.access(use, places)
        return Use(use.name, stage.name, access, stage.shape.strides, use.dtype, stripe.Direction.IN)

    def fill(self, use: Use, stage: stripe.Refinement, starts: Mapping[str, Affine]) -> Node:
        """Return the block that loads a tile of an input, which begins at ``starts``."""
        left = self.threads
        team: list[stripe.Index] = []
        loops: list[stripe.Index] = []
        places: dict[str, Affine] = {}
        tests: list[Affine] = []
        ends: list[Affine] = []
        fastest, *others = sorted(self.shape.axes(use), key=lambda axis: abs(use.stride(axis)))
        lane = sch.index(self.names.fresh("lane"), self._lanes(use, fastest), stripe.Binding.LANE)
        for name in (fastest, *others):
            lanes = lane.range if name == fastest else 1
            vectors = self.shape.extents[name] // lanes
            size = min(left, 1 << (vectors - 1).bit_length())
            left //= size
            thread = sch.index(self.names.fresh(f"{name}_thread"), size, stripe.Binding.THREAD)
            more = sch.index(self.names.fresh(f"{name}_more"), -(-vectors // size), stripe.Binding.UNROLL)
            places[name] = sch.part(more, size * lanes) + sch.part(thread, lanes)
            if vectors % size:
                tests.append(self.shape.extents[name] - 1 - places[name])
            if self.pads(use):
                ends.extend(self._inside(name, starts[name] + places[name]))
            team.insert(0, thread)
            loops.insert(0, more)
        places[fastest] = places[fastest] + sch.part(lane)
        values = {**starts, **{name: starts[name] + place for name, place in places.items()}}
        target = attrs.evolve(self.staged(use, stage, places), name=stage.name, direction=stripe.Direction.OUT)
        load = self._load(use, target, values, sch.present((lane,)))
        if ends:
            load = Node(children=(load,), constraints=tuple(ends), tags=stripe.Tags.of(stripe.PADDED))
        around = Node(sch.present(loops), children=(load,), constraints=tuple(tests))
        return Node(sch.present(team), children=(around,), instruction=stripe.Copy() if self.shape.ahead else None)

    def _lanes(self, use: Use, axis: str) -> int:
        """Return the elements along an axis that one load can stage: whole aligned vectors."""
        if self.shape.ahead and axis != self.shape.axes(use)[-1]:
            return 1
        lanes = sch.vector_lanes(self.load_bytes, use.dtype.itemsize, self.max_lanes)
        lanes = sch.aligned_lanes((use,), axis, sch.power_of_two_below(lanes))
        moved = self._may_miss(use) and not self.pads(use)
        wholes = [i.range for i in self.indices if i.name == axis] if moved or self.pads(use) else []
        wholes += [self.elements[use.root]] if moved else []  # then a vector is inside or outside the tensor
        tile = product(self.shape.extents[name] for name in self.shape.axes(use))
        lanes = min(lanes, sch.power_of_two_below(max(1, tile // self.threads))) if moved else lanes  # no thread idles
        while any(size % lanes for size in (self.shape.extents[axis], *wholes)):
            lanes //= 2
        return lanes

    def _load(self, use: Use, target: Use, values: Mapping[str, Affine], lanes: tuple[stripe.Index, ...]) -> Node:
        """Return the load of an element, with its place clamped to the tensor if it may be outside."""
        moved = use.substitute(values)
        if not self._may_miss(use) or self.pads(use):
            plain = (stripe.Load(use.name, "value"), stripe.Store("value", target.name))
            return Node(lanes, statements=plain, uses=(moved, target))
        size, width = self.elements[use.root], product(i.range for i in lanes)
        dtype = DType.I32 if size < 1 << 30 else DType.I64
        lane = total(sch.part(i) for i in lanes)
        address = moved.address - lane
        whole = attrs.evolve(use, access=(Affine(), lane), strides=(width, 1), sizes=(size // width, width))
        statements = (
            stripe.LoadIndex(address / width, "place", dtype),
            stripe.Load(use.name, "value", "place"),
            stripe.Store("value", target.name),
        )
        return Node(lanes, statements=statements, uses=(whole, target))

    def pads(self, use: Use) -> bool:
        """Return whether zeros replace elements past the end of an input: a test suffices, without clamping."""
        moving = [i for i in self.indices if use.stride(i.name)]
        return self.shape.ahead and not any(i.name in self.tested for i in moving)

    def _inside(self, name: str, place: Affine) -> tuple[Affine, ...]:
        """Return the test that a value of an index is not past the end, if there are partial tiles."""
        ends = (i.range for i in self.indices if i.name == name and i.range % self.shape.extents[name])
        return tuple(end - 1 - place for end in ends)

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
    staging = Staging(shape, (*nest.indices, *segment.loops), tested, threads, 1, 1, elements, names)
    stages = {use: staging.memory(use) for use in uses}
    name, first, behind = column
    starts = {**{i.name: Affine() for i in segment.loops}, name: first}
    places = {**{i.name: Affine.index(i.name) for i in segment.loops}, name: behind}
    fills = tuple(staging.fill(use, stage, starts) for use, stage in stages.items())
    seen = tuple(staging.staged(use, stages[use], places) if use in stages else use for use in segment.uses)
    return tuple(stages.values()), fills, attrs.evolve(segment, uses=seen)


RUN: Final = 4
"""Contiguous elements along a reduction that are copied, and read, at once."""
