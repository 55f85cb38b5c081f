"""Renaming of the views and scalars of a kernel, if the new names are free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileir.core.nodes import attrs
from tileir.stripe.blocks import Block, Direction, Statement, renamed, scalar_output


def with_names(block: Block, names: Mapping[str, str]) -> Block:
    """Return the block of a kernel with its views and scalars, at any depth, renamed; sources stay."""
    return _renamed(block, names, {})


def _renamed(block: Block, names: Mapping[str, str], outer: Mapping[str, str]) -> Block:
    """Return a renamed block; ``outer`` has the new names of its parent's views. Nesting is bounded."""
    views = _free(names, [view.name for view in block.refinements])
    scalars = _free(names, [name for name in map(scalar_output, block.statements) if name is not None])
    return attrs.evolve(
        block,
        refinements=tuple(
            attrs.evolve(
                view,
                name=views.get(view.name, view.name),
                source=view.source if view.direction is Direction.NONE else outer.get(view.source, view.source),
            )
            for view in block.refinements
        ),
        statements=tuple(_statement(statement, names, views, scalars) for statement in block.statements),
    )


def _free(names: Mapping[str, str], used: Iterable[str]) -> dict[str, str]:
    """Return the new names of those in use; none if two would become one."""
    found = {name: names.get(name, name) for name in used}
    return found if len(set(found.values())) == len(found) else {}


def _statement(
    statement: Statement, names: Mapping[str, str], views: Mapping[str, str], scalars: Mapping[str, str]
) -> Statement:
    return _renamed(statement, names, views) if isinstance(statement, Block) else renamed(statement, scalars, views)
