"""Statements that no block before them has to precede, moved to the front, so that blocks stand next to each other."""

from __future__ import annotations

import attrs

from tileir.stripe.ir import Block, Statement, scalar_inputs, scalar_output, views_read, views_written


def hoisted(block: Block) -> Block:
    """Return the block with statements that depend on no block inside in front of the blocks; itself where they are.

    Two sums, each set to 0 just before its loop, are set to 0 before both loops then.
    """
    roots = {r.name: r.source or r.name for r in block.refinements}
    front: list[Statement] = []
    rest: list[Statement] = []
    scalars: set[str | None] = set()  # that the rest defines
    read: set[str] = set()  # by the rest
    written: set[str] = set()
    for statement in block.statements:
        reads = {roots[name] for name in views_read(statement)}
        writes = {roots[name] for name in views_written(statement)}
        free = scalars.isdisjoint(scalar_inputs(statement)) and written.isdisjoint(reads | writes)
        if free and read.isdisjoint(writes) and not isinstance(statement, Block):
            front.append(statement)
            continue
        rest.append(statement)
        scalars.add(scalar_output(statement))
        read |= reads
        written |= writes
    statements = (*front, *rest)
    same = all(new is old for new, old in zip(statements, block.statements, strict=True))
    return block if same else attrs.evolve(block, statements=statements, deps=())
