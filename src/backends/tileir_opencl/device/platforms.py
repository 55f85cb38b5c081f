"""Devices of the ICD loader, in an order that does not depend on the loader's."""

from __future__ import annotations

import ctypes
import logging
import shutil
import sys
import threading
from collections.abc import Iterable
from typing import Final

import pyopencl as cl
from pyopencl._cl import _Program

from tileir.core import BackendError, attrs

log: Final = logging.getLogger("tileir.opencl")

SIMULATORS: Final = ("Oclgrind",)
"""Platforms that check kernels instead of running them fast, listed last."""

NVIDIA_LIBRARY: Final = "libnvidia-opencl.so.1"

POCL: Final = "Portable Computing Language"

POCL_ADVICE: Final = "for a processor, run: pip install pocl-binary-distribution"


@attrs.frozen(eq=False)
class PlatformDevice:
    """Device, its platform, and its number.

    Attributes:
        platform: The platform.
        device: Handle of the driver.
        number: Number among the devices of its platform.
    """

    platform: cl.Platform
    device: cl.Device
    number: int

    @property
    def simulated(self) -> bool:
        """True if kernels run in a simulator, which checks them."""
        return self.platform.name in SIMULATORS

    @property
    def rank(self) -> int:
        """Rank: GPUs first, then other accelerators and processors, then simulators."""
        if self.simulated:
            return 2
        return 0 if self.device.type & cl.device_type.GPU else 1


@attrs.frozen(eq=False)
class Scan:
    """Result of querying the ICD loader.

    Attributes:
        found: All devices, in the order of their ids.
        notes: Failures or missing drivers, with remedies.
    """

    found: tuple[PlatformDevice, ...]
    notes: tuple[str, ...]

    def require(self) -> tuple[PlatformDevice, ...]:
        """Return the devices.

        Raises:
            BackendError: TIL801, there are none; the message has a remedy.
        """
        if self.found:
            return self.found
        advice = f"install a driver with its ICD file, or {POCL_ADVICE}"
        message = "; ".join(("OpenCL shows no device", *self.notes, advice))
        raise BackendError.of("TIL801", message)


_scans: Final[list[Scan]] = []
_lock: Final = threading.Lock()


def scan() -> Scan:
    """Return the devices of all platforms, queried once per process, as drivers do not notice changes."""
    with _lock:
        if not _scans:
            _scans.append(look())
            for note in _scans[0].notes:
                log.info("%s", note)
        return _scans[0]


def look() -> Scan:
    """Query the ICD loader for its platforms, and each of these for its devices; failures of one do not hide others."""
    notes: list[str] = []
    found: list[PlatformDevice] = []
    platforms = _platforms(notes)
    for platform in platforms:
        try:
            devices = platform.get_devices()
        except cl.Error as error:
            notes.append(f"platform {platform.name!r} cannot list its devices ({error}); reinstall its driver")
            continue
        for number, device in enumerate(devices):
            if platform.name == POCL and (fault := fault_of_pocl(device)):
                notes.append(f"{device.name} of {platform.version} is left out: {fault}")
            elif device.available:
                found.append(PlatformDevice(platform, device, number))
    notes.extend(missing_registrations(platform.name for platform in platforms))
    return Scan(tuple(sorted(found, key=_order)), tuple(notes))


def fault_of_pocl(device: cl.Device) -> str:
    """Return the reason why PoCL cannot make kernels for a device, and a remedy; "" if it can.

    PoCL aborts the process at the first kernel without a linker, and refuses all kernels if its LLVM is older than the
    processor.
    """
    if shutil.which("ld") is None:
        return "PoCL links kernels by ld, which is not on the PATH; install binutils"
    program = _Program(cl.Context([device]), "kernel void nothing() {}")
    try:
        program._build(b"", None)
    except cl.Error:
        log = str(program.get_build_info(device, cl.program_build_info.LOG)).strip().partition("\n")[0]
        return f"it compiles no kernel ({log}); install a later PoCL, such as your distribution's pocl-opencl-icd"
    return ""


def missing_registrations(platforms: Iterable[str]) -> list[str]:
    """Return advice on installed drivers that are not registered, given the names of platforms."""
    if any("NVIDIA" in name for name in platforms) or not _loads(NVIDIA_LIBRARY):
        return []
    return [
        f"NVIDIA's driver {NVIDIA_LIBRARY} is installed, but not registered: write a file nvidia.icd that holds "
        f"the line {NVIDIA_LIBRARY} into /etc/OpenCL/vendors, or into a folder that OCL_ICD_VENDORS names"
    ]


def _platforms(notes: list[str]) -> list[cl.Platform]:
    try:
        return cl.get_platforms()
    except cl.Error as error:
        if error.code != cl.status_code.PLATFORM_NOT_FOUND_KHR:
            notes.append(f"the ICD loader fails ({error}); reinstall the OpenCL drivers")
        else:
            notes.append("the ICD loader knows no platform")
        return []


def _order(found: PlatformDevice) -> tuple[int, str, str, int]:
    return found.rank, found.platform.name, found.platform.version, found.number


def _loads(library: str) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
