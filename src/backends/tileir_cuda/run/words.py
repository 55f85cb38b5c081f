"""LLVM IR with words for what lies in structures of C and in Python's objects, so that no place is written by hand.

``%x = field Call.read of %call`` loads a field of a structure, and ``%x = slot array.shape of %object`` one of a Python
object, where ``put %x into slot array.shape of %object`` stores it; ``%x_at`` is where it was. ``@<None>`` is an
object.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final

_TYPES: Final = MappingProxyType(
    {
        ctypes.c_void_p: "ptr",
        ctypes.c_char_p: "ptr",
        ctypes.c_int64: "i64",
        ctypes.c_int32: "i32",
        ctypes.c_uint32: "i32",
    }
)

_FIELD: Final = re.compile(r"^  (%\w+) = field (\w+)\.(\w+) of (%\w+)$", re.MULTILINE)
_SLOT: Final = re.compile(r"^  (%\w+) = slot (\w+\.\w+) of (%\w+)$", re.MULTILINE)
_PUT: Final = re.compile(r"^  put (\S+) into slot (\w+\.\w+) of (%\w+)$", re.MULTILINE)
_OBJECT: Final = re.compile(r"@<(\w+)>")
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def spelt(
    text: str,
    structures: Sequence[type[ctypes.Structure]],
    slots: Mapping[str, int] = _NOTHING,
    objects: Mapping[str, int] = _NOTHING,
) -> str:
    """Return LLVM IR for a text in these words.

    Args:
        text: Functions.
        structures: Those of C, which are types of their names.
        slots: Where fields of Python objects are.
        objects: Addresses of types and constants, by the names between ``@<`` and ``>``.

    """
    places, fields = count(), {kind.__name__: _fields(kind) for kind in structures}

    def field(found: re.Match[str]) -> str:
        name, owner, which, value = found.groups()
        number, kind = list(fields[owner]).index(which), _TYPES[fields[owner][which]]
        pointer = f"  {name}_at = getelementptr %{owner}, ptr {value}, i64 0, i32 {number}\n"
        return f"{pointer}  {name} = load {kind}, ptr {name}_at"

    def slot(found: re.Match[str]) -> str:
        name, which, value = found.groups()
        return f"  {name}_at = getelementptr i8, ptr {value}, i64 {slots[which]}\n  {name} = load ptr, ptr {name}_at"

    def put(found: re.Match[str]) -> str:
        (name, which, value), place = found.groups(), f"%put{next(places)}"
        return f"  {place} = getelementptr i8, ptr {value}, i64 {slots[which]}\n  store ptr {name}, ptr {place}"

    text = _PUT.sub(put, _SLOT.sub(slot, _FIELD.sub(field, text)))
    text = _OBJECT.sub(lambda found: f"inttoptr (i64 {objects[found[1]]} to ptr)", text)
    types = (
        f"%{name} = type {{ {', '.join(_TYPES[kind] for kind in fields_of.values())} }}\n"
        for name, fields_of in fields.items()
    )
    return "".join((*types, text))


def _fields(kind: Any) -> dict[str, Any]:
    return dict(kind._fields_)
