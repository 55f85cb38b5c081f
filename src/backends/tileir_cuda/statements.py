"""Barriers, shared arrays and asynchronous copies: what groups of many threads have beside the statements of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.semtree.ir import AsyncCommit, AsyncCopy, AsyncWait, Barrier, MatrixMultiply, Region
from tileir_llvm.expressions import offset_of
from tileir_llvm.memory import Offset, Place, load, pointer_to, store
from tileir_llvm.spelling import memory_element
from tileir_llvm.statements import Statements

if TYPE_CHECKING:
    from tileir.semtree.ir import DeclareArray
    from tileir_llvm.statements import Together

SHARED_ALIGNMENT: Final = 16
"""Bytes to which arrays in shared memory are aligned: those of the widest access of a thread."""

_CACHED_ONCE: Final = 16
"""Copies of so many bytes pass by the first-level cache, where nothing else would find them."""


@attrs.define
class CudaStatements(Statements):
    """Writes the statements of one kernel, whose shared arrays are globals with the kernel's name before theirs."""

    kernel: str = ""
    _shared: dict[DeclareArray, Place] = attrs.field(factory=dict, init=False)

    def together(self, stmt: Together) -> None:
        """Write what the threads of a group do together."""
        out = self.env.out
        match stmt:
            case Barrier():
                out.module.declarations["declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)"] = None
                out.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
            case AsyncCopy():
                self._copy(stmt)
            case AsyncCommit():
                out.module.declarations["declare void @llvm.nvvm.cp.async.commit.group()"] = None
                out.effect("call void @llvm.nvvm.cp.async.commit.group()")
            case AsyncWait(pending=pending):
                out.module.declarations["declare void @llvm.nvvm.cp.async.wait.group(i32 immarg)"] = None
                out.effect(f"call void @llvm.nvvm.cp.async.wait.group(i32 {pending})")
            case MatrixMultiply():
                raise AssertionError("products of matrices are spelt out before")
            case _:
                assert_never(stmt)

    def place(self, array: DeclareArray) -> Place:
        """Return where an array lives: in shared memory, or in registers and the memory of the thread.

        Scratch arrays, which are meant for processors, are shared by the group as well.
        """
        if array.region is Region.PRIVATE:
            return super().place(array)
        if array not in self._shared:
            name = f"@{self.kernel}.shared{len(self._shared)}"
            alignment = max(SHARED_ALIGNMENT, array.dtype.itemsize)
            kind = f"[{array.size} x {memory_element(array.dtype)}]"
            self.env.out.module.globals.append(
                f"{name} = internal addrspace(3) global {kind} poison, align {alignment}"
            )
            pointer = f"addrspacecast (ptr addrspace(3) {name} to ptr)"
            self._shared[array] = Place(pointer, array.dtype, alignment)
        return self._shared[array]

    def _copy(self, stmt: AsyncCopy) -> None:
        """Write an asynchronous copy; an ordinary one where the elements may not be aligned."""
        env, out, kind = self.env, self.env.out, stmt.target.type
        to, source = env.arrays[stmt.target.array], env.arrays[stmt.source.array]
        place, origin = offset_of(env, stmt.target.offset), offset_of(env, stmt.source.offset)
        size = kind.lanes * kind.dtype.itemsize
        assert isinstance(place, Offset)  # neighbours are copied, and lie beside each other in both arrays
        assert isinstance(origin, Offset)
        pointer, alignment = pointer_to(out, to, place)
        start, aligned = pointer_to(out, source, origin)
        if alignment % size or aligned % size:
            store(out, to, place, load(out, source, origin, kind))
            return
        shared = out.pure(f"addrspacecast ptr {pointer} to ptr addrspace(3)")
        memory = out.pure(f"addrspacecast ptr {start} to ptr addrspace(1)")
        name = f"llvm.nvvm.cp.async.{'cg' if size == _CACHED_ONCE else 'ca'}.shared.global.{size}"
        out.module.declarations[f"declare void @{name}(ptr addrspace(3), ptr addrspace(1))"] = None
        out.effect(f"call void @{name}(ptr addrspace(3) {shared}, ptr addrspace(1) {memory})")
