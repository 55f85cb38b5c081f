"""Calls of programs with device arrays that fit as they are: checked and submitted without Python.

The code reads and makes Python objects by the offsets of their fields, which are looked up once. If they cannot be
found, there is no such function, and arrays are checked in Python.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tileir.core import BackendError, attrs
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.exchange import Exchange
from tileir_cuda.run.array_code import STRUCTURES, Call, Library, Operand
from tileir_cuda.run.calling_code import CALLING
from tileir_cuda.run.driver import PROCESS
from tileir_cuda.run.looking_code import LOOKING
from tileir_cuda.run.memory import AdoptedCudaBuffer, CudaBuffer, PooledCudaBuffer, rounded
from tileir_cuda.run.stream import CudaEvent
from tileir_llvm.device.host import device
from tileir_llvm.run.loader import Code, load_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.python_functions import calling_python, python_function
from tileir_llvm.run.words import SHARED, spelt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.plans.queued import QueuedOperand
    from tileir_cuda.run.entries import Entries
    from tileir_cuda.run.executor import CudaExecutor

MAKING: Final = """
define internal ptr @fresh(ptr %call, ptr %operand, ptr %held) nounwind {
; a fresh array, whose buffer is kept in %held; null where there is too little memory, or an interrupt
entry:
  %spare = field Operand.spare of %operand
  %stream = field Call.stream of %call
  %pool = field Call.pool of %call
  %home = field Call.home of %call
  %dtype = field Operand.dtype of %operand
  %shape = field Operand.shape of %operand
  %nbytes = field Operand.nbytes of %operand
  %size = field Operand.size of %operand
  %allocate = field Operand.allocate of %operand
  %kept = call i64 @PyList_Size(ptr %spare)
  %none = icmp slt i64 %kept, 1
  br i1 %none, label %asking, label %taking
asking:
  %asked = call ptr @PyObject_CallNoArgs(ptr %allocate)
  br label %buffered
taking:
  %made = call ptr @PyType_GenericAlloc(ptr @<PooledCudaBuffer>, i64 0)
  go raised if ptr %made == null else filling
filling:
  %last = sub i64 %kept, 1
  %address = call ptr @PyList_GetItem(ptr %spare, i64 %last)
  call void @Py_IncRef(ptr %address)
  %cut = call i32 @PyList_SetSlice(ptr %spare, i64 %last, i64 %kept, ptr null)
  call void @Py_IncRef(ptr %nbytes)
  call void @Py_IncRef(ptr %size)
  call void @Py_IncRef(ptr %stream)
  call void @Py_IncRef(ptr %pool)
  call void @Py_IncRef(ptr @<None>)
  call void @Py_IncRef(ptr @<False>)
  put %address into slot buffer.address of %made
  put %nbytes into slot buffer.nbytes of %made
  put %size into slot buffer.size of %made
  put %stream into slot buffer.stream of %made
  put %pool into slot buffer.pool of %made
  put @<None> into slot buffer._owner of %made
  put @<False> into slot buffer.shared of %made
  br label %buffered
buffered:
  %buffer = phi ptr [ %asked, %asking ], [ %made, %filling ]
  store ptr %buffer, ptr %held
  go raised if ptr %buffer == null else covering
covering:
  %array = call ptr @PyType_GenericAlloc(ptr @<DeviceArray>, i64 0)
  go raised if ptr %array == null else describing
describing:
  call void @Py_IncRef(ptr %buffer)
  call void @Py_IncRef(ptr %home)
  call void @Py_IncRef(ptr %dtype)
  call void @Py_IncRef(ptr %shape)
  call void @Py_IncRef(ptr @<False>)
  call void @Py_IncRef(ptr @<None>)
  call void @Py_IncRef(ptr @<None>)
  put %buffer into slot array._buffer of %array
  put %home into slot array.home of %array
  put %dtype into slot array.dtype of %array
  put %shape into slot array.shape of %array
  put @<False> into slot array.read_only of %array
  put @<None> into slot array._host of %array
  put @<None> into slot array._written of %array
  ret ptr %array
raised:
  ret ptr null
}

define internal ptr @entry_of(ptr %call, ptr %arguments) nounwind {
; what is handed over for addresses; null where that was refused
entry:
  %made_so_far = field Call.made of %call
  %entries = field Made.entries of %made_so_far
  %count = field Made.count of %made_so_far
  %bytes = field Call.known of %call
  %missed = field Call.missed of %call
  %before = field Made.clock of %made_so_far
  %words = lshr i64 %bytes, 3
  %clock = add i64 %before, 1
  store i64 %clock, ptr %before_at
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  go asking if i64 %number == %count else going
going:
  %one = getelementptr %Entry, ptr %entries, i64 %number
  %own = field Entry.arguments of %one
  %after = add i64 %number, 1
  %equal = call i1 @same(ptr %own, ptr %arguments, i64 %words)
  br i1 %equal, label %found, label %next
found:
  %used = field Entry.used of %one
  store i64 %clock, ptr %used_at
  ret ptr %one
asking:
  %key = call ptr @PyBytes_FromStringAndSize(ptr %arguments, i64 %bytes)
  go raised if ptr %key == null else calling
calling:
  %answer = call ptr @PyObject_CallOneArg(ptr %missed, ptr %key)
  call void @Py_DecRef(ptr %key)
  go raised if ptr %answer == null else told
told:
  %number_of = call i64 @PyLong_AsUnsignedLongLong(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  %made = inttoptr i64 %number_of to ptr
  ret ptr %made
raised:
  ret ptr null
}
"""
"""Functions for one array each, and for all addresses of a call."""


LIBRARIES: Final = 4
"""Number of foreign array types that a program supports without Python."""

_FIELDS: Final[tuple[tuple[str, Any, tuple[str, ...]], ...]] = (
    ("array", DeviceArray, ("_buffer", "home", "dtype", "shape", "read_only", "_host", "_written")),
    ("buffer", PooledCudaBuffer, ("address", "nbytes", "stream", "_owner", "shared", "pool", "size")),
    ("event", CudaEvent, ("stream", "_failure")),
)


@attrs.frozen
class Program:
    """Program for submission.

    Attributes:
        table: Address of the native table of its launches.
        hand_over: Address of the submitting code.
        fixed: Addresses after those of the arrays.
        entries: Cached entries by addresses; None if addresses are the only arguments.
    """

    table: int
    hand_over: int
    fixed: bytes
    entries: Entries | None


def array_call(
    program: Program,
    executor: CudaExecutor,
    operands: Sequence[QueuedOperand],
    read: int,
    home: DeviceMemory,
    fail: Callable[[int], NoReturn],
) -> Callable[..., Any] | None:
    """Return a function of arrays, of which the first ``read`` are read; None if object layouts are unknown.

    Args:
        program: The program.
        executor: Owner of stream and memory.
        operands: Requirements on the arrays, results last.
        read: Number of inputs.
        home: Place of fresh results.
        fail: Raises the error of a number that the code returned.
    """
    native = _native()
    if native is None:
        return None
    stream, pool = executor.stream, executor.pool
    described = (Operand * len(operands))()
    kept: list[object] = [program, executor, home, described]
    for number, operand in enumerate(operands):
        described[number] = _described(operand, executor, kept)
    fixed = ctypes.create_string_buffer(program.fixed, len(program.fixed))
    libraries = (Library * LIBRARIES)()
    known = Call(
        program.table, program.hand_over, read, len(operands), ctypes.addressof(fixed),
        8 * len(operands) + len(program.fixed), ctypes.addressof(described), id(stream), id(home), id(pool),
        ctypes.addressof(libraries), 0, 0, place_in(executor, "_closed"), place_in(PROCESS, "forked"),
        place_in(stream, "tail"),
    )  # fmt: skip
    new_tail = stream.new_tail
    known.new_tail = id(new_tail)
    if program.entries is not None:
        missed = program.entries.missed
        known.made, known.missed = ctypes.addressof(program.entries.made), id(missed)
        kept.append(missed)
    kept.extend((fixed, libraries, known, new_tail, native))
    call = python_function("call", native.addresses[0], ctypes.addressof(known), kept)
    learns, lock = _Libraries(known, libraries, executor, kept), stream.lock

    def checked(*arrays: Any) -> Any:
        with lock:
            if stream.capture is not None:  # its nodes are checked one by one
                return None
            found = call(*arrays)
            if found is None and learns.all_of(arrays):
                found = call(*arrays)
        return fail(found) if type(found) is int else found

    return checked


@attrs.define(eq=False)
class _Libraries:
    """Foreign array types that a program supports."""

    known: Call
    places: Any
    executor: CudaExecutor
    kept: list[object]
    seen: set[type] = attrs.field(factory=lambda: {DeviceArray, type(None)})

    def all_of(self, arrays: Sequence[Any]) -> bool:
        """Register the types of new arrays, and return whether there were any."""
        learnt = False
        for array in arrays:
            if type(array) not in self.seen:
                self.seen.add(type(array))
                learnt = self._learn(array) or learnt
        return learnt

    def _learn(self, array: Any) -> bool:
        exchange, number = Exchange.of(array), self.known.library_count
        if exchange is None or number == LIBRARIES:
            return False
        kind = type(array)
        names = [sys.intern(name) if hasattr(kind, name) else None for name in ("requires_grad", "is_neg")]
        self.kept.extend((kind, exchange, *names))
        asked = [None if name is None else id(name) for name in names]
        try:
            self.known.mark = self.executor.stream.crossing()
        except BackendError:
            return False
        self.places[number] = Library(id(kind), *exchange.addresses, *asked)
        self.known.library_count = number + 1
        return True


def _described(operand: QueuedOperand, executor: CudaExecutor, kept: list[object]) -> Operand:
    """Return the native description of an array; it refers to objects in ``kept``."""
    pool, form, rank = executor.pool, operand.format, len(operand.shape)
    extents, strides = (ctypes.create_string_buffer(each, max(8, 8 * rank)) for each in (form.extents, form.strides))
    size, nbytes = rounded(operand.nbytes), operand.nbytes
    spare, allocate = pool.spare_of(size), pool.taker(nbytes)
    kept.extend((operand, extents, strides, size, nbytes, spare, allocate))
    place, kind = (int.from_bytes(each, sys.byteorder, signed=True) for each in (form.kind[:8], form.kind[8:]))
    return Operand(
        id(operand.dtype), id(operand.shape), nbytes, operand.mask, place, kind, rank, ctypes.addressof(extents),
        ctypes.addressof(strides), id(spare), id(allocate), id(nbytes), id(size),
    )  # fmt: skip


@cache
def _native() -> Code | None:
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    slots = {"object.type": object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)}
    for name, kind, fields in _FIELDS:
        for field in fields:
            offset = _offset(kind, field)
            if offset is None:
                return None
            slots[f"{name}.{field}"] = offset
    kinds = (DeviceArray, PooledCudaBuffer, CudaBuffer, AdoptedCudaBuffer, CudaEvent)
    objects = {"None": id(None), "False": id(False), **{kind.__name__: id(kind) for kind in kinds}}
    text, features = spelt(SHARED + LOOKING + MAKING + CALLING, STRUCTURES, slots, objects), device().features
    return load_code((object_code(calling_python(text), features, optimise=False),), ("call",), features)


def place_in(value: object, field: str) -> int:
    """Return the offset of a slot of an object."""
    kind: Any = type(value)
    offset = _offset(kind, field)
    assert offset is not None  # the slots of these classes have been found
    return id(value) + offset


@cache
def _offset(kind: type[Any], field: str) -> int | None:
    """Return the offset of a field in an object; None if it is not found."""
    sample, marker = object.__new__(kind), object()
    for each in attrs.fields(kind):
        getattr(kind, each.name).__set__(sample, None)
    descriptor: Any = getattr(kind, field)
    descriptor.__set__(sample, marker)
    header = object.__basicsize__
    words = (ctypes.c_void_p * ((kind.__basicsize__ - header) // 8)).from_address(id(sample) + header)
    found = [number for number, word in enumerate(words) if word == id(marker)]
    descriptor.__set__(sample, None)
    if len(found) != 1 or words[found[0]] != id(None):
        return None
    return header + 8 * found[0]
