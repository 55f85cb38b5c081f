"""Joining of indices that are one linear index on all accesses, for longer vector runs; common subexpressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels.analysis_cache import remembered
from tileir.passes.kernels.schedule import indirect_names
from tileir.poly.affine import Affine, total
from tileir.schedule import (
    Nest,
    Refused,
    Segment,
    Use,
    accepted,
    analyse,
    refused,
    refusing,
    renamed,
    with_one_range_each,
)
from tileir.stripe import ir as stripe

nest_of: Final = remembered(analyse)
"""Returns a kernel as a nest, or the reason why it is none."""


@remembered
@refusing
def reduction_nest(kernel: stripe.Block) -> Nest | Refused:
    """Return a reduction kernel as a nest with its indices joined; for other kernels, the reason."""
    nest = accepted(nest_of(kernel))
    return merged(nest) if nest.reductions else NO_REDUCTION


NO_REDUCTION: Final = refused("TR113")


def merged(nest: Nest, flat: Collection[str] = ()) -> Nest:
    """Return the nest with neighbouring indices joined, among outer indices and those of each reduction.

    Uses of memory are then flat, with one axis: the distance from the start of the dense tensor. Allocations keep their
    axes, except those already ``flat``.
    """
    if any(indirect_names(segment) for segment in nest.segments):
        return nest
    local = {allocation.name for allocation in nest.allocations if allocation.name not in flat}
    fixed = _fixed_indices(nest, local)
    pairs = _pairs(nest.indices, nest.uses, fixed)
    segments = []
    for segment in nest.segments:
        inner = _pairs(segment.loops, segment.uses, fixed)
        segments.append((segment, inner))
    if not pairs and not any(inner for _, inner in segments):
        return nest
    rebuilt = tuple(_merged_segment(segment, [*pairs, *inner], local) for segment, inner in segments)
    return with_one_range_each(attrs.evolve(nest, indices=_joined(nest.indices, pairs), segments=rebuilt))


def with_joined_rows(nest: Nest) -> Nest:
    """Return the nest with indices also joined inside allocations, which then have one axis."""
    wide = {r.name: r.shape for r in nest.allocations if sum(size > 1 for size in r.shape.sizes) > 1}
    if not wide or any(math.prod(use.sizes) > 1 for use in nest.uses if use.root in wide):
        return nest
    refinements = tuple(
        stripe.allocation(r.name, r.shape.dtype, (r.shape.elements,), r.location) if r.name in wide else r
        for r in nest.kernel.refinements
    )
    segments = tuple(
        attrs.evolve(each, uses=tuple(_flat(use, _same) if use.root in wide else use for use in each.uses))
        for each in nest.segments
    )
    flat = attrs.evolve(nest, kernel=attrs.evolve(nest.kernel, refinements=refinements), segments=segments)
    after = merged(flat, wide)
    return nest if after is flat else after


def _same(address: Affine) -> Affine:
    return address


def joined(indices: Sequence[stripe.Index], uses: Sequence[Use]) -> tuple[tuple[stripe.Index, ...], tuple[Use, ...]]:
    """Join neighbouring indices that are one linear index on all of ``uses``; return them and the flattened uses."""
    pairs = _pairs(indices, uses, frozenset())
    if not pairs:
        return tuple(indices), tuple(uses)
    move = _mover(pairs)
    return _joined(tuple(indices), pairs), tuple(_flat(use, move) for use in uses)


def _fixed_indices(nest: Nest, local: Collection[str]) -> frozenset[str]:
    """Return the indices that cannot be joined: those used as values, and those of local memory.

    The axes of local memory stay as they are.
    """
    names = {i for s in nest.segments for c in s.constraints for i in c.indices}
    names.update(i for use in nest.uses if use.root in local for affine in use.access for i in affine.indices)
    statements = (statement for segment in nest.segments for statement in segment.statements)
    names.update(i for each in statements if isinstance(each, stripe.LoadIndex) for i in each.affine.indices)
    return frozenset(names)


def _pairs(
    indices: Sequence[stripe.Index], uses: Sequence[Use], fixed: frozenset[str]
) -> list[tuple[stripe.Index, stripe.Index, int]]:
    """Return (outer, inner, joint range) of neighbours to join, in order."""
    result: list[tuple[stripe.Index, stripe.Index, int]] = []
    strides: dict[tuple[Use, str], int] = {(use, i.name): use.stride(i.name) for use in uses for i in indices}
    left = list(indices)
    position = 0
    while position + 1 < len(left):
        outer, inner = left[position : position + 2]
        linear = all(strides[use, outer.name] == inner.range * strides[use, inner.name] for use in uses)
        if linear and not fixed.intersection((outer.name, inner.name)):
            both = attrs.evolve(outer, range=outer.range * inner.range)
            strides.update({(use, outer.name): strides[use, inner.name] for use in uses})
            result.append((outer, inner, both.range))
            left[position : position + 2] = [both]
        else:
            position += 1
    return result


def _joined(
    indices: tuple[stripe.Index, ...], pairs: Sequence[tuple[stripe.Index, stripe.Index, int]]
) -> tuple[stripe.Index, ...]:
    ranges = {outer.name: size for outer, _, size in pairs}
    gone = {inner.name for _, inner, _ in pairs}
    return tuple(attrs.evolve(i, range=ranges.get(i.name, i.range)) for i in indices if i.name not in gone)


def _merged_segment(
    segment: Segment, pairs: Sequence[tuple[stripe.Index, stripe.Index, int]], local: Collection[str]
) -> Segment:
    move = _mover(pairs)
    uses = tuple(use if use.root in local else _flat(use, move) for use in segment.uses)
    return attrs.evolve(segment, loops=_joined(segment.loops, pairs), uses=uses)


def _mover(pairs: Sequence[tuple[stripe.Index, stripe.Index, int]]) -> Callable[[Affine], Affine]:
    def move(address: Affine) -> Affine:
        for outer, inner, _ in pairs:
            if inner.name in address.indices:
                address = address.substitute({outer.name: Affine(), inner.name: Affine.index(outer.name)})
        return address

    return move


def _flat(use: Use, move: Callable[[Affine], Affine]) -> Use:
    parts = zip(use.access, use.strides, strict=True)
    address = total(affine * stride for affine, stride in parts)
    return attrs.evolve(use, access=(move(address),), strides=(1,), sizes=(1,))


def made_once(statements: Iterable[stripe.Statement]) -> list[stripe.Statement]:
    """Return the statements of a flat body without common subexpressions.

    A store to any view invalidates earlier loads.
    """
    same: dict[str, str] = {}
    known: dict[stripe.Statement, str] = {}
    result: list[stripe.Statement] = []
    for statement in statements:
        new = renamed(statement, same, {}) if same else statement
        into = stripe.scalar_output(new)
        if into is None:
            known = {key: name for key, name in known.items() if not isinstance(key, stripe.Load)}
            result.append(new)
            continue
        key = renamed(new, {into: ""}, {})
        if key in known:
            same[into] = known[key]
        else:
            known[key] = into
            result.append(new)
    return result
