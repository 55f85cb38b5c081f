"""Native half of the thread pool, as LLVM IR: launches and workers synchronise without Python.

All state is one block of :func:`pool_bytes` bytes, zero at first and then initialised by ``setup``. Its word ``state``
holds the number of the latest job, whether that job is open, and the number of workers that joined it. The launching
thread writes the job, opens it, works, closes it, and then only waits for the workers that joined: a late worker costs
nothing. A worker joins by compare-and-swap, so it never reads a job that is being written.

Every thread has a share of the groups, constant from launch to launch so that its data stay in its cache, and takes
chunks of it by compare-and-swap of a counter; then it takes chunks of the other shares, so that the others do the share
of a late thread. Chunks are a quarter of the remaining groups, but at least a thirty-second of the share, so that
nobody waits long for a last one (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers
C-36(12)).

Idle threads spin for a while, then sleep on a condition variable. Each side publishes its action before it checks the
other, both sequentially consistent, so that no wake-up is lost (Dekker's pattern).

A worker that is woken on the processor of the launching thread leaves it (:mod:`tileir_llvm.run.places_code`).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from string import Template
from types import MappingProxyType
from typing import Final

from tileir_llvm.run.places_code import places_code

_LINE: Final = 64
_HEAD_LINES: Final = 16

CHUNK_OF_REST: Final = 4
CHUNK_OF_SHARE: Final = 32
"""Reciprocals of a chunk's share of the remaining groups, and of its minimum share."""

_X86: Final = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_ARM: Final = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
_PAUSES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}
)
"""Declaration and call of the spin-wait hint instruction."""


def pool_bytes(threads: int) -> int:
    """Return the size of the memory of a pool, which must start at a cache line.

    The head has 128 bytes for each mutex and condition, more than any system needs; after it every thread has a line
    for the counter of its share.
    """
    return _LINE * (_HEAD_LINES + threads)


def pool_code() -> str:
    """Return the module with ``setup``, ``launch``, ``together``, ``work``, ``stop``, and the kernel ``count``."""
    declaration, pause = _PAUSES.get(platform.machine().lower(), ("", ""))
    numbers = {"rest": CHUNK_OF_REST, "least": CHUNK_OF_SHARE, "clock": getattr(time, "CLOCK_MONOTONIC", 1)}
    code = _CODE.substitute(numbers, declaration=declaration, pause=pause, line=_LINE, shares=_LINE * _HEAD_LINES)
    return code + places_code()


_CODE: Final = Template("""\
%pool = type {
  i64, [56 x i8],                  ; 0: state = job number << 16 | open << 15 | joined
  i64, [56 x i8],                  ; 2: finished workers
  i64, [56 x i8],                  ; 4: sleeping workers
  i64, [56 x i8],                  ; 6: the launching thread sleeps
  i64, [56 x i8],                  ; 8: stop
  ptr, ptr, ptr, i64, i64, i64, i64, i64,  ; 10: function, arguments, scratch, its stride, groups, least chunk, workers,
                                   ; 17: and how many workers there are
  [128 x i8], [128 x i8], [128 x i8],  ; 18: mutex, 19: condition of workers, 20: condition of the launching thread
  i32                              ; 21: processor of the launching thread
}

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
$declaration

define void @setup(ptr %pool, i64 %helpers) nounwind {
  %helpers_place = getelementptr %pool, ptr %pool, i64 0, i32 17
  store i64 %helpers, ptr %helpers_place
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 18
  %work = getelementptr %pool, ptr %pool, i64 0, i32 19
  %done = getelementptr %pool, ptr %pool, i64 0, i32 20
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %work, ptr null)
  %c = call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}

define internal void @wake(ptr %pool, i32 %which) nounwind {
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 18
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %is_work = icmp eq i32 %which, 0
  %work = getelementptr %pool, ptr %pool, i64 0, i32 19
  %done = getelementptr %pool, ptr %pool, i64 0, i32 20
  %condition = select i1 %is_work, ptr %work, ptr %done
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; A kernel for measurements: each group counts to the number that the arguments are.
define void @count(ptr %arguments, ptr %scratch, i64 %begin, i64 %end) nounwind {
entry:
  %steps = load i64, ptr %arguments
  %groups = sub i64 %end, %begin
  %last = mul i64 %groups, %steps
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %next ]
  %after = add i64 %number, 1
  %more = icmp slt i64 %after, %last
  br i1 %more, label %next, label %done
done:
  ret void
}

define internal ptr @counter(ptr %pool, i64 %share) nounwind alwaysinline {
  %distance = mul i64 %share, $line
  %offset = add i64 %distance, $shares
  %place = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %place
}

define internal i64 @share_begin(i64 %groups, i64 %share, i64 %threads) nounwind alwaysinline {
  %scaled = mul i64 %groups, %share
  %begin = udiv i64 %scaled, %threads
  ret i64 %begin
}

; Run chunks of the current job, first of share %home, until none is left. %thread numbers those who joined, from 0.
define internal void @run_chunks(ptr %pool, i64 %thread, i64 %home) nounwind {
entry:
  %function_place = getelementptr %pool, ptr %pool, i64 0, i32 10
  %function = load ptr, ptr %function_place
  %arguments_place = getelementptr %pool, ptr %pool, i64 0, i32 11
  %arguments = load ptr, ptr %arguments_place
  %scratch_place = getelementptr %pool, ptr %pool, i64 0, i32 12
  %scratch = load ptr, ptr %scratch_place
  %stride_place = getelementptr %pool, ptr %pool, i64 0, i32 13
  %stride = load i64, ptr %stride_place
  %groups_place = getelementptr %pool, ptr %pool, i64 0, i32 14
  %groups = load i64, ptr %groups_place
  %least_place = getelementptr %pool, ptr %pool, i64 0, i32 15
  %least = load i64, ptr %least_place
  %workers_place = getelementptr %pool, ptr %pool, i64 0, i32 16
  %workers = load i64, ptr %workers_place
  %threads = add i64 %workers, 1
  %offset = mul i64 %thread, %stride
  %own_scratch = getelementptr i8, ptr %scratch, i64 %offset
  br label %choose
choose:
  %visited = phi i64 [ 0, %entry ], [ %visited_next, %exhausted ]
  %position = add i64 %home, %visited
  %share = urem i64 %position, %threads
  %counter = call ptr @counter(ptr %pool, i64 %share)
  %following = add i64 %share, 1
  %share_end = call i64 @share_begin(i64 %groups, i64 %following, i64 %threads)
  %seen = load atomic i64, ptr %counter monotonic, align 64
  br label %take
take:
  %begin = phi i64 [ %seen, %choose ], [ %found, %claim ], [ %now, %run ]
  %rest = sub i64 %share_end, %begin
  %left = icmp sgt i64 %rest, 0
  br i1 %left, label %claim, label %exhausted
claim:
  %part = udiv i64 %rest, $rest
  %chunk = call i64 @llvm.smax.i64(i64 %part, i64 %least)
  %full = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %share_end)
  %exchange = cmpxchg ptr %counter, i64 %begin, i64 %end monotonic monotonic, align 64
  %found = extractvalue { i64, i1 } %exchange, 0
  %won = extractvalue { i64, i1 } %exchange, 1
  br i1 %won, label %run, label %take
run:
  call void %function(ptr %arguments, ptr %own_scratch, i64 %begin, i64 %end)
  %now = load atomic i64, ptr %counter monotonic, align 64
  br label %take
exhausted:
  %visited_next = add i64 %visited, 1
  %more = icmp ult i64 %visited_next, %threads
  br i1 %more, label %choose, label %finished
finished:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)

; Run a job on this thread and on up to %workers others. One thread at a time may be in here.
define void @launch(
  ptr %pool, ptr %function, ptr %arguments, ptr %scratch, i64 %stride, i64 %groups, i64 %workers, i64 %spins
) nounwind {
entry:
  %function_place = getelementptr %pool, ptr %pool, i64 0, i32 10
  store ptr %function, ptr %function_place
  %arguments_place = getelementptr %pool, ptr %pool, i64 0, i32 11
  store ptr %arguments, ptr %arguments_place
  %scratch_place = getelementptr %pool, ptr %pool, i64 0, i32 12
  store ptr %scratch, ptr %scratch_place
  %stride_place = getelementptr %pool, ptr %pool, i64 0, i32 13
  store i64 %stride, ptr %stride_place
  %groups_place = getelementptr %pool, ptr %pool, i64 0, i32 14
  store i64 %groups, ptr %groups_place
  %threads = add i64 %workers, 1
  %parts = mul i64 %threads, $least
  %part = udiv i64 %groups, %parts
  %least = call i64 @llvm.smax.i64(i64 %part, i64 1)
  %least_place = getelementptr %pool, ptr %pool, i64 0, i32 15
  store i64 %least, ptr %least_place
  %workers_place = getelementptr %pool, ptr %pool, i64 0, i32 16
  store atomic i64 %workers, ptr %workers_place monotonic, align 8
  br label %deal
deal:
  %share = phi i64 [ 0, %entry ], [ %share_next, %deal ]
  %counter = call ptr @counter(ptr %pool, i64 %share)
  %first = call i64 @share_begin(i64 %groups, i64 %share, i64 %threads)
  store atomic i64 %first, ptr %counter monotonic, align 64
  %share_next = add i64 %share, 1
  %undealt = icmp ult i64 %share_next, %threads
  br i1 %undealt, label %deal, label %open
open:
  call void @say_place(ptr %pool)
  %finished_place = getelementptr %pool, ptr %pool, i64 0, i32 2
  store atomic i64 0, ptr %finished_place monotonic, align 64
  %old = load atomic i64, ptr %pool monotonic, align 64
  %old_number = lshr i64 %old, 16
  %number = add i64 %old_number, 1
  %shifted = shl i64 %number, 16
  %opened = or i64 %shifted, 32768
  store atomic i64 %opened, ptr %pool seq_cst, align 64
  %sleepers_place = getelementptr %pool, ptr %pool, i64 0, i32 4
  %sleepers = load atomic i64, ptr %sleepers_place seq_cst, align 64
  %helpers_place = getelementptr %pool, ptr %pool, i64 0, i32 17
  %helpers = load i64, ptr %helpers_place
  %spinning = sub i64 %helpers, %sleepers
  %lacking = sub i64 %workers, %spinning
  %lack = icmp sgt i64 %lacking, 0
  br i1 %lack, label %rouse, label %work
rouse:
  call void @wake(ptr %pool, i32 0)
  br label %work
work:
  call void @run_chunks(ptr %pool, i64 0, i64 0)
  %closing = atomicrmw and ptr %pool, i64 -32769 acq_rel
  %joined = and i64 %closing, 32767
  br label %spin
spin:
  %turn = phi i64 [ 0, %work ], [ %turn_next, %again ]
  %finished = load atomic i64, ptr %finished_place acquire, align 64
  %all = icmp eq i64 %finished, %joined
  br i1 %all, label %done, label %again
again:
  $pause
  %turn_next = add i64 %turn, 1
  %patient = icmp ult i64 %turn_next, %spins
  br i1 %patient, label %spin, label %sleep
sleep:
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 18
  %condition = getelementptr %pool, ptr %pool, i64 0, i32 20
  %waiting_place = getelementptr %pool, ptr %pool, i64 0, i32 6
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %waiting_place seq_cst, align 64
  br label %look
look:
  %finished_now = load atomic i64, ptr %finished_place seq_cst, align 64
  %all_now = icmp eq i64 %finished_now, %joined
  br i1 %all_now, label %awake, label %wait
wait:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
awake:
  store atomic i64 0, ptr %waiting_place seq_cst, align 64
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}
declare i64 @llvm.smax.i64(i64, i64)

define internal i64 @moment(ptr %clock) nounwind {
  %failed = call i32 @clock_gettime(i32 $clock, ptr %clock)
  %nanoseconds_place = getelementptr i64, ptr %clock, i64 1
  %seconds = load i64, ptr %clock
  %nanoseconds = load i64, ptr %nanoseconds_place
  %scaled = mul i64 %seconds, 1000000000
  %moment = add i64 %scaled, %nanoseconds
  ret i64 %moment
}
declare i32 @clock_gettime(i32, ptr)

%entry = type { i64, i64, i64 }  ; function, offset of its arguments, groups, as of sequences

; Run %count entries one after the other, each on this thread and on so many others as %helpers says; note the
; nanoseconds of each in %times, unless that is null. One thread at a time may be in here.
define void @together(
  ptr %pool, ptr %entries, ptr %helpers, ptr %times, i64 %count, ptr %arguments, ptr %scratch, i64 %stride, i64 %spins
) nounwind {
entry:
  %clock = alloca [2 x i64]
  %timed = icmp ne ptr %times, null
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %advance ]
  %function_place = getelementptr %entry, ptr %entries, i64 %number, i32 0
  %function = load ptr, ptr %function_place
  %offset_place = getelementptr %entry, ptr %entries, i64 %number, i32 1
  %offset = load i64, ptr %offset_place
  %groups_place = getelementptr %entry, ptr %entries, i64 %number, i32 2
  %groups = load i64, ptr %groups_place
  %own = getelementptr i8, ptr %arguments, i64 %offset
  %workers_place = getelementptr i64, ptr %helpers, i64 %number
  %workers = load i64, ptr %workers_place
  %shared = icmp ne i64 %workers, 0
  br i1 %timed, label %begin, label %choose
begin:
  %before = call i64 @moment(ptr %clock)
  br label %choose
choose:
  %started = phi i64 [ 0, %next ], [ %before, %begin ]
  br i1 %shared, label %share, label %alone
share:
  call void @launch(ptr %pool, ptr %function, ptr %own, ptr %scratch, i64 %stride, i64 %groups, i64 %workers,
    i64 %spins)
  br label %done
alone:
  call void %function(ptr %own, ptr %scratch, i64 0, i64 %groups)
  br label %done
done:
  br i1 %timed, label %note, label %advance
note:
  %ended = call i64 @moment(ptr %clock)
  %taken = sub i64 %ended, %started
  %time_place = getelementptr i64, ptr %times, i64 %number
  store i64 %taken, ptr %time_place
  br label %advance
advance:
  %after = add i64 %number, 1
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %finished
finished:
  ret void
}

; The life of worker number %worker, from 1 on: it returns after @stop only.
define void @work(ptr %pool, i64 %worker, i64 %spins) nounwind {
entry:
  %finished_place = getelementptr %pool, ptr %pool, i64 0, i32 2
  %sleepers_place = getelementptr %pool, ptr %pool, i64 0, i32 4
  %waiting_place = getelementptr %pool, ptr %pool, i64 0, i32 6
  %stop_place = getelementptr %pool, ptr %pool, i64 0, i32 8
  %workers_place = getelementptr %pool, ptr %pool, i64 0, i32 16
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 18
  %condition = getelementptr %pool, ptr %pool, i64 0, i32 19
  %met = alloca i64
  store i64 0, ptr %met
  br label %spin
spin:
  %last = phi i64 [ 0, %entry ], [ %last, %pause ], [ %number, %crowded ], [ %last, %lost ],
    [ %number, %worked ], [ %last, %rested ]
  %turn = phi i64 [ 0, %entry ], [ %turn_next, %pause ], [ %turn, %crowded ], [ %turn, %lost ],
    [ 0, %worked ], [ 0, %rested ]
  %stop = load atomic i64, ptr %stop_place acquire, align 64
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %look
look:
  %state = load atomic i64, ptr %pool acquire, align 64
  %number = lshr i64 %state, 16
  %is_new = icmp ne i64 %number, %last
  %open_bit = and i64 %state, 32768
  %is_open = icmp ne i64 %open_bit, 0
  %wanted = and i1 %is_new, %is_open
  br i1 %wanted, label %try, label %pause
pause:
  $pause
  %turn_next = add i64 %turn, 1
  %patient = icmp ult i64 %turn_next, %spins
  br i1 %patient, label %spin, label %sleep
try:
  %joined = and i64 %state, 32767
  %workers = load atomic i64, ptr %workers_place monotonic, align 8
  %room = icmp ult i64 %joined, %workers
  br i1 %room, label %join, label %crowded
crowded:
  br label %spin
join:
  %more = add i64 %state, 1
  %exchange = cmpxchg ptr %pool, i64 %state, i64 %more acq_rel monotonic
  %won = extractvalue { i64, i1 } %exchange, 1
  br i1 %won, label %run, label %lost
lost:
  br label %spin
run:
  call void @leave_place(ptr %pool, ptr %met)
  %thread = add i64 %joined, 1
  call void @run_chunks(ptr %pool, i64 %thread, i64 %worker)
  %finished = atomicrmw add ptr %finished_place, i64 1 seq_cst
  %waiting = load atomic i64, ptr %waiting_place seq_cst, align 64
  %is_awaited = icmp ne i64 %waiting, 0
  br i1 %is_awaited, label %tell, label %worked
tell:
  call void @wake(ptr %pool, i32 1)
  br label %worked
worked:
  br label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %sleepers = atomicrmw add ptr %sleepers_place, i64 1 seq_cst
  %state_now = load atomic i64, ptr %pool seq_cst, align 64
  %number_now = lshr i64 %state_now, 16
  %is_new_now = icmp ne i64 %number_now, %last
  %open_bit_now = and i64 %state_now, 32768
  %is_open_now = icmp ne i64 %open_bit_now, 0
  %wanted_now = and i1 %is_new_now, %is_open_now
  %stop_now = load atomic i64, ptr %stop_place seq_cst, align 64
  %stopped_now = icmp ne i64 %stop_now, 0
  %busy = or i1 %wanted_now, %stopped_now
  br i1 %busy, label %rested, label %wait
wait:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %rested
rested:
  %fewer = atomicrmw sub ptr %sleepers_place, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  call void @leave_place(ptr %pool, ptr %met)
  br label %spin
leave:
  ret void
}

define void @stop(ptr %pool) nounwind {
  %stop_place = getelementptr %pool, ptr %pool, i64 0, i32 8
  store atomic i64 1, ptr %stop_place seq_cst, align 64
  call void @wake(ptr %pool, i32 0)
  ret void
}
""")
