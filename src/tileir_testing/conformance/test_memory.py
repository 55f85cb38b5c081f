"""Memory is used again and given back, and results belong to the caller."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tileir import Context, evaluate, jit
from tileir_testing.subject import Subject

CHAIN = """function (A[M, N]) -> (O, P) {
  B[i : M] = +(A[i, j]); C[i, j : M, M] = +(B[i] * B[j]); D[i : M] = >(C[i, j]); O = D + B; P = -A;
}"""


def live(subject: Subject) -> int:
    """Return the number of buffers of the device."""
    one = subject.executor.allocate(1)
    gc.collect()
    found = sum(type(found) is type(one) for found in gc.get_objects())
    if not found:
        pytest.skip("the garbage collector does not see buffers of this device")
    return found


def given(rows: int, columns: int = 7) -> np.ndarray[Any, np.dtype[Any]]:
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 5


def test_results_are_the_callers(subject: Subject) -> None:
    executable = subject.compile(CHAIN, {"A": given(6)})
    first = executable(given(6))
    copies = [array.copy() for array in first]
    second = executable(given(6) + 1)
    for array, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    arrays = [*first, *second]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def test_inputs_are_not_changed(subject: Subject) -> None:
    argument = given(6)
    argument.flags.writeable = False
    subject.compile(CHAIN, {"A": argument})(argument)
    np.testing.assert_array_equal(argument, given(6))


def test_many_calls_use_the_same_memory(subject: Subject) -> None:
    executable = subject.compile(CHAIN, {"A": given(6)})
    for _ in range(5):
        executable(given(6))
    before = live(subject)
    for _ in range(50):
        executable(given(6))
    assert live(subject) <= before


def test_many_shapes_leave_nothing_behind(subject: Subject) -> None:
    with Context(registry=subject.context.registry, disk_cache=None) as context:
        before = live(subject)
        run = jit(CHAIN, subject.device, context=context)
        for rows in range(2, 10):
            results = run(given(rows))
            for result, expected in zip(results, evaluate(CHAIN, given(rows)), strict=True):
                np.testing.assert_array_equal(result, expected)
    assert live(subject) <= before, "a closed context keeps memory of the device"


def test_dropped_buffers_are_given_back(subject: Subject) -> None:
    before = live(subject)
    buffers = [subject.executor.allocate(1000) for _ in range(100)]
    del buffers
    assert live(subject) <= before
