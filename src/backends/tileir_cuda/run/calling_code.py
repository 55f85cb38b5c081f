"""Calls with device arrays as LLVM IR in the notation of :mod:`tileir_llvm.run.words`."""

from __future__ import annotations

from typing import Final

CALLING: Final = """
define internal ptr @written(ptr %call, ptr %results) nounwind {
; results, each of which is written when the work so far is done; one alone is itself
entry:
  %tail = field Call.tail of %call
  %count = call i64 @PyTuple_Size(ptr %results)
  %latest = load ptr, ptr %tail
  go beginning if ptr %latest == @<None> else kept
beginning:
  %new_tail = field Call.new_tail of %call
  %begun = call ptr @PyObject_CallNoArgs(ptr %new_tail)
  go raised if ptr %begun == null else next
kept:
  call void @Py_IncRef(ptr %latest)
  br label %next
next:
  %event = phi ptr [ %begun, %beginning ], [ %latest, %kept ], [ %event, %going ]
  %number = phi i64 [ 0, %beginning ], [ 0, %kept ], [ %after, %going ]
  go done if i64 %number == %count else looking
looking:
  %object = call ptr @PyTuple_GetItem(ptr %results, i64 %number)
  %type = slot object.type of %object
  go noting if ptr %type == @<DeviceArray> else going
noting:
  %old = slot array._written of %object
  call void @Py_IncRef(ptr %event)
  store ptr %event, ptr %old_at
  call void @Py_DecRef(ptr %old)
  br label %going
going:
  %after = add i64 %number, 1
  br label %next
done:
  call void @Py_DecRef(ptr %event)
  go single if i64 %count == 1 else several
single:
  %only = call ptr @PyTuple_GetItem(ptr %results, i64 0)
  call void @Py_IncRef(ptr %only)
  call void @Py_DecRef(ptr %results)
  ret ptr %only
several:
  ret ptr %results
raised:
  call void @Py_DecRef(ptr %results)
  ret ptr null
}

define internal ptr @handed_over(ptr %call, ptr %given, i64 %count, ptr %held) nounwind {
entry:
  %seen = alloca %Seen
  store %Seen zeroinitializer, ptr %seen
  %read = field Call.read of %call
  %all = field Call.count of %call
  %operands = field Call.operands of %call
  %fixed = field Call.fixed of %call
  %bytes = field Call.known of %call
  %closed = field Call.closed of %call
  %forked = field Call.forked of %call
  %table = field Call.table of %call
  %hand_over = field Call.hand_over of %call
  %missed = field Call.missed of %call
  %words = lshr i64 %bytes, 3
  %arguments = alloca i64, i64 %words
  %made = sub i64 %all, %read
  %is_closed = load ptr, ptr %closed
  %is_forked = load ptr, ptr %forked
  %few = icmp eq i64 %count, %read
  %full = icmp eq i64 %count, %all
  %fits = or i1 %few, %full
  go beginning if ptr %is_closed == @<False> and ptr %is_forked == @<False> and %fits else unwanted
unwanted:
  call void @Py_IncRef(ptr @<None>)
  ret ptr @<None>
beginning:
  %results = call ptr @PyTuple_New(i64 %made)
  go empty if ptr %results == null else next
empty:
  ret ptr null
next:
  %number = phi i64 [ 0, %beginning ], [ %after, %stored ]
  go fixing if i64 %number == %all else choosing
choosing:
  %operand = getelementptr %Operand, ptr %operands, i64 %number
  %held_at = getelementptr ptr, ptr %held, i64 %number
  %argument_at = getelementptr i64, ptr %arguments, i64 %number
  %object_at = getelementptr ptr, ptr %given, i64 %number
  %result = sub i64 %number, %read
  %writes = icmp sge i64 %result, 0
  %absent = icmp uge i64 %number, %count
  br i1 %absent, label %making, label %taking
taking:
  %object = load ptr, ptr %object_at
  go making if ptr %object == @<None> and %writes else looking
making:
  %fresh = call ptr @fresh(ptr %call, ptr %operand, ptr %held_at)
  go raised if ptr %fresh == null else made_it
made_it:
  %stored_fresh = call i32 @PyTuple_SetItem(ptr %results, i64 %result, ptr %fresh)
  %buffer = load ptr, ptr %held_at
  %buffer_address = slot buffer.address of %buffer
  %new_address = call i64 @PyLong_AsUnsignedLongLong(ptr %buffer_address)
  store i64 %new_address, ptr %argument_at
  br label %stored
looking:
  %type = slot object.type of %object
  go own if ptr %type == @<DeviceArray> else lent
own:
  %own_address = call i64 @own_address(ptr %call, ptr %operand, ptr %object, ptr %held_at, i1 %writes)
  br label %placed
lent:
  %lent_address = call i64 @lent_address(ptr %call, ptr %operand, ptr %object, ptr %seen, i1 %writes)
  br label %placed
placed:
  %address = phi i64 [ %own_address, %own ], [ %lent_address, %lent ]
  %mask = field Operand.mask of %operand
  %odd = and i64 %address, %mask
  store i64 %address, ptr %argument_at
  go leading if i64 %odd == 0 and i64 %address != 0 else refused
leading:
  br i1 %writes, label %writing, label %stored
writing:
  %own_bytes = field Operand.bytes of %operand
  %apart = call i1 @apart(ptr %operands, ptr %arguments, i64 %number, i64 %address, i64 %own_bytes)
  br i1 %apart, label %keeping, label %refused
keeping:
  call void @Py_IncRef(ptr %object)
  %kept = call i32 @PyTuple_SetItem(ptr %results, i64 %result, ptr %object)
  br label %stored
stored:
  %after = add i64 %number, 1
  br label %next
fixing:
  %position = phi i64 [ %all, %next ], [ %position_after, %copying ]
  go ready if i64 %position == %words else copying
copying:
  %behind = sub i64 %position, %all
  %from = getelementptr i64, ptr %fixed, i64 %behind
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %arguments, i64 %position
  store i64 %value, ptr %to
  %position_after = add i64 %position, 1
  br label %fixing
ready:
  go going if ptr %missed == null else finding
finding:
  %chosen = call ptr @entry_of(ptr %call, ptr %arguments)
  go raised if ptr %chosen == null else found
found:
  %whole = field Entry.arguments of %chosen
  %replayed = field Entry.graphs of %chosen
  br label %going
going:
  %handed = phi ptr [ %arguments, %ready ], [ %whole, %found ]
  %graph = phi ptr [ null, %ready ], [ %replayed, %found ]
  %other = field Seen.stream of %seen
  %own_mark = field Call.mark of %call
  %alone = icmp eq ptr %other, null
  %mark = select i1 %alone, ptr null, ptr %own_mark
  %thread = call ptr @PyEval_SaveThread()
  %told = call i64 %hand_over(ptr %table, ptr %handed, ptr %other, ptr %mark, ptr %graph)
  call void @PyEval_RestoreThread(ptr %thread)
  go done if i64 %told == 0 else failed
done:
  %results_of_call = call ptr @written(ptr %call, ptr %results)
  ret ptr %results_of_call
failed:
  call void @Py_DecRef(ptr %results)
  %status = call ptr @PyLong_FromLongLong(i64 %told)
  ret ptr %status
refused:
  call void @Py_DecRef(ptr %results)
  call void @Py_IncRef(ptr @<None>)
  ret ptr @<None>
raised:
  call void @Py_DecRef(ptr %results)
  ret ptr null
}

define ptr @call(ptr %self, ptr %given, i64 %count) nounwind {
entry:
  %known_object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %known_number = call i64 @PyLong_AsUnsignedLongLong(ptr %known_object)
  %call = inttoptr i64 %known_number to ptr
  %all = field Call.count of %call
  %held = alloca ptr, i64 %all
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %clearing ]
  go ready if i64 %number == %all else clearing
clearing:
  %held_at = getelementptr ptr, ptr %held, i64 %number
  store ptr null, ptr %held_at
  %after = add i64 %number, 1
  br label %next
ready:
  %result = call ptr @handed_over(ptr %call, ptr %given, i64 %count, ptr %held)
  br label %further
further:
  %place = phi i64 [ 0, %ready ], [ %beyond, %released ]
  go done if i64 %place == %all else releasing
releasing:
  %one_at = getelementptr ptr, ptr %held, i64 %place
  %one = load ptr, ptr %one_at
  go letting_go if ptr %one != null else released
letting_go:
  call void @Py_DecRef(ptr %one)
  br label %released
released:
  %beyond = add i64 %place, 1
  br label %further
done:
  ret ptr %result
}
"""
"""``call`` takes the input arrays, and destinations of results, or None for fresh ones, or no destinations at all. It
returns the results, one or a tuple; None with nothing done for arrays that do not fit as they are; or the number that
``hand_over`` returned. The caller holds the lock of the stream.
"""
