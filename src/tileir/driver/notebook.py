"""HTML of executables, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileir.core.text.markup import folded, highlighted, paragraph, table
from tileir.core.text.quantities import count_text
from tileir.driver.programs import Program
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.executable import Executable

MOST_KERNELS: Final = 50
"""Maximum number of listed kernels."""


def executable_html(executable: Executable, types: Mapping[str, TensorType], program: Program) -> str:
    """Return the device of an executable, its types, and its program and kernels as collapsible sections."""
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


def cut(text: str, count: int) -> str:
    """Return a caption for a list of kernels, which mentions truncation to :data:`MOST_KERNELS`."""
    return text if count <= MOST_KERNELS else f"{text}; the first {MOST_KERNELS} kernels:"
