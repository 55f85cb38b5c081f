"""Programs ahead of time in tests: written, compiled without any warning, and run on .npy files."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core.dtype import DType
from tileir.runtime.array_files import as_saved
from tileir_c.aot.main_program import main_source
from tileir_c.toolchain import find_toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tileir_c.aot.program import Ahead

    Array = np.ndarray[Any, np.dtype[Any]]

STRICT: Final = ("-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fno-strict-aliasing")
SANITIZERS: Final = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")


@cache
def offers_sanitizers() -> bool:
    """Return whether the compiler can find undefined behaviour and bad accesses."""
    done = subprocess.run(
        [*find_toolchain().command, *SANITIZERS, "-x", "c", "-", "-o", "/dev/null"],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def write(made: Ahead, folder: Path) -> str:
    """Write all files of a program and return the stem of their names."""
    name = made.interface.name
    (folder / f"{name}.h").write_text(made.header)
    (folder / f"{name}.c").write_text(made.source)
    (folder / f"{name}_main.c").write_text(main_source(made.interface))
    return name


def build(made: Ahead, folder: Path, *flags: str) -> Path:
    """Compile a program in a folder, where a warning is an error, and return what can be run."""
    name = write(made, folder)
    command = [*find_toolchain().command, *STRICT, *flags, f"{name}.c", f"{name}_main.c", "-lm", "-o", name]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name


def run(made: Ahead, inputs: Mapping[str, Array], folder: Path, *flags: str) -> dict[str, Array]:
    """Compile a program, run it without an environment, and return its results by name."""
    program = build(made, folder, *flags)
    words = []
    for number, buffer in enumerate(made.interface.inputs):
        words.append(f"in{number}.npy")
        np.save(folder / words[-1], as_saved(inputs[buffer.name]))
    outputs = {buffer.name: f"out{number}.npy" for number, buffer in enumerate(made.interface.outputs)}
    done = subprocess.run(
        [str(program), *words, *outputs.values()], cwd=folder, text=True, capture_output=True, check=False, env={}
    )
    assert done.returncode == 0, done.stderr
    dtypes = {buffer.name: buffer.dtype for buffer in made.interface.outputs}
    return {name: _loaded(folder / path, dtypes[name]) for name, path in outputs.items()}


def _loaded(path: Path, dtype: DType) -> Array:
    array: Array = np.load(path)
    return array.view(dtype.numpy) if array.dtype.kind == "V" else array
