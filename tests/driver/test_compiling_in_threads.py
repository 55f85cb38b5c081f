"""Programs that several threads compile at once: the same code, each its own error, and no thread that stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

import tileir
from tileir_llvm import compiler as llvm_compiler

MATRICES: Final = """function (A[M, K], B[K, N]) -> (C) {{
    S[i, j : M, N] = +(A[i, k] * B[k, j]); T = S * {factor}; C[i, j : M, M] = +(T[i, k] * S[j, k]); }}"""
SIZES: Final = [(5, 7, 9), (8, 16, 16), (12, 8, 33), (3, 40, 17), (16, 16, 16), (9, 9, 64)]


@pytest.fixture(autouse=True)
def short_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each kernel be a module, so that one compilation has several threads itself."""
    for name in ("OPTIMISED_LENGTH", "SCHEDULED_LENGTH"):
        monkeypatch.setattr(llvm_compiler, name, 1)


def context() -> tileir.Context:
    return tileir.Context(options=tileir.Options(threads=2), disk_cache=None)


def code(number: int) -> str:
    rows, depth, columns = SIZES[number % len(SIZES)]
    text = MATRICES.format(factor=f"{number}.5")
    arguments = {"A": (rows, depth), "B": (depth, columns)}
    return tileir.compile(text, arguments, device="llvm", context=context()).listing("llvm")


def failure(number: int) -> str:
    """Return the error of a program that has faults on two lines."""
    text = f"function (A[N]) -> (B) {{\n X{number} = missing_{number}(A);\n B = other_{number}(X{number}); }}"
    with pytest.raises(tileir.TileError) as error:
        tileir.compile(text, {"A": (4,)}, device="llvm", context=context())
    return str(error.value)


@pytest.mark.sampled(0)
def test_threads_make_the_code_that_one_makes() -> None:
    numbers = range(12)
    expected = list(map(code, numbers))
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(code, numbers)) == expected


def test_each_thread_gets_the_errors_of_its_own_program_in_order() -> None:
    numbers = range(12)
    expected = list(map(failure, numbers))
    assert all(
        f"missing_{n}" in text and text.index(f"missing_{n}") < text.index(f"other_{n}")
        for n, text in zip(numbers, expected, strict=True)
    )
    with ThreadPoolExecutor(6) as threads:
        results = threads.map(lambda n: code(n) if n % 2 else failure(n), numbers)
        assert list(results)[::2] == expected[::2]


def test_no_thread_of_a_compilation_stays() -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(code, range(8)))
    for thread in threading.enumerate():
        if thread.name == "tileir compiles":
            thread.join(60)
            assert not thread.is_alive()


PRELUDE: Final = """
import signal, sys, threading
import tileir
from tileir_llvm import compiler
compiler.OPTIMISED_LENGTH = compiler.SCHEDULED_LENGTH = 1
def compiled(number):
    context = tileir.Context(options=tileir.Options(threads=2), disk_cache=None)
    sums = "S[i, j : M, N] = +(A[i, k] * B[k, j]); T = S * %d.5; C[i, j : M, M] = +(T[i, k] * S[j, k]);"
    text = "function (A[M, K], B[K, N]) -> (C) { " + sums % number + " }"
    return tileir.compile(text, {"A": (9, 12), "B": (12, 33)}, device="llvm", context=context).listing("llvm")
def for_ever():
    number = 0
    while True:
        compiled(number)
        number += 1
started = [threading.Thread(target=for_ever, daemon=True) for _ in range(3)]
expected = compiled(1)
for thread in started:
    thread.start()
"""

INTERRUPTED: Final = """
def handler(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
caught = 0
for round in range(8):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.03 * round, 1)  # again: Python drops one inside a finalizer
        while True:
            compiled(round)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        caught += 1
assert caught == 8
assert compiled(1) == expected
"""


@pytest.mark.sampled(0)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_interrupts_while_threads_compile_leave_the_compiler_usable() -> None:
    done(PRELUDE + INTERRUPTED)


@pytest.mark.sampled(0)
def test_python_ends_while_threads_compile() -> None:
    done(PRELUDE + "compiled(2)\n")


def done(script: str) -> None:
    """Run a script to its end, which must come; the limit is for one that hangs."""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
