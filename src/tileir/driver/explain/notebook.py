"""What notebooks show of executables, formulas and explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileir.core.text.markup import folded, highlighted, paragraph, preformatted, table
from tileir.driver.executable import Executable
from tileir.driver.explain.text import count_text, runs_text, seconds_text, size_text
from tileir.driver.programs import Program
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.explain.dispatch import BufferLife
    from tileir.driver.explain.explanation import Explanation
    from tileir.driver.formulas.crafting import CraftedFormula
    from tileir.driver.formulas.explanation import FormulaExplanation

MOST_KERNELS: Final = 50
"""Kernels that are listed."""


def executable_html(executable: Executable, types: Mapping[str, TensorType], program: Program) -> str:
    """Return the device of an executable, the types of its inputs and results, and program and kernels to unfold."""
    rows = [("input", name, str(types[name])) for name in executable.inputs]
    rows += [("result", name, str(kind)) for name, kind in executable.result_types.items()]
    kernels = executable.sem.kernels
    listed = [(kernel.name, " x ".join(map(str, kernel.grid)), count_text(kernel.operations)) for kernel in kernels]
    many = f"{len(kernels)} {'kernel' if len(kernels) == 1 else 'kernels'}"
    return (
        paragraph(f"compiled for {executable.device.id} ({executable.device.name})")
        + table(("", "name", "type"), rows)
        + folded("program", highlighted(str(program)))
        + folded(_cut(many, len(kernels)), table(("kernel", "grid", "operations and moves"), listed[:MOST_KERNELS]))
    )


def explanation_html(found: Explanation) -> str:
    """Return a row for each kernel, and the sum."""
    heads = ["kernel", "operations", "moved", "bound by", "predicted"] + ["measured"] * bool(found.measured)
    rows = []
    for number, kernel in enumerate(found.kernels[:MOST_KERNELS]):
        moved = sum(level.read_bytes + level.written_bytes for level in kernel.levels[-1:])
        runs = runs_text(kernel.runs, kernel.conditions)
        name = f"{kernel.name or 'kernel'}{', ' if runs else ''}{runs}"
        row = [name, count_text(kernel.whole.total_operations), size_text(moved), kernel.bound]
        row.append(seconds_text(kernel.seconds))
        rows.append(row + [seconds_text(each) for each in found.measured[number : number + 1]])
    measured = found.measured_seconds
    said = f"{found.target}: {seconds_text(found.seconds)} predicted"
    said += f", with {', and '.join(found.assumptions)}" if found.assumptions else ""
    said += "" if measured is None else f", {seconds_text(measured)} measured"
    return paragraph(_cut(said, len(found.kernels))) + table(heads, rows)


def formula_html(formula: CraftedFormula) -> str:
    """Return the text of a formula, and where it runs."""
    live = f", passes {', '.join(sorted(formula.live))}" if formula.live else ""
    where = formula.device if isinstance(formula.device, str | None) else formula.device.id
    said = f"reads {', '.join(formula.formula.inputs)}; runs on {where or 'the default device'}{live}"
    return highlighted(formula.text, formula=True) + paragraph(said)


def formula_explanation_html(found: FormulaExplanation) -> str:
    """Return the kernels of the steps, the costs of the kernels, and a picture of the lives of the buffers."""
    steps = [(each.path, each.text, ", ".join(map(str, each.kernels)) or "none") for each in found.steps]
    kernels = [
        (
            str(number),
            each.label,
            ", ".join(each.steps),
            size_text(each.moved_bytes),
            *map(_time, (each.seconds, each.measured)),
        )
        for number, each in enumerate(found.kernels[:MOST_KERNELS])
    ]
    buffers = found.dispatch.buffers[:MOST_KERNELS]
    width = max((len(each.name) for each in buffers), default=0)
    lives = "\n".join(
        f"{each.name.ljust(width)} {_bar(each, len(found.kernels))} {size_text(each.nbytes)}" for each in buffers
    )
    many = f"{found.device}: {len(found.kernels)} launches; temporaries take {size_text(found.dispatch.peak_bytes)}"
    return (
        paragraph(_cut(many, len(found.kernels)))
        + table(("step", "", "kernels"), steps)
        + table(("kernel", "", "steps", "moves", "predicted", "measured"), kernels)
        + folded("buffers, from their first launch to their last", preformatted(lives))
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _bar(buffer: BufferLife, launches: int) -> str:
    """Return a character for each launch, full where the buffer lives; neighbours share one where there are many."""
    scale = max(1, -(-launches // MOST_KERNELS))
    places = range(0, launches, scale)
    return "".join("█" if buffer.first < place + scale and place <= buffer.last else "·" for place in places)


def _cut(text: str, count: int) -> str:
    return text if count <= MOST_KERNELS else f"{text}; the first {MOST_KERNELS} kernels:"
