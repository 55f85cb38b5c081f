"""Elements accessed by refinements, and executed points of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine, Rational
from tileir.poly.bounds import Domain
from tileir.poly.coverage import always_hit
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_inputs,
    scalar_output,
)

PAGE_BYTES: Final = 4096
"""Page size: the unit of address translation, within which hardware prefetches."""


def address(refinement: Refinement) -> Affine:
    """Return the offset of a view from its source, in elements."""
    offset: Rational = 0
    terms: dict[str, Rational] = {}
    for access, dim in zip(refinement.access, refinement.shape.dims, strict=True):
        offset += access.offset * dim.stride
        for name, coefficient in access.terms:
            terms[name] = terms.get(name, 0) + coefficient * dim.stride
    return Affine.of(terms, offset)


def constants(program: Program) -> frozenset[str]:
    """Return the names of constants, and of temporaries computed from constants alone."""
    found = {each.name for each in program.memory if each.constant}
    for kernel in program.main.blocks:
        views = [r for r in kernel.refinements if r.source]
        if all(r.source in found for r in views if r.direction.reads):
            found.update(r.source for r in views if r.direction.writes)
    return frozenset(found).difference(program.outputs)


def is_element(refinement: Refinement) -> bool:
    """Return whether one point accesses one element only."""
    return not [dim for dim in refinement.shape.dims if dim.size != 1]


def lone_store(kernel: Block) -> tuple[Store, Refinement] | None:
    """Return the only store of a flat kernel over plain indices, with its view, the only one written.

    None for other kernels, and if the view shows more than an element or has data-dependent places.
    """
    stores = [s for s in kernel.statements if isinstance(s, Store)]
    written = [r for r in kernel.refinements if r.direction is not Direction.IN]
    flat = not any(isinstance(s, Block | Special) for s in kernel.statements)
    if not flat or not all(i.is_plain for i in kernel.indices) or len(stores) != 1 or len(written) != 1:
        return None
    return (stores[0], written[0]) if stores[0].index is None and is_element(written[0]) else None


def part_over(access: Affine, ranges: Mapping[str, int]) -> Affine:
    """Return the terms over the indices in ``ranges``, shifted so that the least value is 0."""
    part = Affine.of({name: c for name, c in access.terms if name in ranges})
    return part - part.bounds(ranges)[0]


def swept(view: Refinement, ranges: Mapping[str, int]) -> Refinement:
    """Return a view of all elements that a view shows over all values of the indices in ``ranges``."""
    parts = [part_over(access, ranges) for access in view.access]
    dims = tuple(
        attrs.evolve(dim, size=dim.size + int(part.bounds(ranges)[1]))
        for dim, part in zip(view.shape.dims, parts, strict=True)
    )
    access = tuple(whole - part for whole, part in zip(view.access, parts, strict=True))
    return attrs.evolve(view, access=access, shape=attrs.evolve(view.shape, dims=dims))


def views_in_one_place(views: Iterable[Refinement], statements: Iterable[Statement]) -> frozenset[str]:
    """Return the views with a data-dependent element that is equal for all points, since no index moves its place.

    An example is a slice of a sequence at the step number of a loop.
    """
    moved = {view.name for view in views if any(access.terms for access in view.access)}
    varying: set[str] = set()
    chosen: set[str] = set()
    others: set[str] = set()
    for statement in statements:
        into = scalar_output(statement)
        moves = isinstance(statement, Load) and statement.source in moved
        moves |= not isinstance(statement, Load | Store | Constant | Intrinsic | Convert)
        if into is not None and (moves or not varying.isdisjoint(scalar_inputs(statement))):
            varying.add(into)
        if isinstance(statement, Load | Store):
            view = statement.source if isinstance(statement, Load) else statement.into
            (others if statement.index is None or statement.index in varying else chosen).add(view)
    return frozenset(chosen - others)


def bytes_of_a_row(kernel: Block, view: Refinement, least: int) -> int:
    """Return the bytes that a flat reduction reads through a view per result, at least ``least`` per scattered term."""
    moved = {name for r in kernel.refinements if r.merges for access in r.access for name in access.indices}
    terms = prod(i.range for i in kernel.indices if i.name not in moved)
    along = any(name not in moved for name, step in address(view).terms if step == 1)
    return terms * (view.shape.dtype.itemsize if along else max(view.shape.dtype.itemsize, least))


def reads_neighbours(kernel: Block, index: str) -> bool:
    """Return whether some input is contiguous in memory along an index of a flat kernel."""
    return any(r.direction is Direction.IN and address(r).coefficient(index) == 1 for r in kernel.refinements)


def always_reached(
    constraints: Sequence[Affine], outer: Mapping[str, int], inner: Mapping[str, int], given: Sequence[Affine] = ()
) -> bool:
    """Return whether every point of ``outer`` certainly has one of ``inner`` that meets all constraints.

    Points of ``outer`` at which one of the affines ``given`` is negative do not count.
    """
    if any(count < 1 for count in inner.values()):
        return False
    domain = Domain((*outer.items(), *inner.items()), (), tuple(constraints))
    return always_hit(domain, outer, given)


def observed_indices(block: Block) -> frozenset[str]:
    """Return the indices of a block that its body uses as values, not only for the places of views."""
    affines = list(block.constraints)
    for statement in block.statements:
        if isinstance(statement, LoadIndex):
            affines.append(statement.affine)
        elif isinstance(statement, Block):
            affines.extend(index.affine for index in statement.indices if index.affine is not None)
    for location in (block.location, *(view.location for view in block.refinements)):
        affines.extend(unit for device in location for unit in device.units)
    affines.extend(view.cache_unit for view in block.refinements if view.cache_unit is not None)
    return frozenset(name for affine in affines for name in affine.indices)


def known_ranges(block: Block) -> dict[str, int]:
    """Return the ranges of the indices without an affine, which start at 0."""
    return {index.name: index.range for index in block.indices if index.affine is None}
