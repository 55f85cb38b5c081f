"""Windows with borders along the lanes: a group copies its input to private memory, padded with zeros.

Vectors along a row of an image cross its edges at some steps of a window. Here a group copies the planes that its
windows read, with zeros at both ends of each row, so that all lanes read an element. The weights of lanes beyond an
edge are also 0, since 0 times infinity is NaN. These lanes are known at compile time: inner vectors have no test, and
edge vectors one more instruction. Loop bounds exclude rows above and below the image.

Before, with one window of three on eight rows of sixteen elements::

    block [c:8, o:16]:128 { zero; block [i:3] { o + i - 1 >= 0; 16 - o - i >= 0; Y[c, o] += X[c, o + i - 1] * W[i] } }

and after::

    block [(#grid c:8)]:8 {
        none X_rows[18]
        block [edge:1] { X_rows[edge] = 0; X_rows[edge + 17] = 0 }
        block [column:16] { X_rows[column + 1] = X[c, column] }
        block [(#vector o:16)] { zero; block [(#unroll i:3)] { Y[c, o] += X_rows[o + i] * (inside ? W[i] : 0) } }
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeGuard

from tileir.core import DType, NameScope, Op, attrs
from tileir.passes.kernels import may_overlap, schedule as sch
from tileir.passes.regions.interior import inside
from tileir.passes.schedules.registers.blocks import nested
from tileir.passes.schedules.registers.copies import vectors
from tileir.passes.schedules.registers.cost import Limits, Tiling, choose
from tileir.passes.schedules.registers.packing import whole_uses
from tileir.passes.schedules.registers.planes import windows_of
from tileir.poly.affine import Affine
from tileir.poly.coverage import tightened
from tileir.schedule import Nest, Node, Refused, Segment, Use, product
from tileir.stripe import ir as stripe

_LEAST_GROUPS: Final = 8
"""Minimum groups, each of which copies its own planes; fewer would leave threads idle."""

_MOST_UNROLLED: Final = 16
"""Maximum steps along a row: they are unrolled, so that the lanes beyond an edge are known at compile time."""

_WIDE: Final = 7
"""Minimum steps along a row for a copy of planes that only a farther cache holds: otherwise, tested vectors and loops
over single columns at the edges take less time.
"""

_MOST_VECTORS: Final = 14
"""Maximum vectors of a row that is one tile; the ends of longer rows are separate tiles."""


@attrs.frozen
class BorderedInput:
    """Copy of an input with its border, by one kernel.

    Attributes:
        nest: The kernel; its accesses have the axes of the tensors.
        window: The use of the input that is vectorised.
        vector: The index of the lanes.
        axis: The contiguous axis of the input along the lanes.
        outside: The indices that number planes: a group for each point.
        tests: The constraints that keep lanes inside the input; zero padding replaces them.
        weights: The other factors of a product.
        shape: The shape of the input.
    """

    nest: Nest
    window: Use
    vector: stripe.Index
    axis: int
    outside: tuple[stripe.Index, ...]
    tests: tuple[Affine, ...]
    weights: tuple[Use, ...]
    shape: stripe.TensorShape


def bordered(nest: Nest, shapes: Mapping[str, stripe.TensorShape]) -> BorderedInput | None:
    """Return the copy of a contraction's input with zeros around its rows; None if that has no benefit.

    ``shapes`` holds those of the tensor behind each root, as far as they are known.
    """
    for window, weights, shape in windows_of(nest, shapes):
        for vector in nest.indices:
            found = _along(nest, window, vector, shape)
            if found is not None and (placed := _planes(found)) is not None:
                whole = whole_uses(_without(nest, placed.tests), shapes)
                if all(use in whole and not use.stride(vector.name) for use in weights):
                    return attrs.evolve(placed, weights=weights)
    return None


def _along(nest: Nest, window: Use, vector: stripe.Index, shape: stripe.TensorShape) -> BorderedInput | None:
    """Return the constraints on an index that only keep its lanes inside an input; None for another index."""
    segment = nest.reductions[0]
    axis = len(window.access) - 1
    place = window.access[axis]
    tests = tuple(c for c in segment.constraints if c.coefficient(vector.name))
    limits = (tightened(place), tightened(shape.sizes[axis] - 1 - place))
    if not tests or window.strides[axis] != 1 or place.coefficient(vector.name) != 1:
        return None
    if any(tightened(test) not in limits for test in tests):
        return None
    if any(use.stride(vector.name) != 1 for use in sch.written_uses(nest)):
        return None
    along = [loop for loop in segment.loops if place.coefficient(loop.name)]
    outer = [index for index in nest.indices if index is not vector and place.coefficient(index.name)]
    if outer or product(loop.range for loop in along) > _MOST_UNROLLED:
        return None
    return BorderedInput(nest, window, vector, axis, (), tests, (), shape)


def _planes(found: BorderedInput) -> BorderedInput | None:
    """Return the copy with its outside indices: those that lead to other planes, over which no window slides."""
    nest, window = found.nest, found.window
    loops = {loop.name for loop in nest.reductions[0].loops}
    slid = {name for access in window.access if loops & set(access.indices) for name in access.indices}
    outside = tuple(i for i in nest.indices if window.stride(i.name) and i.name not in slid and i is not found.vector)
    apart = {index.name for index in outside}
    tested = {name for c in nest.reductions[0].constraints for name in c.indices}
    mixed = any(not apart.isdisjoint(a.indices) and not apart.issuperset(a.indices) for a in window.access)
    if mixed or apart & tested or product(i.range for i in outside) < _LEAST_GROUPS:
        return None
    return attrs.evolve(found, outside=outside)


def _without(nest: Nest, tests: tuple[Affine, ...]) -> Nest:
    segments = (attrs.evolve(s, constraints=tuple(c for c in s.constraints if c not in tests)) for s in nest.segments)
    return attrs.evolve(nest, segments=tuple(segments))


def bordered_kernel(found: BorderedInput, limits: Limits, shapes: Mapping[str, stripe.TensorShape]) -> Node | None:
    """Return the kernel; None if its planes exceed nearby caches, or if no tile suits its rows."""
    names = found.nest.taken_names()
    planes = _Planes.of(found, names)
    along = found.window.access[found.axis].indices
    steps = product(loop.range for loop in found.nest.reductions[0].loops if loop.name in along)
    if planes.nbytes > (limits.panel_bytes if steps >= _WIDE else limits.cache_bytes):
        return None
    lanes = sch.vector_lanes(limits.vector_bytes, sch.widest_itemsize(found.nest), limits.max_lanes)
    for columns in _ways(found, lanes):
        tiles: list[Node] = []
        for start, count, tested in columns:
            nest = _inner(found, planes, start, count, tested=tested)
            first = sch.with_places(nest, {index.name: Affine() for index in found.outside})
            plan = choose(first, limits, {**shapes, planes.memory.name: planes.memory.shape})
            if not _suits(plan, found.vector.name) or (tested and plan.columns * plan.lanes < count):
                break
            tiles.extend(nested(nest, plan, names))
        else:
            grid = tuple(index.bound(stripe.Binding.GRID) for index in found.outside)
            return Node(grid, (planes.memory,), (*planes.copies(lanes, names), *tiles))
    return None


def _suits(plan: Tiling | Refused, vector: str) -> TypeGuard[Tiling]:
    """Return whether a plan has its lanes along an index, and its sums always in registers."""
    return not isinstance(plan, Refused) and plan.vector.name == vector and plan.visit is None and not plan.packed


@attrs.frozen
class _Planes:
    """Memory of a group for the planes that its windows slide over, and their borders.

    Attributes:
        found: The copied input.
        memory: The memory; its axes are those of the input that no outside index moves.
        axes: These axes.
        low: The minimum place on each axis.
        high: The maximum place on each axis.
    """

    found: BorderedInput
    memory: stripe.Refinement
    axes: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, found: BorderedInput, names: NameScope) -> _Planes:
        """Return memory for all places that a group reads, in the tensor or outside."""
        apart = {index.name for index in found.outside}
        loops = found.nest.reductions[0].loops
        ranges = {i.name: i.range for i in (*found.nest.indices, *loops) if i.name not in apart}
        access = found.window.access
        axes = tuple(axis for axis, place in enumerate(access) if apart.isdisjoint(place.indices))
        bounds = [access[axis].bounds(ranges) for axis in axes]
        low, high = tuple(int(low) for low, _ in bounds), tuple(int(high) for _, high in bounds)
        sizes = [last - first + 1 for first, last in zip(low, high, strict=True)]
        memory = stripe.allocation(names.fresh(f"{found.window.root}_rows"), found.window.dtype, sizes, sch.SCRATCH)
        return cls(found, memory, axes, low, high)

    @property
    def nbytes(self) -> int:
        """Size of the planes of a group in bytes."""
        return self.memory.shape.elements * self.found.window.dtype.itemsize

    def read(self, use: Use) -> Use:
        """Return a use of this memory in place of one of the input."""
        places = zip(self.axes, self.low, strict=True)
        access = tuple(use.access[axis] - low for axis, low in places)
        return attrs.evolve(use, root=self.memory.name, access=access, strides=self.memory.shape.strides, sizes=())

    def copies(self, lanes: int, names: NameScope) -> Iterator[Node]:
        """Yield blocks that copy the input, a row at a time, and write zeros at both ends of each row."""
        sizes = [self.found.shape.sizes[axis] for axis in self.axes]
        first = [max(0, low) for low in self.low]
        count = [min(high, size - 1) - low + 1 for low, high, size in zip(first, self.high, sizes, strict=True)]
        rows = [sch.index(names.fresh(f"row_{axis}"), count[axis]) for axis in range(len(self.axes) - 1)]
        start = [sch.part(row) + low for row, low in zip(rows, first, strict=False)]
        around = sch.present(rows)
        begin = first[-1]
        for number, width in vectors(count[-1], lanes):
            vector = sch.index(names.fresh("column_vector"), number, stripe.Binding.UNROLL if number <= lanes else None)
            lane = sch.index(names.fresh("column_lane"), width, stripe.Binding.LANE)
            column = sch.part(vector, width) + sch.part(lane) + begin
            statements = (stripe.Load("from", "x"), stripe.Store("x", "to"))
            uses = (self._source((*start, column)), self._target((*start, column)))
            yield Node((*around, *sch.present((vector, lane))), statements=statements, uses=uses)
            begin += number * width
        zero = (_zero(self.found.window.dtype), stripe.Store("zero", "to"))
        ends = ((self.low[-1], first[-1]), (first[-1] + count[-1], self.high[-1] + 1))
        for low, high in ends:
            if low < high:
                edge = sch.index(names.fresh("edge"), high - low, stripe.Binding.UNROLL)
                target = self._target((*start, sch.part(edge) + low))
                yield Node((*around, *sch.present((edge,))), statements=zero, uses=(target,))

    def _source(self, places: tuple[Affine, ...]) -> Use:
        moved = dict(zip(self.axes, places, strict=True))
        access = tuple(moved.get(axis, place) for axis, place in enumerate(self.found.window.access))
        return attrs.evolve(self.found.window, name="from", access=access, sizes=())

    def _target(self, places: tuple[Affine, ...]) -> Use:
        access = tuple(place - low for place, low in zip(places, self.low, strict=True))
        return Use("to", self.memory.name, access, self.memory.shape.strides, self.found.window.dtype, _OUT)


_OUT: Final = stripe.Direction.OUT


def _zero(dtype: DType) -> stripe.Constant:
    return stripe.Constant("zero", dtype, 0.0 if dtype.is_float else 0)


def _ways(found: BorderedInput, lanes: int) -> Iterator[tuple[tuple[int, int, bool], ...]]:
    """Yield divisions of a row into runs: start, number of columns, and whether a step has some columns outside.

    Runs with columns outside must be one tile: in a loop over tiles, each step would compute which lanes are outside.
    """
    size = found.vector.range
    ranges = {i.name: i.range for i in (*found.nest.indices, *found.nest.reductions[0].loops)}
    low, high = inside(found.vector, found.tests, ranges)
    left, right = -(-low // lanes) * lanes, -(-(size - high) // lanes) * lanes
    overlaps = may_overlap(found.nest)
    if size <= _MOST_VECTORS * lanes or left + right + lanes > size:
        yield tuple((start, count, True) for start, count in _whole_vectors(size, lanes, overlaps=overlaps))
    if left + right + lanes <= size:
        ends = ((0, left), (size - right, right))
        between = _whole_vectors(size - left - right, lanes, overlaps=overlaps)
        yield (
            *((start, count, True) for start, count in ends if count),
            *((left + start, count, False) for start, count in between),
        )


def _whole_vectors(size: int, lanes: int, *, overlaps: bool) -> Iterator[tuple[int, int]]:
    """Yield runs of columns, of whole vectors as far as possible: the last one may overlap others."""
    lanes = min(lanes, sch.power_of_two_below(size))
    whole = size // lanes * lanes
    rest = size - whole
    if not overlaps:
        yield 0, size
        return
    yield 0, whole
    if rest and rest == max(_LEAST_LANES, sch.power_of_two_below(rest)):
        yield whole, rest
    elif rest:
        yield size - lanes, lanes


_LEAST_LANES: Final = 4
"""Minimum lanes of a partial vector that is no slower than an overlapping whole one."""


def _inner(found: BorderedInput, planes: _Planes, start: int, count: int, *, tested: bool) -> Nest:
    """Return the work of one group on some columns, with its planes in place of the input."""
    apart = {index.name for index in found.outside}
    moved = {found.vector.name: Affine.index(found.vector.name) + start}
    along = set(found.window.access[found.axis].indices)
    segments = []
    for segment in _without(found.nest, found.tests).segments:
        loops = tuple(i.bound(stripe.Binding.UNROLL) if tested and i.name in along else i for i in segment.loops)
        if segment.loops:
            statements = _masked(found, segment) if tested else segment.statements
            uses = tuple(planes.read(use) if use == found.window else use for use in segment.uses)
            segment = attrs.evolve(segment, loops=loops, uses=uses, statements=statements)
        segments.append(segment)
    indices = (attrs.evolve(i, range=count) if i is found.vector else i for i in found.nest.indices)
    kept = tuple(i for i in indices if i.name not in apart)
    return sch.with_places(attrs.evolve(found.nest, indices=kept, segments=tuple(segments)), moved)


def _masked(found: BorderedInput, segment: Segment) -> tuple[stripe.Statement, ...]:
    """Return the statements of a product with the other factor set to 0 in lanes that read beyond an edge."""
    taken = NameScope.of(filter(None, map(stripe.scalar_output, segment.statements)))
    weights = {weight.name for weight in found.weights}
    result: list[stripe.Statement] = []
    for statement in segment.statements:
        if not isinstance(statement, stripe.Load) or statement.source not in weights:
            result.append(statement)
            continue
        dtype = segment.use(statement.source).dtype
        value, zero, least = taken.fresh("weight"), taken.fresh("zero"), taken.fresh("least")
        result.append(attrs.evolve(statement, into=value))
        result += (attrs.evolve(_zero(dtype), into=zero), stripe.Constant(least, DType.I32, 0))
        for number, test in enumerate(found.tests, 1):
            place, holds = taken.fresh("place"), taken.fresh("inside")
            into = statement.into if number == len(found.tests) else taken.fresh("weight")
            result.append(stripe.LoadIndex(test, place, DType.I32))
            result.append(stripe.Intrinsic(Op.CMP_GE, (place, least), holds, DType.BOOL))
            result.append(stripe.Intrinsic(Op.COND, (holds, value, zero), into, dtype))
            value = into
    return tuple(result)
