"""Names for people: views and scalars of a kernel called after the memory that a launch of it is on.

Kernels that are equal but for names are one, under the names of the first. In text each launch has names of its own
again, where they are free; whoever reads the text back finds the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tileir.stripe.blocks import Block, Direction, renamed, scalar_output
from tileir.stripe.ir import Kernel, Launch, Statement
from tileir.stripe.lower.kernel_table import launched


def named(kernel: Kernel, launch: Launch) -> Block:
    """Return the block of a launch, with the names of its arguments where the kernel has those of its parameters."""
    block = launched(kernel, launch)
    names = {own.name: name for own, name in zip(kernel.parameters, launch.arguments, strict=True) if own.name != name}
    return _renamed(block, names, {}) if names else block


def _renamed(block: Block, names: Mapping[str, str], outer: Mapping[str, str]) -> Block:
    """Return a block with other names; ``outer`` has the new names of views around it. Nesting is bounded."""
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
    """Return the new names of those in use; none where two would become one."""
    found = {name: names.get(name, name) for name in used}
    return found if len(set(found.values())) == len(found) else {}


def _statement(
    statement: Statement, names: Mapping[str, str], views: Mapping[str, str], scalars: Mapping[str, str]
) -> Statement:
    return _renamed(statement, names, views) if isinstance(statement, Block) else renamed(statement, scalars, views)
