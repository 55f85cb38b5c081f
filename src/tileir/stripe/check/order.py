"""Checks of what is said about order and place: dependencies, and memory that is placed at bytes.

Other checks see that memory into which data choose what is written is brought in before all of it is read.

The step of a loop writes one row of what the loop stacks up, for instance, and data tell which. Which elements are
written is not known, but how many are: what reads more of them, such as the copy that brings results out of an inner
memory, reads what nothing has written, and writes it over what was there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import prod

from tileir.core.errors import Diagnostic
from tileir.core.graphs.reaching import reached
from tileir.stripe.check.scope import Scope
from tileir.stripe.ir import Block, Direction, Load, Refinement, Special, Statement, Store, views_read


def check_dependencies(scope: Scope) -> Iterator[Diagnostic]:
    """Dependencies name earlier statements of the same block."""
    for number, statement in enumerate(scope.block.statements):
        for dependency in statement.deps:
            if not 0 <= dependency < number:
                message = f"statement {number} of {scope.place} depends on {dependency}, which is not before it"
                yield Diagnostic("TIL509", message)


def check_order(scope: Scope) -> Iterator[Diagnostic]:
    """Require that dependencies of a block, if it has any, order all statements that must not run at the same time."""
    statements = scope.block.statements
    if not any(statement.deps for statement in statements):
        return
    if any(not 0 <= dep < number for number, statement in enumerate(statements) for dep in statement.deps):
        return
    from tileir.stripe.dependences import order_of, requirements  # processors have no use for dependencies

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
    statements = scope.block.statements
    return earlier in reached((later,), lambda number: [d for d in statements[number].deps if d >= earlier])


def check_placement(scope: Scope, lasting: Container[str] = ()) -> Iterator[Diagnostic]:
    """Memory that is placed at the same bytes of one location is not in use at the same time.

    ``lasting`` names allocations of the block that are in use all the time.
    """
    if all(view.offset is None or view.direction is not Direction.NONE for view in scope.block.refinements):
        return
    from tileir.stripe.lifetimes import clashes  # nor for memory at bytes

    for first, second in clashes(scope.block, lasting):
        message = (
            f"{first!r} and {second!r} in {scope.place} are placed at the same bytes while both are in use: run the"
            " pass memory_placement again"
        )
        yield Diagnostic("TIL514", message)


def check_content(scope: Scope) -> Iterator[Diagnostic]:
    """No statement reads more elements of an allocation of its block than those before may write, where data choose."""
    if scope.parent is None:
        return
    for allocation in scope.block.refinements:
        if allocation.direction is Direction.NONE and allocation.shape.elements > 1:
            yield from _check_allocation(scope, allocation)


def _check_allocation(scope: Scope, allocation: Refinement) -> Iterator[Diagnostic]:
    name, elements, written, chosen = allocation.name, allocation.shape.elements, 0, False
    for number, statement in enumerate(scope.block.statements):
        if written >= elements:
            return
        if chosen and _surely_read(statement, name, elements) > written:
            message = (
                f"statement {number} of {scope.place} reads all elements of {name!r}, of which statements before it can"
                f" have written {written} of {elements} only: bring in the others first"
            )
            yield Diagnostic("TIL506", message)
            return
        written += _most_written(statement, name, elements)
        chosen = chosen or _chooses(statement, name)


def _most_written(statement: Statement, name: str, elements: int) -> int:
    """Return how many elements a statement may write through a view at most; nesting is bounded, so recursion is."""
    match statement:
        case Store(into=into):
            return int(into == name)
        case Special(outputs=outputs):
            return elements if name in outputs else 0
        case Block():
            views = [r for r in statement.refinements if r.source == name and r.direction.writes]
            inner = sum(_most_written(s, r.name, elements) for r in views for s in statement.statements)
            return inner * prod(index.range for index in statement.indices) if inner else 0
        case _:
            return 0


def _chooses(statement: Statement, name: str) -> bool:
    """Return whether data choose which elements a statement writes through a view."""
    if isinstance(statement, Block):
        views = [r.name for r in statement.refinements if r.source == name and r.direction.writes]
        return any(_chooses(inner, view) for view in views for inner in statement.statements)
    return isinstance(statement, Store) and statement.into == name and statement.index is not None


def _surely_read(statement: Statement, name: str, elements: int) -> int:
    """Return how many different elements a statement reads through a view at least, where that is plain to see."""
    match statement:
        case Special(name="copy" | "transpose", inputs=inputs):
            return elements if name in inputs else 0
        case Block(constraints=()):
            ranges = {index.name: index.range for index in statement.indices if index.affine is None}
            views = [r for r in statement.refinements if r.source == name and r.direction is Direction.IN]
            apart = [_points_apart(r, ranges) for r in views if _is_loaded(statement, r.name)]
            inner = [_surely_read(s, r.name, r.shape.elements) for r in views for s in statement.statements]
            return max((*apart, *inner), default=0)
        case _:
            return 0


def _is_loaded(block: Block, name: str) -> bool:
    return any(isinstance(s, Load) and s.index is None and name in views_read(s) for s in block.statements)


def _points_apart(view: Refinement, ranges: dict[str, int]) -> int:
    """Return how many elements the points of a block see, if each index moves along an axis of its own; 0 otherwise."""
    moving = [index for affine in view.access for index in affine.indices]
    alone = len(moving) == len(set(moving)) and all(len(affine.indices) <= 1 for affine in view.access)
    if not alone or view.shape.elements != 1 or not ranges.keys() >= set(moving):
        return 0
    return prod(ranges[index] for index in moving)
