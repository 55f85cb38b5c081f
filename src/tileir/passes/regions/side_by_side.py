"""Kernels that write disjoint elements of a tensor, such as one per residue, in one launch.

Each alone would leave most of a device idle at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.dependences import roots
from tileir.passes.analysis.rows import are_apart, counts_of
from tileir.passes.base import with_kernels
from tileir.stripe.ir import BESIDE, Block, Program, Refinement, Statement, views_read, views_written


@attrs.frozen
class SideBySide:
    """Launch consecutive kernels that write disjoint elements of one tensor together (horizontal fusion).

    None reads an output of another. The longest comes first. A tag tells the lowering.
    """

    name: ClassVar[str] = "side_by_side"

    def __call__(self, program: Program) -> Program:
        """Return the program with these kernels tagged."""
        behind = roots(program)
        statements: list[Statement] = []
        run: list[Block] = []
        found = False
        for statement in (*program.main.statements, None):
            if isinstance(statement, Block) and run and all(_are_apart(each, statement, behind) for each in run):
                run.append(statement)
                continue
            if len(run) > 1:
                run.sort(key=_operations, reverse=True)
                run = [attrs.evolve(each, tags=each.tags.add(**{BESIDE: n})) for n, each in enumerate(run)]
                found = True
            statements += run
            run = [statement] if isinstance(statement, Block) else []
            statements += [] if statement is None or run else [statement]
        return with_kernels(program, tuple(statements)) if found else program


def _are_apart(one: Block, other: Block, behind: Mapping[str, str]) -> bool:
    """Return whether two kernels write one tensor, and neither accesses an element that the other writes."""
    written, read = (
        [{behind[name] for name in names(each)} for each in (one, other)] for names in (views_written, views_read)
    )
    common = written[0] & written[1]
    if not common or written[0] & read[1] or written[1] & read[0]:
        return False
    views = [[view for view in each.refinements if behind.get(view.source) in common] for each in (one, other)]
    return all(
        _write_apart(a, b, one, other) for a in views[0] for b in views[1] if behind[a.source] == behind[b.source]
    )


def _write_apart(a: Refinement, b: Refinement, one: Block, other: Block) -> bool:
    counts, many = counts_of(a, one.ranges), counts_of(b, other.ranges)
    same = a.source == b.source and a.shape == b.shape
    return same and counts is not None and many is not None and are_apart((a, counts), (b, many))


def _operations(block: Block) -> int:
    return block.points * max(1, sum(map(_operations, block.blocks)))
