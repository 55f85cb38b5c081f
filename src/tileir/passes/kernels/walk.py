"""How passes reach blocks at any depth, with what stands around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.rewrite import rewritten
from tileir.passes.base import selected
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block
from tileir.stripe.scope import Scope, enter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileir.stripe.ir import Program, Statement


def rewrite_blocks(
    program: Program, function: Callable[[Scope], Block], reqs: Iterable[str] = (), *, entry: bool = False
) -> Program:
    """Replace each block that carries all tags of ``reqs``, inner ones first, by what ``function`` makes of it.

    The scope that it gets has the block with its inner blocks replaced, inside blocks as they were. With ``entry`` the
    entry block takes part. The program itself is returned where nothing changed.
    """
    wanted = tuple(reqs)
    root = enter(program.entry, None, 0)
    new = _inside(root, function, wanted)
    if entry and selected(new, wanted):
        new = function(enter(new, None, 0))
    return with_entry(program, new)


def _inside(scope: Scope, function: Callable[[Scope], Block], reqs: tuple[str, ...]) -> Block:
    """Return the block of ``scope`` with the blocks inside it rewritten; nesting is bounded, so recursion is."""

    def rewrite(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, Block):
            return (statement,)
        new = _inside(enter(statement, scope, 0), function, reqs)
        return (function(enter(new, scope, 0)) if selected(new, reqs) else new,)

    statements = rewritten(scope.block.statements, rewrite)
    return scope.block if statements is scope.block.statements else attrs.evolve(scope.block, statements=statements)
