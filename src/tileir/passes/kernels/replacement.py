"""Kernels of a program replaced by several, launch by launch, with temporaries between them, and remarks on each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tileir.core import NameScope, attrs
from tileir.passes.base import NOT_MEANT, selected_kernel, with_temporaries
from tileir.passes.kernels.expansion import called_block
from tileir.schedule.remarks import Fact, Refused, remark
from tileir.stripe.ir import Block, Program, Refinement, Statement


@attrs.frozen
class Replacement:
    """Kernels and works that take the place of a kernel.

    Attributes:
        blocks: The kernels, in order.
        memory: Allocations of temporaries that they use, which become the program's.
        facts: Numbers and words on what was done, for a remark.

    """

    blocks: tuple[Statement, ...]
    memory: tuple[Refinement, ...] = ()
    facts: tuple[Fact, ...] = ()


def replaced(
    program: Program, function: Callable[[Block, NameScope], Replacement | Refused], reqs: Iterable[str] = ()
) -> Program:
    """Return a program without loops in which others stand for some kernels; itself where each is refused.

    Args:
        program: A program without loops.
        function: Gives what takes the place of a kernel, or why it stays; it takes names of temporaries from the scope.
        reqs: Tags that a kernel must carry.

    """
    names = NameScope.of(memory.name for memory in program.memory)
    wanted = tuple(reqs)
    statements: list[Statement] = []
    added: list[Refinement] = []
    changed = False
    for number, kernel in enumerate(program.main.statements):
        if not isinstance(kernel, Block):
            statements.append(kernel)
            continue
        outcome = function(kernel, names) if selected_kernel(kernel, wanted) else NOT_MEANT
        if isinstance(outcome, Refused):
            remark(called_block(kernel), outcome, number=number)
            statements.append(kernel)
            continue
        remark(called_block(kernel), None, outcome.facts, number)
        statements.extend(outcome.blocks)
        added.extend(outcome.memory)
        changed = True
    return with_temporaries(program, statements, added) if changed else program
