"""Platforms in the ICD loader's order, and the advice where it shows none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pyopencl as cl
import pytest
from pyopencl._cl import _ErrorRecord

from tileir.core.errors import BackendError
from tileir_opencl.device import platforms
from tileir_opencl.device.platforms import NVIDIA_LIBRARY, Scan, look, missing_registrations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GPU, CPU = cl.device_type.GPU, cl.device_type.CPU


@attrs.frozen
class FakeDevice:
    name: str
    type: int
    available: bool = True


@attrs.frozen
class FakePlatform:
    name: str
    devices: tuple[FakeDevice, ...] = ()
    version: str = "OpenCL 1.2"

    def get_devices(self) -> tuple[FakeDevice, ...]:
        return self.devices


class BrokenPlatform(FakePlatform):
    def get_devices(self) -> tuple[FakeDevice, ...]:
        raise a_driver_error()


def a_driver_error() -> cl.Error:
    return cl.LogicError(_ErrorRecord("", cl.status_code.OUT_OF_HOST_MEMORY, "clGetDeviceIDs"))


@attrs.frozen
class FakeProgram:
    """The program of a driver that knows one device."""

    devices: tuple[FakeDevice, ...]
    source: str

    def _build(self, *_: object) -> None:
        if self.devices[0].name != "known":
            raise a_driver_error()

    def get_build_info(self, device: FakeDevice, _: object) -> str:
        return f"unknown target CPU '{device.name}'\nand more"


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def shown(*found: object) -> None:
        monkeypatch.setattr(cl, "get_platforms", lambda: list(found))

    monkeypatch.setattr(platforms, "_loads", lambda _: False)
    return shown


def names(scan: Scan) -> list[str]:
    return [found.device.name for found in scan.found]


def test_graphics_processors_come_first_and_simulators_last(show: Callable[..., None]) -> None:
    simulator = FakePlatform("Oclgrind", (FakeDevice("simulator", GPU | CPU),))
    processor = FakePlatform("PoCL", (FakeDevice("processor", CPU), FakeDevice("gone", CPU, available=False)))
    graphics = FakePlatform("Vendor", (FakeDevice("one", GPU), FakeDevice("two", GPU)))
    for order in ((simulator, processor, graphics), (graphics, simulator, processor)):
        show(*order)
        assert names(look()) == ["one", "two", "processor", "simulator"]
        assert look().notes == ()


def test_devices_of_two_registrations_are_all_listed(show: Callable[..., None]) -> None:
    show(FakePlatform("Vendor", (FakeDevice("one", GPU),)), FakePlatform("Vendor", (FakeDevice("one", GPU),)))
    assert names(look()) == ["one", "one"]


def test_a_platform_that_fails_hides_no_other(show: Callable[..., None]) -> None:
    broken = BrokenPlatform("Broken")
    show(broken, FakePlatform("Vendor", (FakeDevice("one", GPU),)))
    scan = look()
    assert names(scan) == ["one"]
    assert len(scan.notes) == 1
    assert "'Broken' cannot list its devices" in scan.notes[0]
    assert "reinstall its driver" in scan.notes[0]
    show(broken)
    with pytest.raises(BackendError, match="'Broken' cannot list its devices"):
        look().require()


def test_a_loader_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    error = a_driver_error()

    def fail() -> Any:
        raise error

    monkeypatch.setattr(cl, "get_platforms", fail)
    with pytest.raises(BackendError, match="the ICD loader fails"):
        look().require()


def test_a_driver_that_is_not_registered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "_loads", lambda library: library == NVIDIA_LIBRARY)
    (note,) = missing_registrations(["Portable Computing Language"])
    assert "nvidia.icd" in note
    assert "/etc/OpenCL/vendors" in note
    assert "OCL_ICD_VENDORS" in note
    assert missing_registrations(["NVIDIA CUDA"]) == []
    monkeypatch.setattr(platforms, "_loads", lambda _: False)
    assert missing_registrations([]) == []


def test_pocl_needs_a_linker() -> None:
    code = "import os; os.environ['PATH'] = ''; import tileir; print(tileir.default_context().failures()['opencl'])"
    told = script(code)
    assert "TIL801" in told
    assert "ld, which is not on the PATH; install binutils" in told


def test_pocl_that_compiles_nothing_is_left_out(show: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    show(FakePlatform(platforms.POCL, (FakeDevice("new", CPU), FakeDevice("known", CPU)), "OpenCL 3.0 PoCL 3.0"))
    monkeypatch.setattr(cl, "Context", lambda devices: devices)
    monkeypatch.setattr(platforms, "_Program", FakeProgram)
    scan = look()
    assert names(scan) == ["known"]
    (note,) = scan.notes
    assert note.startswith("new of OpenCL 3.0 PoCL 3.0 is left out: it compiles no kernel (unknown target CPU 'new')")
    assert "pocl-opencl-icd" in note


def script(text: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_any_driver_the_error_says_what_to_install(tmp_path: Path) -> None:
    text = "import tileir; print(tileir.default_context().failures()['opencl'])"
    told = script(text, OCL_ICD_VENDORS=str(tmp_path / "nowhere"))
    assert "TIL801" in told
    assert "OpenCL shows no device; the ICD loader knows no platform" in told
    assert "pip install pocl-binary-distribution" in told


def test_without_pyopencl_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['pyopencl'] = None"
    told = script(f"{hidden}; import tileir; print(tileir.default_context().failures()['opencl'])")
    assert "TIL802" in told
    assert "install tileir[opencl]" in told
