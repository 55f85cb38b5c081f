"""Libraries that hand out arrays by the C functions of DLPack, written from its header alone."""

from __future__ import annotations

import ctypes
from typing import Any

from strategies.dlpack import Library, Tensor, Versioned

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_OWNED = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_LENT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Table(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("earlier", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 5),
    )


def exchanging(
    *, stream: int | None = 5, major: int = 1, fails: tuple[str, ...] = (), name: bytes = b"dlpack_exchange_api"
) -> type[Library]:
    """Return a type of arrays whose functions tell a stream, and of which some fail, or are not there."""

    def address_of(value: Any) -> int:
        return int(_pointer(value.__dlpack__(max_version=(1, 3)), b"dltensor_versioned"))

    def owned(value: Any, out: Any) -> int:
        out[0] = address_of(value)
        return -1 if "owned" in fails else 0

    def lent(value: Any, out: Any) -> int:
        kept = Library(value.array, value.place, code=value.code, lanes=value.lanes)
        out[0] = Versioned.from_address(address_of(kept)).tensor
        return -1 if "lent" in fails else 0

    def current(kind: int, number: int, out: Any) -> int:
        out[0] = stream
        return -1 if "stream" in fails else 0

    functions = (None, _OWNED(owned), None, _LENT(lent), _STREAM(current))
    table = _Table()
    table.version[:] = (major, 3)
    table.functions[:] = [None if each is None else ctypes.cast(each, ctypes.c_void_p).value for each in functions]
    if "missing" in fails:
        table.functions[1] = None
    capsule = _new(ctypes.addressof(table), name, None)
    return type("Exchanging", (Library,), {"__dlpack_c_exchange_api__": capsule, "kept": (table, functions, name)})
