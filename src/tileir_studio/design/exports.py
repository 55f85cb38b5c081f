"""Exports of a formula: a Python script that reproduces its picture bit for bit, or source of a back end."""

from __future__ import annotations

from typing import Any, Final

from tileir import Backend, default_context
from tileir.core import fail
from tileir_formula.running.crafting import craft
from tileir_studio.design.bench import Assignment

_SCRIPT: Final = '''\
"""Applies a formula to pictures: python {file} {inputs} {outputs}"""

import sys
from pathlib import Path

import numpy as np
import tileir
from tileir_cli.pictures.files import as_levels, read_picture, write_picture

FORMULA = """\\
{text}"""

formula = tileir.craft(FORMULA, device={device!r})
paths = [Path(each) for each in sys.argv[1:]]
if len(paths) != {count}:
    sys.exit(__doc__)
pictures = [np.load(path) if path.suffix == ".npy" else read_picture(path) for path in paths[:{read}]]
results = formula(*map(as_levels, pictures))
for path, result in zip(paths[{read}:], results if isinstance(results, tuple) else (results,), strict=True):
    path.write_bytes(write_picture(path, result))
'''


def script_of(assignment: Assignment, file: str) -> str:
    """Return a Python script that reproduces the results bit for bit, on the same device."""
    formula = assignment.formula
    inputs = [f"{name}.png" for name in formula.formula.inputs]
    count = max(1, len(formula.formula.results))
    outputs = ["result.png"] if count == 1 else [f"result{number}.png" for number in range(count)]
    return _SCRIPT.format(
        file=file,
        inputs=" ".join(inputs),
        outputs=" ".join(outputs),
        text=_quoted(formula.text if formula.text.endswith("\n") else f"{formula.text}\n"),
        device=default_context().device(formula.device).id,
        read=len(inputs),
        count=len(inputs) + count,
    )


def _quoted(text: str) -> str:
    """Return a text for a literal in triple quotation marks; line ends alone stay unescaped."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\r", "\\r")
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in escaped)


def writers() -> dict[str, Backend[Any]]:
    """Return the back ends that write programs as source and have a device here, by name."""
    context = default_context()
    known = {device.backend: context.registry.backend(device.backend) for device in context.devices()}
    return {name: backend for name, backend in known.items() if backend.source is not None}


def source_of(assignment: Assignment, name: str) -> str:
    """Return the source of the whole formula, headed by a comment on how to run it without tileir.

    Args:
        assignment: The formula, and its pictures.
        name: That of a back end among :func:`writers`.

    Raises:
        TileError: TIL801, the back end has no device; or any error of crafting.
    """
    found = writers()
    write = found[name].source if name in found else None
    if write is None:
        others = f"; there is source of {', '.join(found)}" if found else ""
        raise fail("TIL801", f"no device here has a back end {name[:64]!r} that writes source{others}")
    context = default_context()
    own = context.device(assignment.formula.device)
    device = next(each for each in (own, *context.devices()) if each.backend == name)
    executable = craft(assignment.formula.text, device=device).executable(*assignment.pictures)
    return write(executable.sem, device, assignment.formula.text)
