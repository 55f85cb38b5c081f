"""Native code as functions of Python's C interface, which ctypes calls slowly, and native code that calls Python."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any, Final

_FASTCALL: Final = 0x80
"""``METH_FASTCALL`` of Python's stable interface: arguments come as a C array, and their number."""

_FUNCTION_OF: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class _Method(ctypes.Structure):
    """``PyMethodDef`` of Python's stable interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def python_function(name: str, code: int, known: int, held: object) -> Callable[..., Any]:
    """Return native code ``ptr f(ptr self, ptr arguments, i64 count)`` as a Python function.

    Args:
        name: Name of the function.
        code: Address of the code.
        known: An address, the first element of the tuple that is ``self``.
        held: Objects to keep alive as long as the function.
    """
    method = _Method(name.encode(), code, _FASTCALL, None)
    function: Callable[..., Any] = _FUNCTION_OF(ctypes.addressof(method), (known, method, held), None)
    return function


def calling_python(text: str) -> str:
    """Return LLVM IR with addresses of the called functions of Python's C interface.

    They may be in the program or in a library, where a linker does not look.
    """
    return re.sub(r"@(Py[A-Z_]\w+)\(", lambda found: f"inttoptr (i64 {address_of(found[1])} to ptr)(", text)


def through_table(text: str, table: str) -> tuple[str, tuple[str, ...]]:
    """Return LLVM IR that finds functions of Python's C interface in a table, and the names of these, in order.

    Unlike with addresses, the code is equal in each process. Without calls there is no table.
    """
    names = tuple(dict.fromkeys(found[2] for found in _CALL.finditer(text)))
    if not names:
        return text, ()
    lines: list[str] = []
    for line in text.splitlines():
        if (found := _CALL.search(line)) is not None:
            place = f"getelementptr inbounds (ptr, ptr @{table}, i64 {names.index(found[2])})"
            lines.append(f"  %python{len(lines)} = load ptr, ptr {place}")
            line = _CALL.sub(f"{found[1]}%python{len(lines) - 1}(", line)
        lines.append(line)
    return "\n".join((f"@{table} = global [{len(names)} x ptr] zeroinitializer", *lines, "")), names


_CALL: Final = re.compile(r"(\bcall \w+ )@(Py[A-Z_]\w+)\(")


def address_of(name: str) -> int | None:
    """Return the address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
