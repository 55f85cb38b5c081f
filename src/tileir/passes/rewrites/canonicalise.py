"""Canonical form of blocks: no redundant indices or constraints, few indices, in memory order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address, is_element, observed_indices
from tileir.passes.base import at_least, expand_kernels
from tileir.passes.layouts.own_axes import with_own_axes
from tileir.passes.regions.narrowing import narrowed
from tileir.poly.affine import Affine, Rational
from tileir.poly.coverage import tightened
from tileir.schedule.reindex import in_memory_order, reindexed
from tileir.stripe.check.views import is_dense
from tileir.stripe.ir import (
    Block,
    Dim,
    Direction,
    Index,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    TensorShape,
)

Bounds: TypeAlias = dict[str, tuple[int, int]]
"""Least and greatest value of each index."""


@attrs.frozen
class Canonicalise:
    """Simplify the index boxes of all blocks.

    Indices of one value are replaced by it. Constraints that always hold, and blocks that never run, are dropped. In
    kernels that have no schedule yet, indices that only repeat a store are dropped, indices are ordered by descending
    stride in the output, and an axis that several indices move is split into an axis for each.

    Attributes:
        merge: Whether to collapse two indices of an elementwise kernel that are one linear index in all accesses,
            unless neighbouring rows share loads. Most elementwise kernels become one-dimensional; their views may have
            other axes than their tensors.
        channels: Without ``merge``, channels of 8 or 16 bits are collapsed with the adjacent pixels of a window if
            there are fewer than this number; 0 for never. Matrix products take neighbours along the resulting index
            together; wider types are vectorised along other indices.
    """

    name: ClassVar[str] = "canonicalise"
    merge: bool = True
    channels: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with all kernels simplified."""
        shapes = {r.name: r.shape for r in program.main.refinements if is_dense(r.shape)}
        dense = {name: len(shape.dims) for name, shape in shapes.items()}

        def canonical(kernel: Block) -> tuple[Block, ...]:
            block = simplified(kernel)
            if block is None:
                return ()
            if not _is_scheduled(block):
                block = with_own_axes(in_memory_order(_without_repetition(block)), shapes)
                if self.merge and not block.blocks:
                    block = _merged(block, dense)
                elif self.channels and not block.blocks:
                    block = _with_long_rows(block, dense, self.channels)
                block = _with_single_axes(block, dense)
            return (kernel if block == kernel else block,)

        return expand_kernels(program, canonical)


def simplified(kernel: Block) -> Block | None:
    """Return a kernel without indices of one value and constraints that always hold; None if it never runs."""
    block = _simplified(kernel, {})
    return block if block is None or block == kernel else narrowed(block, kernel)


def _is_scheduled(block: Block) -> bool:
    return any(i.is_marked for i in block.indices) or any(map(_is_scheduled, block.blocks))


def _interval(affine: Affine, bounds: Bounds) -> tuple[int, int]:
    low = high = int(affine.offset)
    for name, coefficient in affine.terms:
        ends = (int(coefficient) * bounds[name][0], int(coefficient) * bounds[name][1])
        low, high = low + min(ends), high + max(ends)
    return low, high


def _simplified(block: Block, outer: Bounds) -> Block | None:
    """Replace indices with one value and drop redundant constraints, also in nested blocks; None if it never runs."""
    bounds: Bounds = {}
    for index in block.indices:
        low, high = (0, 0) if index.affine is None else _interval(index.affine, outer)
        bounds[index.name] = (low, high + index.range - 1)
    values = {
        i.name: Affine.constant(bounds[i.name][0])
        for i in block.indices
        if bounds[i.name][0] == bounds[i.name][1] and not i.is_marked
    }
    if values:
        block = reindexed(block, tuple(i for i in block.indices if i.name not in values), values)
    constraints = _tightened(block.constraints, bounds)
    if constraints is None:
        return None
    statements: list[Statement] = []
    for statement in block.statements:
        inner = _simplified(statement, bounds) if isinstance(statement, Block) else statement
        if inner is not None:
            statements.append(inner)
    if len(statements) != len(block.statements):
        statements = [attrs.evolve(s, deps=()) if s.deps else s for s in statements]
    block = attrs.evolve(block, constraints=constraints, statements=tuple(statements))
    used = _used_indices(block)
    idle = tuple(i for i in block.indices if i.range > 1 or i.is_marked or i.name in used)
    return attrs.evolve(block, indices=idle)


def _tightened(constraints: tuple[Affine, ...], bounds: Bounds) -> tuple[Affine, ...] | None:
    """Return the constraints that do not always hold, each once and without common factors; None if one never holds."""
    kept: dict[Affine, None] = {}
    for constraint in constraints:
        low, high = _interval(constraint, bounds)
        if high < 0:
            return None
        if low < 0:
            kept[tightened(constraint)] = None
    return tuple(kept)


def _used_indices(block: Block) -> frozenset[str]:
    return observed_indices(block).union(*(access.indices for view in block.refinements for access in view.access))


def _without_repetition(block: Block) -> Block:
    """Drop indices of which each value repeats the same stores."""
    if any(r.direction is Direction.INOUT or r.merges for r in block.refinements):
        return block
    used = _used_indices(block)
    return attrs.evolve(block, indices=tuple(i for i in block.indices if i.name in used))


def _merged(block: Block, dense: Mapping[str, int]) -> Block:
    """Join neighbouring indices that are one linear index on all accesses."""
    position = 0
    while position + 1 < len(block.indices):
        outer, inner = block.indices[position : position + 2]
        if _is_linear(block, outer, inner, dense) and not _shares_rows(block, outer, inner):
            block = _with_linear(block, outer, inner, dense)
        else:
            position += 1
    return block


def _is_linear(block: Block, outer: Index, inner: Index, dense: Mapping[str, int]) -> bool:
    """Return whether every access moves by ``inner.range`` times as much for ``outer`` as for ``inner``."""
    pair = {outer.name, inner.name}
    if outer.affine is not None or inner.affine is not None:
        return False
    affines = (*block.constraints, *(s.affine for s in block.statements if isinstance(s, LoadIndex)))
    if any(pair.intersection(affine.indices) for affine in affines):
        return False
    special = {name for s in block.statements if isinstance(s, Special) for name in (*s.inputs, *s.outputs)}
    return all(
        _moves_linearly(view, outer, inner, dense) and (is_element(view) or view.name not in special)
        for view in block.refinements
    )


def _with_long_rows(block: Block, dense: Mapping[str, int], channels: int) -> Block:
    """Join the short innermost index of a reduction with the enclosing index, if that belongs to a window."""
    written = {name for r in block.refinements if r.direction.writes for a in r.access for name in a.indices}
    reduced = [i for i in block.indices if i.name not in written]
    if any(r.direction.reads and r.shape.dtype.bits > 16 for r in block.refinements):
        return block
    if len(reduced) < 2 or reduced[-1].range >= channels or tuple(reduced[-2:]) != block.indices[-2:]:
        return block
    outer, inner = reduced[-2:]
    if any(inner.name in c.indices or c.coefficient(outer.name) not in (-1, 0, 1) for c in block.constraints):
        return block
    free = attrs.evolve(block, constraints=())
    if not _is_linear(free, outer, inner, dense):
        return block
    constraints = tuple(_over_linear(each, outer.name, inner.range) for each in block.constraints)
    return attrs.evolve(_with_linear(free, outer, inner, dense), constraints=constraints)


def _over_linear(constraint: Affine, outer: str, count: int) -> Affine:
    """Convert a constraint with a coefficient of ``outer`` of 0 or ±1 to an index of ``count`` times as many points.

    ``x // count >= a`` is ``x >= count * a``, and ``x // count <= a`` is ``x <= count * a + count - 1``.
    """
    step = constraint.coefficient(outer)
    if not step:
        return constraint
    rest = constraint - Affine.index(outer) * step
    return rest * count + Affine.index(outer) * step + (count - 1 if step < 0 else 0)


def _shares_rows(block: Block, outer: Index, inner: Index) -> bool:
    """Return whether neighbouring values of ``outer`` read common elements, in long rows.

    Rows that are computed together then load these once.
    """
    if inner.range < _LONG_ROW:
        return False
    seen: set[tuple[str, tuple[tuple[str, Rational], ...], Rational]] = set()
    for view in block.refinements:
        where = address(view)
        step = where.coefficient(outer.name)
        if view.direction is Direction.IN and step:
            row = (view.source, where.terms, where.offset % step)
            if row in seen:
                return True
            seen.add(row)
    return False


_LONG_ROW: Final = 64
"""Minimum row length to keep two indices; shorter rows fill vectors badly, and are joined."""


def _moves_linearly(view: Refinement, outer: Index, inner: Index, dense: Mapping[str, int]) -> bool:
    pair, where = {outer.name, inner.name}, address(view)
    if pair.isdisjoint(where.indices):
        return all(pair.isdisjoint(access.indices) for access in view.access)
    if view.source not in dense or not (is_element(view) or _is_column(view)) or view.bank_dim is not None:
        return False
    return where.coefficient(outer.name) == inner.range * where.coefficient(inner.name)


def _is_column(view: Refinement) -> bool:
    """Return whether a view shows several elements, from which data or coordinates select one."""
    others = view.shape.dims[1:]
    return len(others) > 0 and all(dim.size == 1 for dim in others)


def _with_linear(block: Block, outer: Index, inner: Index, dense: Mapping[str, int]) -> Block:
    """Let ``outer`` count the points of both indices."""
    values = {outer.name: Affine(), inner.name: Affine.index(outer.name)}
    ranges = {**block.ranges, outer.name: outer.range * inner.range}
    views = tuple(
        _with_axes(view, where.substitute(values), ranges, dense[view.source])
        if inner.name in (where := address(view)).indices
        else view
        for view in block.refinements
    )
    indices = tuple(attrs.evolve(i, range=ranges[i.name]) if i is outer else i for i in block.indices if i is not inner)
    return attrs.evolve(block, indices=indices, refinements=views)


def _with_single_axes(block: Block, dense: Mapping[str, int]) -> Block:
    """Split view axes that several indices move, without ever coinciding, into one axis per index."""
    below = {r.source for inner in block.blocks for r in inner.refinements}
    ranges = block.ranges
    views = tuple(
        _with_axes(view, where, ranges, dense[view.source])
        if any(len(access.terms) > 1 for access in view.access)
        and view.source in dense
        and view.name not in below
        and is_element(view)
        and view.bank_dim is None
        and _are_digits(where := address(view), ranges)
        else view
        for view in block.refinements
    )
    return attrs.evolve(block, refinements=views)


def _are_digits(affine: Affine, ranges: Mapping[str, int]) -> bool:
    """Return whether index strides form a mixed-radix number: each exceeds the reach of all smaller strides."""
    reach = 0
    for step, count in sorted((int(c), ranges[name]) for name, c in affine.terms):
        if step <= reach:
            return False
        reach += step * (count - 1)
    return True


def _with_axes(view: Refinement, where: Affine, ranges: Mapping[str, int], rank: int) -> Refinement:
    """Return the view of the element at ``where``: with an axis for each index if those are digits, else flat.

    An offset from the start of the source gets its own axis; another axis is added if the rank would then equal
    ``rank``, that of the source, since the axes differ from the source's.
    """
    if not is_element(view):
        column = (view.shape.dims[0], *[Dim(1, 1)] * (2 if rank == 2 else 1))
        places = (Affine(), where, *[Affine()] * (len(column) - 2))
        return attrs.evolve(view, access=places, shape=TensorShape(view.shape.dtype, column))
    if not _are_digits(where, ranges):
        return attrs.evolve(view, access=(where,), shape=TensorShape(view.shape.dtype, (Dim(1, 1),)))
    terms = sorted(((int(c), name) for name, c in where.terms), reverse=True)
    access = [Affine.index(name) for _, name in terms]
    dims = [Dim(1, step) for step, _ in terms]
    if where.offset != 0:
        access.append(Affine.constant(where.offset))
        dims.append(Dim(1, 1))
        if len(dims) == rank:
            access.append(Affine())
            dims.append(Dim(1, 1))
    return attrs.evolve(view, access=tuple(access), shape=TensorShape(view.shape.dtype, tuple(dims)))
