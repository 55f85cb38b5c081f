"""The smallest shapes for which something is so.

What a check of passes found: the step, the kernel and the element, for the smallest shapes that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from tileir.core.errors import TileError
from tileir.tile.ir import Function
from tileir.typed.ir import TensorType

Types = Mapping[str, TensorType]

_TRIALS = 200


def smallest(function: Function, types: Types, holds: Callable[[Types], bool]) -> Types:
    """Return types of the inputs with sizes as small as a few trials find, for which ``holds`` is still true.

    Axes of one name have one size; others are made smaller each for itself. A TileError of ``holds`` means that
    such shapes do not fit the function.
    """
    trials = 0
    changed = True
    while changed:
        changed = False
        for axes in _axes(function, types):
            name, axis = axes[0]
            size = types[name].shape[axis]
            for smaller in _below(size):
                trials += 1
                if trials > _TRIALS:
                    return types
                candidate = _with_size(types, axes, smaller)
                if _true(holds, candidate):
                    types, changed = candidate, True
                    break
    return types


def _true(holds: Callable[[Types], bool], types: Types) -> bool:
    try:
        return holds(types)
    except TileError:
        return False


def _below(size: int) -> Iterator[int]:
    """Yield smaller sizes, the smallest first."""
    yield from sorted({number for number in (1, 2, 3, size // 4, size // 2, size - 2, size - 1) if 0 < number < size})


def _axes(function: Function, types: Types) -> list[list[tuple[str, int]]]:
    """Return the axes of inputs, those together that have one name."""
    found: dict[str, list[tuple[str, int]]] = {}
    for tensor in function.inputs:
        rank = len(types[tensor.name].shape)
        names = tensor.dims if tensor.dims is not None and len(tensor.dims) == rank else [None] * rank
        for axis, dim in enumerate(names):
            found.setdefault(str(dim) if dim is not None else f"{tensor.name} {axis}", []).append((tensor.name, axis))
    return list(found.values())


def _with_size(types: Types, axes: list[tuple[str, int]], size: int) -> Types:
    result = dict(types)
    for name, axis in axes:
        shape = list(result[name].shape)
        shape[axis] = size
        result[name] = TensorType(result[name].dtype, tuple(shape))
    return result


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
