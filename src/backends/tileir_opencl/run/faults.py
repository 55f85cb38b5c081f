"""Conversion of drivers' error codes to tileir's errors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import pyopencl as cl

from tileir.core.errors import BackendError

OUT_OF_MEMORY: Final = frozenset(
    {
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_HOST_MEMORY,
        cl.status_code.INVALID_BUFFER_SIZE,
    }
)
"""Codes for not enough memory, or for a too large piece of it."""

TOO_LARGE: Final = frozenset(
    {
        cl.status_code.INVALID_WORK_GROUP_SIZE,
        cl.status_code.INVALID_WORK_ITEM_SIZE,
        cl.status_code.INVALID_WORK_DIMENSION,
        cl.status_code.INVALID_GLOBAL_WORK_SIZE,
        cl.status_code.OUT_OF_RESOURCES,
    }
)
"""Codes for launches that exceed the device's resources."""


def failed_command(status: int) -> BackendError:
    """Return the error of a command that ended with a negative status."""
    message = (
        f"the device failed while it worked: {name_of(status)}; what depends on this work is lost. "
        "If it happens again, look into the system's log for messages of the driver"
    )
    return BackendError.of("TIL808", message)


def refused(what: str, error: cl.Error) -> BackendError:
    """Return the error of a request that the driver refused."""
    name = name_of(error.code)
    if error.code in OUT_OF_MEMORY:
        message = f"{what}: there is not enough memory on the device ({name}); make the arrays smaller"
        return BackendError.of("TIL708", message)
    if error.code in TOO_LARGE:
        message = f"{what}: the launch asks for more than the device has ({name}); compile with another pipeline"
        return BackendError.of("TIL804", message)
    return BackendError.of("TIL808", f"{what}: the driver refused it ({name})")


def name_of(code: int) -> str:
    """Return the name of a status code in the headers of OpenCL, and its number."""
    return f"{_names().get(code, 'an unknown status')}, {code}"


@cache
def _names() -> Mapping[int, str]:
    values = ((name, getattr(cl.status_code, name)) for name in dir(cl.status_code) if name.isupper())
    return {value: name for name, value in values if isinstance(value, int)}
