"""Arrays of the host on their way to a card: none is read later than the call that was given it."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, without_a_card


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [1, 2047, 2048, 60_000, 131_072, 131_073, 500_000])
def test_arrays_may_change_once_the_call_is_over(size: int) -> None:
    with without_a_card() as (driver, context):
        array, kept = np.zeros(size, np.float32), []
        for turn in range(11):
            array[...] = turn
            kept.append(tileir.to_device(array, context=context, copy=True))
        array[...] = -1
        assert ("cuMemAllocHost" in driver.calls) == (2048 <= size <= 131_072)
        for turn, there in enumerate(kept):
            assert (there.numpy() == turn).all()


def test_calls_with_arrays_of_both_kinds(caplog: pytest.LogCaptureFixture) -> None:
    add = "function (A, B) -> (C) { C = A + B; }"
    with without_a_card() as (driver, context):
        call, here = tileir.jit(add, context=context), np.arange(8192, dtype=np.float32)
        there = tileir.to_device(here, context=context)
        with caplog.at_level("INFO", "tileir"):
            results = [call(there, here * turn) for turn in range(9)]
        (told,) = caplog.messages
        assert "inputs B are copied to the device" in told
        assert "cuMemAllocHost" in driver.calls
        for turn, result in enumerate(results):
            np.testing.assert_array_equal(result.numpy(), here * (turn + 1))


def test_without_page_locked_memory_the_driver_copies() -> None:
    with without_a_card() as (driver, context):
        driver.refusals["cuMemAllocHost"] = [Result.CUDA_ERROR_OUT_OF_MEMORY]
        array = np.arange(8192, dtype=np.float32)
        for _ in range(3):
            np.testing.assert_array_equal(tileir.to_device(array, context=context).numpy(), array)
        assert driver.calls.count("cuMemAllocHost") == 1
