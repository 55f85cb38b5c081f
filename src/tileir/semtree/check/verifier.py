"""Verifier of kernels and programs. Each ``check_`` function proves one invariant; all faults are reported.

This module has the rules of a kernel that do not presuppose right types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, assert_never
from weakref import WeakValueDictionary

from tileir.core import Diagnostic, VerifyError, attrs, bodies, introduced, mentions, operands, used
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.check.instruction_checks import (
    check_channels,
    check_exchanges,
    check_flags,
    check_masked,
    check_products,
    check_rules,
    check_stores_of_boxes,
    check_turns,
    check_updates,
    check_votes,
)
from tileir.semtree.check.scope_checks import (
    check_assignments,
    check_barriers,
    check_bounds,
    check_declared,
    check_loops,
    check_stores,
    check_types,
    check_unique_names,
)
from tileir.semtree.check.scopes import Survey
from tileir.semtree.check.type_rules import MAX_DEPTH, MAX_NESTING
from tileir.semtree.clusters import channels_of_clusters, part_of
from tileir.semtree.ir import (
    WARP,
    Apply,
    Barrier,
    Branch,
    Buffer,
    BufferRole,
    BulkCopy,
    Channel,
    ChannelStep,
    DeclareArray,
    Expr,
    KernelFunction,
    Launch,
    Loop,
    MatrixMultiply,
    Param,
    ParamAccess,
    Program,
    Region,
    Scope,
    Shuffle,
    Stmt,
    Turn,
    WarpRole,
    Work,
)
from tileir.semtree.launches import MAX_NESTED_WORKS, every, launches
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import roles
from tileir.semtree.text.names import is_spellable

WARPS_OF_REGISTERS: Final = 4
"""Number of neighbouring warps with equal numbers of registers."""

_FEWEST: Final = 24
_MOST: Final = 256
_UNIT: Final = 8
"""Divisor of the registers of a thread."""


def check_roles(survey: Survey) -> Iterator[Diagnostic]:
    """Roles are last in a kernel, each for separate warps, and messages go from one role to others.

    Clusters meet after them.
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
    """Yield the faults of the roles that take the steps of channels."""
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


def check_clusters(survey: Survey) -> Iterator[Diagnostic]:
    """Boxes for clusters have equal parts, and no group leaves while others may still write into its memory."""
    kernel = survey.kernel
    if BulkCopy not in survey.kinds:
        return
    for stmt in survey.statements:
        if isinstance(stmt, BulkCopy) and part_of(stmt, kernel) is None:
            message = f"the box {stmt.box} of {stmt.target.array!r} has no equal parts for {kernel.cluster} groups"
            yield Diagnostic("TIL551", f"{message}: copy it to each group alone")
    if kernel.body[-1:] != (Barrier(Scope.CLUSTER),) and (names := sorted(channels_of_clusters(kernel))):
        message = f"groups of a cluster write into each other's memory by the channel {names[0]!r}: end the kernel with"
        yield Diagnostic("TIL555", f"{message} 'barrier() of cluster', so that none leaves before others have done so")


_MAX_SIZE: Final = 100_000


def check_nesting(survey: Survey) -> Iterator[Diagnostic]:
    """Nesting of statements is bounded, so recursion over them is safe."""
    level = [survey.kernel.body]
    for _ in range(MAX_NESTING + 1):
        level = [body for stmts in level for stmt in stmts for body in bodies(stmt) if body]
    if level:
        yield Diagnostic("TIL103", f"statements are nested more than {MAX_NESTING} deep")


def check_depth(survey: Survey) -> Iterator[Diagnostic]:
    """Depth of expressions is bounded, so recursion over them is safe, and so is their size as trees."""
    measured: dict[int, tuple[int, int]] = {}
    for stmt in survey.statements:
        for root in mentions(stmt):
            try:
                _, size = _measure(root, measured, MAX_DEPTH)
            except _TooDeepError:
                yield Diagnostic("TIL103", f"an expression is nested more than {MAX_DEPTH} deep: declare a part of it")
                continue
            if size > _MAX_SIZE:
                yield Diagnostic("TIL105", f"an expression has more than {_MAX_SIZE} nodes: declare what it repeats")


class _TooDeepError(Exception):
    """Error for an expression nested deeper than allowed."""


def _measure(node: Expr, measured: dict[int, tuple[int, int]], allowed: int) -> tuple[int, int]:
    """Return the depth of an expression and its size as a tree, in time linear in its distinct objects.

    Raises:
        _TooDeepError: It is deeper than ``allowed``, which bounds the recursion as well.

    """
    depth, size = 1, 1
    if below := operands(node):
        if allowed <= 1:
            raise _TooDeepError
        for child in below:
            of_child = measured.get(id(child)) or _measure(child, measured, allowed - 1)
            depth, size = max(depth, of_child[0] + 1), size + of_child[1]
        if depth > allowed:
            raise _TooDeepError
    measured[id(node)] = depth, size
    return depth, size


def check_arity(survey: Survey) -> Iterator[Diagnostic]:
    """Every operation has the right number of operands."""
    for node in survey.nodes:
        if isinstance(node, Apply) and len(node.args) != node.op.info.arity:
            yield Diagnostic("TIL552", f"{node.op.value} takes {node.op.info.arity} operands, not {len(node.args)}")
        elif isinstance(node, Shuffle) and not node.operands:
            yield Diagnostic("TIL552", "shuffle takes one operand at least")


def check_launch_grid(survey: Survey) -> Iterator[Diagnostic]:
    """Grid and group have one to three positive extents, and indices are signed integers."""
    kernel = survey.kernel
    for what, extents in (("grid", kernel.grid), ("group", kernel.group)):
        if not 1 <= len(extents) <= 3:
            yield Diagnostic("TIL551", f"the {what} has 1 to 3 axes, not {len(extents)}")
        if any(extent < 1 for extent in extents):
            yield Diagnostic("TIL551", f"every extent of the {what} is at least 1, unlike in {extents}")
    if kernel.cluster < 1 or any(extent % kernel.cluster for extent in kernel.grid[:1]):
        message = f"a cluster has one group or more, and the grid {kernel.grid} whole clusters along its first axis"
        yield Diagnostic("TIL551", f"{message}, not of {kernel.cluster}")
    if not (kernel.index.is_integer and kernel.index.is_signed):
        yield Diagnostic("TIL551", f"indices are signed integers, not {kernel.index.value}")
    if kernel.operations < 0:
        yield Diagnostic("TIL551", f"the number of operations is at least 0, not {kernel.operations}")


def check_spelling(survey: Survey) -> Iterator[Diagnostic]:
    """Names and comments can be written in the text form."""
    kernel = survey.kernel
    declared = (name for stmt in survey.statements for name in introduced(stmt))
    for name in dict.fromkeys((kernel.name, *(param.name for param in kernel.params), *declared)):
        if not is_spellable(name):
            yield unspellable(name)
    for comment in kernel.comments:
        if "\n" in comment:
            yield Diagnostic("TIL551", f"a comment fills one line, unlike {comment!r}")


def unspellable(name: str) -> Diagnostic:
    """Return the fault of a name that the text form cannot write."""
    return Diagnostic("TIL551", f"{name!r} is no name: use one or more printable characters other than a back quote")


def check_arrays(survey: Survey) -> Iterator[Diagnostic]:
    """Arrays have a size, and an alignment that is a power of two."""
    declared = [stmt for stmt in survey.statements if isinstance(stmt, DeclareArray)]
    arrays: tuple[Param | DeclareArray, ...] = (*survey.kernel.params, *declared)
    for array in arrays:
        if array.size < (1 if isinstance(array, DeclareArray) else 0):
            yield Diagnostic("TIL551", f"array {array.name!r} cannot have {array.size} elements")
        if array.alignment < 1 or array.alignment & (array.alignment - 1):
            yield Diagnostic("TIL551", f"the alignment of {array.name!r} is a power of two, not {array.alignment}")


_STAGES: Final[tuple[tuple[Callable[[Survey], Iterable[Diagnostic]], ...], ...]] = (
    (check_nesting,),
    (check_depth,),
    (check_arity, check_launch_grid, check_spelling, check_arrays),
    (check_unique_names, check_declared),
    (
        check_types,
        check_assignments,
        check_loops,
        check_stores,
        check_channels,
        check_stores_of_boxes,
        check_rules,
        check_exchanges,
        check_votes,
        check_flags,
        check_masked,
        check_turns,
        check_updates,
        check_products,
        check_roles,
    ),
    (check_bounds, check_barriers, check_clusters),
)


def verify(kernel: KernelFunction) -> None:
    """Check one kernel.

    Raises:
        VerifyError: it breaks a rule; one diagnostic for each fault.

    """
    _raise(kernel_faults(kernel))


def verify_program(program: Program) -> None:
    """Check a program: every kernel, its buffers and its launches.

    Raises:
        VerifyError: it breaks a rule; one diagnostic for each fault.

    """
    faults = [fault for kernel in program.kernels for fault in kernel_faults(kernel)]
    nesting = tuple(check_works(program.works, 1))
    faults.extend((*check_buffers(program), *nesting))
    if not nesting:
        unfit = (*check_launches(program), *check_conditions(program))
        faults.extend(unfit or check_order(program))
    _raise(faults)


def _raise(faults: Iterable[Diagnostic]) -> None:
    found = tuple(faults)
    if found:
        raise VerifyError(found)


_legal: Final[WeakValueDictionary[int, KernelFunction]] = WeakValueDictionary()
"""Verified kernels, by identity: they are immutable, so they stay legal."""


def kernel_faults(kernel: KernelFunction) -> tuple[Diagnostic, ...]:
    """Return all faults of a kernel; checks that presuppose broken rules are skipped."""
    if _legal.get(id(kernel)) is kernel:
        return ()
    survey = Survey(kernel)
    for stage in _STAGES:
        faults = tuple(fault for check in stage for fault in check(survey))
        if faults:
            named = f"kernel {kernel.name!r}: "
            return tuple(attrs.evolve(fault, message=named + fault.message) for fault in faults)
    _legal[id(kernel)] = kernel
    return ()


def check_buffers(program: Program) -> Iterator[Diagnostic]:
    """Buffers have distinct names and no negative sizes, and constants have all their bytes."""
    seen = set()
    for buffer in program.buffers:
        if buffer.name in seen:
            yield Diagnostic("TIL202", f"buffer {buffer.name!r} is declared twice")
        seen.add(buffer.name)
        if not is_spellable(buffer.name):
            yield unspellable(buffer.name)
        if any(size < 0 for size in buffer.shape):
            yield Diagnostic("TIL551", f"buffer {buffer.name!r} has a negative size: {buffer.shape}")
        elif not _has_data(buffer):
            wanted = buffer.elements * buffer.dtype.itemsize if buffer.role is BufferRole.CONSTANT else 0
            yield Diagnostic("TIL551", f"buffer {buffer.name!r} needs {wanted} bytes of data, not {len(buffer.data)}")


def _has_data(buffer: Buffer) -> bool:
    size = buffer.elements * buffer.dtype.itemsize if buffer.role is BufferRole.CONSTANT else 0
    return len(buffer.data) == size


def check_works(works: tuple[Work, ...], depth: int) -> Iterator[Diagnostic]:
    """Loops and branches are not empty, loops run at least once, and nesting is bounded."""
    for work in works:
        if isinstance(work, Launch):
            continue
        if isinstance(work, Loop) and isinstance(work.times, int) and work.times < 1:
            yield Diagnostic("TIL551", f"a loop runs {work.times} times: drop it")
        if not any(bodies(work)):
            kind = "loop" if isinstance(work, Loop) else "branch"
            yield Diagnostic("TIL551", f"a {kind} has no launches: drop it")
        if depth > MAX_NESTED_WORKS:
            yield Diagnostic("TIL551", f"more than {MAX_NESTED_WORKS} loops and branches inside one another")
        else:
            for body in bodies(work):
                yield from check_works(body, depth + 1)


def check_conditions(program: Program) -> Iterator[Diagnostic]:
    """Every condition is a buffer of one bool, and a conditional loop writes it: else it would run never or forever."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    for work in every(program.works):
        for name in () if isinstance(work, Launch) else used(work):
            buffer = buffers.get(name)
            if buffer is None:
                yield Diagnostic("TIL201", f"the condition {name!r} is no buffer")
            elif not (buffer.dtype.is_bool and buffer.elements == 1):
                given = f"{buffer.elements} {buffer.dtype.value}"
                yield Diagnostic("TIL559", f"the condition {name!r} is a buffer of one bool, not of {given}")
            elif isinstance(work, Loop) and not _writes(program, work.works, name):
                yield Diagnostic("TIL559", f"nothing in the loop on the condition {name!r} writes it, so it never ends")


def _writes(program: Program, works: Iterable[Work], buffer: str) -> bool:
    return any(
        name == buffer and param.access is not ParamAccess.READ
        for launch in launches(works)
        for param, name in zip(_params(program, launch), launch.arguments, strict=False)
    )


def _params(program: Program, launch: Launch) -> tuple[Param, ...]:
    return program.kernels[launch.kernel].params if 0 <= launch.kernel < len(program.kernels) else ()


def check_launches(program: Program) -> Iterator[Diagnostic]:
    """Every launch names a kernel, and a buffer of the right dtype and size for each of its parameters."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    for launch in launches(program.works):
        if not 0 <= launch.kernel < len(program.kernels):
            yield Diagnostic("TIL556", f"there is no kernel number {launch.kernel}")
            continue
        kernel = program.kernels[launch.kernel]
        if len(launch.arguments) != len(kernel.params):
            wanted, given = len(kernel.params), len(launch.arguments)
            yield Diagnostic("TIL556", f"kernel {kernel.name!r} takes {wanted} buffers, not {given}")
            continue
        for param, name in zip(kernel.params, launch.arguments, strict=True):
            if name not in buffers:
                yield Diagnostic("TIL201", f"kernel {kernel.name!r} is launched on {name!r}, which is no buffer")
            else:
                yield from _argument_faults(kernel, param, buffers[name], launch)


def _argument_faults(kernel: KernelFunction, param: Param, buffer: Buffer, launch: Launch) -> Iterator[Diagnostic]:
    place = f"buffer {buffer.name!r} for parameter {param.name!r} of kernel {kernel.name!r}"
    if (buffer.dtype, buffer.elements) != (param.dtype, param.size):
        given, wanted = f"{buffer.elements} {buffer.dtype.value}", f"{param.size} {param.dtype.value}"
        yield Diagnostic("TIL556", f"{place} has {given}, and should have {wanted}")
    if param.access is ParamAccess.READ:
        return
    if buffer.role in (BufferRole.INPUT, BufferRole.CONSTANT):
        yield Diagnostic("TIL554", f"{place} is {buffer.role.value}, and the kernel writes it")
    if param.no_alias and launch.arguments.count(buffer.name) > 1:
        yield Diagnostic("TIL556", f"{place} is passed twice, although the parameter is noalias")


def check_order(program: Program) -> Iterator[Diagnostic]:
    """Nothing reads a buffer that may not be written, and every output is written."""
    written = {b.name for b in program.buffers if b.role in (BufferRole.INPUT, BufferRole.CONSTANT) or not b.elements}
    scopes = (written,)
    yield from _order_faults(program, program.works, scopes)
    for buffer in program.buffers:
        if buffer.role is BufferRole.OUTPUT and buffer.name not in written:
            yield Diagnostic("TIL557", f"the output {buffer.name!r} is not written on every way through the program")


def _order_faults(program: Program, works: Iterable[Work], scopes: tuple[set[str], ...]) -> Iterator[Diagnostic]:
    """Check works in order.

    Args:
        program: Their program.
        works: Some of its works.
        scopes: The buffers written before, one set for each enclosing list of works; certain writes of these works are
            added to the last.
    """

    def unwritten(name: str) -> bool:
        return not any(name in scope for scope in scopes)

    for work in works:
        match work:
            case Launch(arguments=arguments):
                pairs = tuple(zip(_params(program, work), arguments, strict=False))
                for param, name in pairs:
                    if param.access is not ParamAccess.WRITE and unwritten(name):
                        yield Diagnostic("TIL557", f"buffer {name!r} may be read before any launch has written it")
                scopes[-1].update(name for param, name in pairs if param.access is not ParamAccess.READ)
            case Loop() | Branch():
                for name in used(work):
                    if unwritten(name):
                        yield Diagnostic("TIL557", f"condition {name!r} may be read before any launch has written it")
                ways: list[set[str]] = []
                for body in bodies(work):
                    ways.append(set())
                    yield from _order_faults(program, body, (*scopes, ways[-1]))
                if isinstance(work, Branch) or isinstance(work.times, int):
                    scopes[-1].update(set.intersection(*ways))
            case _:
                assert_never(work)
