"""The greatest errors of functions of f32, over all arguments there are.

    python benchmarks/ulps.py [FUNCTION …] [--from -149] [--to 128] [--stride 1]

Each function is computed for every f32 of the binades from 2^FROM to 2^TO, of both signs where it is defined for both,
and compared with itself in f64, whose errors are smaller by a factor of 10^8 (tests/semtree/test_expansions.py compares
them with mpmath). Errors are in units in the last place of the exact value, and stand beside what
``tileir.semtree.transform.expansions.ULP`` promises. All binades of one function take a minute or a few; ``--stride
101`` takes one argument of 101. The exit status is 1 where a promise does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

import attrs
import numpy as np

import tileir
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.transform.expansions import EXPANDED, ULP

FUNCTIONS: Final = {op.value: op for op in sorted(EXPANDED - {Op.POW}, key=lambda op: op.value)}
POSITIVE: Final = (Op.LOG, Op.RSQRT)
CHUNK: Final = 1 << 22
LEAST: Final = 2.0**-149

Array = np.ndarray[Any, np.dtype[Any]]


@attrs.frozen
class Worst:
    """The greatest error found, where it is, and how many were above the promised one, of how many arguments."""

    error: float = 0.0
    argument: float = 0.0
    above: int = 0
    arguments: int = 0


def sweep(op: Op, first: int, last: int, stride: int) -> Worst:
    """Return the greatest error of ``op`` over every ``stride``-th f32 from ``2**first`` up to ``2**last``."""
    single = tileir.jit(f"function (X[N]) -> (Y) {{ Y = {op.value}(X); }}")
    begin, end = (int(np.float32(2.0**power).view(np.uint32)) for power in (first, min(last, 127)))
    end = 0x7F800000 if last > 127 else end
    found = Worst()
    for start in range(begin, end, CHUNK * stride):
        size = np.arange(start, min(end, start + CHUNK * stride), stride, dtype=np.uint32).view(np.float32)
        for values in (size,) if op in POSITIVE else (size, -size):
            errors = _errors(single(values), single(values.astype(np.float64)))
            place = int(np.argmax(errors))
            above = found.above + int(np.count_nonzero(errors > ULP[op, DType.F32]))
            found = attrs.evolve(found, above=above, arguments=found.arguments + values.size)
            if errors[place] > found.error:
                found = attrs.evolve(found, error=float(errors[place]), argument=float(values[place]))
    return found


def _errors(actual: Array, exact: Array) -> Array:
    """Return distances in units in the last place; 0 where nothing finite is exact, as beyond a domain."""
    with np.errstate(all="ignore"):
        power = (exact.view(np.int64) & (0x7FF << 52)).view(np.float64)  # the power of two below a value
        errors = np.abs(actual.astype(np.float64) - exact) / np.maximum(power * 2.0**-23, LEAST)
        fits = np.abs(exact) < np.finfo(np.float32).max
    return np.where(fits, np.where(np.isnan(errors), np.inf, errors), 0.0)


def main() -> int:
    """Print a row for each function; return 1 where one errs by more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=", ".join(FUNCTIONS))
    parser.add_argument("--from", dest="first", type=int, default=-149, metavar="POWER")
    parser.add_argument("--to", dest="last", type=int, default=128, metavar="POWER")
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    failed = False
    print(f"{'function':10}{'greatest':>10}{'promised':>10}{'above':>8}  at")
    for name in options.functions or FUNCTIONS:
        op, start = FUNCTIONS[name], time.perf_counter()
        worst = sweep(op, options.first, options.last, options.stride)
        failed |= worst.above > 0
        seconds = time.perf_counter() - start
        promised = ULP[op, DType.F32]
        print(
            f"{name:10}{worst.error:10.4f}{promised:10.3f}{worst.above:8}  {worst.argument!r}"
            f" of {worst.arguments} arguments, {seconds:.0f} s",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
