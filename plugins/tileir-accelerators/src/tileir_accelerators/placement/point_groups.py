"""Grouping of several points of a block into one, so that their statements can overlap."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed, renamed
from tileir.stripe.ir import Block, Direction, Index, Refinement, Statement, scalar_output
from tileir_accelerators.placement.partition import moves_apart


def grouped(block: Block, depth: int) -> Block:
    """Return a block each point of which does the work of ``depth`` points of ``block``; ``block`` if impossible.

    It groups the last index whose range ``depth`` divides, which no constraint tests, and whose values do not share
    elements of a result that they move. Views that the index does not move are shared; others are replicated ``depth``
    times.
    """
    index = next((i for i in reversed(block.indices) if _divides(block, i, depth)), None)
    if depth == 1 or index is None:
        return block
    indices = tuple(attrs.evolve(i, range=i.range // depth) if i is index else i for i in block.indices)
    names = NameScope.of(r.name for r in block.refinements)
    scalars = NameScope.of(name for s in block.statements if (name := scalar_output(s)) is not None)
    views: dict[str, Refinement] = {}
    statements: list[Statement] = []
    for number in range(depth):
        point = {index.name: Affine.index(index.name) * depth + number}
        copy = reindexed(block, indices, point)
        new = _views(block, copy, number, names)
        views.update((view.name, view) for view in new.values())
        called = {old: view.name for old, view in new.items()}
        values = _fresh(block, scalars) if number else {}
        statements.extend(renamed(statement, values, called) for statement in copy.statements)
    tags = block.tags.add(pipeline_depth=depth)
    return attrs.evolve(
        block, indices=indices, refinements=tuple(views.values()), statements=tuple(statements), tags=tags
    )


def _divides(block: Block, index: Index, depth: int) -> bool:
    """Return whether ``depth`` values of an index can be grouped into one point."""
    if index.affine is not None or index.range % depth or index.is_marked:
        return False
    if any(index.name in constraint.indices for constraint in block.constraints):
        return False
    written = (r for r in block.refinements if r.direction.writes)
    return all(moves_apart(r, index.name) or not _moves(r, index.name) for r in written)


def _moves(view: Refinement, name: str) -> bool:
    return any(name in affine.indices for affine in view.access)


def _views(block: Block, copy: Block, number: int, names: NameScope) -> dict[str, Refinement]:
    """Return the refinements of one of several points, by their names in ``block``."""
    found: dict[str, Refinement] = {}
    for old, new in zip(block.refinements, copy.refinements, strict=True):
        shared = new == old and old.direction is not Direction.NONE
        found[old.name] = new if shared or number == 0 else attrs.evolve(new, name=names.fresh(f"{old.name}_{number}"))
    return found


def _fresh(block: Block, scalars: NameScope) -> Mapping[str, str]:
    """Return new names for all scalars of a block."""
    defined = (scalar_output(statement) for statement in block.statements)
    return {name: scalars.fresh(name) for name in defined if name is not None}
