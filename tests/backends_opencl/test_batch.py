"""Programs as one piece of work, on a device that has memory of its own: the simulator, or one that is treated so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.opencl_device import ADD_ONE, NUMBERS, by_hand
from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from tileir_opencl.run.executor import OpenCLExecutor


def test_launches_follow_each_other(executor: OpenCLExecutor) -> None:
    kernel = executor.prepare(by_hand(ADD_ONE), 0)
    one, other = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    there, back = kernel.bind([one, other]), kernel.bind([other, one])
    for launches in (1, 2, 101):
        result = np.zeros_like(NUMBERS)
        outcome = one if launches % 2 == 0 else other
        executor.run_batch(
            [(NUMBERS, one)], [there, back] * (launches // 2) + [there] * (launches % 2), [(outcome, result)]
        )
        np.testing.assert_array_equal(result, NUMBERS + launches)


def test_a_closed_executor_refuses(executor: OpenCLExecutor) -> None:
    executor.close()
    with pytest.raises(BackendError, match="TIL807"):
        executor.run_batch([], [], [])


def test_what_the_driver_refuses_is_told(executor: OpenCLExecutor) -> None:
    small = executor.allocate(4)
    with pytest.raises(BackendError, match="TIL808"):
        executor.run_batch([(np.zeros(1 << 20, np.float32), small)], [], [])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.float16, ml_dtypes.bfloat16])
def test_calls_have_the_same_results_from_first_to_last(dtype: type) -> None:
    context = tileir.Context()
    device = context.device("opencl")
    executor = context.executor(device)
    executor.shares = False  # type: ignore[attr-defined]
    executor.batches = True  # type: ignore[attr-defined]
    text = "function (A[M, K], B[K, N]) -> (C, D) { C[i, j : M, N] = >(A[i, k] * B[k, j]); D = C + C; }"
    function = tileir.jit(text, device, context=context)
    for seed in range(3):
        generator = np.random.default_rng(seed)
        a: np.ndarray[Any, Any] = generator.integers(0, 3, (3, 4)).astype(dtype)
        b: np.ndarray[Any, Any] = generator.integers(0, 3, (4, 5)).astype(dtype)
        for result, expected in zip(function(a, b), tileir.evaluate(text, [a, b]), strict=True):
            np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))
    context.close()
