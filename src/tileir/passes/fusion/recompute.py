"""A block computed again where another reads its result, over the elements that one point of the other sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.rewrites.localise import restrided
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed
from tileir.stripe.ir import Block, Direction, Index, Refinement, TensorShape

_MEMORY: Final = 48
"""Operations, by their weight, that cards do in the time in which they store an element and load it again."""


@attrs.frozen(repr=False)
class _Result:
    """The view through which a block writes a tensor: which index, if any, runs along each axis, and from where."""

    view: Refinement
    axes: tuple[tuple[str | None, int], ...]

    @classmethod
    def of(cls, block: Block, source: str) -> _Result | None:
        """Return the one result of ``block``; None where it has others, or where axes have no index of their own."""
        written = [r for r in block.refinements if r.direction.writes]
        if len(written) != 1 or written[0].source != source or written[0].direction is not Direction.OUT:
            return None
        axes: list[tuple[str | None, int]] = []
        for access in written[0].access:
            if any(c != 1 for _, c in access.terms) or len(access.terms) > 1:
                return None
            axes.append((access.terms[0][0] if access.terms else None, int(access.offset)))
        names = [name for name, _ in axes if name is not None]
        if not is_element(written[0]) or len(set(names)) < len(names):
            return None
        return cls(written[0], tuple(axes))


def recomputed(
    first: Block, second: Block, source: str, parent: Block, tags: tuple[str, ...], gone: tuple[str, ...]
) -> Block | None:
    """Return ``second`` with an allocation in place of what it reads of ``source``, which ``first`` inside it fills.

    Args:
        first: A block that writes single elements of ``source``, and nothing else.
        second: A block that reads it through one view.
        source: The name of the tensor in ``parent``.
        parent: The block around both.
        tags: What the block inside gets beside the tags of ``first``.
        gone: Tags that it loses.

    Returns:
        None where the blocks are not of that form.

    """
    result = _Result.of(first, source)
    views = [r for r in second.refinements if r.source == source and r.direction is not Direction.NONE]
    if result is None or len(views) != 1 or views[0].direction is not Direction.IN:
        return None
    seen = views[0]
    if len(seen.access) != len(result.axes) or seen.shape.strides != result.view.shape.strides:
        return None
    if any(i.affine is not None for i in (*first.indices, *second.indices)):
        return None
    shape = TensorShape.dense(seen.shape.dtype, seen.shape.sizes)
    zero = (Affine(),) * len(shape.dims)
    local = Refinement(seen.name, Direction.NONE, "", zero, shape)
    names = NameScope.of(r.name for r in second.refinements)
    whole = {r.name: _whole(parent, r.source, names) for r in first.refinements if r.direction is Direction.IN}
    inner = _inside(first, second, result, seen, local, {name: view.name for name, view in whole.items()})
    refinements = tuple(local if r is seen else r for r in second.refinements)
    outer = restrided(attrs.evolve(second, refinements=refinements), {local.name: local})
    tagged = attrs.evolve(inner, tags=first.tags.remove(*gone).add(*tags), comments=(), deps=())
    return attrs.evolve(
        outer,
        refinements=(*outer.refinements, *whole.values()),
        statements=(tagged, *outer.statements),
        comments=tuple(dict.fromkeys((*first.comments, *second.comments))),
        name=f"{first.name}+{second.name}" if first.name and second.name else second.name,
        deps=(),
    )


def _whole(parent: Block, source: str, names: NameScope) -> Refinement:
    """Return a view of all of a tensor of ``parent``."""
    held = parent.refinement(source)
    return Refinement(names.fresh(source), Direction.IN, source, (Affine(),) * len(held.access), held.shape)


def _inside(
    first: Block, second: Block, result: _Result, seen: Refinement, local: Refinement, sources: Mapping[str, str]
) -> Block:
    """Return ``first`` over the elements that a point of ``second`` sees through ``seen``, stored to ``local``."""
    names = NameScope.of(i.name for i in first.indices)
    needed = {name: None for access in seen.access for name in access.indices}
    passed = {name: Index(names.fresh(name), 1, Affine.index(name)) for name in needed}
    here = {name: Affine.index(index.name) for name, index in passed.items()}
    indices = {i.name: i for i in first.indices}
    values: dict[str, Affine] = {}
    ends: list[Affine] = []
    places: list[Affine] = []
    for (name, offset), access, dim in zip(result.axes, seen.access, seen.shape.dims, strict=True):
        start = access.substitute(here) - offset
        if name is None:
            places.append(-start)
            if dim.size > 1 or access.terms:
                ends += [-start, dim.size - 1 + start]
            continue
        places.append(Affine.index(name))
        values[name] = Affine.index(name) + start
        low, high = access.bounds(second.ranges)
        if low < offset or high + dim.size - 1 > offset + indices[name].range - 1:
            ends += [values[name], indices[name].range - 1 - values[name]]
        indices[name] = attrs.evolve(indices[name], range=dim.size)
    views = []
    for view in first.refinements:
        if view is result.view:
            dims = tuple(attrs.evolve(d, size=1) for d in local.shape.dims)
            zero = (Affine(),) * len(dims)
            views.append(attrs.evolve(view, source=local.name, access=zero, shape=TensorShape(view.shape.dtype, dims)))
        else:
            views.append(attrs.evolve(view, source=sources.get(view.name, view.source)))
    moved = reindexed(attrs.evolve(first, refinements=tuple(views)), (*passed.values(), *indices.values()), values)
    stored = tuple(
        attrs.evolve(r, access=tuple(places)) if r.name == result.view.name else r for r in moved.refinements
    )
    return attrs.evolve(moved, refinements=stored, constraints=(*moved.constraints, *ends))


def bytes_of_a_row(kernel: Block, view: Refinement, least: int) -> int:
    """Return how much a flat reduction sees through a view for one result; where terms lie apart, each ``least``."""
    moved = {name for r in kernel.refinements if r.merges for access in r.access for name in access.indices}
    terms = prod(i.range for i in kernel.indices if i.name not in moved)
    along = any(name not in moved for name, step in address(view).terms if step == 1)
    return terms * (view.shape.dtype.itemsize if along else max(view.shape.dtype.itemsize, least))


def takes_less_than_memory(operations: Iterable[Op], dtype: DType) -> bool:
    """Return whether a card does the operations sooner than it stores an element and loads it again."""
    return sum(op.info.weight_in(dtype) for op in operations) <= _MEMORY
