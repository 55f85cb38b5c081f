"""Placement of the pool's threads on processors, as LLVM IR: a worker leaves that of the launching thread.

A system may wake a worker on the processor of its waker, and leave both there while another is idle: Linux does so for
seconds on virtual machines without a cache topology. Launches then take as long as on one thread. A worker in this
situation removes that processor from its affinity, which moves it, and restores the affinity at once.
"""

from __future__ import annotations

import sys
from string import Template
from typing import Final

MEETINGS: Final = 64
"""Number of encounters before a worker moves again: other work may need all other processors."""

PLACE: Final = 21
"""Field of ``%pool`` with the processor of the launching thread."""

_LARGEST_32_BITS: Final = 2**31 - 1


def places_code() -> str:
    """Return ``say_place`` for the launching thread and ``leave_place`` for workers; no-ops except on Linux."""
    if sys.platform != "linux" or sys.maxsize <= _LARGEST_32_BITS:
        return _NONE
    return _CODE.substitute(meetings=MEETINGS, place=PLACE)


_NONE: Final = """
define void @say_place(ptr %pool) nounwind alwaysinline {
  ret void
}
define void @leave_place(ptr %pool, ptr %met) nounwind alwaysinline {
  ret void
}
"""

_CODE: Final = Template("""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Say where the launching thread runs; what did not change stays in the caches of the workers.
define void @say_place(ptr %pool) nounwind {
entry:
  %place = getelementptr %pool, ptr %pool, i64 0, i32 $place
  %here = call i32 @sched_getcpu()
  %before = load atomic i32, ptr %place monotonic, align 64
  %same = icmp eq i32 %here, %before
  br i1 %same, label %done, label %say
say:
  store atomic i32 %here, ptr %place monotonic, align 64
  br label %done
done:
  ret void
}

; Leave the processor of the launching thread, if this is it, and there are others that this thread may run on. %met
; counts how often it was.
define void @leave_place(ptr %pool, ptr %met) nounwind {
entry:
  %allowed = alloca [128 x i64]
  %place = getelementptr %pool, ptr %pool, i64 0, i32 $place
  %launching = load atomic i32, ptr %place monotonic, align 64
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %launching
  %known = icmp sge i32 %here, 0
  %meets = and i1 %same, %known
  br i1 %meets, label %count, label %done
count:
  %times = load i64, ptr %met
  %times_next = add i64 %times, 1
  store i64 %times_next, ptr %met
  %turn = urem i64 %times, $meetings
  %leaves = icmp eq i64 %turn, 0
  br i1 %leaves, label %read, label %done
read:
  %unread = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %allowed)
  %is_read = icmp eq i32 %unread, 0
  br i1 %is_read, label %leave, label %done
leave:
  %number = zext i32 %here to i64
  %word = lshr i64 %number, 6
  %bit = and i64 %number, 63
  %this = shl i64 1, %bit
  %others = xor i64 %this, -1
  %word_place = getelementptr i64, ptr %allowed, i64 %word
  %with = load i64, ptr %word_place
  %without = and i64 %with, %others
  store i64 %without, ptr %word_place
  %left = call i32 @sched_setaffinity(i32 0, i64 1024, ptr %allowed)
  store i64 %with, ptr %word_place
  %restored = call i32 @sched_setaffinity(i32 0, i64 1024, ptr %allowed)
  br label %done
done:
  ret void
}
""")
