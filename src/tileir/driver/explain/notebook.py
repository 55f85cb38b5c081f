"""HTML of executables and explanations, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileir.core.text.markup import folded, highlighted, paragraph, table
from tileir.driver.executable import Executable
from tileir.driver.explain.text import count_text, runs_text, seconds_text, size_text
from tileir.driver.programs import Program
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.explain.explanation import Explanation

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
        + folded(cut(many, len(kernels)), table(("kernel", "grid", "operations and moves"), listed[:MOST_KERNELS]))
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
    return paragraph(cut(said, len(found.kernels))) + table(heads, rows)


def cut(text: str, count: int) -> str:
    """Return a caption of a list of kernels, which tells where it has no more than :data:`MOST_KERNELS` of them."""
    return text if count <= MOST_KERNELS else f"{text}; the first {MOST_KERNELS} kernels:"
