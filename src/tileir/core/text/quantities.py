"""Quantities in readable units: bytes, counts, times, and numbers of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL: Final = ("", "k", "M", "G", "T", "P")
_TIMES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def runs_text(runs: int, conditions: Sequence[str]) -> str:
    """Return the number and the conditions of runs of something; empty for a single unconditional run.

    Args:
        runs: The number of runs, with one step for each loop on a condition.
        conditions: From outside in: "while go", "if odd" or "unless odd".
    """
    iterated = any(condition.startswith("while ") for condition in conditions)
    often = "once" if runs == 1 else f"{runs} times"
    parts = (often if runs > 1 or iterated else "", "per iteration" if iterated else "", ", ".join(conditions))
    return " ".join(part for part in parts if part)


def size_text(count: float) -> str:
    """Return a number of bytes in the largest unit with a value of at least one."""
    return _scaled(float(count), 1024, _BINARY, " ")


def count_text(count: float) -> str:
    """Return a number in the largest unit with a value of at least one."""
    return _scaled(float(count), 1000, _DECIMAL, "")


def _scaled(value: float, step: int, units: Sequence[str], space: str) -> str:
    unit = units[0]
    for larger in units[1:]:
        if value < step * 0.9995:
            break
        value, unit = value / step, larger
    number = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{number}{space}{unit}".rstrip()


def seconds_text(seconds: float) -> str:
    """Return a time in the largest unit with a value of at least one."""
    if seconds <= 0:
        return "0"
    scale, unit = next(((scale, unit) for scale, unit in _TIMES if seconds >= scale * 0.9995), _TIMES[-1])
    return f"{seconds / scale:.3g} {unit}"
