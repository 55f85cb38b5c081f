"""Verdicts on planted faults: programs through pipelines, compared with their results without the fault.

A pipeline is applied in milliseconds, and what it made is interpreted in seconds. So each program is taken through each
pipeline before the fault is planted; afterwards only what came out different is interpreted.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import attrs

from tileir.passes.base import run
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir_testing.checking.check import STAGES, Check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.core.targets.target import Target
    from tileir.passes.base import Pass
    from tileir.semtree import ir as sem
    from tileir.stripe.ir import Program
    from tileir.typed.ir import Function
    from tileir_testing.checking.check import Finding


@attrs.frozen(eq=False)
class Subject:
    """A program and what it computes.

    Attributes:
        function: The program, typed.
        usual: The same in Stripe.

    """

    function: Function
    usual: Program

    @classmethod
    def of(cls, function: Function) -> Subject:
        """Lower a function."""
        return cls(function, lower_to_stripe(function))

    @property
    def check(self) -> Check:
        """Return the function's results on exact numbers."""
        return Check.of(self.function)

    @property
    def points(self) -> int:
        """About how long it takes to interpret the program."""
        return sum(prod(index.range for index in kernel.indices) for kernel in self.usual.main.blocks)


@attrs.frozen(eq=False)
class Trail:
    """Results of a program in a pipeline without a planted fault.

    Attributes:
        subject: The program.
        steps: The pipeline.
        target: What it was lowered to kernels for.
        after: The program after each step.
        kernels: Its kernels after each stage behind the passes; None where it cannot be lowered.

    """

    subject: Subject
    steps: tuple[Pass, ...]
    target: Target
    after: tuple[Program, ...]
    kernels: tuple[sem.Program, ...] | None

    @classmethod
    def of(cls, subject: Subject, steps: tuple[Pass, ...], target: Target) -> Trail | None:
        """Take a program through a pipeline; None for one that it refuses."""
        program, after = subject.usual, []
        for step in steps:
            made = _applied(step, program)
            if made is None:
                return None
            after.append(made)
            program = made
        return cls(subject, steps, target, tuple(after), _kernels(program, target))

    def finding(self) -> tuple[bool, Finding | None]:
        """Return whether something else comes of the program now, and what is wrong with that."""
        program, same = self.subject.usual, True
        if lower_to_stripe(self.subject.function) != program:
            same = False
            made, finding = self.subject.check.lowered(self.subject.function)
            if made is None or finding is not None:
                return True, finding
            program = made
        for number, (step, right) in enumerate(zip(self.steps, self.after, strict=True), 1):
            after = _applied(step, program)
            if after is None or after != right:
                same = False
                finding = self.subject.check.through(program, (step,), None)
                if after is None or finding is not None:
                    return True, finding and attrs.evolve(finding, number=number)
            program = after
        if self.kernels is None or _kernels(program, self.target) == self.kernels:
            return not same, None
        return True, self.subject.check.through(program, (), self.target)


def trails(subjects: Iterable[Subject], pipelines: Iterable[tuple[tuple[Pass, ...], Target]]) -> list[Trail]:
    """Take all programs through all pipelines, those that are interpreted quickly first."""
    chosen = list(pipelines)
    ordered = sorted(subjects, key=lambda subject: subject.points)
    found = (Trail.of(subject, *pipeline) for subject in ordered for pipeline in chosen)
    return [trail for trail in found if trail is not None]


def _applied(step: Pass, program: Program) -> Program | None:
    try:
        return run((step,), program)
    except Exception:  # a wrong pass may fail in any way, which a check puts into words
        return None


def _kernels(program: Program, target: Target) -> tuple[sem.Program, ...] | None:
    try:
        made = [lower_to_semtree(program, target)]
        for _, stage in STAGES:
            made.append(stage(made[-1]))
    except Exception:  # as above
        return None
    return tuple(made)
