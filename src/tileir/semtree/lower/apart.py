"""Pipelines of which one warp makes all copies, while the others multiply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tileir.core import Target, fail
from tileir.semtree import ir as sem
from tileir.semtree.lower.loops import grid_indices
from tileir.stripe import ir as stripe

THREADS: Final = 4 * sem.WARP
"""Threads beside those of a kernel where one warp copies: those that change how many registers they have with it."""


def is_apart(pipeline: stripe.Block, target: Target) -> bool:
    """Return whether a warp of its own makes the copies of a pipeline."""
    copies = (each.instruction for each in pipeline.blocks if isinstance(each.instruction, stripe.Copy))
    asked = isinstance(pipeline.instruction, stripe.Pipeline) and pipeline.instruction.registers
    return bool(asked) and target.bulk_copies and all(copy.box for copy in copies)


def teams_of(kernel: stripe.Block, target: Target) -> int:
    """Return how many teams multiply while a warp of its own copies; 1 where none does."""
    found = [each for each in kernel.nested() if is_apart(each, target)]
    return max((asked.teams for each in found for asked in _pipelines(each)), default=1)


def in_roles(kernel: stripe.Block, body: list[sem.Stmt], copies: list[sem.Stmt], threads: int) -> list[sem.Stmt]:
    """Return the body of a kernel of so many threads, or roles where copies are apart.

    Raises:
        TileError: TIL502, the pipeline of these copies does not run once for each point of the grid.
    """
    if not copies:
        return body
    (asked, *others) = _pipelines(kernel)
    inside = any(each.instruction is asked for each in kernel.blocks)
    grid = grid_indices(kernel)
    moving = any(index.range > 1 and index not in grid for index in kernel.indices)
    if others or not inside or moving or kernel.constraints or threads % (THREADS * asked.teams):
        message = f"copies of the kernel {kernel.name or '(unnamed)'} are made by a warp of its own: it must have one"
        raise fail("TIL502", f"{message} pipeline, in no loop, and a multiple of {THREADS} threads in each team")
    few, many = asked.registers
    warps = threads // sem.WARP
    multiplying = sem.WarpRole(0, warps // asked.teams, tuple(body), many, asked.teams)
    return [multiplying, sem.WarpRole(warps, 1, tuple(copies), few)]


def _pipelines(block: stripe.Block) -> Iterator[stripe.Pipeline]:
    """Yield the instructions of pipelines of which a warp of its own makes the copies."""
    for each in block.nested():
        if isinstance(each.instruction, stripe.Pipeline) and each.instruction.registers:
            yield each.instruction
