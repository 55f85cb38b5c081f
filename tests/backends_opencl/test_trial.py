"""The program that tries vectors, in this process with vectors that no driver fails on."""

from __future__ import annotations

import pytest

from strategies.opencl_device import device
from tileir_opencl.device.devices import device_of
from tileir_opencl.device.trial import PASSED, main


@pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")
def test_narrow_vectors_pass(capsys: pytest.CaptureFixture[str]) -> None:
    found = device_of(device()).found
    assert main(found.platform.name, found.platform.version, str(found.number), "4") == 0
    assert capsys.readouterr().out.strip() == PASSED


def test_a_platform_that_is_not_there_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("no such platform", "1", "0", "4") == 1
    assert capsys.readouterr().out == ""
