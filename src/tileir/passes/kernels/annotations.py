"""Validity of order and placement written in programs: they hold for the statements that they were computed for."""

from __future__ import annotations

from typing import Final

from tileir.core import VerifyError, attrs, rewritten
from tileir.stripe.check.verifier import verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Program, Statement
from tileir.stripe.works import in_order

_STALE: Final = frozenset({"TIL509", "TIL513", "TIL514"})
"""What the verifier says of dependencies and offsets that do not hold."""


def verified(program: Program, label: str, since: Program) -> Program:
    """Return what a pass has made of ``since``: without dependencies and offsets if those no longer hold.

    Raises:
        VerifyError: The program breaks another rule, or there were no dependencies and offsets before the pass.
    """
    try:
        verify(program, label, since=since)
    except VerifyError as error:
        if not _STALE.issuperset(d.code for d in error.diagnostics) or _plain(since.entry) is since.entry:
            raise
        program = with_entry(program, _plain(program.entry))
        verify(program, label, since=since)
    return program


def is_plain(program: Program, since: Program | None = None) -> bool:
    """Return whether nothing has dependencies or offsets; kernels that are in ``since``, too, are not looked at."""
    if in_order(program.works) is not program.works or any(each.offset is not None for each in program.memory):
        return False
    known = frozenset() if since is None else frozenset(map(id, since.kernels))
    return all(_is_plain_block(kernel.block) for kernel in program.kernels if id(kernel) not in known)


def _is_plain_block(block: Block) -> bool:
    return all(refinement.offset is None for refinement in block.refinements) and not any(
        statement.deps or (isinstance(statement, Block) and not _is_plain_block(statement))
        for statement in block.statements
    )


def _plain(block: Block) -> Block:
    """Return a block without dependencies and offsets at any depth; nesting is bounded, so recursion is."""
    refinements = rewritten(block.refinements, lambda r: (r if r.offset is None else attrs.evolve(r, offset=None),))
    statements = rewritten(block.statements, lambda s: (_unordered(s),))
    if refinements is block.refinements and statements is block.statements:
        return block
    return attrs.evolve(block, refinements=refinements, statements=statements)


def _unordered(statement: Statement) -> Statement:
    inner = _plain(statement) if isinstance(statement, Block) else statement
    return attrs.evolve(inner, deps=()) if inner.deps else inner
