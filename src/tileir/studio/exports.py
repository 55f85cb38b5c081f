"""What a formula is taken away as: a Python script that makes the same bytes again, or the source of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail
from tileir.runtime.context import default_context
from tileir.semtree.ir import Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tileir.driver.executable import Executable
    from tileir.semtree.ir import Program, Work
    from tileir.studio.bench import Assignment

_SCRIPT: Final = '''\
"""Applies a formula to pictures: python {file} {inputs} {outputs}"""

import sys
from pathlib import Path

import tileir
from tileir.driver.pictures import as_levels, read_picture, write_picture

FORMULA = """\\
{text}"""

formula = tileir.craft(FORMULA, device={device!r})
paths = [Path(each) for each in sys.argv[1:]]
if len(paths) != {count}:
    sys.exit(__doc__)
results = formula(*[as_levels(read_picture(path)) for path in paths[:{read}]])
for path, result in zip(paths[{read}:], results if isinstance(results, tuple) else (results,), strict=True):
    path.write_bytes(write_picture(path, result))
'''

SOURCES: Final = {"c": "c", "opencl": "opencl"}
"""The forms of code that are given away, by the back end that makes it."""


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
    """Return the source of the kernels, below a comment that says in which order they are launched, on what.

    Raises:
        TileError: TIL801, no device of the back end that makes it is there; or what crafting raises.
    """
    backend = SOURCES.get(form)
    device = next((each for each in default_context().devices() if each.backend == backend), None)
    if device is None:
        known = "pip install tileir-c, which needs a C compiler" if form == "c" else "install an OpenCL driver"
        raise fail("TIL801", f"no device here makes {form}; {known}")
    from tileir.driver.crafting import craft

    executable = craft(assignment.formula.text, device=device.id).executable(*assignment.pictures)
    return "\n".join(("/*", *_header(assignment, executable), "*/", executable.listing(form)))


def _header(assignment: Assignment, executable: Executable) -> Iterator[str]:
    """Yield the lines of the comment; what somebody wrote must not end it."""
    program = executable.sem
    yield "Kernels of a formula, by tileir, for pictures of these sizes alone:"
    yield ""
    yield from (f"    {line}".rstrip().replace("*/", "* /") for line in assignment.formula.text.splitlines())
    yield ""
    yield "Buffers, dense, rows first:"
    yield from (
        f"    {each.name}: {each.role.value}, {each.dtype.value}{list(each.shape)}"
        + (f", which holds the bytes {each.data.hex()}" if each.data else "")
        for each in program.buffers
    )
    yield ""
    yield "Launch the kernels in this order, each on its grid of groups; the arguments are buffers:"
    yield from _launches(program, program.launches, "    ")


def _launches(program: Program, works: Iterable[Work], margin: str) -> Iterator[str]:
    for work in works:
        if isinstance(work, Repeat):
            yield f"{margin}{work.count} times:"
            yield from _launches(program, work.launches, f"{margin}    ")
        else:
            kernel = program.kernels[work.kernel]
            yield f"{margin}k{work.kernel}_…({', '.join(work.arguments)}) on {kernel.grid}, groups of {kernel.group}"
