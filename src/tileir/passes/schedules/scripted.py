"""Schedules that users write: scripts of steps, for kernels that no other pass has scheduled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from tileir.core.targets.quantities import facts
from tileir.passes.base import Pass, expand_kernels, unnamed
from tileir.passes.fusion.makers import expanded_with_makers
from tileir.passes.pipelines.options import to_text, written
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.schedule.rearranging import done_by_steps
from tileir.schedule.script import Parameter, Pattern, Script, Step
from tileir.schedule.steps.loops import Bind
from tileir.schedule.steps.producing import ComputeAt, Inline, JoinKernel
from tileir.stripe.bindings import Binding

if TYPE_CHECKING:
    from tileir.core.targets.target import Target
    from tileir.stripe import ir as stripe

_FACT: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_OF_GROUPS: Final = ("GROUP_THREADS", "LOCAL_BYTES")
"""Facts that bound the groups of threads of a script."""

SCHEDULES: Final = "tileir.passes.schedules."
"""The rooms of the passes before which scripts have their turn."""


@attrs.frozen
class Scripted:
    """Schedule kernels by a script (:mod:`tileir.schedule.script`).

    Attributes:
        steps: What happens to a kernel.
        match: The kernels that the script is for.
        parameters: Numbers that steps may name, beside loops and facts of the target such as ``VECTOR_BYTES``.
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
        """What is applied to each kernel."""
        return Script(self.steps, self.match, self.parameters)

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with the kernels scheduled that the script is for."""
        apply = self.script.apply
        if any(isinstance(step, Inline | ComputeAt | JoinKernel) for step in self.steps):
            return expanded_with_makers(program, apply)
        return expand_kernels(program, lambda kernel: done_by_steps(apply(kernel)))

    def for_target(self, target: Target) -> Scripted:
        """Return the pass with a parameter for each fact of a target that it names or needs, and that is a number."""
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
