"""Native code of a program's launches, as LLVM IR: all its driver calls, without Python.

It is called with the interpreter's lock released, as the driver blocks when the card's queue is full.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from cuda.bindings import driver

from tileir.core.nodes import attrs
from tileir_cuda.run.driver import checked
from tileir_llvm.device.host import device
from tileir_llvm.run.loader import load_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.words import spelt

VERSION: Final = 12_000
"""CUDA version whose function signatures are requested, the oldest that is supported."""

_FUNCTIONS: Final = (
    "cuCtxSetCurrent",
    "cuLaunchKernel",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuGraphLaunch",
    "cuGraphExecKernelNodeSetParams",
    "cuStreamIsCapturing",
)
"""Driver functions in :class:`Table`, in order."""

_POINTER, _NUMBER, _INTEGER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32


class Table(ctypes.Structure):
    """Native table of a program: driver functions, and launches.

    It submits ``count`` runs. ``places`` has an entry for each parameter of each launch, with at most ``most``
    parameters.
    """

    _fields_ = (
        *((name, _POINTER) for name in ("enter", "launch", "record", "wait", "replay", "change", "recording")),
        *((name, _POINTER) for name in ("context", "stream")),
        ("count", _NUMBER),
        ("runs", _POINTER),
        ("launches", _POINTER),
        ("places", _POINTER),
        ("most", _NUMBER),
    )
    held: Any = None
    """Owners of the memory that the fields point to."""


class Launch(ctypes.Structure):
    """Launch: function, grid and block, shared memory, and number of parameters."""

    _fields_ = (
        ("function", _POINTER),
        *((name, _INTEGER) for name in ("x", "y", "z", "wide", "high", "deep", "shared", "taken")),
    )


class Run(ctypes.Structure):
    """Repeated launches: ``count`` from number ``first`` on, ``times`` over; ``place`` is that of their first.

    Runs of equal launches share a ``graph``, a number among those of a program.
    """

    _fields_ = (
        ("first", _NUMBER),
        ("count", _NUMBER),
        ("place", _NUMBER),
        ("times", _NUMBER),
        ("graph", _NUMBER),
    )


class Node(ctypes.Structure):
    """The driver's ``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = (
        ("function", _POINTER),
        *((name, _INTEGER) for name in ("x", "y", "z", "wide", "high", "deep", "shared")),
        ("parameters", _POINTER),
        ("extra", _POINTER),
        ("kernel", _POINTER),
        ("context", _POINTER),
    )


_CODE: Final = """\
define internal i32 @followed(ptr %table, ptr %first, ptr %second, ptr %mark) nounwind {
entry:
  %record = field Table.record of %table
  %wait = field Table.wait of %table
  %recorded = call i32 %record(ptr %mark, ptr %first)
  %failed = icmp ne i32 %recorded, 0
  br i1 %failed, label %broken, label %waiting
waiting:
  %waited = call i32 %wait(ptr %second, ptr %mark, i32 0)
  ret i32 %waited
broken:
  ret i32 %recorded
}

define internal ptr @argument(ptr %cell_place, ptr %arguments) nounwind {
; where a parameter is: an argument, or what one points to
entry:
  %cell = load i32, ptr %cell_place
  %points = icmp slt i32 %cell, 0
  %flipped = xor i32 %cell, -1
  %index = select i1 %points, i32 %flipped, i32 %cell
  %index_wide = zext i32 %index to i64
  %held = getelementptr i64, ptr %arguments, i64 %index_wide
  %pointed = load ptr, ptr %held
  %parameter = select i1 %points, ptr %pointed, ptr %held
  ret ptr %parameter
}

define internal i1 @packed(ptr %cells, i64 %count, ptr %arguments, ptr %before, ptr %parameters) nounwind {
; note where parameters are, and return whether one is another than before
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %changed = phi i1 [ 0, %entry ], [ %changes, %going ]
  %over = icmp eq i64 %number, %count
  br i1 %over, label %done, label %going
going:
  %cell = getelementptr i32, ptr %cells, i64 %number
  %to = getelementptr ptr, ptr %parameters, i64 %number
  %parameter = call ptr @argument(ptr %cell, ptr %arguments)
  %earlier = call ptr @argument(ptr %cell, ptr %before)
  store ptr %parameter, ptr %to
  %value = load i64, ptr %parameter
  %old = load i64, ptr %earlier
  %other_value = icmp ne i64 %value, %old
  %which = load i32, ptr %cell
  %points = icmp slt i32 %which, 0
  %other_place = icmp ne ptr %parameter, %earlier
  %differs = select i1 %points, i1 %other_place, i1 %other_value
  %changes = or i1 %changed, %differs
  %after = add i64 %number, 1
  br label %next
done:
  ret i1 %changed
}

define internal i64 @launched(ptr %table, ptr %run, ptr %stream, ptr %arguments) nounwind {
entry:
  %launch = field Table.launch of %table
  %launches = field Table.launches of %table
  %places = field Table.places of %table
  %most = field Table.most of %table
  %begin = field Run.first of %run
  %count = field Run.count of %run
  %place = field Run.place of %run
  %parameters = alloca ptr, i64 %most
  %stop = add i64 %begin, %count
  br label %next
next:
  %number = phi i64 [ %begin, %entry ], [ %after, %going ]
  %first = phi i64 [ %place, %entry ], [ %end, %going ]
  %one = getelementptr %Launch, ptr %launches, i64 %number
  %function = field Launch.function of %one
  %x = field Launch.x of %one
  %y = field Launch.y of %one
  %z = field Launch.z of %one
  %wide = field Launch.wide of %one
  %high = field Launch.high of %one
  %deep = field Launch.deep of %one
  %shared = field Launch.shared of %one
  %taken = field Launch.taken of %one
  %taken_wide = zext i32 %taken to i64
  %end = add i64 %first, %taken_wide
  %cells = getelementptr i32, ptr %places, i64 %first
  %same = call i1 @packed(ptr %cells, i64 %taken_wide, ptr %arguments, ptr %arguments, ptr %parameters)
  %status = call i32 %launch(ptr %function, i32 %x, i32 %y, i32 %z, i32 %wide, i32 %high, i32 %deep, i32 %shared,
                             ptr %stream, ptr %parameters, ptr null)
  %after = add i64 %number, 1
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %broken, label %going
going:
  %more = icmp ult i64 %after, %stop
  br i1 %more, label %next, label %done
broken:
  %status_wide = zext i32 %status to i64
  %which = shl i64 %after, 32
  %told = or i64 %which, %status_wide
  ret i64 %told
done:
  ret i64 0
}

define internal i64 @handed_on(ptr %table, ptr %run, ptr %stream, ptr %arguments, ptr %graphs) nounwind {
; a run as often as it is wanted, launch by launch or by the graph that has it
entry:
  %times = field Run.times of %run
  %which = field Run.graph of %run
  %replay = field Table.replay of %table
  %single = icmp eq ptr %graphs, null
  br label %next
next:
  %turn = phi i64 [ 0, %entry ], [ %after, %over ]
  %last = icmp eq i64 %turn, %times
  br i1 %last, label %done, label %choosing
choosing:
  %after = add i64 %turn, 1
  br i1 %single, label %launching, label %replaying
launching:
  %launched = call i64 @launched(ptr %table, ptr %run, ptr %stream, ptr %arguments)
  br label %over
replaying:
  %graph_at = getelementptr ptr, ptr %graphs, i64 %which
  %graph = load ptr, ptr %graph_at
  %replayed = call i32 %replay(ptr %graph, ptr %stream)
  %replayed_wide = zext i32 %replayed to i64
  br label %over
over:
  %told = phi i64 [ %launched, %launching ], [ %replayed_wide, %replaying ]
  %right = icmp eq i64 %told, 0
  br i1 %right, label %next, label %broken
broken:
  ret i64 %told
done:
  ret i64 0
}

define internal i64 @all_handed_on(ptr %table, ptr %stream, ptr %arguments, ptr %graphs) nounwind {
entry:
  %count = field Table.count of %table
  %runs = field Table.runs of %table
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %over = icmp eq i64 %number, %count
  br i1 %over, label %done, label %going
going:
  %run = getelementptr %Run, ptr %runs, i64 %number
  %after = add i64 %number, 1
  %told = call i64 @handed_on(ptr %table, ptr %run, ptr %stream, ptr %arguments, ptr %graphs)
  %right = icmp eq i64 %told, 0
  br i1 %right, label %next, label %broken
broken:
  ret i64 %told
done:
  ret i64 0
}

define i64 @change(ptr %table, ptr %run, ptr %graph, ptr %nodes, ptr %arguments, ptr %before) nounwind {
entry:
  %enter = field Table.enter of %table
  %context = field Table.context of %table
  %change = field Table.change of %table
  %begin = field Run.first of %run
  %count = field Run.count of %run
  %place = field Run.place of %run
  %launches = field Table.launches of %table
  %places = field Table.places of %table
  %most = field Table.most of %table
  %parameters = alloca ptr, i64 %most
  %node = alloca %Node
  store %Node zeroinitializer, ptr %node
  %entered = call i32 %enter(ptr %context)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %broken, label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %first = phi i64 [ %place, %entry ], [ %end, %going ]
  %over = icmp eq i64 %number, %count
  br i1 %over, label %done, label %looking
looking:
  %which = add i64 %begin, %number
  %one = getelementptr %Launch, ptr %launches, i64 %which
  %taken = field Launch.taken of %one
  %taken_wide = zext i32 %taken to i64
  %end = add i64 %first, %taken_wide
  %after = add i64 %number, 1
  %cells = getelementptr i32, ptr %places, i64 %first
  %differs = call i1 @packed(ptr %cells, i64 %taken_wide, ptr %arguments, ptr %before, ptr %parameters)
  br i1 %differs, label %changing, label %going
changing:
  %launch = load [5 x i64], ptr %one
  store [5 x i64] %launch, ptr %node
  %kept = field Node.parameters of %node
  store ptr %parameters, ptr %kept_at
  %handle_at = getelementptr ptr, ptr %nodes, i64 %number
  %handle = load ptr, ptr %handle_at
  %status = call i32 %change(ptr %graph, ptr %handle, ptr %node)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %broken, label %going
going:
  br label %next
broken:
  %told = phi i32 [ %entered, %entry ], [ %status, %changing ]
  %told_wide = zext i32 %told to i64
  ret i64 %told_wide
done:
  ret i64 0
}

define internal ptr @replayable(ptr %table, ptr %stream, ptr %graphs) nounwind {
; the graphs, but none while somebody records what goes into the stream: then the launches are recorded
entry:
  %recording = field Table.recording of %table
  %state = alloca i32
  store i32 0, ptr %state
  %asked = call i32 %recording(ptr %stream, ptr %state)
  %found = load i32, ptr %state
  %either = or i32 %asked, %found
  %records = icmp ne i32 %either, 0
  %chosen = select i1 %records, ptr null, ptr %graphs
  ret ptr %chosen
}

define i64 @hand_over(ptr %table, ptr %arguments, ptr %other, ptr %mark, ptr %graphs) nounwind {
entry:
  %enter = field Table.enter of %table
  %context = field Table.context of %table
  %stream = field Table.stream of %table
  %entered = call i32 %enter(ptr %context)
  %outside = icmp ne i32 %entered, 0
  %alone = icmp eq ptr %mark, null
  br i1 %outside, label %broken, label %inside
inside:
  br i1 %alone, label %settled, label %following
following:
  %follows = call i32 @followed(ptr %table, ptr %other, ptr %stream, ptr %mark)
  %lost = icmp ne i32 %follows, 0
  br i1 %lost, label %broken, label %settled
settled:
  %plain = icmp eq ptr %graphs, null
  br i1 %plain, label %ordered, label %asking
asking:
  %allowed = call ptr @replayable(ptr %table, ptr %stream, ptr %graphs)
  br label %ordered
ordered:
  %used = phi ptr [ null, %settled ], [ %allowed, %asking ]
  %told = call i64 @all_handed_on(ptr %table, ptr %stream, ptr %arguments, ptr %used)
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
"""
"""``hand_over`` submits all runs, or their graphs; it returns 0, or the status of a failure and, 32 bits up, the number
of the failed launch, from 1 on. With a mark, an event, they follow the work in another stream, which then follows them;
if that is captured to a graph, so are all launches. ``change`` gives nodes of the graph of a run other arguments; it
returns 0, or the status of a failure.
"""


@attrs.frozen(eq=False, repr=False)
class Launcher:
    """Native code, and the driver functions that it calls.

    Attributes:
        hand_over: Takes the addresses of a table and of arguments, another stream, an event, and the address of graphs;
            the last three may be 0.
        change: Takes the address of a table, a run, its graph, the nodes of that, new and previous arguments.
        address: Address of ``hand_over``.
    """

    functions: tuple[int, ...]
    hand_over: Callable[[int, int, int, int, int], int]
    change: Callable[[int, int, int, int, int, int], int]
    address: int
    _held: object

    def table(
        self,
        context: int,
        stream: int,
        runs: Sequence[Run],
        launches: Sequence[Launch],
        places: Sequence[int],
        after: Sequence[tuple[int, ...]],
    ) -> Table:
        """Return the table of a program; ``places`` has an entry for each parameter of each launch.

        ``after`` has the predecessors of each launch in its run, for execution out of order.
        """
        cells = (ctypes.c_int32 * max(1, len(places)))(*places)
        held = (Run * max(1, len(runs)))(*runs), (Launch * max(1, len(launches)))(*launches), cells
        most = max((launch.taken for launch in launches), default=0)
        addresses = [ctypes.addressof(each) for each in held]
        table = Table(*self.functions, context, stream, len(runs), *addresses, max(most, 1))
        table.held = *held, after
        return table


@cache
def launcher() -> Launcher:
    """Return the code for this process.

    Raises:
        BackendError: TIL808, the driver lacks a function.

    """
    features, names = device().features, ("hand_over", "change")
    text = spelt(_CODE, (Table, Run, Launch, Node))
    code = load_code((object_code(text, features, optimise=False),), names, features)
    hand_over, change = code.addresses
    functions = tuple(_address(name) for name in _FUNCTIONS)
    first, second = (ctypes.CFUNCTYPE(_NUMBER, *[_POINTER] * taken) for taken in (5, 6))
    return Launcher(functions, first(hand_over), second(change), hand_over, code)


def _address(name: str) -> int:
    result = driver.cuGetProcAddress(name.encode(), VERSION, 0)
    return int(checked(f"the driver's function {name}", result[:2]))
