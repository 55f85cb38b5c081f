"""HTML of explanations, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.text.markup import paragraph, table
from tileir.core.text.quantities import count_text, runs_text, seconds_text, size_text
from tileir.driver.notebook import MOST_KERNELS, cut

if TYPE_CHECKING:
    from tileir_performance.explain.explanation import Explanation


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
