"""What a formula is taken away as: a Python script that makes the same bytes again, or its source in C or OpenCL C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail
from tileir.driver.crafting import craft
from tileir.runtime.context import default_context

if TYPE_CHECKING:
    from tileir.studio.bench import Assignment

_SCRIPT: Final = '''\
"""Applies a formula to pictures: python {file} {inputs} {outputs}"""

import sys
from pathlib import Path

import numpy as np
import tileir
from tileir.driver.pictures import as_levels, read_picture, write_picture

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

SOURCES: Final = {"c": "c", "opencl": "opencl"}
"""The back end that writes each form of code that is given away."""


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
    """Return a text as it stands between three quotation marks; other characters than those of lines are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\r", "\\r")
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in escaped)


def source_of(assignment: Assignment, form: str) -> str:
    """Return the source of the whole formula, which begins with a comment that says how it is run without tileir.

    Raises:
        TileError: TIL801, no device of the back end that writes it is there; or what crafting raises.
    """
    context = default_context()
    own = context.device(assignment.formula.device)
    devices = [each for each in (own, *context.devices()) if each.backend == SOURCES[form]]
    write = context.registry.backend(SOURCES[form]).source if devices else None
    if write is None:
        known = "pip install tileir-c, which needs a C compiler" if form == "c" else "install an OpenCL driver"
        raise fail("TIL801", f"no device here makes {form}; {known}")
    executable = craft(assignment.formula.text, device=devices[0]).executable(*assignment.pictures)
    return write(executable.sem, devices[0], assignment.formula.text)
