"""Rewriting the indices and names of a block."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import attrs, rewritten
from tileir.poly.affine import Affine, Rational
from tileir.stripe import Block, Device, Index, LoadIndex, Location, Refinement, Statement, blocks as stripe


def reindexed(block: Block, indices: tuple[Index, ...], values: Mapping[str, Affine]) -> Block:
    """Return ``block`` over other indices, with each index in ``values`` replaced by its affine of new ones."""
    return attrs.evolve(
        block,
        indices=indices,
        constraints=tuple(constraint.substitute(values) for constraint in block.constraints),
        refinements=tuple(moved(refinement, values) for refinement in block.refinements),
        statements=rewritten(block.statements, lambda statement: (with_values(statement, values),)),
        location=_located(block.location, values),
    )


def moved(refinement: Refinement, values: Mapping[str, Affine]) -> Refinement:
    """Return a refinement with the indices of its block replaced."""
    access = tuple(affine.substitute(values) for affine in refinement.access)
    location = _located(refinement.location, values)
    unit = None if refinement.cache_unit is None else refinement.cache_unit.substitute(values)
    return attrs.evolve(refinement, access=access, location=location, cache_unit=unit)


def _located(location: Location, values: Mapping[str, Affine]) -> Location:
    if not any(device.units for device in location):
        return location
    return tuple(_device(device, values) for device in location)


def _device(device: Device, values: Mapping[str, Affine]) -> Device:
    return attrs.evolve(device, units=tuple(unit.substitute(values) for unit in device.units))


def with_values(statement: Statement, values: Mapping[str, Affine]) -> Statement:
    """Return a statement with the indices of its block replaced; indices of nested blocks stay."""
    match statement:
        case LoadIndex(affine=affine):
            new = affine.substitute(values)
            return statement if new is affine else attrs.evolve(statement, affine=new)
        case Block(indices=indices) if any(i.affine is not None for i in indices):
            passed = tuple(
                i if i.affine is None else attrs.evolve(i, affine=i.affine.substitute(values)) for i in indices
            )
            return attrs.evolve(statement, indices=passed)
        case _:
            return statement


def renamed(statement: Statement, scalars: Mapping[str, str], views: Mapping[str, str]) -> Statement:
    """Return a statement with the scalars and refinements of its block renamed, and without dependencies."""
    new = stripe.renamed(statement, scalars, views)
    return attrs.evolve(new, deps=()) if new.deps else new


def in_memory_order(block: Block) -> Block:
    """Order indices, in nested blocks too, by their strides in written views, then in read ones."""
    statements = tuple(in_memory_order(s) if isinstance(s, Block) else s for s in block.statements)
    views = [view for view in block.refinements if view.direction is not stripe.Direction.NONE]

    def distance(index: Index) -> tuple[int, int]:
        steps = [(view.direction.writes, abs(int(_distance_along(view, index.name)))) for view in views]
        written = max((step for writes, step in steps if writes), default=0)
        return -written, -max((step for _, step in steps), default=0)

    return attrs.evolve(block, indices=tuple(sorted(block.indices, key=distance)), statements=statements)


def _distance_along(view: Refinement, index: str) -> Rational:
    axes = zip(view.access, view.shape.dims, strict=True)
    return sum((affine.coefficient(index) * dim.stride for affine, dim in axes), start=0)
