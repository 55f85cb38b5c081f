"""Barriers, shared arrays, asynchronous copies and products of matrices: what the threads of a group do together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.semtree.ir import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Declare,
    For,
    If,
    MatrixMultiply,
    Region,
    Subscript,
)
from tileir.semtree.rewrite import mentions, statements, walk
from tileir_cuda import products, warpgroups
from tileir_cuda.products import Shared
from tileir_cuda.warpgroups import OF_WARPGROUPS
from tileir_llvm.expressions import offset_of
from tileir_llvm.memory import Offset, Place, load, pointer_to, store
from tileir_llvm.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.ir import DeclareArray, Expr, Stmt
    from tileir_cuda.shared_memory import SharedMemory
    from tileir_llvm.statements import Together

_CACHED_ONCE: Final = 16
"""Copies of so many bytes pass by the first-level cache, where nothing else would find them."""


@attrs.define
class CudaStatements(Statements):
    """Writes the statements of one kernel.

    Attributes:
        room: Where its shared arrays are.
        group: The threads of a group along each axis.
        warpgroups: Whether it has products of four warps, which read shared memory past the threads' own view of it.

    """

    room: SharedMemory = attrs.field(kw_only=True)
    group: tuple[int, ...] = attrs.field(kw_only=True)
    warpgroups: bool = attrs.field(kw_only=True)
    _shared: dict[str, Shared] = attrs.field(factory=dict, init=False)

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements, one after the other; copies behind a product are begun before it is waited for."""
        left = list(stmts)
        while left:
            stmt = left.pop(0)
            if not (isinstance(stmt, MatrixMultiply) and stmt.fragment in OF_WARPGROUPS):
                super().write((stmt,))
                continue
            begun = warpgroups.begin(self.env, stmt, self._shared)
            while left and _is_beside(left[0], stmt):
                super().write((left.pop(0),))
            warpgroups.finish(self.env, stmt, begun)

    def together(self, stmt: Together) -> None:
        """Write what the threads of a group do together."""
        out = self.env.out
        match stmt:
            case Barrier():
                if self.warpgroups:
                    out.effect('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')
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
            case MatrixMultiply():  # those of four warps are begun and waited for by write()
                products.multiply(self.env, stmt, self.group, self._shared)
            case _:
                assert_never(stmt)

    def place(self, array: DeclareArray) -> Place:
        """Return where an array lives: in shared memory, or in registers and the memory of the thread.

        Scratch arrays, which are meant for processors, are shared by the group as well.
        """
        if array.region is Region.PRIVATE:
            return super().place(array)
        pointer, alignment = self.room.pointers[array], self.room.alignments[array]
        self._shared[array.name] = Shared(f"ptrtoint (ptr addrspace(3) {pointer} to i32)", alignment)
        return Place(f"addrspacecast (ptr addrspace(3) {pointer} to ptr)", array.dtype, alignment)

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


def _is_beside(stmt: Stmt, product: MatrixMultiply) -> bool:
    """Return whether a statement only copies ahead, which may go on while a product does.

    A product and the copies behind it are of one iteration, which fills other parts of an array than it reads.
    """
    held = product.accumulators.array
    kinds = (Declare, For, If, AsyncCopy, AsyncCommit)
    inside = tuple(statements((stmt,)))
    if not all(isinstance(each, kinds) for each in inside):
        return False
    return not any(isinstance(node, Subscript) and node.array == held for each in inside for node in _nodes(each))


def _nodes(stmt: Stmt) -> Iterator[Expr]:
    for root in mentions(stmt):
        yield from walk(root)
