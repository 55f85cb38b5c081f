"""Checks of device arrays, including foreign arrays, as LLVM IR in the notation of :mod:`tileir_llvm.run.words`."""

from __future__ import annotations

from typing import Final

LOOKING: Final = """
define internal i1 @is_lazy(ptr %library, ptr %object) nounwind {
; whether an array of others is more than its memory, or does not tell
entry:
  %self = alloca ptr
  store ptr %object, ptr %self
  %gradient = field Library.gradient of %library
  %negative = field Library.negative of %library
  go asking if ptr %gradient != null else signing
asking:
  %recorded = call ptr @PyObject_GetAttr(ptr %object, ptr %gradient)
  %plain = icmp eq ptr %recorded, @<False>
  go answered if ptr %recorded != null else failed
answered:
  call void @Py_DecRef(ptr %recorded)
  br i1 %plain, label %signing, label %lazy
signing:
  go calling if ptr %negative != null else memory
calling:
  %negated = call ptr @PyObject_VectorcallMethod(ptr %negative, ptr %self, i64 1, ptr null)
  %positive = icmp eq ptr %negated, @<False>
  go signed if ptr %negated != null else failed
signed:
  call void @Py_DecRef(ptr %negated)
  br i1 %positive, label %memory, label %lazy
failed:
  call void @PyErr_Clear()
  ret i1 1
lazy:
  ret i1 1
memory:
  ret i1 0
}

define internal ptr @library_of(ptr %call, ptr %object) nounwind {
entry:
  %type = slot object.type of %object
  %libraries = field Call.libraries of %call
  %count = field Call.library_count of %call
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  go unknown if i64 %number == %count else going
going:
  %library = getelementptr %Library, ptr %libraries, i64 %number
  %own = field Library.type of %library
  %after = add i64 %number, 1
  go known if ptr %own == %type else next
known:
  ret ptr %library
unknown:
  ret ptr null
}

define internal i1 @may_write(ptr %library, ptr %object) nounwind {
entry:
  %to = alloca ptr
  store ptr null, ptr %to
  %owned = field Library.owned of %library
  %status = call i32 %owned(ptr %object, ptr %to)
  %managed = load ptr, ptr %to
  go asking if i32 %status == 0 and ptr %managed != null else failed
asking:
  %major = field Managed.major of %managed
  %flags = field Managed.flags of %managed
  %deleter = field Managed.deleter of %managed
  go ending if ptr %deleter != null else told
ending:
  call void %deleter(ptr %managed)
  br label %told
told:
  %version = icmp eq i32 %major, 1
  %kept = and i64 %flags, 1
  %free = icmp eq i64 %kept, 0
  %writable = and i1 %version, %free
  ret i1 %writable
failed:
  call void @PyErr_Clear()
  ret i1 0
}

define internal i1 @follows(ptr %call, ptr %library, ptr %seen, i64 %place) nounwind {
; note the stream in which a library works now; no if another one was noted
entry:
  %to = alloca ptr
  store ptr null, ptr %to
  %last = field Seen.library of %seen
  go known if ptr %last == %library else asking
known:
  ret i1 1
asking:
  %current = field Library.stream of %library
  %device = trunc i64 %place to i32
  %high = lshr i64 %place, 32
  %which = trunc i64 %high to i32
  %status = call i32 %current(i32 %device, i32 %which, ptr %to)
  go told if i32 %status == 0 else failed
told:
  %handle = load ptr, ptr %to
  %default = icmp eq ptr %handle, null
  %stream = select i1 %default, ptr inttoptr (i64 1 to ptr), ptr %handle
  %before = field Seen.stream of %seen
  %first = icmp eq ptr %before, null
  %equal = icmp eq ptr %before, %stream
  %agrees = or i1 %first, %equal
  store ptr %stream, ptr %before_at
  store ptr %library, ptr %last_at
  ret i1 %agrees
failed:
  call void @PyErr_Clear()
  ret i1 0
}

define internal i1 @without_gaps(ptr %own, ptr %strides, ptr %extents, i64 %rank) nounwind {
; whether strides are those that are wanted, along axes of more than one element
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %over = icmp eq i64 %number, %rank
  br i1 %over, label %done, label %looking
looking:
  %after = add i64 %number, 1
  %extent_at = getelementptr i64, ptr %extents, i64 %number
  %extent = load i64, ptr %extent_at
  %own_at = getelementptr i64, ptr %own, i64 %number
  %step = load i64, ptr %own_at
  %stride_at = getelementptr i64, ptr %strides, i64 %number
  %stride = load i64, ptr %stride_at
  %single = icmp eq i64 %extent, 1
  %equal = icmp eq i64 %step, %stride
  %fits = or i1 %single, %equal
  br i1 %fits, label %going, label %refused
going:
  br label %next
refused:
  ret i1 0
done:
  ret i1 1
}

define internal i64 @lent_address(ptr %call, ptr %operand, ptr %object, ptr %seen, i1 %written) nounwind {
; where the elements of an array of others are; 0 where it is not as wanted
entry:
  %tensor = alloca %Tensor
  %library = call ptr @library_of(ptr %call, ptr %object)
  go looking if ptr %library != null else refused
looking:
  %lazy = call i1 @is_lazy(ptr %library, ptr %object)
  br i1 %lazy, label %refused, label %lending
lending:
  %lent = field Library.lent of %library
  %status = call i32 %lent(ptr %object, ptr %tensor)
  go comparing if i32 %status == 0 else failed
failed:
  call void @PyErr_Clear()
  ret i64 0
comparing:
  %data = field Tensor.data of %tensor
  %own_extents = field Tensor.extents of %tensor
  %own_strides = field Tensor.strides of %tensor
  %offset = field Tensor.offset of %tensor
  %place = field Operand.place of %operand
  %rank = field Operand.rank of %operand
  %extents = field Operand.extents of %operand
  %strides = field Operand.strides of %operand
  go shaped if ptr %data != null
    and Tensor.place of %tensor == i64 %place
    and Tensor.kind of %tensor == Operand.kind of %operand else refused
shaped:
  go fits if i64 %rank == 0 else stepping
stepping:
  go measuring if ptr %own_strides != null else refused
measuring:
  %same_extents = call i1 @same(ptr %own_extents, ptr %extents, i64 %rank)
  %close = call i1 @without_gaps(ptr %own_strides, ptr %strides, ptr %extents, i64 %rank)
  go fits if %same_extents and %close else refused
fits:
  br i1 %written, label %writing, label %following
writing:
  %writable = call i1 @may_write(ptr %library, ptr %object)
  br i1 %writable, label %following, label %refused
following:
  %follows = call i1 @follows(ptr %call, ptr %library, ptr %seen, i64 %place)
  %first = ptrtoint ptr %data to i64
  %address = add i64 %first, %offset
  %result = select i1 %follows, i64 %address, i64 0
  ret i64 %result
refused:
  ret i64 0
}

define internal i64 @own_address(ptr %call, ptr %operand, ptr %object, ptr %held, i1 %written) nounwind {
; where an array of ours is, whose buffer is kept in %held; 0 where it is not as wanted, or somebody has to wait
entry:
  %dtype = field Operand.dtype of %operand
  %shape = field Operand.shape of %operand
  %stream = field Call.stream of %call
  %own_dtype = slot array.dtype of %object
  %own_shape = slot array.shape of %object
  go shaped if ptr %own_dtype == %dtype else refused
shaped:
  go locked if ptr %own_shape == %shape else measuring
measuring:
  %equal = call i32 @PyObject_RichCompareBool(ptr %own_shape, ptr %shape, i32 2)
  go locked if i32 %equal == 1 else failed
failed:
  call void @PyErr_Clear()
  ret i64 0
locked:
  %read_only = slot array.read_only of %object
  %may_write = icmp eq ptr %read_only, @<False>
  %read = xor i1 %written, true
  %allowed = or i1 %read, %may_write
  br i1 %allowed, label %placed, label %refused
placed:
  %buffer = slot array._buffer of %object
  %type = slot object.type of %buffer
  %pooled = icmp eq ptr %type, @<PooledCudaBuffer>
  %part = icmp eq ptr %type, @<CudaBuffer>
  %adopted = icmp eq ptr %type, @<AdoptedCudaBuffer>
  %some = or i1 %pooled, %part
  %ours = or i1 %some, %adopted
  br i1 %ours, label %streamed, label %refused
streamed:
  %own_stream = slot buffer.stream of %buffer
  %shared = slot buffer.shared of %buffer
  go awaiting if ptr %own_stream == %stream and ptr %shared == @<False> else refused
awaiting:
  %event = slot array._written of %object
  go fits if ptr %event == @<None> else following
following:
  %event_type = slot object.type of %event
  go ordered if ptr %event_type == @<CudaEvent> else refused
ordered:
  %event_stream = slot event.stream of %event
  %failure = slot event._failure of %event
  go fits if ptr %event_stream == %stream and ptr %failure == @<None> else refused
fits:
  call void @Py_IncRef(ptr %buffer)
  store ptr %buffer, ptr %held
  %number = slot buffer.address of %buffer
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %number)
  ret i64 %address
refused:
  ret i64 0
}
"""
"""Functions that return the address of an array, without changing it."""
