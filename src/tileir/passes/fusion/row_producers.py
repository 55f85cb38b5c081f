"""Recomputation of a kernel's rows in its only reader, for a vector of a row at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import DType, attrs
from tileir.passes.analysis.accesses import address, is_element, lone_store
from tileir.passes.kernels.schedule import varying_scalars
from tileir.passes.schedules.vectors.near_places import NearPlaces
from tileir.stripe.ir import (
    Block,
    Constant,
    Direction,
    Load,
    LoadIndex,
    Refinement,
    Statement,
    Store,
    views_read,
    views_written,
)

_MOST_STATEMENTS: Final = 48
"""Maximum number of loads and computations per element that cost no more than a store and a load."""


@attrs.frozen(eq=False)
class RowProducer:
    """An elementwise kernel that writes rows.

    Attributes:
        kernel: The kernel.
        store: Its store.
        along: Its index along a row.
        names: Names of its other indices in the reader.
    """

    kernel: Block
    store: Store
    along: str
    names: Mapping[str, str]

    def steps(self, view: Refinement) -> bool:
        """Return whether a row is contiguous in a view; otherwise all of the row reads one element."""
        return self.along in address(view).indices


def producer_of(
    statements: Sequence[Statement], reader: int, near: NearPlaces, view: Refinement, kept: frozenset[str]
) -> RowProducer | None:
    """Return the producer of a tensor whose close places a kernel reads, if it can be inlined there.

    Args:
        statements: Those of ``main``.
        reader: The number of the reading kernel.
        near: Its reads.
        view: The view that it reads.
        kept: Views of ``main`` that are always needed.
    """
    writers = [n for n, s in enumerate(statements) if view.source in views_written(s)]
    readers = [n for n, s in enumerate(statements) if view.source in views_read(s)]
    if view.source in kept or len(writers) != 1 or readers != [reader] or writers[0] > reader:
        return None
    kernel = statements[writers[0]]
    if not isinstance(kernel, Block) or not _is_plain(kernel):
        return None
    between = {name for s in statements[writers[0] + 1 : reader] for name in views_written(s)}
    if not between.isdisjoint(views_read(kernel)):
        return None
    return _matched(kernel, near, view)


def _is_plain(kernel: Block) -> bool:
    """Return whether a kernel computes one element of one tensor at each point."""
    found = lone_store(kernel)
    if found is None or kernel.constraints or any(isinstance(s, LoadIndex) for s in kernel.statements):
        return False
    store, written = found
    return kernel.statements[-1] is store and written.direction is Direction.OUT and not written.merges


def _matched(kernel: Block, near: NearPlaces, view: Refinement) -> RowProducer | None:
    """Return a plain kernel as a producer of the rows of a view; None if it writes others."""
    store = kernel.statements[-1]
    assert isinstance(store, Store)  # it is plain
    result, line = kernel.refinement(store.into), {index.name for index in near.line}
    written, seen = address(result), address(view)
    along = next((name for name, step in written.terms if step == 1), None)
    if along is None or written.offset != 0 or seen.offset != 0 or view.shape.dtype is not result.shape.dtype:
        return None
    rows = {int(step): name for name, step in written.terms if name != along}
    theirs = {int(step): name for name, step in seen.terms if name not in line}
    extent = next(each.extent for each in near.neighbours if each.view is view)
    ranges, outer = kernel.ranges, near.kernel.ranges
    if len(kernel.indices) != len(rows) + 1 or rows.keys() != theirs.keys() or ranges[along] != extent:
        return None
    if any(ranges[rows[step]] != outer[theirs[step]] for step in rows):
        return None
    statements = sum(not isinstance(s, Store | Constant) for s in kernel.statements)
    vectors = len(near.firsts) * sum(each.view is view for each in near.neighbours)
    if vectors * near.width * statements > _MOST_STATEMENTS * extent:
        return None
    found = RowProducer(kernel, store, along, {rows[step]: theirs[step] for step in rows})
    return found if _reads_rows(found) else None


def _reads_rows(producer: RowProducer) -> bool:
    """Return whether a producer reads contiguous rows, at perhaps data-dependent places, or one element per row."""
    kernel, along = producer.kernel, producer.along
    steps = {view.name: int(address(view).coefficient(along)) for view in kernel.refinements}
    varying = varying_scalars(kernel.statements, {name for name, step in steps.items() if step}, along)
    dtypes = {s.into: kernel.refinement(s.source).shape.dtype for s in kernel.statements if isinstance(s, Load)}
    for load in kernel.statements:
        if not isinstance(load, Load):
            continue
        view = kernel.refinement(load.source)
        if steps[view.name] not in (0, 1) or any(dim.size > 1 for dim in view.shape.dims[1:]):
            return False
        if load.index is None:
            if not is_element(view):
                return False
            continue
        first = view.shape.dims[0]
        fits = first.stride >= 0 and first.size * first.stride + kernel.ranges[along] <= int(DType.I32.maximum)
        if not fits or load.index in varying or dtypes.get(load.index) is not DType.I32:
            return False
    return True
