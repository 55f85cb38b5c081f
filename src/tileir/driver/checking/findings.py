"""What a check of passes found: the step, the kernel and the element, for the smallest shapes that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.typed.ir import TensorType


@attrs.frozen
class Difference:
    """One element that a step changed.

    Attributes:
        output: The result of the program, or memory of it, that has the element.
        element: Its position.
        before: Its value before the step; floats that depend on arguments are residues modulo a prime.
        after: Its value after the step.

    """

    output: str
    element: tuple[int, ...]
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.element))}]"
        return f"{place} was {self.before} and is {self.after}"


@attrs.frozen
class Finding:
    """The first step after which a program means something else.

    Attributes:
        step: The name of the pass or of its step, or that of a stage of the compiler behind the passes.
        number: Which step of the pipeline that is, from 1; 0 for stages.
        kernel: The first kernel whose results differ; empty where that is not known.
        difference: An element that differs; None where the step, or the program that it made, failed.
        problem: What went wrong, as a sentence; empty where elements differ.
        types: The dtypes and shapes of the inputs for which that is so, as small as could be found.

    """

    step: str
    number: int
    kernel: str
    difference: Difference | None
    problem: str
    types: Mapping[str, TensorType] = attrs.field(factory=dict)

    def __str__(self) -> str:
        step = f"pass {self.number}, {self.step!r}," if self.number else f"stage {self.step!r}"
        lines = [f"{step} changes what the program computes"]
        if self.difference is None:
            lines = [f"{step} fails: {self.problem}"]
        else:
            lines.append(f"  element: {self.difference}")
        if self.kernel:
            lines.append(f"  kernel: {self.kernel}")
        if self.types:
            lines.append(f"  inputs: {', '.join(f'{name}={kind}' for name, kind in self.types.items())}")
        return "\n".join(lines)
