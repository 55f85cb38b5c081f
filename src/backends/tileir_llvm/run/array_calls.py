"""Calls of sequences with NumPy arrays that fit as they are: checked and run without Python.

The code reads the fields of ``PyArrayObject``, which NumPy's C interface documents. If their layout is unknown, there
is no such function, and arrays are checked in Python.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array as NumPyArray, Format
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.loader import Code
from tileir_llvm.run.python_functions import python_function
from tileir_llvm.run.words import SHARED, spelt

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
"""Flags of arrays, as in NumPy's C interface."""

MOST_SCRATCH: Final = 1 << 16
"""Maximum scratch memory on the stack of the calling thread, as threads have at least half a MiB."""

_CODE: Final = """
define ptr @call(ptr %self, ptr %given, i64 %count) nounwind optnone noinline {
entry:
  %known_object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %known_number = call i64 @PyLong_AsUnsignedLongLong(ptr %known_object)
  %call = inttoptr i64 %known_number to ptr
  %operands = field Call.operands of %call
  %taken = field Call.taken of %call
  %read = field Call.read of %call
  %all = field Call.all of %call
  %fixed = field Call.fixed of %call
  %places = field Call.places of %call
  %type = field Call.type of %call
  %addresses = alloca i64, i64 %taken
  %arguments = alloca i64, i64 %all
  go next if i64 %count == %taken else refused
next:
  %number = phi i64 [ 0, %entry ], [ %following, %fits ]
  go packing if i64 %number == %taken else looking
looking:
  %object_place = getelementptr ptr, ptr %given, i64 %number
  %object = load ptr, ptr %object_place
  go array if Array.type of %object == %type else refused
array:
  %operand = getelementptr %Operand, ptr %operands, i64 %number
  %mask = field Operand.mask of %operand
  %flags = field Operand.flags of %operand
  %own_flags = field Array.flags of %object
  %address = field Array.address of %object
  %had = and i32 %own_flags, %flags
  %odd = and i64 %address, %mask
  go like if Array.dtype of %object == Operand.dtype of %operand
    and Array.rank of %object == Operand.rank of %operand
    and i32 %had == %flags
    and i64 %odd == 0 else refused
like:
  %short_rank = field Operand.rank of %operand
  %rank = zext i32 %short_rank to i64
  %extents = field Operand.extents of %operand
  %own_extents = field Array.extents of %object
  %shaped = call i1 @same(ptr %own_extents, ptr %extents, i64 %rank)
  br i1 %shaped, label %placed, label %refused
placed:
  %kept_place = getelementptr i64, ptr %addresses, i64 %number
  store i64 %address, ptr %kept_place
  %is_read = icmp ult i64 %number, %read
  br i1 %is_read, label %fits, label %written
written:
  %bytes = field Operand.bytes of %operand
  %alone = call i1 @apart(ptr %operands, ptr %addresses, i64 %number, i64 %address, i64 %bytes)
  br i1 %alone, label %fits, label %refused
fits:
  %following = add i64 %number, 1
  br label %next
packing:
  %argument = phi i64 [ 0, %next ], [ %behind, %stored ]
  go running if i64 %argument == %all else choosing
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
  %entries = field Call.entries of %call
  %launches = field Call.launches of %call
  %run = field Call.run of %call
  %scratch_bytes = field Call.scratch of %call
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
"""Returns 1, or 0 with nothing done if an array does not fit, or a written one shares memory with another."""


class Operand(ctypes.Structure):
    """Requirements on the array of one argument: ``mask`` has the bits of its address that must be 0."""

    _fields_ = (
        ("dtype", ctypes.c_void_p),
        ("extents", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("mask", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("flags", ctypes.c_int32),
    )


class Call(ctypes.Structure):
    """Native description of a sequence.

    ``taken`` operands are given, of which ``read`` are read. Kernels have ``all`` arguments: the ``fixed`` arguments,
    and those with ``places`` other than -1, the number of an operand. ``run`` runs ``launches`` entries; ``type`` is
    that of arrays.
    """

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


class Array(ctypes.Structure):
    """NumPy's ``PyArrayObject_fields``, after the common object header, which ends with the type."""

    _fields_ = (
        *((f"word{number}", ctypes.c_int64) for number in range(object.__basicsize__ // 8 - 1)),
        ("type", ctypes.c_void_p),
        ("address", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("extents", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
    )


@attrs.frozen
class Entries:
    """Launches that run one after the other, and their arguments.

    Attributes:
        run: Address of the code that runs entries.
        first: Address of the first entry.
        count: Number of entries.
        template: Addresses of all arguments; arbitrary for those given at each call.
        slots: Given arguments, and the array of each.
        masks: Bits of the address of each array that must be 0, if any.
        scratch_bytes: Scratch memory of the launches, at most :data:`MOST_SCRATCH`.
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

    It returns 1, or 0 with nothing done, and keeps ``held`` alive. None if the layout of NumPy's arrays is unknown.
    """
    native = _native(features)
    if native is None:
        return None
    extents = [(ctypes.c_int64 * len(shape))(*shape) for _, shape in formats]
    operands = (Operand * len(formats))()
    for number, (dtype, shape) in enumerate(formats):
        mask = entries.masks[number] if number < len(entries.masks) else 0
        flags = _CONTIGUOUS if number < read else _CONTIGUOUS | _ALIGNED | _WRITEABLE
        nbytes, start = math.prod(shape) * dtype.itemsize, ctypes.addressof(extents[number])
        operands[number] = Operand(id(dtype), start, nbytes, mask, len(shape), flags)
    places = [-1] * len(entries.template)
    for position, number in entries.slots:
        places[position] = number
    fixed, slots = (ctypes.c_uint64 * len(places))(*entries.template), (ctypes.c_int64 * len(places))(*places)
    known = Call(
        ctypes.addressof(operands), len(formats), read, len(places), ctypes.addressof(fixed),
        ctypes.addressof(slots), entries.first, entries.count, entries.run, id(np.ndarray), entries.scratch_bytes,
    )  # fmt: skip
    lives = (native, known, operands, extents, fixed, slots, tuple(formats), held)
    return python_function("call", native.addresses[0], ctypes.addressof(known), lives)


@cache
def _native(features: tuple[str, ...]) -> Code | None:
    if not _arrays_are_as_known():
        return None
    text = spelt(SHARED + _CODE, (Operand, Call, Array))
    return fixed_code(text, ("call",), features)


def _arrays_are_as_known() -> bool:
    """Return whether array fields have the offsets that the code assumes."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    if np.ndarray.__basicsize__ < ctypes.sizeof(Array) or ctypes.sizeof(pointer) != ctypes.sizeof(number):
        return False
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    arrays: tuple[NumPyArray, ...] = (fixed, np.zeros((5, 7, 3), np.int64), np.zeros((4, 6), np.int16).T)
    return all(map(_is_as_known, arrays))


def _is_as_known(array: NumPyArray) -> bool:
    fields: Any = Array.from_address(id(array))
    flags, known = array.flags, _CONTIGUOUS | _ALIGNED | _WRITEABLE
    expected = (flags.c_contiguous * _CONTIGUOUS) | (flags.aligned * _ALIGNED) | (flags.writeable * _WRITEABLE)
    return (
        fields.type == id(np.ndarray)
        and fields.address == array.ctypes.data
        and fields.rank == array.ndim
        and fields.dtype == id(array.dtype)
        and fields.flags & known == expected
        and (ctypes.c_int64 * array.ndim).from_address(fields.extents)[:] == list(array.shape)
    )
