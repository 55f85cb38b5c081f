"""Tile programs on an OpenCL device, held against the interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from strategies.opencl_device import device
from tileir.runtime.events import PendingEvent
from tileir.tile.text.printer import to_text
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function
from tileir.typed.raising.raising import raise_to_tile

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SOFTMAX = """
function (X[I, J]) -> (Y) {
    M[i, 0 : I, 1] = >(X[i, j]);
    E = exp(X - M);
    S[i, 0 : I, 1] = +(E[i, j]);
    Y = E / S;
}
"""
SCALE = "function (A) -> (B, C) { B = A * 2; C = A + B; }"


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    return (np.random.default_rng(0).integers(-8, 9, shape) / 2).astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", ["cpu", "gpu", "plain"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "f2", ml_dtypes.bfloat16])
def test_a_product_of_matrices(dtype: Any, passes: str) -> None:
    a, b = numbers(dtype, 33, 20), numbers(dtype, 20, 17)
    executable = tileir.compile(MATMUL, (a, b), device=device().id, passes=passes)
    np.testing.assert_array_equal(executable(a, b), tileir.evaluate(MATMUL, (a, b)))


@pytest.mark.parametrize("passes", ["cpu", "gpu"])
def test_several_kernels_with_temporaries(passes: str) -> None:
    x = numbers("f4", 40, 70)
    executable = tileir.compile(SOFTMAX, x, device=device().id, passes=passes)
    np.testing.assert_allclose(executable(x), tileir.evaluate(SOFTMAX, x), rtol=1e-5)


def test_arrays_that_are_not_aligned_or_are_read_only() -> None:
    scale = tileir.jit(SCALE, device().id)
    fixed = numbers("f4", 64)
    fixed.flags.writeable = False
    for array in (fixed, numbers("f4", 65)[1:], numbers("f4", 130)[::2], np.float32(3)):
        b, c = scale(array)
        np.testing.assert_array_equal(b, array * 2)
        np.testing.assert_array_equal(c, array * 3)


def test_results_go_where_the_caller_wants_them() -> None:
    scale = tileir.jit(SCALE, device().id)
    room = np.zeros((3, 65), np.float32)
    a = numbers("f4", 65)
    scale(a, out=(room[1], room[2]))
    np.testing.assert_array_equal(room, [np.zeros(65), a * 2, a * 3])


def test_calls_that_share_nothing_overlap() -> None:
    a = numbers("f4", 256)
    first, second = (tileir.compile(SCALE, a, device=device().id) for _ in range(2))
    gate = PendingEvent()
    waiting = first.submit(a, after=[gate])
    np.testing.assert_array_equal(second(a)[0], a * 2)
    assert not waiting.done
    gate.complete()
    np.testing.assert_array_equal(waiting.result()[1], a * 3)


def test_many_threads_call_one_function() -> None:
    multiply = tileir.jit(MATMUL, device().id)
    started = threading.Barrier(6)

    def call(number: int) -> bool:
        a, b = numbers("f4", 16 + number % 3, 20) + number, numbers("f4", 20, 24)
        started.wait()
        return all(bool((multiply(a, b) == tileir.evaluate(MATMUL, (a, b))).all()) for _ in range(5))

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(call, range(6)))


def test_a_second_context_takes_the_program_from_the_cache_on_disk() -> None:
    a, b = numbers("f4", 9, 8), numbers("f4", 8, 7)
    for _ in range(2):
        with tileir.Context() as context:
            multiply = tileir.jit(MATMUL, device().id, context=context)
            np.testing.assert_array_equal(multiply(a, b), a @ b)


def test_code_is_listed() -> None:
    executable = tileir.compile(MATMUL, [(4, 4), (4, 4)], device=device().id)
    assert "// C[i, j : 4, 4] = +(A[i, k] * B[k, j])" in executable.listing()
    assert executable.listings == ("opencl", "ptx")


@pytest.mark.sampled(0)
def test_a_process_may_end_while_the_device_works() -> None:
    text = f"""
import numpy as np, tileir
from tileir.runtime.events import PendingEvent
from tileir.tile.text.printer import to_text
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function
from tileir.typed.raising.raising import raise_to_tile
text = "function (A[N]) -> (B) {{ B[i : N] = +(A[i] * A[j]), j < 4096; }}"
work = tileir.compile(text, [(4096,)], device={device().id!r})
array = np.ones(4096, np.float32)
calls = [work.submit(array) for _ in range(4)] + [work.submit(array, after=[PendingEvent()])]
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("passes", ["cpu", "gpu"])
@examples(2)
@given(function=functions())
def test_loops_compute_what_they_mean(passes: str, function: Function) -> None:
    text, given = to_text(raise_to_tile(function)), arguments(function)
    found = tileir.compile(text, given, device=device().id, passes=passes)(**given)
    results = found if isinstance(found, tuple) else (found,)
    assert_same(dict(zip(function.outputs, results, strict=True)), interpret(function, given))
