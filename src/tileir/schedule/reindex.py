"""Rewriting the indices and names of a block."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import attrs, rewritten
from tileir.poly.affine import Affine
from tileir.stripe import blocks as stripe
from tileir.stripe.ir import Block, Device, Index, LoadIndex, Location, Refinement, Statement


def reindexed(block: Block, indices: tuple[Index, ...], values: Mapping[str, Affine]) -> Block:
    """Return ``block`` over other indices: each old one that ``values`` holds is replaced by its affine of new ones."""
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
    """Return a statement with the indices of its block replaced; the inside of a nested block has its own."""
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
    """Return a statement with the scalars and refinements of its block renamed; its dependencies are dropped."""
    new = stripe.renamed(statement, scalars, views)
    return attrs.evolve(new, deps=()) if new.deps else new
