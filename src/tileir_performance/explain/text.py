"""Costs of kernels as tables for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tileir.core.text.quantities import count_text, runs_text, seconds_text, size_text
from tileir.schedule.reasons import UNFIT
from tileir.schedule.remarks import Remark, facts_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tileir.passes.cost.figures import BlockCost, KernelCost
    from tileir_performance.explain.explanation import Explanation

WIDTH: Final = 132
"""Columns of the text."""

MOST_LABEL: Final = 52
"""Columns for the name and the indices of a block."""

SHOWN_SHARE: Final = 0.005
"""Blocks that take less of a kernel's operations, bytes and time than this are left out of the tables."""


def as_text(found: Explanation) -> str:
    """Return tables for all kernels, and the sum."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, legacy_windows=False)
    for part in as_tables(found):
        console.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from above
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def as_tables(found: Explanation) -> Iterator[RenderableType]:
    """Yield a headline, the blocks and the memories of each kernel, then the sum."""
    for number, kernel in enumerate(found.kernels):
        yield _headline(kernel, found.measured[number] if found.measured else None)
        yield _block_table(kernel)
        yield _level_table(kernel)
        yield ""
    yield _sum(found)


def _headline(kernel: KernelCost, measured: float | None) -> str:
    whole = kernel.whole
    text = (
        f"{kernel.name or 'kernel'}: {seconds_text(kernel.seconds)}, bound by {kernel.bound}; "
        f"{count_text(whole.total_operations)} operations, {kernel.intensity:.3g} for each byte moved; "
        f"{kernel.units:.3g} {'unit' if kernel.units == 1 else 'units'} busy"
    )
    text += "".join(f"; {size_text(nbytes)} of {region} arrays" for region, nbytes in kernel.held.items())
    text += f"; vectors of {kernel.lanes} lanes" if kernel.lanes > 1 else ""
    runs = runs_text(kernel.runs, kernel.conditions)
    text += f"; runs {runs}" if runs else ""
    text += "" if kernel.counted else "; not counted, as the other side of the branch takes longer"
    return (
        text if measured is None else f"{text}; measured {seconds_text(measured)}, {_error(kernel.seconds, measured)}"
    )


def _error(predicted: float, measured: float) -> str:
    return f"predicted {predicted / measured - 1:+.0%}" if measured else "nothing to measure"


def _sum(found: Explanation) -> str:
    kernels, measured, seconds = found.kernels, found.measured, found.seconds
    operations = sum(kernel.whole.total_operations * kernel.runs for kernel in kernels if kernel.counted)
    many = f"{len(kernels)} {'kernel' if len(kernels) == 1 else 'kernels'}"
    text = f"{found.target}: {many}, {count_text(operations)} operations, {seconds_text(seconds)}"
    text += f", with {', and '.join(found.assumptions)}" if found.assumptions else ""
    if not measured:
        return text
    return f"{text}; measured {seconds_text(sum(measured))}, {_error(seconds, sum(measured))}"


def _block_table(kernel: KernelCost) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table("block", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("points", "operations", "accessed", "footprint", "reuse", "intensity", "compute"):
        table.add_column(name, justify="right", no_wrap=True)
    for block in kernel.blocks:
        if _matters(block, kernel.whole):
            label, *numbers = _block_row(block)
            table.add_row(Text(label, no_wrap=True, overflow="ellipsis"), *map(Text, numbers))
    return table


def _matters(block: BlockCost, whole: BlockCost) -> bool:
    parts = (
        (block.total_operations, whole.total_operations),
        (block.accessed_bytes, whole.accessed_bytes),
        (block.seconds, whole.seconds),
    )
    return block is whole or any(part > SHOWN_SHARE * of for part, of in parts)


def _block_row(block: BlockCost) -> tuple[str, ...]:
    footprint = size_text(block.footprint_bytes)
    intensity = block.total_operations / block.footprint_bytes if block.footprint_bytes else 0.0
    return (
        _shortened("  " * block.depth + _label(block)),
        count_text(block.points) if block.exact else f"<= {count_text(block.points)}",
        count_text(block.total_operations),
        size_text(block.accessed_bytes),
        footprint if block.footprint_exact else f"<= {footprint}",
        count_text(block.reuse),
        count_text(intensity),
        seconds_text(block.seconds),
    )


def _label(block: BlockCost) -> str:
    indices = ", ".join(f"{name}:{size} {tag}".rstrip() for name, size, tag in block.indices)
    return f"{block.name} [{indices}]".lstrip()


def _shortened(label: str) -> str:
    return label if len(label) <= MOST_LABEL else f"{label[: MOST_LABEL - 1]}…"


def _level_table(kernel: KernelCost) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("resource", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("read", "written", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    levels = {level.name: level for level in kernel.levels}
    for name, seconds in kernel.times.items():
        level = levels.get(name)
        moved = ("", "") if level is None else (size_text(level.read_bytes), size_text(level.written_bytes))
        table.add_row(name, *moved, seconds_text(seconds))
    return table


def remark_lines(remarks: Iterable[Remark], *, everything: bool = False) -> Iterator[str]:
    """Yield the remarks on each kernel under its name: changes, and refusals that a user could act on.

    The latter include scripts whose pattern matches no kernel.

    Args:
        remarks: The remarks, by step.
        everything: Whether to list all refusals.
    """
    said = [*remarks]
    fitting = {remark.position for remark in said if remark.code not in UNFIT}
    shown = [remark for remark in said if everything or remark.relevant or remark.position not in fitting]
    width = max((len(remark.step) for remark in shown), default=0)
    for name in dict.fromkeys(remark.kernel for remark in shown):
        mine = [remark for remark in shown if remark.kernel == name]
        others = len(mine[0].launches) - 1
        yield f"{name or 'program'}{f' and {others} more like it' if others else ''}"
        for remark in mine:
            outcome = "done" if remark.fired else "left"
            place = f"  {remark.position:>3} {remark.step:<{width}}  {outcome} {remark.code}"
            yield f"{place}  {remark.reason}{facts_text(remark.facts)}"


def as_json(found: Explanation, *, remarks: bool = False) -> str:
    """Return all facts about the kernels, and the remarks on request."""
    measured = found.measured
    document: dict[str, Any] = {
        "target": found.target,
        "seconds": found.seconds,
        "assumptions": list(found.assumptions),
        "kernels": [_kernel_json(kernel) for kernel in found.kernels],
    }
    if measured:
        document["measured_seconds"] = sum(measured)
        for entry, seconds in zip(document["kernels"], measured, strict=True):
            entry["measured_seconds"] = seconds
            entry["error"] = entry["seconds"] / seconds - 1 if seconds else None
    if remarks:
        document["remarks"] = [_remark_json(remark) for remark in found.remarks]
    return json.dumps(document, indent=2)


def _remark_json(remark: Remark) -> dict[str, Any]:
    return {
        "position": remark.position,
        "step": remark.step,
        "kernel": remark.kernel,
        "launches": list(remark.launches),
        "code": remark.code,
        "fired": remark.fired,
        "relevant": remark.relevant,
        "reason": remark.reason,
        "facts": dict(remark.facts),
    }


def _kernel_json(kernel: KernelCost) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "seconds": kernel.seconds,
        "runs": kernel.runs,
        "conditions": list(kernel.conditions),
        "counted": kernel.counted,
        "bound": kernel.bound,
        "units": kernel.units,
        "intensity": kernel.intensity,
        "times": dict(kernel.times),
        "levels": [
            {"name": each.name, "read_bytes": each.read_bytes, "written_bytes": each.written_bytes}
            for each in kernel.levels
        ],
        "held_bytes": dict(kernel.held),
        "lanes": kernel.lanes,
        "blocks": [_block_json(block) for block in kernel.blocks],
    }


def _block_json(block: BlockCost) -> dict[str, Any]:
    return {
        "name": block.name,
        "depth": block.depth,
        "indices": [{"name": name, "range": size, "tag": tag} for name, size, tag in block.indices],
        "points": block.points,
        "exact": block.exact,
        "operations": [
            {"dtype": each.dtype.value, "kind": each.kind.value, "count": each.count} for each in block.operations
        ],
        "accessed_bytes": block.accessed_bytes,
        "footprint_bytes": block.footprint_bytes,
        "footprint_exact": block.footprint_exact,
        "reuse": block.reuse,
        "compute_seconds": block.seconds,
    }
