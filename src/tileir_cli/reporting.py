"""Diagnostics on the error stream."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from tileir.core.errors import Diagnostic


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics on the error stream, in colour where that is a terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for diagnostic in diagnostics:
        colour = "red" if diagnostic.severity == "error" else "yellow"
        for line in diagnostic.render().splitlines():
            style = f"bold {colour}" if f"{diagnostic.severity}[" in line else colour if set(line) <= set(" |^") else ""
            console.print(Text(line, style=style))
