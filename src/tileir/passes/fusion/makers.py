"""Which kernel makes what another one reads, so that this one may compute it itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from tileir.passes.analysis.dependences import roots
from tileir.passes.base import with_kernels
from tileir.passes.kernels.expansion import called_block
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.schedule.rearranging import done_by_steps
from tileir.schedule.remarks import Refused, remark
from tileir.stripe.ir import Block, Program, Statement, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from tileir.schedule.sizes import Producers


def expanded_with_makers(
    program: Program, function: Callable[[Block, Producers], tuple[Block, ...] | Refused]
) -> Program:
    """Return the program with kernels in place of each that may take in what makes the tensors that it reads.

    Launches of one kernel are told apart, since other kernels may stand before them. Kernels that are no longer needed
    go, and so do those whose work others do. Whoever listens is told the outcomes.

    Args:
        program: A program without loops.
        function: What becomes of a kernel; its second argument returns the kernel that makes a tensor.
    """
    makers = Makers.of(program)
    statements: list[tuple[Statement, ...]] = []
    joined: set[int] = set()
    for number, kernel in enumerate(program.main.statements):
        statements.append((kernel,))
        if isinstance(kernel, Block):
            made = function(kernel, partial(makers.before, number, joined))
            told = done_by_steps(made)
            refusal = told if isinstance(told, Refused) else None
            remark(called_block(kernel), refusal, () if isinstance(told, Refused) else told.facts, number)
            if not isinstance(made, Refused):
                statements[number] = made
                for maker in makers.replaced(number, made):
                    statements[maker] = ()
                    joined.add(number)
    kernels = tuple(statement for new in statements for statement in new)
    return program if kernels == program.main.statements else DeadCode()(with_kernels(program, kernels))


@attrs.frozen(repr=False)
class Makers:
    """The kernels of a program that make tensors.

    Attributes:
        statements: The kernels, in order.
        roots: The memory behind each name.
        writers: The numbers of the kernels that write each memory.
    """

    statements: tuple[Statement, ...]
    roots: Mapping[str, str]
    writers: Mapping[str, list[int]]

    @classmethod
    def of(cls, program: Program) -> Makers:
        """Return those of a program without loops."""
        memory = roots(program)
        writers: dict[str, list[int]] = {}
        for number, statement in enumerate(program.main.statements):
            for root in {memory[name] for name in views_written(statement)}:
                writers.setdefault(root, []).append(number)
        return cls(program.main.statements, memory, writers)

    def replaced(self, number: int, made: Iterable[Statement]) -> list[int]:
        """Return the numbers of kernels whose work is done by what became of another one."""
        own = {self.roots[name] for name in views_written(self.statements[number])}
        written = {self.roots[name] for each in made for name in views_written(each)}
        return sorted(self.writers[root][0] for root in written - own)

    def before(self, number: int, joined: Container[int], source: str, unread: bool) -> Block | None:
        """Return the kernel that alone writes a tensor before another one, and would do the same in its place.

        None where there is none: what it reads is written in between, or by the other kernel. With ``unread``, None as
        well where somebody between reads the tensor, or where the kernel is one of those ``joined`` with others.
        """
        earlier = [each for each in self.writers.get(self.roots.get(source, source), ()) if each < number]
        maker = self.statements[earlier[0]] if len(earlier) == 1 else None
        if not isinstance(maker, Block):
            return None
        between = self.statements[earlier[0] + 1 : number]
        root = self.roots.get(source, source)
        seen = any(root == self.roots[name] for each in between for name in views_read(each))
        if unread and (seen or earlier[0] in joined):
            return None
        read = {self.roots[name] for name in views_read(maker)}
        written = (each for root in read for each in self.writers.get(root, ()))
        return None if any(earlier[0] <= each <= number for each in written) else maker
