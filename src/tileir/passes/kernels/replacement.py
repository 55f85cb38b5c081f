"""Kernels of a program replaced by several, launch by launch, with temporaries between them, and remarks on each."""

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
    """Kernels and works that take the place of a kernel.

    Attributes:
        blocks: The kernels, in order.
        memory: Allocations of temporaries that they use, which become the program's.
        facts: Numbers and words about the change, for a remark.
        clears: Whether they also replace the kernel right before, such as one that clears the target of this one.
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
        """Return the program with what became of each kernel, but for those in loops."""
        return replaced(program, self._kernel, getattr(self, "reqs", ()))

    @abstractmethod
    def _kernel(self, kernel: Block, names: NameScope) -> Outcome:
        """Return what stands in the place of a kernel, with names of temporaries from the scope, or why it stays."""


def replaced(program: Program, function: Callable[[Block, NameScope], Outcome], reqs: Iterable[str] = ()) -> Program:
    """Return a program without loops in which others stand for some kernels; itself where each is refused.

    Args:
        program: A program without loops.
        function: Gives what takes the place of a kernel, or why it stays; it takes names of temporaries from the scope.
        reqs: Tags that a kernel must carry.

    """
    return replaced_behind(program, lambda _, kernel, names: function(kernel, names), reqs)


def replaced_behind(
    program: Program, function: Callable[[Statement | None, Block, NameScope], Outcome], reqs: Iterable[str] = ()
) -> Program:
    """Return what :func:`replaced` does; ``function`` also gets what stands right before a kernel, if anything does."""
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
