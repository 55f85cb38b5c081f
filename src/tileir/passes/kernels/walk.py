"""Traversal and rewriting of nested blocks with the blocks around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tileir.core import attrs, rewritten
from tileir.passes.base import selected, selected_kernel
from tileir.stripe import KERNEL, Block, Dim, Direction, Program, Refinement, Statement, launched, launches
from tileir.stripe.check.scope import Scope, enter
from tileir.stripe.flattening import with_entry


def rewrite_blocks(
    program: Program,
    function: Callable[[Scope], Block],
    reqs: Iterable[str] = (),
    *,
    entry: bool = False,
    skip_tags: Iterable[str] = (),
) -> Program:
    """Replace each block that carries all tags of ``reqs``, inner blocks first, by the result of ``function``.

    Its scope has the block with inner blocks already replaced, inside the original outer blocks. The program itself is
    returned if nothing changed.

    Args:
        program: The program.
        function: Returns the replacement.
        reqs: Tags, or words for positions, such as ``kernel``.
        entry: Whether the entry block takes part.
        skip_tags: Blocks with one of these stay as they are.
    """
    chosen = choice(program, reqs, skip_tags)
    return rewrite_chosen(program, function, lambda block, parent: chosen(block) and (entry or parent is not None))


def rewrite_chosen(
    program: Program, function: Callable[[Scope], Block], chosen: Callable[[Block, Block | None], bool]
) -> Program:
    """Replace blocks as :func:`rewrite_blocks`; ``chosen`` selects them by the block and the one around it."""
    root = enter(program.entry, None, 0)
    new = _inside(root, function, chosen)
    if chosen(root.block, None):
        new = function(enter(new, None, 0))
    return with_entry(program, new)


def choice(program: Program, reqs: Iterable[str], skip_tags: Iterable[str] = ()) -> Callable[[Block], bool]:
    """Return a predicate for the blocks of a program that carry all tags of ``reqs``, and none of ``skip_tags``.

    Kernels are known by their position in the program, and so match the word ``kernel``.
    """
    wanted, skipped = tuple(reqs), tuple(skip_tags)
    kernels = frozenset(id(launched(program.kernels[launch.kernel], launch)) for launch in launches(program.works))

    def chosen(block: Block) -> bool:
        is_kernel = id(block) in kernels
        if any(tag in block.tags or (is_kernel and tag == KERNEL) for tag in skipped):
            return False
        return selected_kernel(block, wanted) if is_kernel else selected(block, wanted)

    return chosen


def _inside(scope: Scope, function: Callable[[Scope], Block], chosen: Callable[[Block, Block | None], bool]) -> Block:
    """Return the block of ``scope`` with the blocks inside it rewritten; nesting is bounded, so recursion is."""

    def rewrite(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, Block):
            return (statement,)
        new = _inside(enter(statement, scope, 0), function, chosen)
        return (function(enter(new, scope, 0)) if chosen(statement, scope.block) else new,)

    statements = rewritten(scope.block.statements, rewrite)
    return scope.block if statements is scope.block.statements else attrs.evolve(scope.block, statements=statements)


def with_views(
    statement: Statement,
    parents: Mapping[str, Refinement],
    view: Callable[[Refinement, Refinement], Refinement | None],
) -> Statement:
    """Return a statement with ``view`` applied to its views of ``parents``, and to nested views of these.

    ``view`` gets a view and its present source; where it returns None, all stays as it was.
    """
    if not isinstance(statement, Block):
        return statement
    views = [r for r in statement.refinements if r.direction is not Direction.NONE and r.source in parents]
    changed = {r.name: new for r in views if (new := view(r, parents[r.source])) is not None}
    if not changed:
        return statement
    refinements = tuple(changed.get(r.name, r) for r in statement.refinements)
    statements = rewritten(statement.statements, lambda s: (with_views(s, changed, view),))
    return attrs.evolve(statement, refinements=refinements, statements=statements)


def refitted(statement: Statement, parents: Mapping[str, Refinement]) -> Statement:
    """Return a statement whose views of ``parents``, and nested views, have the strides of their sources."""
    return with_views(statement, parents, fitted)


def fitted(view: Refinement, source: Refinement) -> Refinement:
    """Return a view with the strides of ``source``, which has the same axes."""
    dims = zip(view.shape.dims, source.shape.dims, strict=True)
    return attrs.evolve(view, shape=attrs.evolve(view.shape, dims=tuple(Dim(a.size, b.stride) for a, b in dims)))
