"""Many threads: one executable, several executables, several compilations, one executor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tileir import jit
from tileir_testing.subject import INCREMENT, Subject, numbers

THREADS = 6
CALLS = 10
LAYER = "function (A[M, K], B[K, N]) -> (O) { C[i, j : M, N] = +(A[i, k] * B[k, j]); O = relu(C - 1); }"
CHAIN = "function (A[N]) -> (O) { B[i : N] = +(A[j]), i - j < N; S[] = >(B[i]); O = B - S; }"


def at_once(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Call ``work`` with 0, 1, … in as many threads, which start together; raise what it raises."""
    barrier = threading.Barrier(threads)

    def start(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(start, number) for number in range(threads)]:
            future.result()


def matrices(seed: int) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    generator = np.random.default_rng(seed)
    shapes = {"A": (20, 30), "B": (30, 40)}
    return {name: generator.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}


def layer(inputs: dict[str, np.ndarray[Any, np.dtype[Any]]]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.asarray(np.maximum(inputs["A"] @ inputs["B"] - 1, 0))


def test_one_executable_in_many_threads(subject: Subject) -> None:
    executable = subject.compile(LAYER, matrices(0))

    def work(number: int) -> None:
        for call in range(CALLS):
            inputs = matrices(number * CALLS + call)
            np.testing.assert_array_equal(executable(**inputs), layer(inputs))

    at_once(work)


def test_several_executables_at_the_same_time(subject: Subject) -> None:
    vector = np.arange(50, dtype=np.int64)
    first, second = subject.compile(LAYER, matrices(0)), subject.compile(CHAIN, {"A": vector})

    def work(number: int) -> None:
        for call in range(CALLS):
            if number % 2:
                inputs = matrices(number * CALLS + call)
                np.testing.assert_array_equal(first(**inputs), layer(inputs))
            else:
                given = vector * (number + 1) + call
                sums = np.cumsum(given)
                np.testing.assert_array_equal(second(given), sums - sums.max())

    at_once(work)


def test_several_compilations_at_the_same_time(subject: Subject) -> None:
    def work(number: int) -> None:
        given = np.arange(10 + number // 2, dtype=np.int32)
        sums = np.cumsum(given)
        np.testing.assert_array_equal(compiled(given), (sums - sums.max()).astype(np.int32))

    compiled = jit(CHAIN, subject.device, context=subject.context)
    at_once(work)


def test_one_executor_in_many_threads(subject: Subject) -> None:
    kernel = subject.prepared(subject.kernel(INCREMENT))

    def work(number: int) -> None:
        one, other = subject.upload(numbers(number)), subject.blank(numbers())
        for _ in range(CALLS):
            kernel.run([other, one]).wait()
            one, other = other, one
        np.testing.assert_array_equal(subject.download(one, numbers()), numbers(number + CALLS))

    at_once(work)
