"""Nothing that is done again and again makes the process grow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from soak.children import environment

CODE = """
import json, sys
import attrs
from soak import memory
grown = getattr(memory, "growth_of_" + sys.argv[1])("llvm", *map(int, sys.argv[2:]))
print(json.dumps(attrs.asdict(grown)))
"""

BYTES = 6 * 1024
"""For each compilation; LLVM 22 by way of llvmlite 0.50 loses 1.5 KiB, and what was not freed took 90."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("what", "count", "warm_up"), [("calls", 3000, 500), ("steps", 3000, 500), ("errors", 1000, 200)]
)
def test_calls_leave_nothing(what: str, count: int, warm_up: int) -> None:
    grown = measured(what, count, warm_up)
    assert grown["native_bytes"] < 16
    assert grown["python_blocks"] < 0.5


@pytest.mark.sampled(0)
def test_compilations_leave_little() -> None:
    # First the cache of 1024 views fills, of which each program has three; it then drops one for each that it takes.
    grown = measured("compilations", 60, 360)
    assert grown["native_bytes"] < BYTES
    assert grown["python_blocks"] < 20


def measured(what: str, count: int, warm_up: int) -> dict[str, float]:
    """Return how a process of its own grew."""
    command = [sys.executable, "-c", CODE, what, str(count), str(warm_up)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    grown: dict[str, float] = json.loads(done.stdout)
    return grown
