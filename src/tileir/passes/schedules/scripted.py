"""Schedules written by users: scripts of steps, for kernels that no other pass has scheduled.

The module also finds the kernel that computes an input of another one, which may recompute it itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import ClassVar, Final

from tileir.core import Target, attrs, grouped
from tileir.core.targets.quantities import facts
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import Pass, expand_kernels, unnamed, with_kernels
from tileir.passes.kernels.expansion import called_block
from tileir.passes.pipelines.options import to_text, written
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.schedule import Producers, Refused, remark
from tileir.schedule.application import done_by_steps
from tileir.schedule.script import Parameter, Pattern, Script, Step
from tileir.schedule.steps.loops import Bind
from tileir.schedule.steps.producers import ComputeAt, Inline, JoinKernel
from tileir.stripe import Binding, Block, Program, Statement, ir as stripe, views_read, views_written

_FACT: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_OF_GROUPS: Final = ("GROUP_THREADS", "LOCAL_BYTES")
"""Target facts that bound the groups of threads of a script."""

SCHEDULES: Final = "tileir.passes.schedules."
"""Packages of the passes before which scripts run."""


@attrs.frozen
class Scripted:
    """Schedule kernels by a script (:mod:`tileir.schedule.script`).

    Attributes:
        steps: The steps of the script.
        match: The kernels that the script is for.
        parameters: Numbers that steps may refer to, in addition to loops and facts of the target such as
            ``VECTOR_BYTES``.
    """

    name: ClassVar[str] = "script"
    steps: tuple[Step, ...] = ()
    match: Pattern = Pattern()
    parameters: tuple[Parameter, ...] = ()

    @classmethod
    def of(cls, script: Script) -> Scripted:
        """Return the pass that applies a script."""
        return cls(script.steps, script.match, script.parameters)

    @property
    def script(self) -> Script:
        """The script that is applied to each kernel."""
        return Script(self.steps, self.match, self.parameters)

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with the matching kernels scheduled."""
        apply = self.script.apply
        told_apart = self.match.kernel or any(isinstance(step, Inline | ComputeAt | JoinKernel) for step in self.steps)
        if told_apart:
            return expanded_with_makers(program, apply)
        return expand_kernels(program, lambda kernel: done_by_steps(apply(kernel)))

    def for_target(self, target: Target) -> Scripted:
        """Return the pass with a parameter for each numeric fact of a target that it names or needs."""
        known = {name: value for name, value in facts(target).items() if type(value) is int and value > 0}
        own = {parameter.name for parameter in self.parameters}
        named = dict.fromkeys(_FACT.findall(to_text(written((self.steps, self.parameters)))))
        if any(isinstance(step, Bind) and step.to is Binding.THREAD for step in self.steps):
            named.update(dict.fromkeys(_OF_GROUPS))
        added = tuple(Parameter(name, known[name]) for name in named if name in known and name not in own)
        return attrs.evolve(self, parameters=(*added, *self.parameters)) if added else self


def with_scripts(target: Target, *scripts: Scripted | Script) -> tuple[Pass, ...]:
    """Return the passes of a target, with scripts before those that schedule kernels.

    Kernels that no script fits are scheduled as they would be without scripts.

    Raises:
        TileError: ``target.pipeline`` is no pipeline.
    """
    steps = pipeline_for(target)
    places = [number for number, step in enumerate(steps) if type(unnamed(step)).__module__.startswith(SCHEDULES)]
    first = places[0] if places else len(steps)
    own = (Scripted.of(script) if isinstance(script, Script) else script for script in scripts)
    return (*steps[:first], *(script.for_target(target) for script in own), *steps[first:])


def expanded_with_makers(
    program: Program, function: Callable[[Block, Producers], tuple[Block, ...] | Refused]
) -> Program:
    """Return the program with each kernel replaced, possibly together with the producers of its inputs.

    Launches of one kernel are handled separately, since other kernels may precede them. Kernels that are no longer
    needed, or whose work others do, are removed. A listener gets the outcomes.

    Args:
        program: A program without loops.
        function: Returns the replacement of a kernel; its second argument returns the kernel that writes a tensor.
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
    """The producers of the tensors of a program.

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
        """Return the producers of a program without loops."""
        memory = roots(program)
        written = [{memory[name] for name in views_written(statement)} for statement in program.main.statements]
        writers = grouped((root, number) for number, own in enumerate(written) for root in own)
        return cls(program.main.statements, memory, writers)

    def replaced(self, number: int, made: Iterable[Statement]) -> list[int]:
        """Return the numbers of kernels whose work is done by the replacement of another one."""
        own = {self.roots[name] for name in views_written(self.statements[number])}
        written = {self.roots[name] for each in made for name in views_written(each)}
        return sorted(self.writers[root][0] for root in written - own)

    def before(self, number: int, joined: Container[int], source: str, unread: bool) -> Block | None:
        """Return the only earlier kernel that writes a tensor, if it may run in the place of another one.

        None if its inputs are written in between, or by the other kernel. With ``unread``, None as well if a kernel
        between reads the tensor, or if the producer is one of those ``joined`` with others.
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
