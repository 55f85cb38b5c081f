"""Kernels as a program of their own, compiled so that undefined behaviour and accesses out of bounds stop it."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir_c.compiler import entry, whole
from tileir_c.emitter import emit
from tileir_c.toolchain import PRECISE, find_toolchain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tileir.semtree.ir import KernelFunction

    Array = np.ndarray[Any, np.dtype[Any]]

FLAGS: Final = (
    "-std=c11",
    "-D_POSIX_C_SOURCE=200112L",
    "-O0",
    *PRECISE,
    "-fno-strict-aliasing",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)

MAIN: Final = r"""
#include <stdio.h>
#include <stdlib.h>

static void *room(size_t bytes, int filled) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0) abort();
  if (filled && bytes && fread(memory, bytes, 1, stdin) != 1) abort();
  return memory;
}
"""


def source_of(kernels: Sequence[KernelFunction]) -> str:
    """Return a program that reads the arrays of each kernel, runs it on memory of just their size, and writes them."""
    emitted = emit(kernels)
    calls = []
    for kernel, name, scratch in zip(kernels, emitted.names, emitted.scratch_bytes, strict=True):
        sizes = [param.size * param.dtype.itemsize for param in kernel.params]
        groups = int(np.prod(kernel.grid))
        fill = "".join(f"    arguments[{place}] = room({size}, 1);\n" for place, size in enumerate(sizes))
        show = "".join(f"    fwrite(arguments[{place}], {size}, 1, stdout);\n" for place, size in enumerate(sizes))
        drop = "".join(f"    free(arguments[{place}]);\n" for place in range(len(sizes)))
        run = f"    void *scratch = room({scratch}, 0);\n    {entry(name)}(arguments, scratch, 0, {groups});\n"
        calls.append(f"  {{\n    void *arguments[{len(sizes)}];\n{fill}{run}{show}{drop}    free(scratch);\n  }}\n")
    return f"{whole(emitted)}{MAIN}\nint main(void) {{\n{''.join(calls)}  return 0;\n}}\n"


def built(source: str, folder: Path) -> Path:
    """Return the program that the C compiler makes of a source."""
    text, program = folder / "kernels.c", folder / "kernels"
    text.write_text(source, encoding="utf-8")
    command = (*find_toolchain().command, *FLAGS, "-o", str(program), str(text), "-lm")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return program


def run(program: Path, arrays: Sequence[Array]) -> list[Array]:
    """Return what a program leaves in arrays; raise AssertionError with what a sanitizer reported."""
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run([program], input=given, capture_output=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[:4000]
    results, start = [], 0
    for array in arrays:
        results.append(np.frombuffer(done.stdout, array.dtype, array.size, start).reshape(array.shape))
        start += array.nbytes
    assert start == len(done.stdout)
    return results
