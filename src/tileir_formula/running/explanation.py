"""Explanation of a formula: the kernels of its steps, the buffers that they use, and their costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tileir import explain
from tileir.core.nodes import attrs
from tileir.core.text.quantities import runs_text, seconds_text, size_text
from tileir.driver.programs import function_of
from tileir.passes.rewrites.immediates import REMARK
from tileir.typed.ir import Function, Scan
from tileir_formula.editing.edits import elements
from tileir_formula.ir import Step
from tileir_formula.text.printer import step_text

if TYPE_CHECKING:
    from tileir.driver.dispatch import Dispatch, Dispatched
    from tileir_formula.lower.lowering import Crafted
    from tileir_formula.running.crafting import CraftedFormula
    from tileir_formula.running.function import FormulaFunction

WIDTH: Final = 120
"""Columns of the text."""

_VALUE: Final = re.compile(r"[A-Za-z_]\w*")
_PART: Final = re.compile(r"_\d+$")


@attrs.frozen
class CraftedStep:
    """A step.

    Attributes:
        path: Its path in the formula.
        text: Its text without comments.
        kernels: The launches that compute it, or a part of it, counted from 0; empty where it was folded away.
    """

    path: str
    text: str
    kernels: tuple[int, ...]


@attrs.frozen
class CraftedKernel:
    """A launch.

    Attributes:
        name: The name of its kernel.
        steps: The paths of the steps that it computes, at least in part.
        reads: The buffers that it reads.
        writes: The buffers that it writes.
        moved_bytes: The bytes of these buffers, each element once.
        seconds: The predicted time; None in a formula with a loop.
        measured: The measured time; None where it was not measured.
        runs: The number of launches; a loop on a condition counts as one turn.
        conditions: The conditions of its launch, from outside in: "while go", "if odd" or "unless odd".
        windows: A remark on each window of constant weights that was written out in it.
    """

    name: str
    steps: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    moved_bytes: int
    seconds: float | None = None
    measured: float | None = None
    runs: int = 1
    conditions: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name, with the number and conditions of its launches unless it runs once."""
        return ", ".join(part for part in (self.name, runs_text(self.runs, self.conditions)) if part)

    @property
    def in_place(self) -> tuple[str, ...]:
        """The buffers that it both reads and writes."""
        return tuple(name for name in self.writes if name in self.reads)


@attrs.frozen
class ApproximateStep:
    """A step whose window of weights became a sum of windows of rank one.

    Attributes:
        path: Its path in the formula.
        rank: The number of these windows.
        error: The sum of the absolute differences of weights, as a share of the sum of the absolute weights.
    """

    path: str
    rank: int
    error: float


@attrs.frozen
class FormulaExplanation:
    """Explanation of a compiled formula; ``str`` of it is tables for people.

    Attributes:
        steps: In the order of the text.
        kernels: In the order of their launches.
        dispatch: The buffers, with their lives and places.
        device: The device that was modelled.
        approximations: Windows that became sums of windows of rank one, within the tolerance.
    """

    steps: tuple[CraftedStep, ...]
    kernels: tuple[CraftedKernel, ...]
    dispatch: Dispatch
    device: str
    approximations: tuple[ApproximateStep, ...] = ()

    def __str__(self) -> str:
        """Return tables of steps, kernels and buffers."""
        return "\n".join(self._lines()) + "\n"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from tileir_formula.running.notebook import formula_explanation_html

        return formula_explanation_html(self)

    def to_json(self) -> str:
        """Return everything as JSON: bytes and seconds as numbers."""
        return json.dumps(attrs.asdict(self, value_serializer=_plain), indent=2)

    def _lines(self) -> Iterator[str]:
        dispatch = self.dispatch
        steps = [(each.path, each.text, ", ".join(map(str, each.kernels)) or "none") for each in self.steps]
        yield from _table(("step", "", "kernels"), steps)
        yield ""
        yield from _table(
            ("kernel", "", "steps", "moves", "predicted", "measured"),
            [
                (
                    str(number),
                    kernel.label,
                    ", ".join(kernel.steps),
                    size_text(kernel.moved_bytes),
                    "" if kernel.seconds is None else seconds_text(kernel.seconds),
                    "" if kernel.measured is None else seconds_text(kernel.measured),
                )
                for number, kernel in enumerate(self.kernels)
            ],
        )
        yield ""
        yield from _table(
            ("buffer", "", "", "bytes", "lives", "at"),
            [
                (
                    each.name,
                    each.role,
                    f"{each.dtype.value}{list(each.shape)}",
                    size_text(each.nbytes),
                    f"{each.first} to {each.last}",
                    "" if each.offset is None else f"{each.block}:{each.offset}",
                )
                for each in dispatch.buffers
            ],
        )
        for number, kernel in enumerate(self.kernels):
            yield from (f"kernel {number}: {window}" for window in kernel.windows)
            if kernel.in_place:
                yield f"kernel {number}: writes {', '.join(kernel.in_place)} in place"
        for step in self.approximations:
            yield f"{step.path}: {step.rank} windows of rank one replace the weights, and differ by {step.error:.2g}"
        times = [kernel.seconds for kernel in self.kernels]
        predicted = "" if None in times else f", {seconds_text(sum(each or 0 for each in times))} predicted"
        yield ""
        yield (
            f"{self.device}: {len(self.kernels)} launches for {len(self.steps)} steps{predicted}; temporaries take "
            f"{size_text(dispatch.peak_bytes)} instead of {size_text(dispatch.temporary_bytes)}"
        )


def explained(
    formula: CraftedFormula, made: FormulaFunction, arguments: Sequence[Any], measure: bool
) -> FormulaExplanation:
    """Explain a formula, compiled as a function of pictures and live parameters, for values of these."""
    crafted, function = made.crafted, function_of(made.call.function)
    names = [each.name for each in function.inputs]
    executable = formula.executable(*arguments[: len(formula.formula.inputs)])
    costs = explain(
        function,
        dict(zip(names, arguments, strict=True)),
        device=formula.device,
        context=formula.context,
        measure=measure,
    )
    straight, looping = _labels(executable.typed, crafted)
    sizes = {each.name: each.nbytes for each in executable.dispatch.buffers}
    order = [path for path, node in elements(formula.formula) if isinstance(node, Step)]
    same = len(costs.kernels) == len(executable.dispatch.launches)
    kernels: list[CraftedKernel] = []
    for number, launch in enumerate(executable.dispatch.launches):
        paths = _paths(launch, looping if launch.runs > 1 else straight)
        if launch.runs > 1 and not paths:
            paths = set().union(*looping.values())
        kernels.append(
            CraftedKernel(
                launch.kernel,
                tuple(path for path in order if path in paths),
                launch.reads,
                launch.writes,
                sum(sizes[name] for name in (*launch.reads, *launch.writes)),
                costs.kernels[number].seconds if same else None,
                costs.measured[number] if same and costs.measured else None,
                launch.runs,
                launch.conditions,
                tuple(line for line in launch.statements if line.startswith(REMARK)),
            )
        )
    steps = tuple(
        CraftedStep(
            path,
            step_text(node),
            tuple(number for number, kernel in enumerate(kernels) if path in kernel.steps),
        )
        for path, node in elements(formula.formula)
        if isinstance(node, Step)
    )
    return FormulaExplanation(steps, tuple(kernels), executable.dispatch, executable.device.name, _approximations(made))


def _approximations(made: FormulaFunction) -> tuple[ApproximateStep, ...]:
    return tuple(
        ApproximateStep(made.crafted.labels.get(each.label or "", ""), each.rank, each.error)
        for each in made.approximations
    )


def _labels(function: Function, crafted: Crafted) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the steps of the values of a function, and of those in the bodies of its loops."""
    straight: dict[str, set[str]] = {}
    looping: dict[str, set[str]] = {}
    for value, label in function.labels:
        straight.setdefault(value, set()).add(crafted.labels[label])
    for operation in function.operations:
        if isinstance(operation, Scan):
            for inner in _labels(operation.body, crafted):
                for value, paths in inner.items():
                    looping.setdefault(value, set()).update(paths)
    return straight, looping


def _paths(launch: Dispatched, labels: Mapping[str, set[str]]) -> set[str]:
    """Return the steps whose values a launch computes, found by the names that it defines, and parts of these.

    A buffer that is written in place has the name of an earlier value.
    """
    found: set[str] = set()
    new = (name for name in launch.writes if name not in launch.reads)
    for statement in (*new, *launch.statements):
        match = _VALUE.match(statement)
        name = match.group() if match else ""
        while name and name not in labels and _PART.search(name):
            name = _PART.sub("", name)
        found |= labels.get(name, set())
    return found


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with columns as wide as their texts; long texts are cut."""
    most = WIDTH // 2
    cut = [[cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in cut) for column in range(len(heads))]
    for row in cut:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _plain(_: object, __: object, value: Any) -> Any:
    return getattr(value, "value", value)
