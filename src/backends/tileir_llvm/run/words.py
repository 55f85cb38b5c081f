"""LLVM IR with macros for fields of C structures and Python objects, so that no offset is written by hand.

``%x = field Call.read of %call`` loads a field of a structure, and ``%x = slot array.shape of %object`` one of a Python
object, where ``put %x into slot array.shape of %object`` stores it; ``%x_at`` is its address. ``@<None>`` is an object.
``go fits if ptr %type == @<None> and Array.rank of %array == Operand.rank of %operand else refused`` compares values,
fields and slots, and continues at one label or the other. A table of checks has one per line, after ``and``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
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
_SIGNS: Final = MappingProxyType({"==": "eq", "!=": "ne"})
_GO: Final = re.compile(r"^  go (\w+) if (.+) else (\w+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"(\w+)\.(\w+) of (%\w+)")
_OBJECT: Final = re.compile(r"@<(\w+)>")
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def spelt(
    text: str,
    structures: Sequence[type[ctypes.Structure]],
    slots: Mapping[str, int] = _NOTHING,
    objects: Mapping[str, int] = _NOTHING,
) -> str:
    """Return LLVM IR with these macros expanded.

    Args:
        text: Functions.
        structures: C structures, which are types by their names.
        slots: Offsets of fields of Python objects.
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

    def go(found: re.Match[str]) -> str:
        lines, all_hold = "", ""
        for condition in found[2].split(" and "):
            loads, holds = _compared(condition, fields, places)
            lines, both = lines + loads, f"%all{next(places)}"
            lines += f"  {both} = and i1 {all_hold}, {holds}\n" if all_hold else ""
            all_hold = both if all_hold else holds
        return f"{lines}  br i1 {all_hold}, label %{found[1]}, label %{found[3]}"

    text = _GO.sub(go, re.sub(r"\n +(?=and )", " ", text))
    text = _PUT.sub(put, _SLOT.sub(slot, _FIELD.sub(field, text)))
    text = _OBJECT.sub(lambda found: f"inttoptr (i64 {objects[found[1]]} to ptr)", text)
    types = (
        f"%{name} = type {{ {', '.join(_TYPES[kind] for kind in fields_of.values())} }}\n"
        for name, fields_of in fields.items()
    )
    return "".join((*types, text))


SHARED: Final = """
define internal i1 @same(ptr %some, ptr %others, i64 %count) nounwind {
; whether as many words are equal
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  go done if i64 %number == %count else going
going:
  %some_at = getelementptr i64, ptr %some, i64 %number
  %others_at = getelementptr i64, ptr %others, i64 %number
  %one = load i64, ptr %some_at
  %other = load i64, ptr %others_at
  %after = add i64 %number, 1
  go next if i64 %one == %other else done
done:
  %result = phi i1 [ 1, %next ], [ 0, %going ]
  ret i1 %result
}

define internal i1 @apart(ptr %operands, ptr %addresses, i64 %count, i64 %start, i64 %bytes) nounwind {
; whether bytes share nothing with the arrays before
entry:
  %end = add i64 %start, %bytes
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  go done if i64 %number == %count else going
going:
  %operand = getelementptr %Operand, ptr %operands, i64 %number
  %size = field Operand.bytes of %operand
  %first_at = getelementptr i64, ptr %addresses, i64 %number
  %first = load i64, ptr %first_at
  %last = add i64 %first, %size
  %after = add i64 %number, 1
  %begins = icmp ult i64 %start, %last
  %ends = icmp ult i64 %first, %end
  %meet = and i1 %begins, %ends
  br i1 %meet, label %done, label %next
done:
  %result = phi i1 [ 1, %next ], [ 0, %going ]
  ret i1 %result
}
"""
"""Functions that check arrays of any device; each is an ``Operand``, a structure with its ``bytes``."""


def _compared(condition: str, fields: Mapping[str, Mapping[str, Any]], places: Iterator[int]) -> tuple[str, str]:
    """Return the lines that compare two sides, and the name of the result; other conditions unchanged."""
    compared = re.fullmatch("(.+) (==|!=) (.+)", condition)
    if compared is None:
        return "", condition
    lines, kind, values, holds = "", "", [], f"%holds{next(places)}"
    for word in compared.group(1, 3):
        if (found := _PLACE.fullmatch(word)) is None:
            own, _, value = word.rpartition(" ")
            kind = own or kind
        else:
            owner, which, base = found.groups()
            value, is_field = f"%side{next(places)}", owner in fields
            kind = _TYPES[fields[owner][which]] if is_field else "ptr"
            lines += f"  {value} = {'field' if is_field else 'slot'} {owner}.{which} of {base}\n"
        values.append(value)
    return f"{lines}  {holds} = icmp {_SIGNS[compared[2]]} {kind} {', '.join(values)}\n", holds


def _fields(kind: Any) -> dict[str, Any]:
    return dict(kind._fields_)
