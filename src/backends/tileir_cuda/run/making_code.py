"""Making results, and finding what is handed over, as LLVM IR in the words of :mod:`tileir_llvm.run.words`."""

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
