"""Depthwise windows with channels in lanes: a group copies the planes of several channels beforehand.

Rows of a small image do not fill a vector, and with a stride of two, neighbouring windows are not contiguous. For
windows on single channels, a group copies the planes of a vector of channels, transposed in registers, so that lanes
run along channels and each test of an edge serves all lanes. Large planes are copied in strips of rows with halos.

Before, with windows of three along rows, and after::

    block [c:32, o:7]:224 { zero; block [i:3] { o + i - 1 >= 0; 7 - o - i >= 0; Y[c, o] += X[c, o + i - 1] * W[c, i] }
    }

    block [(#grid c_panel:2)]:2 {
        none X_planes[7, 16] none W_panel[3, 16]
        block [place:7, (#vector c_lane:16)] { X_planes[place, c_lane] = X[16 * c_panel + c_lane, place] } ...
        block [(#unroll o:7), (#vector c_lane:16)] { zero; block [(#unroll i:3)] { o + i - 1 >= 0; ...
            sum[o, c_lane] += X_planes[o + i - 1, c_lane] * W_panel[i, c_lane] } }
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from tileir.core import Aggregation, Op, attrs
from tileir.passes.kernels import may_overlap, schedule as sch
from tileir.passes.schedules.registers.cost import Limits, Rows, Tiling
from tileir.passes.schedules.registers.packing import whole_uses
from tileir.passes.schedules.registers.panels import Plane
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Segment, Use, product
from tileir.stripe import ir as stripe

_MOST_ROWS: Final = 14
"""Maximum rows of a tile: half the vector registers of the largest set."""

_STEPS: Final = 25
"""Minimum steps of a window for which transposing planes pays, for rows of any length."""

_GROUPS: Final = 4
"""Groups per thread, so that others can do more when one starts late."""


def over_planes(
    nest: Nest, limits: Limits, shapes: Mapping[str, stripe.TensorShape], threads: int
) -> tuple[tuple[Nest, Tiling], ...]:
    """Return kernels whose lanes run along channels with their own windows, and their tiles; none without benefit.

    ``shapes`` holds those of the tensor behind each root, as far as they are known; ``threads`` threads run in
    parallel.
    """
    for window, weights, shape in windows_of(nest, shapes):
        for vector in sorted(nest.indices, key=lambda index: window.stride(index.name)):
            found = _WindowCandidate(nest, nest.reductions[0], window, weights, vector, shape)
            if found.is_plane and found.stays(whole_uses(nest, shapes)) and found.is_better(limits):
                kernels = tuple(found.kernels(limits, threads))
                if kernels:
                    return kernels
    return ()


def windows_of(
    nest: Nest, shapes: Mapping[str, stripe.TensorShape]
) -> Iterator[tuple[Use, tuple[Use, ...], stripe.TensorShape]]:
    """Yield the inputs of a sum that may be windows, each with the other inputs and the shape of its tensor."""
    others = (segment for segment in nest.segments if not segment.loops)
    if len(nest.reductions) != 1 or any(segment.constraints for segment in others):
        return
    factors = _factors_of_sum(nest, nest.reductions[0])
    for window in factors:
        shape = shapes.get(window.root)
        if shape is not None and window.access and window.strides == shape.strides:
            yield window, tuple(use for use in factors if use is not window), shape


def _factors_of_sum(nest: Nest, segment: Segment) -> tuple[Use, ...]:
    """Return the one or two inputs whose products are summed; none for another reduction."""
    *body, last = segment.statements
    loads = {s.into: s.source for s in body if isinstance(s, stripe.Load) and s.index is None}
    if not isinstance(last, stripe.Store) or last.index is not None:
        return ()
    if segment.use(last.into).aggregation is not Aggregation.SUM:
        return ()
    names: tuple[str, ...] = (last.source,)
    if len(body) == len(loads) + 1 and isinstance(body[-1], stripe.Intrinsic) and body[-1].op is Op.MUL:
        names = body[-1].inputs if body[-1].into == last.source else ()
    elif len(body) != len(loads):
        return ()
    uses = tuple(segment.use(loads[name]) for name in names if name in loads)
    distinct = len(set(uses)) == len(names) == len(loads)
    return uses if distinct and not any(use.root in nest.local for use in uses) else ()


@attrs.frozen
class _WindowCandidate:
    """A window, and a candidate index of channels with their own windows.

    Attributes:
        nest: The kernel; its accesses have the axes of the tensors.
        segment: Its reduction.
        window: The use of the input that windows slide over.
        weights: The other factors of a product.
        vector: The candidate index.
        shape: The shape of the input.
    """

    nest: Nest
    segment: Segment
    window: Use
    weights: tuple[Use, ...]
    vector: stripe.Index
    shape: stripe.TensorShape

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which loops move."""
        loops = {loop.name for loop in self.segment.loops}
        return tuple(axis for axis, place in enumerate(self.window.access) if loops.intersection(place.indices))

    def along(self, axis: int) -> list[stripe.Index]:
        """Return the outer indices that move along an axis."""
        return [index for index in self.nest.indices if self.window.access[axis].coefficient(index.name)]

    @property
    def is_plane(self) -> bool:
        """True if windows slide over planes, each with one value of the index, and so do results."""
        name, places = self.vector.name, self.window.access
        own = [place for place in places if place.coefficient(name)]
        slid = {index for axis in self.axes for index in places[axis].indices}
        apart = [place for axis, place in enumerate(places) if axis not in self.axes]
        return (
            len(own) == 1
            and own[0].indices == (name,)
            and self.window.stride(name) > 1
            and name not in slid
            and bool(self.axes)
            and not any(slid.intersection(place.indices) for place in apart)
            and self.shape.strides[self.axes[-1]] == 1
            and len(self.along(self.axes[0])) == len(self.along(self.axes[-1])) == 1
            and not any(name in constraint.indices for constraint in self.segment.constraints)
            and all(use.stride(name) for use in sch.written_uses(self.nest))
        )

    def stays(self, whole: frozenset[Use]) -> bool:
        """Return whether all points of a plane have equal weights, which may be copied whole."""
        names = {self.vector.name, *(loop.name for loop in self.segment.loops)}
        return all(use in whole and names.issuperset(i for p in use.access for i in p.indices) for use in self.weights)

    def lanes(self, limits: Limits) -> int:
        """Return the lanes of a vector."""
        return sch.vector_lanes(limits.vector_bytes, sch.widest_itemsize(self.nest), limits.max_lanes)

    def is_better(self, limits: Limits) -> bool:
        """Return whether lanes along rows would be too few or strided, or channels have large windows of their own.

        Transposing a plane and its results takes as long as four to eight steps of a window.
        """
        (row,) = self.along(self.axes[-1])
        near = all(use.stride(row.name) == 1 for use in (self.window, *sch.written_uses(self.nest)))
        large = product(loop.range for loop in self.segment.loops) >= _STEPS
        own = any(use.stride(self.vector.name) for use in self.weights)
        return not near or (large and own) or row.range < 2 * self.lanes(limits)

    def kernels(self, limits: Limits, threads: int) -> Iterator[tuple[Nest, Tiling]]:
        """Yield the kernels over strips of rows, and over the remaining rows; none if no strip fits a cache."""
        lanes = self.lanes(limits)
        (down,) = self.along(self.axes[0])
        height = self.height(down, lanes, limits, threads)
        if self.vector.range < lanes or not height:
            return
        count, left = divmod(down.range, height)
        for start, strips, rows in ((0, count, height), (count * height, 1, left)):
            if not rows:
                continue
            names = self.nest.taken_names()
            strip = sch.index(names.fresh(f"{down.name}_strip"), strips)
            inner = attrs.evolve(down, range=rows)
            value = {down.name: sch.part(inner) + sch.part(strip, rows) + start}
            indices = tuple(
                i for each in self.nest.indices for i in (sch.present((strip, inner)) if each is down else (each,))
            )
            nest = attrs.evolve(sch.with_places(self.nest, value), indices=indices)
            yield nest, self.tiling(nest, value, lanes, limits)

    def height(self, down: stripe.Index, lanes: int, limits: Limits, threads: int) -> int:
        """Return the result rows of a strip; 0 if too few fit a cache. Rows themselves are not split."""
        axis, ranges = self.axes[0], self.ranges
        step = abs(int(self.window.access[axis].coefficient(down.name)))
        sizes = [self.places(self.window.access[each], ranges)[1] for each in self.axes]
        reach = sizes[0] - step * (down.range - 1)
        row = prod(sizes[1:]) * lanes * self.window.dtype.itemsize
        most = min(down.range, (limits.panel_bytes // row - reach) // step + 1)
        if len(sizes) < 2:
            return down.range if down.range <= most else 0
        groups = product(i.range for i in self.nest.indices if i.name not in self.slid and i is not self.vector)
        groups *= -(-self.vector.range // lanes)
        strips = max(-(-down.range // max(1, most)), -(-_GROUPS * threads // groups) if threads > 1 else 1)
        height = -(-down.range // strips)
        return height if 0 < height <= most and (strips == 1 or height * step >= reach - step) else 0

    @property
    def slid(self) -> frozenset[str]:
        """The names of indices that move within a plane."""
        return frozenset(name for axis in self.axes for name in self.window.access[axis].indices)

    @property
    def ranges(self) -> dict[str, int]:
        """The ranges of all indices and loops."""
        return {index.name: index.range for index in (*self.nest.indices, *self.segment.loops)}

    def places(self, place: Affine, ranges: Mapping[str, int]) -> tuple[int, int]:
        """Return the first place on an axis, and the number of places, in the tensor or outside."""
        low, high = place.bounds(ranges)
        return int(low), int(high - low) + 1

    def tiling(self, nest: Nest, value: Mapping[str, Affine], lanes: int, limits: Limits) -> Tiling:
        """Return the tile of a kernel with other values of rows."""
        plane = self.plane(nest, value)
        name = self.along(self.axes[-1])[0].name
        width = next((i.range for i in nest.indices if i.name == name), 1)
        blocks = -(-width // _MOST_ROWS)
        rows = [Rows(i, -(-width // blocks)) for i in nest.indices if i.name == name]
        for other in [i for i in nest.indices if i.name != name and i.name in plane.slid][-1:]:
            if (count := min(_MOST_ROWS // width, other.range)) > 1:
                rows.insert(0, Rows(other, count))
        packed = (plane.use, *(use for use in self.weights if use.stride(self.vector.name) not in (0, 1)))
        return Tiling(
            self.vector, lanes, 1, tuple(rows), packed, limits.registers, 0.0, overlaps=may_overlap(nest), plane=plane
        )

    def plane(self, nest: Nest, value: Mapping[str, Affine]) -> Plane:
        """Return the plane of a strip: all of it that exists, or all that windows of the strip reach."""
        use = self.window.substitute(value)
        ranges = {**self.ranges, **{index.name: index.range for index in nest.indices}}
        outer = {i.name for i in nest.indices if i.name not in self.slid}
        first: list[Affine] = []
        sizes: list[int] = []
        tests: list[tuple[Affine, Affine] | None] = []
        for axis in self.axes:
            place, size = use.access[axis], self.shape.sizes[axis]
            moved = Affine.of({name: step for name, step in place.terms if name in outer})
            low, count = self.places(place - moved, ranges)
            if moved.is_constant:
                end = min(low + count, size)
                low, count = max(low, 0), end - max(low, 0)
            start = moved + low
            least, most = start.bounds(ranges)
            first.append(start)
            sizes.append(count)
            tests.append(None if least >= 0 and most + count <= size else (start, size - 1 - start))
        return Plane(use, self.axes, tuple(first), tuple(sizes), tuple(tests))
