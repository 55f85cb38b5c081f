"""Indices that kernels over the same rows share: the rest of each has to be a row, and rows have to be enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.passes.analysis.accesses import views_in_one_place
from tileir.passes.fusion.match import Shared, lies_side_by_side, runs_along_memory, runs_in_stretches
from tileir.passes.fusion.sink import is_direct
from tileir.schedule.nest import chosen_by_data, product
from tileir.stripe.ir import Block, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.passes.fusion.fuse import Fuse
    from tileir.passes.fusion.group import FusionGroup


def are_one_row(first: FusionGroup, second: FusionGroup) -> bool:
    """Return whether all loops of both go along a single row, which one group of threads is meant to take.

    Where nothing aggregates the row, that is for short ones alone: of a long one each group takes a part, in less time.
    """
    aggregated = first.reductions + second.reductions > 0
    if not aggregated and any(_bytes_inside(group, frozenset()) > _SHORT for group in (first, second)):
        return False
    loops = [list(_lengths(group.block, block)) for group in (first, second) for block in (None, *group.nested)]
    return all(len(lengths) < 2 for lengths in loops) and len({length for lengths in loops for length in lengths}) == 1


def _lengths(*blocks: Block | None) -> Iterator[int]:
    return (i.range for block in blocks if block for i in block.indices if i.affine is None and i.range > 1)


def loops_of(group: FusionGroup) -> Iterator[set[str]]:
    """Yield the tensors that each loop of a group touches; what stands beside loops is one of them."""
    inside = [{view.source for view in block.refinements if view.source} for block in group.nested]
    beside = {
        name for s in group.statements if not isinstance(s, Block) for name in (*views_read(s), *views_written(s))
    }
    for names in (*inside, beside):
        yield {group.roots[source] for name in names if (source := group.views[name].source) in group.roots}


def has_points(options: Fuse, first: FusionGroup, second: FusionGroup, shared: Shared) -> bool:
    """Return whether shared indices have points enough, or each of these is done in less time than a launch takes."""
    if shared.points >= options.least_points:
        return True
    sides = ((first, frozenset(index.name for index in shared.first)), (second, shared.second))
    return all(_bytes_inside(group, names) <= options.few_bytes for group, names in sides)


def _bytes_inside(group: FusionGroup, shared: frozenset[str]) -> int:
    """Return what a group touches for one point of its shared indices, in bytes, as if all its tensors were as wide."""
    own = product(i.range for i in group.indices if i.name not in shared)
    inside = (product(i.range for i in block.indices if i.affine is None) for block in group.nested)
    return own * max((1, *inside)) * _widest(group)


def _widest(group: FusionGroup) -> int:
    return max((view.shape.dtype.itemsize for view in group.views.values()), default=1)


def with_long_rows(options: Fuse, first: FusionGroup, second: FusionGroup, shared: Shared) -> Shared | None:
    """Return the shared indices where they leave a row to each group; None where they do not.

    With ``shorten``, so many of them, outermost first, as do. Pixels and their channels share rows and columns, but
    beside columns only channels are left. Rows may lie side by side where options say so.
    """
    if options.local_bytes and not first.reductions and not second.reductions and _has_chosen_places(first, second):
        return None  # groups of threads take no such rows: one thread would go along each
    columns = _with_columns(options, first, second, shared) if options.beside_bytes else None
    while columns is None and has_points(options, first, second, shared):
        names = frozenset(index.name for index in shared.first)
        if _is_row(options, first, names) and _is_row(options, second, shared.second):
            return shared
        if not options.shorten or len(shared.pairs) < 2:
            return None
        shared = Shared(shared.pairs[:-1])
    return columns


def _has_chosen_places(*groups: FusionGroup) -> bool:
    """Return whether data decide which elements groups read or write, but for slices that all points read or write."""
    blocks = [(tuple(each.views.values()), tuple(each.statements)) for each in groups]
    blocks += [(block.refinements, block.statements) for each in groups for block in each.nested]
    return any(not chosen_by_data(inside) <= views_in_one_place(views, inside) for views, inside in blocks)


def _with_columns(options: Fuse, first: FusionGroup, second: FusionGroup, shared: Shared) -> Shared | None:
    """Return the shared indices where rows of both groups lie side by side, with how many of them go together."""
    sides = ((first, frozenset(index.name for index in shared.first)), (second, shared.second))
    if all(runs_along_memory(group, names) for group, names in sides):
        return None
    if any(not lies_side_by_side(group, names) or _holds_blocks(group, names) for group, names in sides):
        return None
    together = min(max(1, options.beside_bytes // max(map(_widest, (first, second)))), shared.points)
    short = all(_bytes_inside(group, names) * together <= options.few_bytes for group, names in sides)
    enough = short or shared.points >= options.least_points * together
    return Shared(shared.pairs, together) if enough else None


def _holds_blocks(group: FusionGroup, shared: frozenset[str]) -> bool:
    return group.reductions > 0 and not is_direct(group.block, shared)


def _is_row(options: Fuse, group: FusionGroup, shared: frozenset[str]) -> bool:
    """Return whether what is not shared is a stretch of memory of some length, with no block inside.

    Groups of threads take several stretches that are long enough for all of them.
    """
    least = _STRETCH // _widest(group)
    along = runs_along_memory(group, shared) or (options.local_bytes and runs_in_stretches(group, shared, least))
    if is_direct(group.block, shared):
        return bool(along)
    points = max((i.range for i in group.indices if i.name not in shared), default=1)
    fits = options.local_bytes or points * _widest(group) <= options.most_bytes
    return bool(options.least_row <= points and fits and not group.reductions and along)


_STRETCH: Final = 2048
"""Bytes that keep a group of threads busy for a while."""

_SHORT: Final = 16_384
"""Bytes that a group of threads takes in less time than a launch."""
