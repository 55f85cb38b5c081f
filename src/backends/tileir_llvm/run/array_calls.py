"""Sequences called with arrays of NumPy that fit as they are: looked at, and run on, without Python in between.

The code reads the fields of ``PyArrayObject``, which NumPy's C interface lays open. Where they do not lie as is known
there is no such function, and arrays are looked at in Python.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array, Format
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.loader import Code
from tileir_llvm.run.python_functions import python_function

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
"""Flags of arrays, as in NumPy's C interface."""

MOST_SCRATCH: Final = 1 << 16
"""Scratch memory of so many bytes is on the stack of the calling thread, as threads have half a MiB at least."""

_CODE: Final = """\
%Operand = type { ptr, i64, ptr, i64, i64, i32 }
; dtype, number of extents, extents, bytes, the bits of its address that must be 0, and the flags that it must have
%Call = type { ptr, i64, i64, i64, ptr, ptr, ptr, i64, ptr, ptr, i64 }
; operands, how many, how many of them are read; how many arguments kernels have, those of them that are known, the
; operand that each other one is, or -1; entries, how many, what runs them; the type of arrays; and bytes of scratch

define ptr @call(ptr %self, ptr %given, i64 %count) nounwind optnone noinline {
entry:
  %known_object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %known_number = call i64 @PyLong_AsUnsignedLongLong(ptr %known_object)
  %known = inttoptr i64 %known_number to ptr
  %call = load %Call, ptr %known
  %operands = extractvalue %Call %call, 0
  %taken = extractvalue %Call %call, 1
  %read = extractvalue %Call %call, 2
  %all = extractvalue %Call %call, 3
  %fixed = extractvalue %Call %call, 4
  %places = extractvalue %Call %call, 5
  %type = extractvalue %Call %call, 9
  %addresses = alloca i64, i64 %taken
  %arguments = alloca i64, i64 %all
  %right = icmp eq i64 %count, %taken
  br i1 %right, label %next, label %refused
next:
  %number = phi i64 [ 0, %entry ], [ %following, %fits ]
  %seen = icmp eq i64 %number, %taken
  br i1 %seen, label %packing, label %looking
looking:
  %object_place = getelementptr ptr, ptr %given, i64 %number
  %object = load ptr, ptr %object_place
  %type_place = getelementptr i8, ptr %object, i64 TYPE
  %own_type = load ptr, ptr %type_place
  %is_array = icmp eq ptr %own_type, %type
  br i1 %is_array, label %array, label %refused
array:
  %operand_place = getelementptr %Operand, ptr %operands, i64 %number
  %operand = load %Operand, ptr %operand_place
  %dtype = extractvalue %Operand %operand, 0
  %rank = extractvalue %Operand %operand, 1
  %extents = extractvalue %Operand %operand, 2
  %bytes = extractvalue %Operand %operand, 3
  %mask = extractvalue %Operand %operand, 4
  %flags = extractvalue %Operand %operand, 5
  %data_place = getelementptr i8, ptr %object, i64 DATA
  %rank_place = getelementptr i8, ptr %object, i64 RANK
  %extents_place = getelementptr i8, ptr %object, i64 EXTENTS
  %dtype_place = getelementptr i8, ptr %object, i64 DTYPE
  %flags_place = getelementptr i8, ptr %object, i64 FLAGS
  %address = load i64, ptr %data_place
  %own_rank_short = load i32, ptr %rank_place
  %own_rank = sext i32 %own_rank_short to i64
  %own_extents = load ptr, ptr %extents_place
  %own_dtype = load ptr, ptr %dtype_place
  %own_flags = load i32, ptr %flags_place
  %same_dtype = icmp eq ptr %own_dtype, %dtype
  %same_rank = icmp eq i64 %own_rank, %rank
  %had = and i32 %own_flags, %flags
  %has_flags = icmp eq i32 %had, %flags
  %odd = and i64 %address, %mask
  %even = icmp eq i64 %odd, 0
  %kind = and i1 %same_dtype, %same_rank
  %place = and i1 %has_flags, %even
  %alike = and i1 %kind, %place
  br i1 %alike, label %extent, label %refused
extent:
  %axis = phi i64 [ 0, %array ], [ %further, %same ]
  %shaped = icmp eq i64 %axis, %rank
  br i1 %shaped, label %placed, label %comparing
comparing:
  %wanted_place = getelementptr i64, ptr %extents, i64 %axis
  %found_place = getelementptr i64, ptr %own_extents, i64 %axis
  %wanted = load i64, ptr %wanted_place
  %found = load i64, ptr %found_place
  %equal = icmp eq i64 %wanted, %found
  br i1 %equal, label %same, label %refused
same:
  %further = add i64 %axis, 1
  br label %extent
placed:
  %kept_place = getelementptr i64, ptr %addresses, i64 %number
  store i64 %address, ptr %kept_place
  %end = add i64 %address, %bytes
  %is_read = icmp ult i64 %number, %read
  br i1 %is_read, label %fits, label %other
other:
  %before = phi i64 [ 0, %placed ], [ %after, %apart ]
  %alone = icmp eq i64 %before, %number
  br i1 %alone, label %fits, label %overlapping
overlapping:
  %start_place = getelementptr i64, ptr %addresses, i64 %before
  %bytes_place = getelementptr %Operand, ptr %operands, i64 %before, i32 3
  %start = load i64, ptr %start_place
  %its_bytes = load i64, ptr %bytes_place
  %its_end = add i64 %start, %its_bytes
  %starts_before = icmp ult i64 %start, %end
  %ends_behind = icmp ult i64 %address, %its_end
  %meet = and i1 %starts_before, %ends_behind
  br i1 %meet, label %refused, label %apart
apart:
  %after = add i64 %before, 1
  br label %other
fits:
  %following = add i64 %number, 1
  br label %next
packing:
  %argument = phi i64 [ 0, %next ], [ %behind, %stored ]
  %packed = icmp eq i64 %argument, %all
  br i1 %packed, label %running, label %choosing
choosing:
  %own_place = getelementptr i64, ptr %places, i64 %argument
  %own = load i64, ptr %own_place
  %is_known = icmp slt i64 %own, 0
  %from = select i1 %is_known, ptr %fixed, ptr %addresses
  %index = select i1 %is_known, i64 %argument, i64 %own
  %value_place = getelementptr i64, ptr %from, i64 %index
  %value = load i64, ptr %value_place
  %to = getelementptr i64, ptr %arguments, i64 %argument
  store i64 %value, ptr %to
  br label %stored
stored:
  %behind = add i64 %argument, 1
  br label %packing
running:
  %entries = extractvalue %Call %call, 6
  %launches = extractvalue %Call %call, 7
  %run = extractvalue %Call %call, 8
  %scratch_bytes = extractvalue %Call %call, 10
  %scratch = alloca i8, i64 %scratch_bytes, align 64
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %entries, i64 %launches, ptr %arguments, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %thread)
  %done = call ptr @PyLong_FromLongLong(i64 1)
  ret ptr %done
refused:
  %nothing = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %nothing
}
"""
"""Returns 1, or 0 with nothing done where an array does not fit, or one that is written shares memory with another."""


class _Operand(ctypes.Structure):
    """What an array of one place must be."""

    _fields_ = (
        ("dtype", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("mask", ctypes.c_int64),
        ("flags", ctypes.c_int),
    )


class _Call(ctypes.Structure):
    """What the code knows of a sequence."""

    _fields_ = (
        ("operands", ctypes.c_void_p),
        ("taken", ctypes.c_int64),
        ("read", ctypes.c_int64),
        ("all", ctypes.c_int64),
        ("fixed", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("entries", ctypes.c_void_p),
        ("launches", ctypes.c_int64),
        ("run", ctypes.c_void_p),
        ("type", ctypes.c_void_p),
        ("scratch", ctypes.c_int64),
    )


class _Fields(ctypes.Structure):
    """``PyArrayObject_fields`` of NumPy's C interface, behind what all objects have."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@attrs.frozen
class Entries:
    """Launches that run one after the other, and their arguments.

    Attributes:
        run: The address of the code that runs entries.
        first: That of the first entry.
        count: How many there are.
        template: The addresses of all arguments; of those that are given at each call, anything.
        slots: Which arguments are given, and the array that each of these is.
        masks: The bits of the address of each array that must be 0, as far as one is asked for any.
        scratch_bytes: Memory that the launches use meanwhile, at most :data:`MOST_SCRATCH`.

    """

    run: int
    first: int
    count: int
    template: Sequence[int]
    slots: Sequence[tuple[int, int]]
    masks: Sequence[int]
    scratch_bytes: int


def array_call(
    entries: Entries, formats: Sequence[Format], read: int, features: tuple[str, ...], held: object
) -> Callable[..., int] | None:
    """Return a function of arrays of these dtypes and shapes, of which the first ``read`` are read.

    It returns 1, or 0 with nothing done, and keeps ``held``. None where NumPy's arrays are not laid out as is known.
    """
    native = _native(features)
    if native is None:
        return None
    extents = [(ctypes.c_int64 * len(shape))(*shape) for _, shape in formats]
    operands = (_Operand * len(formats))()
    for number, (dtype, shape) in enumerate(formats):
        mask = entries.masks[number] if number < len(entries.masks) else 0
        flags = _CONTIGUOUS if number < read else _CONTIGUOUS | _ALIGNED | _WRITEABLE
        nbytes, start = math.prod(shape) * dtype.itemsize, ctypes.addressof(extents[number])
        operands[number] = _Operand(id(dtype), len(shape), start, nbytes, mask, flags)
    places = [-1] * len(entries.template)
    for position, number in entries.slots:
        places[position] = number
    fixed, slots = (ctypes.c_uint64 * len(places))(*entries.template), (ctypes.c_int64 * len(places))(*places)
    known = _Call(
        ctypes.addressof(operands), len(formats), read, len(places), ctypes.addressof(fixed),
        ctypes.addressof(slots), entries.first, entries.count, entries.run, id(np.ndarray), entries.scratch_bytes,
    )  # fmt: skip
    lives = (native, known, operands, extents, fixed, slots, tuple(formats), held)
    return python_function("call", native.addresses[0], ctypes.addressof(known), lives)


@cache
def _native(features: tuple[str, ...]) -> Code | None:
    if not _arrays_are_as_known():
        return None
    header = object.__basicsize__
    text = _CODE.replace("i64 TYPE", f"i64 {header - ctypes.sizeof(ctypes.c_void_p)}")
    for name in ("data", "rank", "extents", "dtype", "flags"):
        text = text.replace(f"i64 {name.upper()}\n", f"i64 {header + getattr(_Fields, name).offset}\n")
    return fixed_code(text, ("call",), features)


def _arrays_are_as_known() -> bool:
    """Return whether the fields of arrays lie where the code looks for them."""
    size, header = ctypes.sizeof(_Fields), object.__basicsize__
    if np.ndarray.__basicsize__ < header + size or ctypes.sizeof(ctypes.c_void_p) != ctypes.sizeof(ctypes.c_int64):
        return False
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    arrays: tuple[Array, ...] = (fixed, np.zeros((5, 7, 3), np.int64), np.zeros((4, 6), np.int16).T)
    return all(map(_is_as_known, arrays))


def _is_as_known(array: Array) -> bool:
    type_place = id(array) + object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
    fields: Any = _Fields.from_address(id(array) + object.__basicsize__)
    flags, known = array.flags, _CONTIGUOUS | _ALIGNED | _WRITEABLE
    expected = (flags.c_contiguous * _CONTIGUOUS) | (flags.aligned * _ALIGNED) | (flags.writeable * _WRITEABLE)
    return (
        ctypes.c_void_p.from_address(type_place).value == id(np.ndarray)
        and fields.data == array.ctypes.data
        and fields.rank == array.ndim
        and fields.dtype == id(array.dtype)
        and fields.flags & known == expected
        and tuple(fields.extents[: array.ndim]) == array.shape
    )
