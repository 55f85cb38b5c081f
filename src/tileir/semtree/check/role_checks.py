"""Rules of roles: which warps have them, what they share, and which of them take the steps of a channel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tileir.core.errors import Diagnostic
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.check.scopes import Survey
from tileir.semtree.ir import (
    WARP,
    Barrier,
    BulkCopy,
    Channel,
    ChannelStep,
    DeclareArray,
    MatrixMultiply,
    Region,
    Scope,
    Stmt,
    Turn,
    WarpRole,
)
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import roles

WARPS_OF_REGISTERS: Final = 4
"""Neighbouring warps that have equally many registers."""

_FEWEST: Final = 24
_MOST: Final = 256
_UNIT: Final = 8
"""Registers of a thread, which are a multiple of so many."""


def check_roles(survey: Survey) -> Iterator[Diagnostic]:
    """Roles stand last in a kernel, each for warps of its own, and messages go from one of them to others.

    Behind them clusters meet.
    """
    if WarpRole not in survey.kinds:
        return
    found, body = roles(survey.kernel), survey.kernel.body
    body = body[:-1] if body[-1] == Barrier(Scope.CLUSTER) else body
    if body[-len(found) :] != found or len(found) < sum(isinstance(s, WarpRole) for s in survey.statements):
        yield Diagnostic("TIL551", "roles stand last in a kernel, and outside of loops, conditions and other roles")
        return
    yield from _warp_faults(survey, found)
    for role in found:
        yield from _role_faults(role)
    yield from _channel_faults(survey, found)


def _warp_faults(survey: Survey, found: tuple[WarpRole, ...]) -> Iterator[Diagnostic]:
    threads = math.prod(survey.kernel.group)
    if threads % WARP:
        yield Diagnostic("TIL551", f"roles are for whole warps of {WARP} threads, and a group has {threads}")
    taken: set[int] = set()
    sized: set[int] = set()
    for role in found:
        own = range(role.first, role.first + role.warps * role.teams)
        if min(role.first, role.warps - 1, role.teams - 1) < 0 or own.stop * WARP > threads:
            yield Diagnostic("TIL551", f"a group of {threads} threads has no warps {role.first} to {own.stop - 1}")
        elif not taken.isdisjoint(own):
            yield Diagnostic("TIL551", f"warp {min(taken.intersection(own))} has two roles")
        taken.update(own)
        if not role.registers:
            continue
        fours = {warp // WARPS_OF_REGISTERS for warp in own}
        if role.registers % _UNIT or not _FEWEST <= role.registers <= _MOST:
            message = f"threads have {_FEWEST} to {_MOST} registers, a multiple of {_UNIT}, and not {role.registers}"
            yield Diagnostic("TIL551", message)
        if role.first % WARPS_OF_REGISTERS or not sized.isdisjoint(fours):
            message = f"{WARPS_OF_REGISTERS} warps from a multiple of that on have equally many registers: warp"
            yield Diagnostic("TIL551", f"{message} {role.first} cannot have {role.registers} of its own")
        sized |= fours


def _role_faults(role: WarpRole) -> Iterator[Diagnostic]:
    threads = range(role.first * WARP, (role.first + role.warps) * WARP)
    for stmt in statements(role.body):
        if isinstance(stmt, DeclareArray) and stmt.region is not Region.PRIVATE:
            yield Diagnostic("TIL554", f"a group shares {stmt.name!r}: declare it before its roles")
        if isinstance(stmt, MatrixMultiply) and stmt.fragment in FRAGMENTS:
            team = FRAGMENTS[stmt.fragment].threads
            if threads.start % team or len(threads) % team:
                message = f"{team} threads multiply matrices, from a multiple of that on: those of a role are"
                yield Diagnostic("TIL551", f"{message} {threads.start} to {threads.stop - 1}")
        if isinstance(stmt, Turn) and stmt.threads != role.warps * WARP:
            yield Diagnostic("TIL551", f"teams of {role.warps} warps take turns, and not {stmt.threads} threads")
        if role.teams > 1 and isinstance(stmt, BulkCopy):
            yield Diagnostic("TIL551", f"one team copies to {stmt.target.array!r}, and the role has {role.teams}")


def _channel_faults(survey: Survey, found: tuple[WarpRole, ...]) -> Iterator[Diagnostic]:
    """Yield what is wrong with who takes the steps of channels."""
    users: dict[str, dict[str, set[int | None]]] = {}
    outside = tuple(stmt for stmt in survey.kernel.body if not isinstance(stmt, WarpRole))
    parts: tuple[tuple[int | None, tuple[Stmt, ...]], ...] = ((None, outside), *((r.first, r.body) for r in found))
    for number, body in parts:
        for stmt in statements(body):
            if isinstance(stmt, Channel | BulkCopy):
                word = stmt.step.value if isinstance(stmt, Channel) else "copy"
                users.setdefault(stmt.channel.array, {}).setdefault(word, set()).add(number)
    for name, words in users.items():
        acquire, send, receive, release = (words.get(step.value, set()) for step in ChannelStep)
        senders = acquire | send | words.get("copy", set())
        if None in senders | receive | release:
            yield Diagnostic("TIL551", f"in a kernel with roles, roles take all steps of the channel {name!r}")
        elif len(senders) != 1 or acquire != send:
            yield Diagnostic("TIL551", f"one role acquires the channel {name!r}, copies for it and sends")
        elif not receive or receive != release:
            yield Diagnostic("TIL551", f"the roles that receive messages of the channel {name!r} release them")
