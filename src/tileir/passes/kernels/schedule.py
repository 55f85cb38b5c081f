"""Helpers shared by the scheduling passes: vector indices, splits, and grids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tileir.core import DType, accumulator, attrs
from tileir.core.targets import hardware
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, atomic_names, chosen_by_data, leaf, product
from tileir.stripe import ir as stripe

LOCAL: stripe.Location = (stripe.Device(hardware.LOCAL),)
REGISTER: stripe.Location = (stripe.Device(hardware.REGISTER),)
SCRATCH: stripe.Location = (stripe.Device(hardware.SCRATCH),)


def is_scheduled(kernel: stripe.Block) -> bool:
    """Return whether a kernel already has a grid or threads."""
    bindings = (stripe.Binding.GRID, stripe.Binding.THREAD)
    return any(index.binding in bindings for block in kernel.nested() for index in block.indices)


def vector_lanes(vector_bytes: int, itemsize: int, most: int) -> int:
    """Return the number of ``itemsize``-byte elements in a vector, at most ``most`` unless that is 0."""
    lanes = max(1, vector_bytes // itemsize)
    return min(lanes, most) if most else lanes


def aligned_lanes(uses: Iterable[Use], index: str, lanes: int) -> int:
    """Return the most lanes, a power of two up to ``lanes``, for aligned vectors along ``index``.

    Vectors start at multiples of the result. 1 if some use is not contiguous.
    """
    for use in uses:
        stride = use.stride(index)
        if stride == 0:
            continue
        if stride != 1:
            return 1
        steps = zip(use.access, use.strides, strict=True)
        terms = [c * step for affine, step in steps for name, c in affine.terms if name != index]
        offset = sum(affine.offset * step for affine, step in zip(use.access, use.strides, strict=True))
        while lanes > 1 and any(value % lanes for value in (*terms, offset)):
            lanes //= 2
    return lanes


def constrained_indices(nest: Nest) -> frozenset[str]:
    """Return the indices that occur in constraints."""
    return frozenset(i for s in nest.segments for c in s.constraints for i in c.indices)


def written_uses(nest: Nest) -> tuple[Use, ...]:
    """Return the uses that write memory of the caller."""
    return tuple(use for use in nest.uses if use.direction.writes and use.root not in nest.local)


def read_uses(nest: Nest) -> tuple[Use, ...]:
    """Return the uses that only read memory of the caller."""
    return tuple(use for use in nest.uses if not use.direction.writes and use.root not in nest.local)


def where_set(nest: Nest, use: Use, values: Mapping[str, Affine], merge: Node) -> Node:
    """Return a merge into an accumulator under the tests under which the nest sets it: elsewhere it is undefined.

    ``values`` are those of the nest's indices; lanes may occur in no test.
    """
    before = next((s for s in nest.segments if any(u.root == use.root and u.direction.writes for u in s.uses)), None)
    if before is None or before.loops or not before.constraints:
        return merge
    return Node(children=(merge,), constraints=tuple(c.substitute(values) for c in before.constraints))


def reads_of(nest: Nest, segment: Segment) -> tuple[Use, ...]:
    """Return the segment's uses of memory that the kernel does not allocate."""
    return tuple(use for use in segment.uses if use.root not in nest.local)


def widest_itemsize(nest: Nest) -> int:
    """Return the size in bytes of the widest element in the arithmetic of a nest; at least 1."""
    sizes = [use.dtype.itemsize for use in nest.uses]
    statements = (statement for segment in nest.segments for statement in segment.statements)
    sizes += [computing_itemsize(s.dtype) for s in statements if isinstance(s, stripe.Intrinsic | stripe.Convert)]
    return max(sizes, default=1)


def widest_access(nest: Nest) -> int:
    """Return the size in bytes of the widest element that a nest accesses in the caller's memory; at least 1."""
    return max((use.dtype.itemsize for use in (*read_uses(nest), *written_uses(nest))), default=1)


def computing_itemsize(dtype: DType) -> int:
    """Return the bytes per element in arithmetic: f16 and bf16 are computed in f32."""
    return accumulator(dtype).itemsize


def power_of_two_below(value: int) -> int:
    """Return the greatest power of two that is at most ``value`` >= 1."""
    return 1 << (value.bit_length() - 1)


def indirect_names(segment: Segment) -> frozenset[str]:
    """Return the uses with data-dependent elements."""
    return chosen_by_data(segment.statements)


def scatters(segment: Segment, index: str) -> bool:
    """Return whether a write has a data-dependent place that may vary along ``index``."""
    if not segment.has_indirect_store:
        return False
    varying = varying_scalars(segment.statements, {use.name for use in segment.uses if use.stride(index)}, index)
    return any(isinstance(s, stripe.Store) and s.index in varying for s in segment.statements)


def gathers(segment: Segment, index: str) -> bool:
    """Return whether a read has a data-dependent place that may vary along ``index``."""
    if not any(isinstance(s, stripe.Load) and s.index for s in segment.statements):
        return False
    varying = varying_scalars(segment.statements, {use.name for use in segment.uses if use.stride(index)}, index)
    return any(isinstance(s, stripe.Load) and s.index in varying for s in segment.statements)


def varying_scalars(statements: Iterable[stripe.Statement], moved: Collection[str], index: str) -> set[str]:
    """Return the scalars that may vary along ``index``, which moves the views ``moved``."""
    varying: set[str] = set()
    for statement in statements:
        into = stripe.scalar_output(statement)
        moves = isinstance(statement, stripe.Load) and statement.source in moved
        moves |= isinstance(statement, stripe.LoadIndex) and index in statement.affine.indices
        if into is not None and (moves or not varying.isdisjoint(stripe.scalar_inputs(statement))):
            varying.add(into)
    return varying


def parallel_indices(nest: Nest) -> tuple[stripe.Index, ...]:
    """Return the outer indices whose values may run in parallel.

    All may unless the nest merges into the caller's memory without atomic updates; then only an index that moves every
    such access to distinct elements may.
    """
    atomic = {name for segment in nest.segments for name in atomic_names(segment.statements)}
    merging = [use for use in written_uses(nest) if use.merges and use.name not in atomic]
    return indices_apart(nest, merging)


def indices_apart(nest: Nest, uses: Iterable[Use]) -> tuple[stripe.Index, ...]:
    """Return the outer indices whose values move all of these accesses to distinct elements."""
    indirect, ranges = frozenset(name for s in nest.segments for name in indirect_names(s)), nest.kernel.ranges
    return tuple(i for i in nest.indices if all(_moves_alone(use, i.name, indirect, ranges) for use in uses))


def _moves_alone(use: Use, index: str, indirect: frozenset[str], ranges: Mapping[str, int]) -> bool:
    axes = use.access[1:] if use.name in indirect else use.access
    if use.name not in indirect or any(affine.indices == (index,) for affine in axes):
        return any(affine.indices == (index,) for affine in axes)
    # Data select among neighbours of a first element: steps from one to the next pass all of them.
    first = use.access[0]
    if not use.sizes or not ranges.keys() >= set(first.indices):
        return False
    beside = sum(abs(int(step)) * (ranges[name] - 1) for name, step in first.terms if name != index)
    return abs(int(first.coefficient(index))) >= use.sizes[0] + beside


def part_of(nest: Nest, index: str, start: int, count: int) -> Nest:
    """Return the nest restricted to ``count`` values of an outer index, from ``start`` on."""
    indices = tuple(attrs.evolve(i, range=count) if i.name == index else i for i in nest.indices)
    return attrs.evolve(with_places(nest, {index: Affine.index(index) + start}), indices=indices)


def with_places(nest: Nest, values: Mapping[str, Affine]) -> Nest:
    """Return a nest with other values of indices, which it may lack."""
    segments = []
    for segment in nest.segments:
        node = leaf(segment, values, ())
        segments.append(attrs.evolve(segment, uses=node.uses, statements=node.statements, constraints=node.constraints))
    return attrs.evolve(nest, segments=tuple(segments))


def divisor_near(value: int, wanted: int) -> int:
    """Return the smallest divisor of ``value`` in [wanted, 4 * wanted]; if there is none, the smaller argument."""
    return next((d for d in range(wanted, min(value, 4 * wanted) + 1) if value % d == 0), min(value, wanted))


def index(name: str, size: int, binding: stripe.Binding | None = None) -> stripe.Index:
    """Return an index that starts at 0."""
    return stripe.Index(name, size, None, binding)


def part(index: stripe.Index, stride: int = 1) -> Affine:
    """Return ``stride·index``; 0 for an index of a single point, which :func:`present` drops."""
    return Affine.of({index.name: stride}) if index.range > 1 else Affine()


def number_of(indices: Iterable[stripe.Index]) -> Affine:
    """Return the number of a point in a box of indices, the last one fastest."""
    number = Affine()
    for each in indices:
        number = number * each.range + part(each)
    return number


def tile_grid(
    indices: Sequence[stripe.Index], extents: Mapping[str, int]
) -> tuple[list[stripe.Index], dict[str, Affine]]:
    """Return a grid of tiles of these extents (default 1), and the start of a tile along each index."""
    sizes = {each.name: extents.get(each.name, 1) for each in indices}
    grid = [attrs.evolve(i, range=-(-i.range // sizes[i.name]), binding=stripe.Binding.GRID) for i in indices]
    return grid, {group.name: part(group, sizes[group.name]) for group in grid}


def below_tests(inside: Node) -> Node:
    """Return a leaf below the tests of its constraints, which cannot be lanes."""
    if not inside.constraints:
        return inside
    return Node(children=(attrs.evolve(inside, constraints=()),), constraints=inside.constraints, tags=inside.tags)


def around_reduction(nest: Nest) -> tuple[tuple[Segment, ...], Segment, tuple[Segment, ...]]:
    """Return the segments before the reducing one, that one, and the segments after it."""
    cut = next(n for n, s in enumerate(nest.segments) if s.loops)
    return nest.segments[:cut], nest.segments[cut], nest.segments[cut + 1 :]


def present(indices: Iterable[stripe.Index]) -> tuple[stripe.Index, ...]:
    """Drop indices of a single point."""
    return tuple(i for i in indices if i.range > 1)


def total_operations(nest: Nest) -> int:
    """Estimate statements times points."""
    outer = product(i.range for i in nest.indices)
    return outer * sum(len(s.statements) * product(i.range for i in s.loops) for s in nest.segments)
