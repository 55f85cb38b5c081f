"""Checks of what is said about order and place: dependencies, and memory that is placed at bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.errors import Diagnostic
from tileir.stripe.dependences import order_of, requirements
from tileir.stripe.ir import Direction
from tileir.stripe.lifetimes import clashes

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from tileir.stripe.check.scope import Scope


def check_dependencies(scope: Scope) -> Iterator[Diagnostic]:
    """Dependencies name earlier statements of the same block."""
    for number, statement in enumerate(scope.block.statements):
        for dependency in statement.deps:
            if not 0 <= dependency < number:
                message = f"statement {number} of {scope.place} depends on {dependency}, which is not before it"
                yield Diagnostic("TIL509", message)


def check_order(scope: Scope) -> Iterator[Diagnostic]:
    """Where a block has dependencies, they order all statements that must not run at the same time."""
    statements = scope.block.statements
    if not any(statement.deps for statement in statements):
        return
    if any(not 0 <= dep < number for number, statement in enumerate(statements) for dep in statement.deps):
        return
    order = order_of(statements)
    for number, needed in enumerate(requirements(scope)):
        for earlier in needed:
            if not order.follows(number, earlier) and not _reaches(scope, number, earlier):
                message = (
                    f"statement {number} of {scope.place} must wait for {earlier}, which shares memory or a scalar"
                    " with it, but its dependencies do not say so: run the pass compute_deps last"
                )
                yield Diagnostic("TIL513", message)


def _reaches(scope: Scope, later: int, earlier: int) -> bool:
    """Return whether ``later`` follows ``earlier`` by way of any number of dependencies."""
    seen = {later}
    pending = [later]
    while pending:
        for dep in scope.block.statements[pending.pop()].deps:
            if dep == earlier:
                return True
            if dep > earlier and dep not in seen:
                seen.add(dep)
                pending.append(dep)
    return False


def check_placement(scope: Scope, lasting: Container[str] = ()) -> Iterator[Diagnostic]:
    """Memory that is placed at the same bytes of one location is not in use at the same time.

    ``lasting`` names allocations of the block that are in use all the time.
    """
    if all(view.offset is None or view.direction is not Direction.NONE for view in scope.block.refinements):
        return
    for first, second in clashes(scope.block, lasting):
        message = (
            f"{first!r} and {second!r} in {scope.place} are placed at the same bytes while both are in use: run the"
            " pass memory_placement again"
        )
        yield Diagnostic("TIL514", message)
