"""Names for people: views and scalars of a kernel called after the memory that a launch of it is on.

Kernels that are equal but for names are one, under the names of the first. In text each launch has names of its own
again, where they are free; whoever reads the text back finds the same kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.stripe.ir import Block, Constant, Convert, Direction, Intrinsic, Load, LoadIndex, Special, Store
from tileir.stripe.kernel_table import launched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.stripe.ir import Kernel, Launch, Statement


def named(kernel: Kernel, launch: Launch) -> Block:
    """Return the block of a launch, with the names of its arguments where the kernel has those of its parameters."""
    block = launched(kernel, launch)
    names = {own.name: name for own, name in zip(kernel.parameters, launch.arguments, strict=True) if own.name != name}
    return _renamed(block, names, {}) if names else block


def _renamed(block: Block, names: Mapping[str, str], outer: Mapping[str, str]) -> Block:
    """Return a block with other names; ``outer`` has the new names of views around it. Nesting is bounded."""
    views = _free(names, [view.name for view in block.refinements])
    scalars = _free(names, [s.into for s in block.statements if not isinstance(s, Store | Special | Block)])
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
    def view(name: str) -> str:
        return views.get(name, name)

    def scalar(name: str) -> str:
        return scalars.get(name, name)

    match statement:
        case Block():
            return _renamed(statement, names, views)
        case Load(source=source, into=into, index=index):
            place = None if index is None else scalar(index)
            return attrs.evolve(statement, source=view(source), into=scalar(into), index=place)
        case Store(source=source, into=into, index=index):
            place = None if index is None else scalar(index)
            return attrs.evolve(statement, source=scalar(source), into=view(into), index=place)
        case Intrinsic(inputs=inputs, into=into):
            return attrs.evolve(statement, inputs=tuple(map(scalar, inputs)), into=scalar(into))
        case Convert(input=value, into=into):
            return attrs.evolve(statement, input=scalar(value), into=scalar(into))
        case LoadIndex(into=into) | Constant(into=into):
            return attrs.evolve(statement, into=scalar(into))
        case Special(inputs=inputs, outputs=outputs):
            return attrs.evolve(statement, inputs=tuple(map(view, inputs)), outputs=tuple(map(view, outputs)))
