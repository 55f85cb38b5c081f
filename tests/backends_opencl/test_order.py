"""An out-of-order queue keeps every dependency, and no order beside."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from strategies.opencl_device import SIZE, by_hand

if TYPE_CHECKING:
    from tileir.runtime.interface import Event
    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.kernels import OpenCLKernel


def commands_in_any_order(executor: OpenCLExecutor, average: OpenCLKernel, seed: int) -> bool:
    """Submit random launches and copies over a few buffers with the dependencies that they have, and no others."""
    choose, count = random.Random(seed), 5
    expected = [np.random.default_rng(seed + number).random(SIZE, np.float32) for number in range(count)]
    buffers = [executor.allocate(4 * SIZE) for _ in range(count)]
    written = [executor.copy(array.copy(), buffer) for array, buffer in zip(expected, buffers, strict=True)]
    read: list[list[Event]] = [[] for _ in range(count)]
    for _ in range(80):
        source, target = choose.sample(range(count), 2)
        after = [written[source], written[target], *read[target]]
        if choose.random() < 0.8:
            event = average.run([buffers[source], buffers[target]], after)
            expected[target] = (expected[source] + expected[target]) * np.float32(0.5)
        else:
            event = executor.copy(buffers[source], buffers[target], after)
            expected[target] = expected[source]
        written[target], read[target] = event, []
        read[source].append(event)
    for buffer, event, array in zip(buffers, written, expected, strict=True):
        with buffer.map_current([event]) as view:
            np.testing.assert_array_equal(view.view(np.float32), array)
    return True


def test_commands_keep_their_dependencies_in_any_order(executor: OpenCLExecutor) -> None:
    average = executor.prepare(by_hand("to[i] = (from[i] + to[i]) * 0.5f;"), 0)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda seed: commands_in_any_order(executor, average, seed), range(8)))
