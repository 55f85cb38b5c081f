"""Formulas that the studio gives away as C: compiled without a warning, called without tileir, equal to pictures."""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from studio.taken import COLOUR, FORMULAS, PICTURES, assignment, check_equal, check_near, results_of
from tileir.semtree.ir import BufferRole
from tileir_c import BACKEND
from tileir_c.toolchain import find_toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from studio.taken import Assignment

    Array = np.ndarray[Any, np.dtype[Any]]

STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")


def called(given: Assignment, folder: Path) -> list[Array]:
    """Return the results of a formula's source, compiled as that says itself that it is compiled."""
    program = tileir.craft(given.formula.text, device="c.0").executable(*given.pictures).sem
    assert BACKEND.source is not None
    source = BACKEND.source(program, BACKEND.devices()[0], given.formula.text)
    path = folder / "formula.c"
    path.write_text(source)
    says = source.splitlines()[0]
    assert says.startswith("// Compile with: cc ")
    flags = says.removeprefix("// Compile with: cc ").split()[:-2]
    command = [*find_toolchain().command, *flags, *STRICT, "-shared", "-fPIC", str(path), "-lm", "-o", "formula.so"]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "formula.so"))
    library.formula_workspace_bytes.restype = ctypes.c_size_t
    workspace = np.zeros(library.formula_workspace_bytes() + 128, np.uint8)
    start = (-workspace.ctypes.data) % 128
    outputs = [buffer for buffer in program.buffers if buffer.role is BufferRole.OUTPUT]
    results = [np.empty(each.shape, each.dtype.numpy) for each in outputs]
    arrays = (*map(np.ascontiguousarray, given.pictures), *results, workspace[start:])
    library.formula(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    return results


# Conditions on pixels with three channels are long texts of shuffles, which take C compilers ten seconds each.
KINDS: Final = {"conditioned": "grey", "merged": "floats"}


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, KINDS.get(name, "colour")) for name in FORMULAS), ("several", "grey"), ("edges", "deep")],
)
def test_c_source_runs_without_tileir(name: str, kind: str, tmp_path: Path) -> None:
    given = assignment(FORMULAS[name], PICTURES[kind])
    found = called(given, tmp_path)
    check_equal(found, results_of(given, "c.0"))
    check_near(found, results_of(given))


def test_a_comment_ends_neither_itself_nor_the_line_behind_it(tmp_path: Path) -> None:
    given = assignment("// a\\\n// */ ??/\nbox\n", COLOUR)
    assert called(given, tmp_path)
