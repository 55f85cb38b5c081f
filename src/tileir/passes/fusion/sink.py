"""Sinking of some indices of a block into a nested block, so that it can share the others with another block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import always_reached, is_element, known_ranges, observed_indices, part_over, swept
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Index, Refinement, Store, views_written


def is_direct(block: Block, shared: Iterable[str]) -> bool:
    """Return whether the statements of ``block`` can stay unchanged in a block over the indices ``shared``."""
    names = frozenset(shared)
    stored = {name for s in block.statements if not isinstance(s, Block) for name in views_written(s)}
    merged = any(r.merges and _is_owned(r, names) for r in block.refinements if r.name in stored)
    return not block.constraints and not merged and all(i.range == 1 or i.name in names for i in block.indices)


def merged_inside(block: Block, shared: Iterable[str]) -> Block:
    """Return a direct ``block`` whose views merge only in nested blocks, if no two points share an element."""
    names = frozenset(shared)
    views = tuple(
        attrs.evolve(r, aggregation=None) if r.merges and _is_owned(r, names) else r for r in block.refinements
    )
    return attrs.evolve(block, refinements=views)


def sunk(block: Block, shared: tuple[Index, ...], tags: tuple[str, ...], gone: tuple[str, ...]) -> Block:
    """Return a block over ``shared`` with a nested block over the other indices and the statements.

    Args:
        block: A block whose indices start at 0; constraints of it go inside.
        shared: The indices that stay, in their new order.
        tags: Additional tags of the nested block.
        gone: Tags of ``block`` that the nested block loses.
    """
    names = frozenset(index.name for index in shared)
    rest = tuple(index for index in block.indices if index.name not in names)
    ranges = {index.name: index.range for index in rest}
    needed = observed_indices(block) & names
    passed = tuple(Index(i.name, 1, Affine.index(i.name)) for i in shared if i.name in needed)
    views = [r for r in block.refinements if r.direction is not Direction.NONE]
    inner = attrs.evolve(
        block,
        indices=(*passed, *rest),
        refinements=tuple(_inner_view(r, ranges) for r in block.refinements),
        comments=(),
        tags=block.tags.remove(*gone).add(*tags),
        deps=(),
    )
    return attrs.evolve(
        block,
        indices=shared,
        constraints=(),
        refinements=tuple(_outer_view(r, ranges, names) for r in views),
        statements=(inner,),
        location=(),
        deps=(),
    )


def covered(block: Block, shared: Iterable[str]) -> frozenset[str]:
    """Return the views through which each point of ``shared`` certainly writes every element that it sees."""
    stored = {s.into for s in block.statements if isinstance(s, Store) and s.index is None}
    ranges, names = known_ranges(block), frozenset(shared)
    rest = {name: count for name, count in ranges.items() if name not in names}
    found = []
    for view in block.refinements:
        if view.name in stored and is_element(view) and _sweeps(view, rest):
            moving = {name for access in view.access for name in access.indices} | names
            outer = {name: count for name, count in ranges.items() if name in moving}
            inner = {name: count for name, count in ranges.items() if name not in moving}
            if always_reached(block.constraints, outer, inner):
                found.append(view.name)
    return frozenset(found)


def _sweeps(view: Refinement, ranges: Mapping[str, int]) -> bool:
    """Return whether the indices in ``ranges`` move a view along axes of its own, without gaps."""
    taken: list[str] = []
    for access in view.access:
        moving = [(name, c) for name, c in access.terms if ranges.get(name, 1) > 1]
        if len(moving) > 1 or any(c != 1 for _, c in moving):
            return False
        taken.extend(name for name, _ in moving)
    return len(taken) == len(set(taken))


def owns(access: Affine, index: str, size: int) -> bool:
    """Return whether an axis at ``access`` shows disjoint ranges of ``size`` elements for all values of ``index``."""
    return access.indices == (index,) and abs(int(access.coefficient(index))) >= size


def _is_owned(view: Refinement, shared: Iterable[str]) -> bool:
    """Return whether a view shows disjoint elements for each value of each index of ``shared``."""
    axes = tuple(zip(view.access, view.shape.sizes, strict=True))
    return all(any(owns(access, name, size) for access, size in axes) for name in shared)


def _inner_view(view: Refinement, ranges: Mapping[str, int]) -> Refinement:
    if view.direction is Direction.NONE:
        return view
    return attrs.evolve(view, source=view.name, access=tuple(part_over(access, ranges) for access in view.access))


def _outer_view(view: Refinement, ranges: Mapping[str, int], shared: frozenset[str]) -> Refinement:
    """Return the view of all elements that the nested block accesses from one point of ``shared``."""
    whole = swept(view, ranges)
    # If each element gets all its values from one point, they merge inside.
    kept = None if view.merges and _is_owned(whole, shared) else view.aggregation
    return attrs.evolve(
        whole,
        aggregation=kept,
        location=view.location
        if not any(n in ranges for d in view.location for u in d.units for n in u.indices)
        else (),
        cache_unit=None,
    )
