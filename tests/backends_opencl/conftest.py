"""An executor of its own for each test, and a kernel prepared on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strategies.opencl_device import ADD_ONE, by_hand, new_executor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.kernels import OpenCLKernel


@pytest.fixture
def executor() -> Iterator[OpenCLExecutor]:
    made = new_executor()
    yield made
    made.close()


@pytest.fixture
def add_one(executor: OpenCLExecutor) -> OpenCLKernel:
    return executor.prepare(by_hand(ADD_ONE), 0)
