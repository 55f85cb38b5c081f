"""A program on the interpreter and on the devices whose turn it is."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fuzz.area import THREADS, Array, Case, context, is_there
from tileir.driver.executable import Executable, compile as compile_function
from tileir.driver.jit import evaluate
from tileir.tile.text.parser import parse

INTERPRETER: Final = "interpreter"

RARELY: Final = 16
"""One of so many cases runs on OpenCL too, whose compilers are slow."""


COMPILED: Final[Counter[str]] = Counter()
"""Number of programs that this process has compiled, by device."""


def turn_of(case: Case) -> int:
    """Return a number that depends on the case alone: it chooses devices and threads."""
    return zlib.crc32(json.dumps(case, sort_keys=True).encode())


def results_by_device(function: Any, arrays: Mapping[str, Array], case: Case) -> dict[str, dict[str, Array]]:
    """Return the results of a function by name, of the interpreter and of devices.

    Raises:
        TileError: the function cannot be interpreted, or compiled.

    """
    names = [output.name for output in (parse(function) if isinstance(function, str) else function).outputs]
    turn = turn_of(case)
    results = {INTERPRETER: _named(names, evaluate(function, dict(arrays)))}
    if is_there("llvm"):
        threads = THREADS[turn % len(THREADS)]
        results[f"llvm on {threads} threads"] = on_device("llvm", threads, function, arrays)
    if turn // len(THREADS) % RARELY == 0 and is_there("opencl"):
        results["opencl"] = on_device("opencl", None, function, arrays)
    return results


def on_device(device: str, threads: int | None, function: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Compile a function for a device, and run it."""
    executable = compiled(device, threads, function, arrays)
    return _named(executable.outputs, executable(**arrays))


def compiled(
    device: str, threads: int | None, function: Any, arrays: Mapping[str, Array], passes: Any = None
) -> Executable:
    """Compile a function for a device and the sizes and dtypes of some inputs, and count it."""
    executable = compile_function(function, dict(arrays), context=context(device, threads), passes=passes)
    COMPILED[device] += 1
    return executable


def _named(names: Any, results: Any) -> dict[str, Array]:
    several = results if isinstance(results, tuple) else (results,)
    return dict(zip(names, map(np.asarray, several), strict=True))
