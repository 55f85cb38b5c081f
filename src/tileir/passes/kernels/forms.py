"""Checks of kernel forms that several schedules need; each returns the reason why a kernel lacks its form."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.merge import nest_of, reduction_nest
from tileir.schedule import Nest, Refused, Segment, Use, accepted, refused, refusing, rule_out
from tileir.stripe import ir as stripe

SCHEDULED = refused("TR101")


def unscheduled_reduction(kernel: stripe.Block) -> Nest | Refused:
    """Return a reduction kernel without groups or threads as a nest with its indices joined."""
    return SCHEDULED if sch.is_scheduled(kernel) else reduction_nest(kernel)


def unscheduled_elementwise(kernel: stripe.Block) -> Nest | Refused:
    """Return a kernel without inner loops, groups or threads as a nest."""
    return SCHEDULED if sch.is_scheduled(kernel) else elementwise_nest(kernel)


@refusing
def elementwise_nest(kernel: stripe.Block) -> Nest | Refused:
    """Return a kernel without inner loops and without own memory as a nest of one segment."""
    nest = accepted(nest_of(kernel))
    if nest.reductions:
        return refused("TR114")
    if nest.allocations:
        return refused("TR115", memory=nest.allocations[0].name)
    return nest if len(nest.segments) == 1 else refused("TR116", parts=len(nest.segments))


def against_parallel(nest: Nest) -> Refused | None:
    """Return a refusal with the outer index that keeps points of a nest from running in parallel; None for none."""
    allowed = sch.parallel_indices(nest)
    index = next((i for i in nest.indices if i not in allowed), None)
    return None if index is None else refused("TR201", index=index.name, range=index.range)


def against_plain_places(nest: Nest) -> Refused | None:
    """Return a refusal with the view that has data-dependent accesses; None if there is none."""
    for segment in nest.segments:
        if names := sch.indirect_names(segment):
            return refused("TR202", view=min(names))
    return None


def against_varying_places(nest: Nest, *, gathers: bool = False) -> Refused | None:
    """Return a refusal with the view whose data-dependent element may vary between points; None if there is none.

    All points may use a place given by a scalar of the caller, such as the step number of a loop; with ``gathers``, the
    place of a read may vary along the outer indices, and along loops in memory that the kernel does not write. If the
    memory of the view is also accessed elsewhere, nothing is known about whether the elements coincide.
    """
    chosen = {segment.use(name).root for segment in nest.segments for name in sch.indirect_names(segment)}
    written = {use.root for use in sch.written_uses(nest)}
    looped = nest.local & {use.root for s in nest.segments if s.loops for use in s.uses if use.direction.writes}
    for segment in nest.segments:
        names = sch.indirect_names(segment)
        found = [use.name for use in segment.uses if use.root in chosen and use.name not in names]
        for index in (*nest.indices, *segment.loops) if names else ():
            local = nest.local if index in nest.indices else looped  # one value for all points of a loop
            moved = {use.name for use in segment.uses if use.root in local or use.stride(index.name)}
            varying = sch.varying_scalars(segment.statements, moved, index.name)
            placed = [s for s in segment.statements if isinstance(s, stripe.Load | stripe.Store) and s.index in varying]
            found += [s.into for s in placed if isinstance(s, stripe.Store)]
            read = [s.source for s in placed if isinstance(s, stripe.Load)]
            if gathers:
                read = [] if index in nest.indices else [name for name in read if segment.use(name).root in written]
            found += read
        if found:
            return refused("TR202", view=min(found))
    return None


def against_scalars(nest: Nest) -> Refused | None:
    """Return a refusal with the local memory of a nest that has several elements; None if there is none."""
    wide = next((r for r in nest.allocations if r.shape.elements != 1), None)
    return None if wide is None else refused("TR204", memory=wide.name, elements=wide.shape.elements)


def against_reading(nest: Nest) -> Refused | None:
    """Return a refusal with the caller's memory that a loop reads and the kernel writes; None if there is none."""
    written = {use.root for use in sch.written_uses(nest)}
    reading = (use for s in nest.segments if s.loops for use in s.uses if not use.direction.writes)
    return next((refused("TR203", memory=use.root) for use in reading if use.root in written), None)


def against_flat(kernel: stripe.Block) -> Refused | None:
    """Return the reason why a kernel is not scalar statements in unscheduled loops."""
    for statement in kernel.statements:
        if isinstance(statement, stripe.Block | stripe.Special):
            return refused("TR114" if isinstance(statement, stripe.Block) else "TR106")
    for index in kernel.indices:
        if not index.is_plain:
            return refused("TR101" if index.affine is None else "TR102", index=index.name)
    return None


@refusing
def cleared_scatter(
    clear: stripe.Statement | None, kernel: stripe.Block
) -> tuple[stripe.Block, stripe.Refinement] | Refused:
    """Return the statement that clears the target of a flat scatter kernel, and its view.

    The statement ``clear`` right before has to be a kernel that does so.
    """
    if "scatter" not in kernel.tags:
        return refused("TR664")
    rule_out(against_flat(kernel))
    outputs = [view for view in kernel.refinements if view.direction.writes]
    if len(outputs) != 1:
        return refused("TR625", outputs=len(outputs))
    if not isinstance(clear, stripe.Block) or "fill" not in clear.tags:
        return refused("TR665")
    cleared = [view.source for view in clear.refinements if view.direction.writes]
    return (clear, outputs[0]) if cleared == [outputs[0].source] else refused("TR665")


def against_plain(nest: Nest, *, placed: bool = False) -> Refused | None:
    """Return the reason why a nest is not one reduction into scalar accumulators with independent points.

    Unless ``placed``, the reduction has no data-dependent reads, not even one shared by all points.
    """
    if len(nest.reductions) != 1:
        return refused("TR205", loops=len(nest.reductions))
    if not placed and (names := sch.indirect_names(nest.reductions[0])):
        return refused("TR202", view=min(names))
    checks = (against_parallel, against_varying_places, against_scalars)
    found = next((why for check in checks if (why := check(nest)) is not None), None)
    return _against_accumulators(nest, nest.reductions[0]) if found is None else found


def _against_accumulators(nest: Nest, reduction: Segment) -> Refused | None:
    writes = [use for use in reduction.uses if use.direction.writes]
    for use in writes:
        if not (use.root in nest.local and use.merges and use.direction.reads):
            return refused("TR206", memory=use.root)
    loaded = {s.source for s in reduction.statements if isinstance(s, stripe.Load)}
    written = {use.root for use in nest.uses if use.direction.writes}
    both = next((u.root for u in reduction.uses if u.name in loaded and u.root in written), None)
    if both is not None:
        return refused("TR203", memory=both)
    return None if writes else refused("TR207")


def crossing_indices(
    nest: Nest, least: int, *, in_registers: bool = False
) -> tuple[stripe.Index, stripe.Index] | Refused:
    """Return the index along which some input is contiguous, and the one along which all results are contiguous.

    Refused if there are none, or if they have fewer than ``least`` values. Tiles ``in_registers`` hold no bools,
    and have no elements that a constraint leaves out.
    """
    written, constrained = sch.written_uses(nest), sch.constrained_indices(nest)
    long = [i for i in nest.indices if i.range >= least and not (in_registers and i.name in constrained)]
    for column in long:
        if written and all(use.stride(column.name) == 1 for use in written):
            for row in long:
                crossing = [u for u in sch.read_uses(nest) if row is not column and u.crosses(row.name, column.name)]
                if crossing and not (in_registers and any(use.dtype.is_bool for use in crossing)):
                    return row, column
    return _against_crossing(nest, least)


def _against_crossing(nest: Nest, least: int) -> Refused:
    """Return why tiles of ``least`` rows and columns transpose no input of an elementwise nest."""
    written, constrained = sch.written_uses(nest), sch.constrained_indices(nest)
    columns = [i for i in nest.indices if written and all(use.stride(i.name) == 1 for use in written)]
    pairs = [(row, column) for column in columns for row in nest.indices if row is not column]
    uses = [(use, row, column) for row, column in pairs for use in sch.read_uses(nest)]
    crossing = [each for each in uses if each[0].crosses(each[1].name, each[2].name)]
    if not crossing:
        return refused("TR303")
    use, row, column = max(crossing, key=lambda each: min(each[1].range, each[2].range))
    if min(row.range, column.range) < least:
        return refused("TR304", rows=row.range, columns=column.range, least=least)
    if use.dtype.is_bool:
        return refused("TR305", input=use.root)
    return refused("TR306", index=row.name if row.name in constrained else column.name)


def _read(segment: Segment) -> Iterator[Use]:
    """Return the uses that a segment loads before it stores to them."""
    found: set[str] = set()
    stored: set[str] = set()
    for statement in segment.statements:
        if isinstance(statement, stripe.Load) and (statement.index is not None or statement.source not in stored):
            found.add(statement.source)
        elif isinstance(statement, stripe.Store):
            stored.add(statement.into)
    return (use for use in segment.uses if use.direction.reads or use.name in found)


def may_overlap(nest: Nest) -> bool:
    """Return whether elements of the result may be computed twice, which is safe if no input is stored."""
    written = sch.written_uses(nest)
    stored = {nest.sources[use.root] for use in written}
    read = (use for segment in nest.segments for use in _read(segment) if use.root in nest.sources)
    if any(use.merges for use in written) or any(segment.has_indirect_store for segment in nest.segments):
        return False
    return all(nest.sources[use.root] not in stored for use in read)
