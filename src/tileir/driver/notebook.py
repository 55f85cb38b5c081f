"""What notebooks show of executables and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.markup import folded, paragraph, preformatted, table
from tileir.driver.explanation_text import count_text, seconds_text, size_text
from tileir.tile.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.executable import Executable
    from tileir.driver.explanation import Explanation
    from tileir.typed.ir import TensorType

MOST_KERNELS: Final = 50
"""Kernels that are listed."""


def executable_html(executable: Executable, types: Mapping[str, TensorType]) -> str:
    """Return the device of an executable, the types of its inputs and results, and program and kernels to unfold."""
    rows = [("input", name, str(types[name])) for name in executable.inputs]
    rows += [("result", name, str(kind)) for name, kind in executable.result_types.items()]
    kernels = executable.sem.kernels
    listed = [(kernel.name, " x ".join(map(str, kernel.grid)), count_text(kernel.operations)) for kernel in kernels]
    many = f"{len(kernels)} {'kernel' if len(kernels) == 1 else 'kernels'}"
    return (
        paragraph(f"compiled for {executable.device.id} ({executable.device.name})")
        + table(("", "name", "type"), rows)
        + folded("program", preformatted(to_text(executable.tile)))
        + folded(_cut(many, len(kernels)), table(("kernel", "grid", "operations and moves"), listed[:MOST_KERNELS]))
    )


def explanation_html(found: Explanation) -> str:
    """Return a row for each kernel, and the sum."""
    heads = ["kernel", "operations", "moved", "bound by", "predicted"] + ["measured"] * bool(found.measured)
    rows = []
    for number, kernel in enumerate(found.kernels[:MOST_KERNELS]):
        moved = sum(level.read_bytes + level.written_bytes for level in kernel.levels[-1:])
        row = [kernel.name or "kernel", count_text(kernel.whole.total_operations), size_text(moved), kernel.bound]
        row.append(seconds_text(kernel.seconds))
        rows.append(row + [seconds_text(each) for each in found.measured[number : number + 1]])
    measured = found.measured_seconds
    said = f"{found.target}: {seconds_text(found.seconds)} predicted"
    said += "" if measured is None else f", {seconds_text(measured)} measured"
    return paragraph(_cut(said, len(found.kernels))) + table(heads, rows)


def _cut(text: str, count: int) -> str:
    return text if count <= MOST_KERNELS else f"{text}; the first {MOST_KERNELS} kernels:"
