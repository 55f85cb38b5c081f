"""Making results, and finding what is handed over, as LLVM IR in the words of :mod:`array_code`."""

from __future__ import annotations

from typing import Final

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
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %raised, label %filling
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
  %missing = icmp eq ptr %buffer, null
  br i1 %missing, label %raised, label %covering
covering:
  %array = call ptr @PyType_GenericAlloc(ptr @<DeviceArray>, i64 0)
  %lacking = icmp eq ptr %array, null
  br i1 %lacking, label %raised, label %describing
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

define internal i1 @apart(ptr %operands, ptr %addresses, i64 %count, i64 %start, i64 %bytes) nounwind {
; whether bytes share nothing with the arrays before
entry:
  %end = add i64 %start, %bytes
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after, %going ]
  %over = icmp eq i64 %number, %count
  br i1 %over, label %done, label %going
going:
  %operand = getelementptr %Operand, ptr %operands, i64 %number
  %size = field Operand.bytes of %operand
  %first_at = getelementptr i64, ptr %addresses, i64 %number
  %first = load i64, ptr %first_at
  %last = add i64 %first, %size
  %after = add i64 %number, 1
  %begins = icmp ult i64 %start, %last
  %ends = icmp ult i64 %first, %end
  %meet = and i1 %begins, %ends
  br i1 %meet, label %done, label %next
done:
  %result = phi i1 [ 1, %next ], [ 0, %going ]
  ret i1 %result
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
  %over = icmp eq i64 %number, %count
  br i1 %over, label %asking, label %going
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
  %lacking = icmp eq ptr %key, null
  br i1 %lacking, label %raised, label %calling
calling:
  %answer = call ptr @PyObject_CallOneArg(ptr %missed, ptr %key)
  call void @Py_DecRef(ptr %key)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %told
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
