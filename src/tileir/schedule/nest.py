"""Kernels as index spaces with scalar statements, and the blocks written from them in another order.

A kernel that the pass ``accumulate`` has made is a block over output indices that holds scalar statements and leaf
blocks over reduction indices. :func:`analyse` turns it into a :class:`Nest`, in which every access is absolute; a pass
then splits indices, orders them in a tree of :class:`Node` and lets :func:`emit` write the blocks, each refinement
displaced by the indices of its own level only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod
from operator import is_
from typing import Final

from tileir.core import Aggregation, DType, NameScope, attrs, merges
from tileir.poly.affine import Affine, movement, total
from tileir.schedule.block_writer import emit as emit
from tileir.schedule.reindex import with_values
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.stripe import ir as stripe

_SCHEDULED: Final = (stripe.Binding.GRID, stripe.Binding.THREAD, stripe.Binding.LANE)


@attrs.frozen(cache_hash=True)
class Use:
    """View of a root by the statements of one segment: a refinement of the kernel, or one of its allocations.

    ``sizes`` holds the extent that one point sees along each axis where that is more than an element, as in an indirect
    access.
    """

    name: str
    root: str
    access: tuple[Affine, ...]
    strides: tuple[int, ...]
    dtype: DType
    direction: stripe.Direction
    aggregation: Aggregation | None = None
    sizes: tuple[int, ...] = ()

    @property
    def merges(self) -> bool:
        """True if stores through this use merge with existing elements rather than overwrite them."""
        return merges(self.aggregation)

    def stride(self, index: str) -> int:
        """Return how many elements the access moves when ``index`` grows by one."""
        return self._strides.get(index, 0)

    @cached_property
    def _strides(self) -> Mapping[str, int]:
        """Elements that the access moves by each index; cached, as schedules ask repeatedly."""
        names = {name for affine in self.access for name, _ in affine.terms}
        return {name: movement(self.access, self.strides, name) for name in names}

    @property
    def address(self) -> Affine:
        """Offset of the access in elements, as an affine."""
        return total(place * stride for place, stride in zip(self.access, self.strides, strict=True))

    def crosses(self, row: str, column: str) -> bool:
        """Return whether the use is transposed: contiguous along ``row``, and strided along ``column``."""
        return self.stride(row) == 1 and self.stride(column) not in (0, 1)

    def substitute(self, mapping: Mapping[str, Affine]) -> Use:
        """Return the use with indices replaced."""
        access = tuple([affine.substitute(mapping) for affine in self.access])
        if all(map(is_, access, self.access)):
            return self
        held = (self.strides, self.dtype, self.direction, self.aggregation, self.sizes)
        return Use(self.name, self.root, access, *held)


@attrs.frozen
class Segment:
    """Scalar statements that run at each point of ``loops`` inside each point of the nest."""

    loops: tuple[stripe.Index, ...]
    constraints: tuple[Affine, ...]
    uses: tuple[Use, ...]
    statements: tuple[stripe.Statement, ...]
    tags: stripe.Tags = stripe.Tags()

    def use(self, name: str) -> Use:
        """Return the use called ``name``; a KeyError is a defect of the caller."""
        for use in self.uses:
            if use.name == name:
                return use
        raise KeyError(name)

    @property
    def has_indirect_store(self) -> bool:
        """True if some element is written at a place that data decide."""
        return any(isinstance(s, stripe.Store) and s.index is not None for s in self.statements)


@attrs.frozen
class Nest:
    """A kernel as index spaces: outer indices, and segments in order."""

    kernel: stripe.Block
    indices: tuple[stripe.Index, ...]
    segments: tuple[Segment, ...]

    @cached_property
    def allocations(self) -> tuple[stripe.Refinement, ...]:
        """Memory that the kernel allocates for each of its points."""
        return tuple(r for r in self.kernel.refinements if r.direction is stripe.Direction.NONE)

    @cached_property
    def local(self) -> frozenset[str]:
        """Names of the allocations."""
        return frozenset(r.name for r in self.allocations)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The caller's memory behind each root."""
        return {r.name: r.source for r in self.kernel.refinements}

    @cached_property
    def reductions(self) -> tuple[Segment, ...]:
        """The segments with loops."""
        return tuple(segment for segment in self.segments if segment.loops)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """All uses of all segments."""
        return tuple(use for segment in self.segments for use in segment.uses)

    def taken_names(self) -> NameScope:
        """Return a scope in which all names of the nest are taken."""
        scope = NameScope.of(i.name for i in self.indices)
        for segment in self.segments:
            scope.add(*(loop.name for loop in segment.loops))
            scope.add(*(name for use in segment.uses for name in (use.name, use.root)))
        return scope


@attrs.frozen
class Node:
    """A block to be written: either ``children`` or ``statements`` with their ``uses``.

    Accesses and constraints are absolute: over the indices of this node and of all its ancestors.
    """

    indices: tuple[stripe.Index, ...] = ()
    allocations: tuple[stripe.Refinement, ...] = ()
    children: tuple[Node, ...] = ()
    statements: tuple[stripe.Statement, ...] = ()
    uses: tuple[Use, ...] = ()
    constraints: tuple[Affine, ...] = ()
    name: str = ""
    tags: stripe.Tags = stripe.Tags()
    instruction: stripe.Instruction | None = None


@refusing
def analyse(kernel: stripe.Block) -> Nest | Refused:
    """Return a kernel as a nest, or the reason why it has another form than the module describes.

    Also refused are kernels whose points must run sequentially, or that have groups, threads or lanes already, as
    callers reorder the points.
    """
    segments: list[Segment] = []
    run: list[stripe.Statement] = []
    rule_out(_against_form(kernel))
    for statement in kernel.statements:
        match statement:
            case stripe.Special():
                return refused("TR106", special=statement.name)
            case stripe.Block():
                segment = accepted(_inner_segment(kernel, statement))
                if run:
                    segments.append(_own_segment(kernel, run))
                    run = []
                segments.append(segment)
            case _:
                run.append(statement)
    if run:
        segments.append(_own_segment(kernel, run))
    completed = accepted(_completed(segments))
    return with_one_range_each(Nest(kernel, kernel.indices, completed))


def _against_form(kernel: stripe.Block) -> Refused | None:
    """Return the reason, found before any statement is read, why a kernel is not a nest."""
    for index in kernel.indices:
        if index.affine is not None:
            return refused("TR102", index=index.name)
    blocks = (kernel, *kernel.blocks)
    if any(i.binding in _SCHEDULED for block in blocks for i in block.indices):
        return refused("TR101")
    if any(block.is_serial for block in blocks):
        return refused("TR103")
    if (name := _chosen_by_data(kernel)) is not None:
        return refused("TR104", memory=name)
    scope = next((r.name for r in kernel.refinements if r.opens_scope), None)
    return None if scope is None else refused("TR105", view=scope)


def with_one_range_each(nest: Nest) -> Nest:
    """Return the nest with fresh names for loops whose name has another range in an earlier segment.

    Accesses of all segments then use one set of indices, whose ranges give the sizes of views.
    """
    ranges = {i.name: i.range for i in nest.indices}
    names: NameScope | None = None
    segments = []
    for segment in nest.segments:
        renamed: dict[str, str] = {}
        for loop in segment.loops:
            if ranges.setdefault(loop.name, loop.range) != loop.range:
                names = names or nest.taken_names()
                renamed[loop.name] = names.fresh(loop.name)
                ranges[renamed[loop.name]] = loop.range
        segments.append(with_loops_called(segment, renamed))
    return nest if names is None else attrs.evolve(nest, segments=tuple(segments))


def with_loops_called(segment: Segment, renamed: Mapping[str, str]) -> Segment:
    """Return the segment with some of its loops renamed."""
    if not renamed:
        return segment
    mapping = {old: Affine.index(new) for old, new in renamed.items()}
    return Segment(
        loops=tuple(attrs.evolve(i, name=renamed.get(i.name, i.name)) for i in segment.loops),
        constraints=tuple(c.substitute(mapping) for c in segment.constraints),
        uses=tuple(use.substitute(mapping) for use in segment.uses),
        statements=tuple(with_values(s, mapping) for s in segment.statements),
        tags=segment.tags,
    )


def _has_lanes(block: stripe.Block) -> bool:
    return any(i.binding in _SCHEDULED for inner in block.blocks for each in inner.nested() for i in each.indices)


def _chosen_by_data(kernel: stripe.Block) -> str | None:
    """Return an allocation whose accessed element depends on data, so that it cannot be kept in registers."""
    names = set(chosen_by_data(kernel.statements))
    for block in kernel.blocks:
        names.update(block.refinement(name).source for name in chosen_by_data(block.statements))
    own = (r.name for r in kernel.refinements if r.direction is stripe.Direction.NONE)
    return next((name for name in own if name in names), None)


def chosen_by_data(statements: Iterable[stripe.Statement]) -> frozenset[str]:
    """Return the views whose loaded or stored element depends on data."""
    indirect = (s for s in statements if isinstance(s, stripe.Load | stripe.Store) and s.index is not None)
    return frozenset(s.source if isinstance(s, stripe.Load) else s.into for s in indirect)


def atomic_names(statements: Iterable[stripe.Statement]) -> frozenset[str]:
    """Return the uses into which all threads may merge in parallel."""
    return frozenset(s.into for s in statements if isinstance(s, stripe.Store) and stripe.ATOMIC in s.tags)


def _own_segment(kernel: stripe.Block, statements: list[stripe.Statement]) -> Segment:
    read: dict[str, int] = {}  # the first statement that does
    written: dict[str, int] = {}
    for number, statement in enumerate(statements):
        for name in stripe.views_read(statement):
            read.setdefault(name, number)
        for name in stripe.views_written(statement):
            written.setdefault(name, number)
    touched = (r for r in kernel.refinements if r.name in read or r.name in written)
    uses = tuple(_kernel_use(r, read.get(r.name), written.get(r.name)) for r in touched)
    return Segment((), kernel.constraints, uses, tuple(statements))


def _kernel_use(refinement: stripe.Refinement, read: int | None, written: int | None) -> Use:
    """Return a refinement as scalar statements use it, given its first reader and its first writer.

    Some segments only read, or only write, memory that a kernel allocates or defines before reading.
    """
    name, shape, direction, into = refinement.name, refinement.shape, refinement.direction, refinement.aggregation
    if direction is stripe.Direction.NONE or (direction is stripe.Direction.OUT and not merges(into)):
        if written is None:
            direction, into = stripe.Direction.IN, None
        else:
            direction = stripe.Direction.OUT if read is None or written < read else stripe.Direction.INOUT
    return Use(name, name, refinement.access, shape.strides, shape.dtype, direction, into, shape.sizes)


def _inner_segment(kernel: stripe.Block, block: stripe.Block) -> Segment | Refused:
    if block.blocks:
        return refused("TR101" if _has_lanes(block) else "TR107")
    special = next((s.name for s in block.statements if isinstance(s, stripe.Special)), None)
    if special is not None:
        return refused("TR106", special=special)
    values: dict[str, Affine] = {}
    loops = []
    for index in block.indices:
        if index.affine is None:
            values[index.name] = Affine.index(index.name)
            loops.append(index)
        elif index.range == 1:
            values[index.name] = index.affine
        else:
            return refused("TR102", index=index.name)
    if twice := {i.name for i in loops} & {i.name for i in kernel.indices}:
        return refused("TR108", index=min(twice))
    uses = []
    for refinement in block.refinements:
        if refinement.direction is stripe.Direction.NONE:
            return refused("TR109", memory=refinement.name)
        parent = kernel.refinement(refinement.source)
        if parent.shape.strides != refinement.shape.strides:
            return refused("TR110", view=refinement.name)
        parts = zip(parent.access, refinement.access, strict=True)
        access = tuple(outer + inner.substitute(values) for outer, inner in parts)
        shape = refinement.shape
        uses.append(
            Use(
                refinement.name,
                parent.name,
                access,
                shape.strides,
                shape.dtype,
                refinement.direction,
                refinement.aggregation,
                shape.sizes,
            )
        )
    constraints = (*kernel.constraints, *(c.substitute(values) for c in block.constraints))
    statements = tuple(with_values(s, values) for s in block.statements)
    return Segment(tuple(loops), constraints, tuple(uses), statements, block.tags)


def _completed(segments: list[Segment]) -> tuple[Segment, ...] | Refused:
    """Give each segment the definitions of scalars that it takes from earlier segments.

    No segment from the definition on may write memory that the definition loads.
    """
    defined: dict[str, tuple[stripe.Statement, int]] = {}
    result: list[Segment] = []
    for number, segment in enumerate(segments):
        uses = {use.name: use for use in segment.uses}
        queue = list(_missing(segment.statements))
        needed: set[str] = set()
        while queue:
            name = queue.pop()
            if name in needed:
                continue
            if name not in defined:
                return refused("TR111", scalar=name)
            needed.add(name)
            statement, origin = defined[name]
            if isinstance(statement, stripe.Load):
                use = segments[origin].use(statement.source)
                between = segments[origin : number + 1]
                if uses.get(use.name, use) != use or any(_writes(other, use.root) for other in between):
                    return refused("TR112", scalar=name, memory=use.root)
                uses[use.name] = use
            queue.extend(stripe.scalar_inputs(statement))
        prefix = [statement for name, (statement, _) in defined.items() if name in needed]
        if not segment.loops:
            for statement in segment.statements:
                if (output := stripe.scalar_output(statement)) is not None:
                    defined[output] = (statement, number)
        added = (*prefix, *segment.statements)
        result.append(attrs.evolve(segment, uses=tuple(uses.values()), statements=added) if prefix else segment)
    return tuple(result)


def _writes(segment: Segment, root: str) -> bool:
    return any(use.root == root and use.direction.writes for use in segment.uses)


def _missing(statements: Iterable[stripe.Statement]) -> tuple[str, ...]:
    defined: set[str] = set()
    missing: dict[str, None] = {}
    for statement in statements:
        for scalar in stripe.scalar_inputs(statement):
            if scalar not in defined:
                missing[scalar] = None
        if (name := stripe.scalar_output(statement)) is not None:
            defined.add(name)
    return tuple(missing)


def leaf(segment: Segment, mapping: Mapping[str, Affine], indices: tuple[stripe.Index, ...]) -> Node:
    """Return a node that runs a segment's statements with its indices replaced, over ``indices``."""
    return Node(
        indices=indices,
        statements=tuple(with_values(s, mapping) for s in segment.statements),
        uses=tuple(use.substitute(mapping) for use in segment.uses),
        constraints=tuple(c.substitute(mapping) for c in segment.constraints),
        tags=segment.tags,
    )


def product(ranges: Iterable[int]) -> int:
    """Return the number of points of a box."""
    return prod(ranges)
