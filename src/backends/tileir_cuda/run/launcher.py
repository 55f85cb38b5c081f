"""The native half of a program's launches, as LLVM IR: all calls of the driver for it, without Python in between.

It is called with the interpreter's lock released, as a full queue of the card makes the driver wait.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs
from cuda.bindings import driver

from tileir_cuda.run.driver import checked
from tileir_llvm.device.host import device
from tileir_llvm.run.loader import load_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.python_functions import calling_python, python_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERSION: Final = 12_000
"""Functions are asked for as they were in this version of CUDA, the oldest that is supported."""

_FUNCTIONS: Final = ("cuCtxSetCurrent", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuGraphLaunch")

_CODE: Final = """\
%Table = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, ptr, i64 }
; functions: enter a context, launch, record, wait, launch a graph; then the context, the stream, how many launches, the
; launches, the place of each parameter, and the most parameters of a launch
%Launch = type { ptr, i32, i32, i32, i32, i32, i32, i32, i32 }  ; function, grid, group, shared memory, parameters

define internal i32 @followed(ptr %table, ptr %first, ptr %second, ptr %mark) nounwind {
entry:
  %record_place = getelementptr %Table, ptr %table, i64 0, i32 2
  %wait_place = getelementptr %Table, ptr %table, i64 0, i32 3
  %record = load ptr, ptr %record_place
  %wait = load ptr, ptr %wait_place
  %recorded = call i32 %record(ptr %mark, ptr %first)
  %failed = icmp ne i32 %recorded, 0
  br i1 %failed, label %broken, label %waiting
waiting:
  %waited = call i32 %wait(ptr %second, ptr %mark, i32 0)
  ret i32 %waited
broken:
  ret i32 %recorded
}

define internal i64 @launched(ptr %table, ptr %stream, ptr %arguments) nounwind {
entry:
  %launch_place = getelementptr %Table, ptr %table, i64 0, i32 1
  %count_place = getelementptr %Table, ptr %table, i64 0, i32 7
  %launches_place = getelementptr %Table, ptr %table, i64 0, i32 8
  %places_place = getelementptr %Table, ptr %table, i64 0, i32 9
  %most_place = getelementptr %Table, ptr %table, i64 0, i32 10
  %launch = load ptr, ptr %launch_place
  %count = load i64, ptr %count_place
  %launches = load ptr, ptr %launches_place
  %places = load ptr, ptr %places_place
  %most = load i64, ptr %most_place
  %parameters = alloca ptr, i64 %most
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %first = phi i64 [ 0, %entry ], [ %end, %going ]
  %entry_place = getelementptr %Launch, ptr %launches, i64 %number
  %function = load ptr, ptr %entry_place
  %x_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 1
  %y_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 2
  %z_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 3
  %wide_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 4
  %high_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 5
  %deep_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 6
  %shared_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 7
  %taken_place = getelementptr %Launch, ptr %entry_place, i64 0, i32 8
  %x = load i32, ptr %x_place
  %y = load i32, ptr %y_place
  %z = load i32, ptr %z_place
  %wide = load i32, ptr %wide_place
  %high = load i32, ptr %high_place
  %deep = load i32, ptr %deep_place
  %shared = load i32, ptr %shared_place
  %taken = load i32, ptr %taken_place
  %taken_wide = zext i32 %taken to i64
  %end = add i64 %first, %taken_wide
  %empty = icmp eq i32 %taken, 0
  br i1 %empty, label %launching, label %packing
packing:
  %position = phi i64 [ %first, %next ], [ %position_after, %packing ]
  %cell_place = getelementptr i32, ptr %places, i64 %position
  %cell = load i32, ptr %cell_place
  %points = icmp slt i32 %cell, 0
  %flipped = xor i32 %cell, -1
  %index = select i1 %points, i32 %flipped, i32 %cell
  %index_wide = zext i32 %index to i64
  %held = getelementptr i64, ptr %arguments, i64 %index_wide
  %pointed = load ptr, ptr %held
  %parameter = select i1 %points, ptr %pointed, ptr %held
  %own = sub i64 %position, %first
  %own_place = getelementptr ptr, ptr %parameters, i64 %own
  store ptr %parameter, ptr %own_place
  %position_after = add i64 %position, 1
  %more_parameters = icmp ult i64 %position_after, %end
  br i1 %more_parameters, label %packing, label %launching
launching:
  %status = call i32 %launch(ptr %function, i32 %x, i32 %y, i32 %z, i32 %wide, i32 %high, i32 %deep, i32 %shared,
                             ptr %stream, ptr %parameters, ptr null)
  %after = add i64 %number, 1
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %broken, label %going
going:
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %done
broken:
  %status_wide = zext i32 %status to i64
  %which = shl i64 %after, 32
  %told = or i64 %which, %status_wide
  ret i64 %told
done:
  ret i64 0
}

define i64 @hand_over(ptr %table, ptr %arguments, ptr %other, ptr %mark, ptr %graph) nounwind {
entry:
  %enter = load ptr, ptr %table
  %context_place = getelementptr %Table, ptr %table, i64 0, i32 5
  %stream_place = getelementptr %Table, ptr %table, i64 0, i32 6
  %context = load ptr, ptr %context_place
  %stream = load ptr, ptr %stream_place
  %entered = call i32 %enter(ptr %context)
  %outside = icmp ne i32 %entered, 0
  %alone = icmp eq ptr %mark, null
  br i1 %outside, label %broken, label %inside
inside:
  br i1 %alone, label %ordered, label %following
following:
  %follows = call i32 @followed(ptr %table, ptr %other, ptr %stream, ptr %mark)
  %lost = icmp ne i32 %follows, 0
  br i1 %lost, label %broken, label %ordered
ordered:
  %single = icmp eq ptr %graph, null
  br i1 %single, label %launching, label %replaying
launching:
  %launched = call i64 @launched(ptr %table, ptr %stream, ptr %arguments)
  br label %over
replaying:
  %replay_place = getelementptr %Table, ptr %table, i64 0, i32 4
  %replay = load ptr, ptr %replay_place
  %replayed = call i32 %replay(ptr %graph, ptr %stream)
  %replayed_wide = zext i32 %replayed to i64
  br label %over
over:
  %told = phi i64 [ %launched, %launching ], [ %replayed_wide, %replaying ]
  %right = icmp eq i64 %told, 0
  %apart = xor i1 %alone, true
  %leads = and i1 %right, %apart
  br i1 %leads, label %leading, label %done
leading:
  %led = call i32 @followed(ptr %table, ptr %stream, ptr %other, ptr %mark)
  %led_wide = zext i32 %led to i64
  ret i64 %led_wide
done:
  ret i64 %told
broken:
  %early = phi i32 [ %entered, %entry ], [ %follows, %following ]
  %early_wide = zext i32 %early to i64
  ret i64 %early_wide
}

%Call = type { ptr, ptr, i64, i64 }  ; table, fixed arguments, how many are given, how many there are

define ptr @call(ptr %self, ptr %given, i64 %count) nounwind {
entry:
  %known_object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %known_number = call i64 @PyLong_AsUnsignedLongLong(ptr %known_object)
  %known = inttoptr i64 %known_number to ptr
  %fixed_place = getelementptr %Call, ptr %known, i64 0, i32 1
  %taken_place = getelementptr %Call, ptr %known, i64 0, i32 2
  %all_place = getelementptr %Call, ptr %known, i64 0, i32 3
  %table = load ptr, ptr %known
  %fixed = load ptr, ptr %fixed_place
  %taken = load i64, ptr %taken_place
  %all = load i64, ptr %all_place
  %arguments = alloca i64, i64 %all
  %right = icmp eq i64 %count, %taken
  br i1 %right, label %next, label %wrong
wrong:
  %invalid = call ptr @PyLong_FromLongLong(i64 1)
  ret ptr %invalid
next:
  %number = phi i64 [ 0, %entry ], [ %after, %stored ]
  %over = icmp eq i64 %number, %all
  br i1 %over, label %ready, label %reading
reading:
  %place = getelementptr i64, ptr %arguments, i64 %number
  %is_given = icmp ult i64 %number, %taken
  br i1 %is_given, label %converting, label %copying
converting:
  %object_place = getelementptr ptr, ptr %given, i64 %number
  %object = load ptr, ptr %object_place
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %raised, label %stored
raised:
  ret ptr null
copying:
  %behind = sub i64 %number, %taken
  %kept_place = getelementptr i64, ptr %fixed, i64 %behind
  %kept = load i64, ptr %kept_place
  br label %stored
stored:
  %value = phi i64 [ %address, %converting ], [ %kept, %copying ]
  store i64 %value, ptr %place
  %after = add i64 %number, 1
  br label %next
ready:
  %thread = call ptr @PyEval_SaveThread()
  %told = call i64 @hand_over(ptr %table, ptr %arguments, ptr null, ptr null, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLongLong(i64 %told)
  ret ptr %result
}
"""
"""``hand_over`` hands over all launches, or the graph that has them; 0, or the status of what failed and, 32 bits up,
which launch it was, from 1 on. With a mark, an event, they follow what is in another stream, which then follows them.
``call`` does it for a function of Python's C interface, to which calls by ctypes are slow; its arguments are
addresses."""


class Table(ctypes.Structure):
    """What the code knows of a program."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("enter", "launch", "record", "wait", "replay", "context", "stream")),
        ("count", ctypes.c_int64),
        ("launches", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("most", ctypes.c_int64),
    )
    held: object = None
    """What it points to."""


class Launch(ctypes.Structure):
    """One launch."""

    _fields_ = (("function", ctypes.c_void_p), ("shape", ctypes.c_uint32 * 7), ("parameters", ctypes.c_uint32))


class _Call(ctypes.Structure):
    """What ``call`` knows of a program."""

    _fields_ = (
        ("table", ctypes.c_void_p),
        ("fixed", ctypes.c_char_p),
        ("taken", ctypes.c_int64),
        ("all", ctypes.c_int64),
    )


@attrs.frozen(eq=False, repr=False)
class Launcher:
    """The code, and the functions of the driver that it calls.

    Attributes:
        hand_over: Takes the address of a table, arguments, another stream, an event, and a graph; 0 for each of the
            last three that there is none of.

    """

    functions: tuple[int, ...]
    hand_over: Callable[[int, bytes, int, int, int], int]
    _call: int
    _held: object

    def function(self, table: Table, count: int, fixed: bytes) -> Callable[..., int]:
        """Return a function of ``count`` addresses that hands a program over.

        Args:
            table: The program.
            count: How many addresses come first.
            fixed: The other arguments.

        """
        known = _Call(ctypes.addressof(table), fixed, count, count + len(fixed) // 8)
        return python_function("launch", self._call, ctypes.addressof(known), (self._held, known, fixed, table))

    def table(self, context: int, stream: int, launches: Sequence[Launch], places: Sequence[int]) -> Table:
        """Return the table of a program; ``places`` has an entry for each parameter of each launch."""
        entries, cells = (Launch * max(1, len(launches)))(*launches), (ctypes.c_int32 * max(1, len(places)))(*places)
        first, second = ctypes.addressof(entries), ctypes.addressof(cells)
        most = max((launch.parameters for launch in launches), default=0)
        table = Table(*self.functions, context, stream, len(launches), first, second, max(most, 1))
        table.held = (entries, cells)
        return table


@cache
def launcher() -> Launcher:
    """Return the code for this process.

    Raises:
        BackendError: TIL808, the driver lacks a function.

    """
    features = device().features
    code = load_code((object_code(calling_python(_CODE), features, optimise=False),), ("hand_over", "call"), features)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(number, pointer, ctypes.c_char_p, pointer, pointer, pointer)
    functions = tuple(_address(name) for name in _FUNCTIONS)
    return Launcher(functions, kind(code.addresses[0]), code.addresses[1], code)


def _address(name: str) -> int:
    result = driver.cuGetProcAddress(name.encode(), VERSION, 0)
    return int(checked(f"the driver's function {name}", result[:2]))
