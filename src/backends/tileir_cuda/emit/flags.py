"""Flags by device-wide atomic operations (NVIDIA, "PTX ISA", memory consistency model).

One thread arrives or waits for its group, between barriers: earlier writes of other threads of the group happen before
operations ordered after the flag, as release and acquire are cumulative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tileir.core.text.names import NameScope
from tileir.semtree.ir import (
    Arrive,
    Assign,
    Await,
    Barrier,
    Const,
    DeclareArray,
    KernelFunction,
    Region,
    Stmt,
    Subscript,
    Type,
)
from tileir.semtree.rewrite import kernel_names, rewrite_stmts, statements, with_body
from tileir_llvm.emit.expressions import Environment, evaluate, offset_of
from tileir_llvm.emit.memory import Offset, pointer_to, store
from tileir_llvm.emit.text import Value

_FENCE: Final = 'fence syncscope("device") acq_rel'
"""Fence around additions: LLVM 22 emits none for an acq_rel addition."""


def with_shared_arrivals(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel in which one thread stores a flag's old value in a shared array, which all threads read."""
    if not any(isinstance(stmt, Arrive) for stmt in statements(kernel.body)):
        return kernel
    names = NameScope.of(kernel_names(kernel))

    def shared(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Arrive):
            return (stmt,)
        array = DeclareArray(names.fresh("arrived"), stmt.target.type.dtype, 1, Region.LOCAL)
        before = Subscript(array.name, Const(0, Type(kernel.index)), stmt.target.type)
        return array, Arrive(before, stmt.flag), Barrier(), Assign(stmt.target, before)

    return with_body(kernel, rewrite_stmts(shared, kernel.body))


def write(env: Environment, stmt: Arrive | Await, thread: str, meet: Callable[[], None]) -> None:
    """Write a group's operation on a flag; ``thread`` is the thread number, and ``meet`` writes a barrier."""
    if isinstance(stmt, Arrive):
        _arrive(env, stmt, thread, meet)
    else:
        _wait(env, stmt, thread, meet)


def _arrive(env: Environment, stmt: Arrive, thread: str, meet: Callable[[], None]) -> None:
    """Let the first thread increment a flag, and set an element of a shared array, after all threads have arrived."""
    out = env.out
    flag = _pointer(env, stmt.flag)
    meet()
    with out.where(out.pure(f"icmp eq i32 {thread}, 0"), "alone", "together"):
        out.effect(_FENCE)
        before = out.result(f'atomicrmw add ptr {flag}, i32 1 syncscope("device") monotonic')
        out.effect(_FENCE)
        store(out, env.arrays[stmt.target.array], offset_of(env, stmt.target.offset), Value(before, stmt.target.type))


def _wait(env: Environment, stmt: Await, thread: str, meet: Callable[[], None]) -> None:
    """Let the first thread poll a flag until it is large enough, while the others wait."""
    out = env.out
    flag, least = _pointer(env, stmt.flag), evaluate(env, stmt.count)
    with out.where(out.pure(f"icmp eq i32 {thread}, 0"), "alone", "together"):
        again, over = out.fresh_label("await"), out.fresh_label("over")
        out.branch(again)
        out.start(again)
        found = out.result(f'load atomic i32, ptr {flag} syncscope("device") acquire, align 4')
        out.branch_if(out.result(f"icmp uge i32 {found}, {least.text}"), over, again)
        out.start(over)
    meet()


def _pointer(env: Environment, flag: Subscript) -> str:
    offset = offset_of(env, flag.offset)
    assert isinstance(offset, Offset)
    return pointer_to(env.out, env.arrays[flag.array], offset)[0]
