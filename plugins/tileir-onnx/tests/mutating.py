"""Mutated files of the standard's models, read and run by children of one process: ``python mutating.py --files 1000``.

A file must give an error of tileir, or become a function; a tenth of these runs. A file that raises anything else,
takes too long, or ends its process is told, and kept in a folder; the same seed makes the same files.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

import tileir
import tileir_onnx
from mutations import mutated
from tileir_onnx import suite
from tileir_onnx.rows.table import rows
from tileir_onnx.suite import Case

_FINE: Final = ("refused", "read", "ran")
_FILES: Final = 200
"""Files of one child."""
_LONGEST: Final = 200_000
"""Bytes of models that are mutated."""
_SECONDS: Final = 30
"""After which a file counts as one that hangs."""
_MEMORY: Final = 6 << 30
"""Bytes that a child may take."""
_ELEMENTS: Final = 10_000
"""Elements of inputs up to which a tenth of the models is run by the interpreter."""


class _ReadError(Exception):
    """A model has become a function, which is not to be run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read mutated files; return 1 where one ends in anything else."""
    parser = argparse.ArgumentParser(prog="python mutating.py", description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("mutated"), help="the folder for files with findings")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    cases = [each for each in suite.cases(suite.KINDS[:-1]) if len(_content(each)) < _LONGEST]
    rows()
    _check(_content(cases[0]), cases[0], Random(0))  # so that children have all modules
    counts: Counter[str] = Counter()
    for begin in range(0, given.files, _FILES):
        counts += _child(cases, given.seed, range(begin, min(begin + _FILES, given.files)), given.keep)
    sys.stdout.write(f"{dict(counts)}\n")
    return int(bool(counts.keys() - set(_FINE)))


def _content(case: Case) -> bytes:
    return case.model if isinstance(case.model, bytes) else case.model.read_bytes()


def _child(cases: Sequence[Case], seed: int, numbers: range, keep: Path) -> Counter[str]:
    """Return outcomes of files, found by a process of their own; another one goes on behind a file that ended it."""
    counts: Counter[str] = Counter()
    at = numbers.start
    while at < numbers.stop:
        ours, theirs = get_context("fork").Pipe()
        process = get_context("fork").Process(target=_serve, args=(theirs, cases, seed, range(at, numbers.stop)))
        process.start()
        theirs.close()
        while True:
            try:
                outcome = ours.recv() if ours.poll(2 * _SECONDS) else ("hang", "")
            except EOFError:
                process.join()
                outcome = ("end", f"the process ended with {process.exitcode}")
            if outcome[0] in ("end", "hang") and at < numbers.stop:
                process.kill()
            elif at == numbers.stop:
                break
            if outcome[0] not in _FINE:
                _tell(cases, seed, at, outcome, keep)
            counts[outcome[0]] += 1
            at += 1
            if outcome[0] in ("end", "hang"):
                break
        process.join()
    return counts


def _tell(cases: Sequence[Case], seed: int, number: int, outcome: tuple[str, str], keep: Path) -> None:
    case, data, _ = _file(cases, seed, number)
    keep.mkdir(exist_ok=True)
    (keep / f"{seed}-{number}.onnx").write_bytes(data)
    sys.stdout.write(f"{outcome[0]}: file {number} of seed {seed}, of {case.name}: {outcome[1]}\n")
    sys.stdout.flush()


def _file(cases: Sequence[Case], seed: int, number: int) -> tuple[Case, bytes, Random]:
    random = Random(f"{seed} {number}")
    case = random.choice(cases)
    return case, mutated(_content(case), random), random


def _serve(pipe: Any, cases: Sequence[Case], seed: int, numbers: range) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    for number in numbers:
        case, data, random = _file(cases, seed, number)
        signal.alarm(_SECONDS)
        pipe.send(_check(data, case, random))
        signal.alarm(0)
    pipe.close()
    os._exit(0)  # nothing of the parent's is to be cleaned up here


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it takes more than {_SECONDS} seconds")


def _check(data: bytes, case: Case, random: Random) -> tuple[str, str]:
    """Return the outcome of a file and where an exception comes from."""
    runs = random.random() < 0.1

    def compiler(function: tileir.Function) -> Any:
        small = all(each.size < _ELEMENTS for inputs, _ in case.data for each in inputs if hasattr(each, "size"))
        if runs and small:
            return lambda *arrays: _run(function, arrays)
        raise _ReadError

    try:
        model = tileir_onnx.load(data)
        model.compiler = compiler
        inputs = case.data[0][0] if case.data else ()
        model.run(dict(zip((port.name for port in model.inputs), inputs, strict=False)))
    except tileir.TileError:
        return "refused", ""
    except _ReadError:
        return "read", ""
    except Exception as error:  # which the run is there to find
        return "crash", f"{error!r:.300}\n{''.join(traceback.format_tb(error.__traceback__, -4))}"
    return "ran", ""


def _run(function: tileir.Function, arrays: Sequence[Any]) -> Any:
    """Run a function, whose sizes may have become large, which is no fault."""
    try:
        return tileir.evaluate(function, arrays)
    except (TimeoutError, MemoryError):
        raise _ReadError from None


if __name__ == "__main__":
    sys.exit(main())
