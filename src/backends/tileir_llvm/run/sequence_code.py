"""Native half of sequences, as LLVM IR: launches, loops and branches without Python.

A loop counts its iterations down, and at 0 asks Python for further iterations, which handles signals and cancellation.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Final

from tileir.core import attrs, checkpoint
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.loader import Code

_POINTER: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64

TIMES, WHILE, UNLESS, SKIP = range(4)
"""Kinds of entries without a function, in their first number. The third number counts the following entries that they
control. The first two kinds repeat these: by the count in the second number, or while the condition at that argument
offset holds. The others skip them: if the condition does not hold, or always.
"""

WORDS: Final = 3
ENTRY_BYTES: Final = WORDS * ctypes.sizeof(ctypes.c_uint64)

COUNTED_TURNS: Final = 1024
"""Iterations of a counted loop until it asks first."""

OFTEN_SECONDS: Final = 1e-3
"""Interval of asking Python below which loops get four times as many iterations."""
SELDOM_SECONDS: Final = 1e-2
"""Interval of asking Python above which loops get a quarter of the iterations, so that they stop soon."""

_STRAIGHT_CODE: Final = """\
%Entry = type { i64, i64, i64 }  ; function, offset of its arguments, groups

define void @straight(ptr %entries, i64 %count, ptr %arguments, ptr %scratch) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %next ]
  %function_place = getelementptr %Entry, ptr %entries, i64 %number, i32 0
  %function = load ptr, ptr %function_place
  %offset_place = getelementptr %Entry, ptr %entries, i64 %number, i32 1
  %offset = load i64, ptr %offset_place
  %groups_place = getelementptr %Entry, ptr %entries, i64 %number, i32 2
  %groups = load i64, ptr %groups_place
  %own = getelementptr i8, ptr %arguments, i64 %offset
  call void %function(ptr %own, ptr %scratch, i64 0, i64 %groups)
  %after = add i64 %number, 1
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %done
done:
  ret void
}
"""
"""Runs ``count`` entries, from 1 on, without loops and branches, in order."""

_LOOPING_CODE: Final = """\
%Entry = type { i64, i64, i64 }  ; function, offset of its arguments, groups; or see above
%Python = type { ptr, ptr, ptr, ptr, ptr, ptr }  ; functions of Python's C interface, and what is called
%State = type { i64, ptr, ptr }  ; turns until Python is asked, what it knows of this thread, how it is asked

define internal i1 @holds(ptr %arguments, i64 %offset) nounwind {
  %place = getelementptr i8, ptr %arguments, i64 %offset
  %condition = load ptr, ptr %place
  %byte = load i8, ptr %condition
  %result = icmp ne i8 %byte, 0
  ret i1 %result
}

define internal i1 @stops(ptr %state) nounwind {
entry:
  %before = load i64, ptr %state
  %after = sub i64 %before, 1
  store i64 %after, ptr %state
  %none = icmp eq i64 %after, 0
  br i1 %none, label %asking, label %going
asking:
  %thread_place = getelementptr %State, ptr %state, i64 0, i32 1
  %python_place = getelementptr %State, ptr %state, i64 0, i32 2
  %thread = load ptr, ptr %thread_place
  %python = load ptr, ptr %python_place
  %save_place = getelementptr %Python, ptr %python, i64 0, i32 0
  %restore_place = getelementptr %Python, ptr %python, i64 0, i32 1
  %call_place = getelementptr %Python, ptr %python, i64 0, i32 2
  %integer_place = getelementptr %Python, ptr %python, i64 0, i32 3
  %release_place = getelementptr %Python, ptr %python, i64 0, i32 4
  %ask_place = getelementptr %Python, ptr %python, i64 0, i32 5
  %save = load ptr, ptr %save_place
  %restore = load ptr, ptr %restore_place
  %call = load ptr, ptr %call_place
  %integer = load ptr, ptr %integer_place
  %release = load ptr, ptr %release_place
  %ask = load ptr, ptr %ask_place
  call void %restore(ptr %thread)
  %answer = call ptr %call(ptr %ask, ptr null)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %stopped, label %answered
answered:
  %more = call i64 %integer(ptr %answer)
  call void %release(ptr %answer)
  %saved = call ptr %save()
  store i64 %more, ptr %state
  store ptr %saved, ptr %thread_place
  br label %going
stopped:
  ret i1 true
going:
  ret i1 false
}

define internal i1 @works(ptr %entries, i64 %count, ptr %arguments, ptr %scratch, ptr %state) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %advance ]
  %kind_place = getelementptr %Entry, ptr %entries, i64 %number, i32 0
  %kind = load i64, ptr %kind_place
  %offset_place = getelementptr %Entry, ptr %entries, i64 %number, i32 1
  %offset = load i64, ptr %offset_place
  %groups_place = getelementptr %Entry, ptr %entries, i64 %number, i32 2
  %groups = load i64, ptr %groups_place
  %following = add i64 %number, 1
  %behind = add i64 %following, %groups
  %body = getelementptr %Entry, ptr %entries, i64 %following
  switch i64 %kind, label %launch
    [ i64 0, label %turn  i64 1, label %test  i64 2, label %unless  i64 3, label %advance ]
launch:
  %function = inttoptr i64 %kind to ptr
  %own = getelementptr i8, ptr %arguments, i64 %offset
  call void %function(ptr %own, ptr %scratch, i64 0, i64 %groups)
  br label %advance
turn:
  %turns = phi i64 [ 0, %next ], [ %turned, %turned_on ]
  %given_up = call i1 @works(ptr %body, i64 %groups, ptr %arguments, ptr %scratch, ptr %state)
  br i1 %given_up, label %stop, label %turn_done
turn_done:
  %out = call i1 @stops(ptr %state)
  br i1 %out, label %stop, label %turned_on
turned_on:
  %turned = add i64 %turns, 1
  %on = icmp ult i64 %turned, %offset
  br i1 %on, label %turn, label %advance
test:
  %again = call i1 @holds(ptr %arguments, i64 %offset)
  br i1 %again, label %while, label %advance
while:
  %left_off = call i1 @works(ptr %body, i64 %groups, ptr %arguments, ptr %scratch, ptr %state)
  br i1 %left_off, label %stop, label %while_done
while_done:
  %over = call i1 @stops(ptr %state)
  br i1 %over, label %stop, label %test
unless:
  %then = call i1 @holds(ptr %arguments, i64 %offset)
  %way = select i1 %then, i64 %following, i64 %behind
  br label %advance
advance:
  %after = phi i64 [ %following, %launch ], [ %behind, %turned_on ], [ %behind, %test ], [ %way, %unless ],
                   [ %behind, %next ]
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %done
done:
  ret i1 false
stop:
  ret i1 true
}

define void @looping(ptr %entries, i64 %count, ptr %arguments, ptr %scratch, i64 %turns, ptr %python) nounwind {
entry:
  %state = alloca %State
  %thread_place = getelementptr %State, ptr %state, i64 0, i32 1
  %python_place = getelementptr %State, ptr %state, i64 0, i32 2
  %save_place = getelementptr %Python, ptr %python, i64 0, i32 0
  %restore_place = getelementptr %Python, ptr %python, i64 0, i32 1
  %save = load ptr, ptr %save_place
  %restore = load ptr, ptr %restore_place
  %own = call ptr %save()
  store i64 %turns, ptr %state
  store ptr %own, ptr %thread_place
  store ptr %python, ptr %python_place
  %stopped = call i1 @works(ptr %entries, i64 %count, ptr %arguments, ptr %scratch, ptr %state)
  br i1 %stopped, label %done, label %ended
ended:
  %thread = load ptr, ptr %thread_place
  call void %restore(ptr %thread)
  br label %done
done:
  ret void
}

; A kernel: each group is one of the loops that follow each other from the entry on to which the first argument points.
define void @abreast(ptr %job, ptr %scratch, i64 %begin, i64 %end) nounwind {
entry:
  %entries = load ptr, ptr %job
  %arguments_place = getelementptr ptr, ptr %job, i64 1
  %arguments = load ptr, ptr %arguments_place
  %state = alloca %State
  br label %loop
loop:
  %group = phi i64 [ 0, %entry ], [ %after, %next ]
  %place = phi ptr [ %entries, %entry ], [ %behind, %next ]
  %inside_place = getelementptr %Entry, ptr %place, i64 0, i32 2
  %inside = load i64, ptr %inside_place
  %count = add i64 %inside, 1
  %mine = icmp uge i64 %group, %begin
  br i1 %mine, label %run, label %next
run:
  store i64 0, ptr %state  ; never counted down to 0, so Python is never asked
  %given_up = call i1 @works(ptr %place, i64 %count, ptr %arguments, ptr %scratch, ptr %state)
  br label %next
next:
  %behind = getelementptr %Entry, ptr %place, i64 %count
  %after = add i64 %group, 1
  %more = icmp slt i64 %after, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
"""Runs ``count`` entries, from 1 on, in order. ``looping`` is called with Python's lock, and releases it meanwhile; it
returns with an error set if Python raised one when asked.
"""

_STRAIGHT: Final = ctypes.CFUNCTYPE(None, _POINTER, _NUMBER, _POINTER, _POINTER)
_LOOPING: Final = ctypes.PYFUNCTYPE(None, _POINTER, _NUMBER, _POINTER, _POINTER, _NUMBER, _POINTER)


class _Asked(threading.local):
    """Time of a thread's latest question in its current loop, and the allowed number of iterations."""

    seconds = 0.0
    turns = 1


_asked: Final = _Asked()


def _ask() -> int:
    """Allow at least one further iteration, unless the work was cancelled; raises errors of signal handlers."""
    checkpoint()
    now = time.perf_counter()
    passed, _asked.seconds = now - _asked.seconds, now
    if passed < OFTEN_SECONDS:
        _asked.turns *= 4
    elif passed > SELDOM_SECONDS:
        _asked.turns = max(1, _asked.turns // 4)
    return _asked.turns


class _Python(ctypes.Structure):
    """Functions of Python's C interface for asking Python, and the called object."""

    _fields_ = (
        *((name, _POINTER) for name in ("save", "restore", "call", "integer", "release")),
        ("ask", ctypes.py_object),
    )


def _address(name: str) -> int | None:
    return ctypes.cast(getattr(ctypes.pythonapi, name), _POINTER).value


_PYTHON: Final = _Python(
    _address("PyEval_SaveThread"),
    _address("PyEval_RestoreThread"),
    _address("PyObject_CallObject"),
    _address("PyLong_AsLongLong"),
    _address("Py_DecRef"),
    _ask,
)


@attrs.frozen(eq=False)
class Native:
    """Loaded function of entries, their number, arguments and scratch memory.

    Attributes:
        run: The function.
        straight: Its address, if it takes only these and never asks Python.
    """

    code: Code
    run: Callable[[int, int, bytes, int], object]
    straight: int | None = None


@cache
def straight(features: tuple[str, ...]) -> Native:
    """Return the runner of entries without loops and branches, for a processor."""
    code = fixed_code(_STRAIGHT_CODE, ("straight",), features)
    return Native(code, _STRAIGHT(*code.addresses), *code.addresses)


@cache
def looping(features: tuple[str, ...], turns: int) -> Native:
    """Return the runner of entries with loops and branches, which first asks Python after this many iterations.

    It raises errors of signal handlers, and :class:`~tileir.core.process.cancellation.CancelledError`.
    """
    code = _looping_code(features)
    run, python = _LOOPING(code.addresses[0]), ctypes.addressof(_PYTHON)

    def asking(entries: int, count: int, arguments: bytes, scratch: int) -> None:
        _asked.turns = turns
        run(entries, count, arguments, scratch, turns, python)

    return Native(code, asking)


def abreast(features: tuple[str, ...]) -> int:
    """Return the address of a kernel function that runs loops as groups, and never asks Python.

    Its arguments are the address of the entries, and that of their arguments.
    """
    return _looping_code(features).addresses[1]


@cache
def _looping_code(features: tuple[str, ...]) -> Code:
    return fixed_code(_LOOPING_CODE, ("looping", "abreast"), features)
