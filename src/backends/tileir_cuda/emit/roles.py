"""Warp specialisation: branches by warp number, named barriers, and reallocation of registers.

Follows NVIDIA, "PTX ISA" (bar, setmaxnreg).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import WARP, KernelFunction, Turn, WarpRole
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import roles, threads_of
from tileir_cuda.emit.warpgroups import CONVERGENT
from tileir_llvm.emit.expressions import Environment
from tileir_llvm.emit.text import FunctionText

MOST: Final = 15
"""Named barriers of a group beside the barrier of all threads."""

_FOUR: Final = 4
"""Warps that reallocate registers together."""

_REGISTERS: Final = 65536
_UNIT: Final = 8
_MOST_REGISTERS: Final = 255
"""Registers of a multiprocessor; granularity and initial maximum of registers per thread."""


@attrs.define(eq=False)
class Roles:
    """Writer of the roles of one kernel.

    Attributes:
        kernel: The kernel.
        reallocates: Whether warps can reallocate registers.
        thread: Number of the thread in its group.
    """

    kernel: KernelFunction
    reallocates: bool
    thread: str = "0"
    _now: WarpRole | None = attrs.field(default=None, init=False)

    @property
    def changes(self) -> bool:
        """True if warps reallocate registers."""
        return self.reallocates and any(role.registers for role in roles(self.kernel))

    @property
    def first(self) -> int:
        """Number of the first thread of the code being written."""
        return 0 if self._now is None else threads_of(self._now).start

    @property
    def meeting(self) -> int:
        """Number of teams with separate barriers, beside that of the group."""
        return sum(role.teams for role in roles(self.kernel))

    def taking(self, turn: Turn) -> range:
        """Return the threads whose parts take turns: those of a role, or all of the group."""
        found = (threads_of(role) for role in roles(self.kernel) if turn in statements(role.body))
        return next(found, range(math.prod(self.kernel.group)))

    def place(self, out: FunctionText, thread: str) -> str:
        """Return the place of a thread among those of the code being written."""
        if self._now is None:
            return thread
        own = out.pure(f"sub i32 {thread}, {self.first}")
        return own if self._now.teams == 1 else out.pure(f"urem i32 {own}, {self._now.warps * WARP}")

    def meet(self, out: FunctionText) -> None:
        """Write a barrier for the threads of the code being written."""
        if self._now is None:
            out.module.declarations["declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)"] = None
            out.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
            return
        found = roles(self.kernel)
        number, team = f"{1 + sum(role.teams for role in found[: found.index(self._now)])}", self._now.warps * WARP
        if self._now.teams > 1:
            place = out.pure(f"sub i32 {self.thread}, {self.first}")
            number = out.pure(f"add i32 {out.pure(f'udiv i32 {place}, {team}')}, {number}")
        out.module.declarations["declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)"] = None
        out.effect(f"call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 {number}, i32 {team})")

    def write(self, env: Environment, role: WarpRole, body: Callable[[], None]) -> None:
        """Write a role, with ``body`` as the writer of its body."""
        own = range(role.first, role.first + role.warps * role.teams)
        around = own

        def inner() -> None:
            self._now = role
            body()
            self._now = None

        def outer() -> None:
            word = "inc" if role.registers > at_first(self.kernel) else "dec"
            code = f"setmaxnreg.{word}.sync.aligned.u32 {role.registers};"
            env.out.effect(f'call void asm sideeffect "{code}", "~{{memory}}"() #{CONVERGENT}')
            self._among(env, own, around, inner)

        if role.registers and self.reallocates:
            around = range(role.first, role.first - (-len(own) // _FOUR) * _FOUR)
            self._among(env, around, range(0), outer)
        else:
            self._among(env, own, range(0), inner)

    def _among(self, env: Environment, warps: range, around: range, body: Callable[[], None]) -> None:
        """Write ``body`` for some warps, without a branch if no other warps come here."""
        if warps == around:
            body()
            return
        out = env.out
        number = out.pure(f"sub i32 {out.pure(f'lshr i32 {self.thread}, {WARP.bit_length() - 1}')}, {warps.start}")
        with out.where(out.pure(f"icmp ult i32 {number}, {len(warps)}"), "role", "other"):
            body()


def at_first(kernel: KernelFunction) -> int:
    """Return the initial number of registers per thread of a kernel that reallocates them."""
    share = _REGISTERS // math.prod(kernel.group) // _UNIT * _UNIT
    return min(share, _MOST_REGISTERS // _UNIT * _UNIT)


def faults(kernel: KernelFunction) -> Iterator[str]:
    """Yield reasons why cards cannot run the roles of a kernel."""
    found = roles(kernel)
    teams = sum(role.teams for role in found)
    if teams > MOST:
        yield f"has {teams} teams of warps with roles, and cards have barriers for {MOST}"
    changed = [
        (-(-role.warps * role.teams // _FOUR) * _FOUR * WARP, role.registers) for role in found if role.registers
    ]
    wanted = sum(threads * registers for threads, registers in changed)
    given = sum(threads for threads, _ in changed) * at_first(kernel)
    if wanted > given:
        yield f"gives its roles {wanted} registers, and they begin with {given}: some would wait for ever"
