"""Row structure of elementwise kernels: the index that counts rows of a tensor, and the rows read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor, gcd, prod
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.rewrites.affine_places import bounds_of_scalars
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed
from tileir.stripe.ir import Block, Direction, Index, Load, Refinement, Special, Statement, Store

Progressions: TypeAlias = tuple[Refinement, tuple[int, ...]]
"""A view with the number of places that it reaches along each axis."""


def counts_of(view: Refinement, ranges: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return the number of places along each axis that an element view reaches; None if they are no progressions."""
    terms = [term for place in view.access for term in place.terms]
    distinct = len({name for name, _ in terms}) == len(terms)
    single = all(len(place.terms) < 2 for place in view.access) and all(step > 0 for _, step in terms)
    if not distinct or not single or view.shape.elements != 1:
        return None
    return tuple(prod(ranges[name] for name in place.indices) for place in view.access)


def are_apart(one: Progressions, other: Progressions) -> bool:
    """Return whether two views certainly have no element in common."""
    views = zip(one[0].access, other[0].access, one[1], other[1], strict=True)
    for place, there, count, many in views:
        step, stride = (int(sum(by for _, by in each.terms)) for each in (place, there))
        gap = int(there.offset - place.offset)
        if gap % (gcd(step, stride) or 1) or gap > step * (count - 1) or -gap > stride * (many - 1):
            return True
    return False


@attrs.frozen
class Rows:
    """A kernel that writes rows of tensors, from ``first`` on, one for each value of ``index``."""

    kernel: Block
    index: Index
    first: int

    @property
    def end(self) -> int:
        """The row after the last one."""
        return self.first + self.index.range

    @property
    def work(self) -> int:
        """Number of statements executed for each row."""
        others = [index.range for index in self.kernel.indices if index is not self.index]
        return prod(others) * len(self.kernel.statements)


def writing(statement: Statement) -> tuple[Refinement, ...]:
    """Return the views to which a flat kernel stores elements, without merging.

    Empty for other kernels and statements.
    """
    if not isinstance(statement, Block) or statement.constraints:
        return ()
    stores = (s for s in statement.statements if isinstance(s, Store))
    if any(isinstance(s, Block | Special) for s in statement.statements) or any(s.index is not None for s in stores):
        return ()
    if not all(i.is_plain for i in statement.indices):
        return ()
    written = tuple(r for r in statement.refinements if r.direction is not Direction.IN)
    plain = all(not r.merges for r in written)
    return written if plain and all(r.direction is Direction.OUT and is_element(r) for r in written) else ()


def rows_written(kernel: Block, strides: Mapping[str, int]) -> Rows | None:
    """Return the rows that a kernel writes, given the row stride of each tensor; None if it does not go by rows."""
    views = writing(kernel)
    for index in kernel.indices:
        seen = {rows_seen(kernel, view, index, strides[view.source]) for view in views}
        if len(seen) == 1 and (rows := seen.pop()) is not None:
            return Rows(kernel, index, rows[0]) if rows[0] == rows[1] else None
    return None


def rows_seen(kernel: Block, view: Refinement, index: Index, stride: int) -> tuple[int, int] | None:
    """Return the first and the last row of a view where ``index`` is 0; None if it moves by other steps."""
    where = address(view)
    if where.coefficient(index.name) != stride:
        return None
    low, high = (where - Affine.of({index.name: stride})).bounds(kernel.ranges)
    high += sum((dim.size - 1) * dim.stride for dim in view.shape.dims)
    return floor(low / stride), floor(high / stride)


def rows_touched(kernel: Block, tensor: str, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last row of a tensor that a flat kernel accesses, for each of its sides.

    Sides are the two values of the index that moves furthest in the output.
    """
    views = {r.name: r for r in kernel.refinements}
    written = next(r for r in kernel.refinements if r.direction.writes)
    outer = max(kernel.indices, key=lambda i: abs(int(address(written).coefficient(i.name))), default=None)
    sides = [{}] if outer is None or outer.range != 2 else [{outer.name: Affine.constant(n)} for n in range(2)]
    for values in sides:
        side = reindexed(kernel, tuple(i for i in kernel.indices if i.name not in values), values)
        known = bounds_of_scalars(side)
        views = {r.name: r for r in side.refinements}
        touched: list[int] = []
        for statement in side.statements:
            if not isinstance(statement, Load | Store):
                continue
            view = views[statement.source if isinstance(statement, Load) else statement.into]
            if view.source != tensor:
                continue
            low, high = address(view).bounds(side.ranges)
            dims = view.shape.dims
            if statement.index is not None:
                first, last = known.get(statement.index, (0, dims[0].size - 1))
                low += dims[0].stride * min(max(first, 0), dims[0].size - 1)
                high += dims[0].stride * min(max(last, 0), dims[0].size - 1)
            touched.extend((floor(low / stride), floor(high / stride)))
        if touched:
            yield min(touched), max(touched)
