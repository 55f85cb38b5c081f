"""Devices by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core import BackendError, attrs
from tileir.runtime.interface import DeviceInfo
from tileir_opencl.device.capabilities import Capabilities, capabilities
from tileir_opencl.device.platforms import PlatformDevice, scan
from tileir_opencl.run.process import use_drivers

NAME: Final = "opencl"

DLPACK_KIND: Final = 4
"""DLPack device kind of OpenCL devices."""


@attrs.frozen(eq=False)
class Device:
    """Device: its public description, the driver's handle, and its capabilities."""

    info: DeviceInfo
    found: PlatformDevice
    capabilities: Capabilities


def devices() -> Sequence[DeviceInfo]:
    """Return all devices, GPUs first and simulators last.

    Raises:
        BackendError: TIL801, there are none; TIL809, the process was forked.
    """
    return [device.info for device in known()]


def device_of(info: DeviceInfo) -> Device:
    """Return the device of a description.

    Raises:
        BackendError: TIL801, there is no such device.
    """
    for device in known():
        if device.info.id == info.id:
            return device
    raise BackendError.of("TIL801", f"there is no device {info.id!r}; see tileir.devices()")


_known: Final[dict[PlatformDevice, Device]] = {}


def known() -> list[Device]:
    """Return all devices, each described once."""
    use_drivers()
    return [_described(number, found) for number, found in enumerate(scan().require())]


def _described(number: int, found: PlatformDevice) -> Device:
    if found not in _known:
        device_id = f"{NAME}.{number}"
        able = capabilities(found)
        name = f"{found.device.name.strip()} ({found.platform.name.strip()})"
        memory, place = found.device.global_mem_size, (DLPACK_KIND, number)
        info = DeviceInfo(device_id, name, NAME, memory, able.flags, able.target, place)
        _known[found] = Device(info, found, able)
    return _known[found]
