"""Replacement of kernels by several, launch by launch, with temporaries between them, and remarks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tileir.core import NameScope, attrs
from tileir.passes.base import NOT_MEANT, selected_kernel, with_temporaries
from tileir.passes.kernels.expansion import called_block
from tileir.schedule.remarks import Fact, Refused, remark
from tileir.stripe.ir import Block, Program, Refinement, Statement


@attrs.frozen
class Replacement:
    """Kernels and works that replace a kernel.

    Attributes:
        blocks: The kernels, in order.
        memory: Allocations of their temporaries, which the program gets.
        facts: Numbers and words about the change, for a remark.
        clears: Whether they also replace the previous kernel, for example one that clears the target of this one.
    """

    blocks: tuple[Statement, ...]
    memory: tuple[Refinement, ...] = ()
    facts: tuple[Fact, ...] = ()
    clears: bool = False


Outcome: TypeAlias = Replacement | Refused
"""Replacement of a kernel by others, or the reason why it stays."""


class ReplacingPass:
    """Base of passes that replace kernels by several: all of them, or those that carry all tags of ``reqs``."""

    __slots__ = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with its kernels outside loops replaced."""
        return replaced(program, self._kernel, getattr(self, "reqs", ()))

    @abstractmethod
    def _kernel(self, kernel: Block, names: NameScope) -> Outcome:
        """Return the replacement of a kernel, or the reason why it stays; ``names`` gives names to temporaries."""


def replaced(program: Program, function: Callable[[Block, NameScope], Outcome], reqs: Iterable[str] = ()) -> Program:
    """Return a program without loops in which other kernels replace some; the program itself if all are refused.

    Args:
        program: A program without loops.
        function: Returns the replacement of a kernel, or why it stays; the scope gives names to temporaries.
        reqs: Tags that a kernel must carry.
    """
    return replaced_behind(program, lambda _, kernel, names: function(kernel, names), reqs)


def replaced_behind(
    program: Program, function: Callable[[Statement | None, Block, NameScope], Outcome], reqs: Iterable[str] = ()
) -> Program:
    """Replace kernels as :func:`replaced`; ``function`` also gets the previous statement, if any."""
    names = NameScope.of(memory.name for memory in program.memory)
    wanted = tuple(reqs)
    statements: list[Statement] = []
    added: list[Refinement] = []
    changed = False
    for number, kernel in enumerate(program.main.statements):
        if not isinstance(kernel, Block):
            statements.append(kernel)
            continue
        before = statements[-1] if statements else None
        outcome = function(before, kernel, names) if selected_kernel(kernel, wanted) else NOT_MEANT
        if isinstance(outcome, Refused):
            remark(called_block(kernel), outcome, number=number)
            statements.append(kernel)
            continue
        remark(called_block(kernel), None, outcome.facts, number)
        statements[len(statements) - outcome.clears :] = outcome.blocks
        added.extend(outcome.memory)
        changed = True
    return with_temporaries(program, statements, added) if changed else program
