"""Cooperative statements of a group: barriers, shared arrays, asynchronous copies and matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import Op, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.analysis.effects import writes
from tileir.semtree.ir import (
    WARP,
    Apply,
    Arrive,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Await,
    Barrier,
    Broadcast,
    BulkCopy,
    BulkStore,
    BulkWait,
    Channel,
    Const,
    DeclareArray,
    Exchange,
    Expr,
    For,
    If,
    KernelFunction,
    LoopKind,
    MatrixMultiply,
    Region,
    Scope,
    Stmt,
    Subscript,
    Turn,
    TurnStep,
    Type,
    Update,
    Var,
    Vote,
    WarpRole,
)
from tileir.semtree.matrices import held
from tileir.semtree.rewrite import mentions, statements, walk
from tileir_cuda.architectures import STATIC_SHARED_BYTES
from tileir_cuda.emit import flags, products, warpgroups
from tileir_cuda.emit.boxes import Channels, meet_cluster, operands_of_boxes
from tileir_cuda.emit.products import Shared, thread_number
from tileir_cuda.emit.roles import Roles
from tileir_cuda.emit.warpgroups import ALIGNMENT, CONVERGENT, OF_WARPGROUPS, PendingProduct
from tileir_llvm.emit.expressions import evaluate, offset_of
from tileir_llvm.emit.memory import Offset, Place, load, pointer_to, store
from tileir_llvm.emit.spelling import memory_element, register
from tileir_llvm.emit.statements import Statements, update
from tileir_llvm.emit.text import Value

_LEAST: Final = 16
"""Alignment of shared arrays in bytes: that of the widest access of a thread."""


@attrs.frozen(eq=False)
class SharedMemory:
    """Shared arrays of one kernel; equal declarations share their place, as they are never live at one time.

    Attributes:
        alignments: Alignment of each array in bytes.
        offsets: Offset of each array.
        nbytes: Total size.
    """

    alignments: Mapping[DeclareArray, int]
    offsets: Mapping[DeclareArray, int]
    nbytes: int
    _name: str

    @classmethod
    def of(cls, kernel: KernelFunction, name: str = "") -> SharedMemory:
        """Place the arrays of a kernel; ``name`` is that of its function."""
        found = tuple(statements(kernel.body))
        operands = {
            operand.start.array
            for stmt in found
            if isinstance(stmt, MatrixMultiply) and stmt.fragment in OF_WARPGROUPS
            for operand in (stmt.left, stmt.right)
        } | operands_of_boxes(kernel)
        arrays = dict.fromkeys(s for s in found if isinstance(s, DeclareArray) and s.region is not Region.PRIVATE)
        alignments = {array: ALIGNMENT if array.name in operands else _LEAST for array in arrays}
        offsets, end = {}, 0
        for array in sorted(arrays, key=lambda each: -alignments[each]):
            offsets[array] = -(-end // alignments[array]) * alignments[array]
            end = offsets[array] + array.size * array.dtype.itemsize
        return cls(MappingProxyType(alignments), MappingProxyType(offsets), -(-end // _LEAST) * _LEAST, name)

    @property
    def launch_bytes(self) -> int:
        """Dynamic shared memory of a launch in bytes; 0 if the module declares all of it."""
        return self.nbytes if self.nbytes > STATIC_SHARED_BYTES else 0

    @property
    def pointers(self) -> Mapping[DeclareArray, str]:
        """Constant that points to each array."""
        if not self.launch_bytes:
            return {array: f"@{self._name}_shared{number}" for number, array in enumerate(self.offsets)}
        whole = f"@{self._name}_shared"
        return {
            array: f"getelementptr (i8, ptr addrspace(3) {whole}, i32 {offset})"
            for array, offset in self.offsets.items()
        }

    def definitions(self) -> tuple[str, ...]:
        """Return the variables of the module."""
        if self.launch_bytes:
            return (f"@{self._name}_shared = external addrspace(3) global [0 x i8], align {ALIGNMENT}",)
        return tuple(
            f"{pointer} = internal addrspace(3) global [{array.size} x {memory_element(array.dtype)}] poison,"
            f" align {self.alignments[array]}"
            for array, pointer in self.pointers.items()
        )


def makes_zeros(stmt: Stmt, after: Stmt | None) -> bool:
    """Return whether loops only set all sums to zero before an instruction of four warps adds to them."""
    if not isinstance(stmt, For) or not isinstance(after, MatrixMultiply) or after.fragment not in OF_WARPGROUPS:
        return False
    sums = after.accumulators
    if after.tile[:2] != FRAGMENTS[after.fragment].mnk[:2] or sums.offset != Const(0, sums.offset.type):
        return False
    places = _zeros(stmt, sums.array, {})
    return places is not None and places == set(range(held(after)))


def _zeros(stmt: Stmt, array: str, values: Mapping[str, int]) -> set[int] | None:
    """Return the elements of an array that a statement sets to zero; None if it does anything else."""
    match stmt:
        case For(counter=counter, begin=Const(value=begin), end=Const(value=end), step=step, body=body):
            turns = range(int(begin), int(end), step)
            parts = [_zeros(each, array, {**values, counter.name: turn}) for turn in turns for each in body]
            known = [part for part in parts if part is not None]
            return set().union(*known) if len(known) == len(parts) else None
        case Assign(target=Subscript(array=name, offset=offset, type=kind), value=value) if name == array:
            while isinstance(value, Broadcast):
                value = value.operand
            first = _value(offset, values) if isinstance(value, Const) and value.value == 0 else None
            return None if first is None else set(range(first, first + kind.lanes))
        case _:
            return None


def _value(expr: Expr, values: Mapping[str, int]) -> int | None:
    """Return the value of a sum of products of known variables."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return values.get(name)
        case Apply(op=Op.ADD | Op.MUL as op, args=args):
            left, right = (_value(arg, values) for arg in args)
            if left is None or right is None:
                return None
            return left + right if op is Op.ADD else left * right
        case _:
            return None


_CACHED_ONCE: Final = 16
"""Size of copies in bytes that bypass the first-level cache, which would not reuse them."""

_MOST_WIDENED: Final = 32
"""Maximum number of 16-bit elements that a thread keeps widened; more are widened at each read."""

_MOST_STEPS: Final = 16
"""Maximum number of steps of a contraction written in sequence: more do not fit the instruction cache."""


_FIRST_TURN: Final = 1
_TURNS: Final = 15
"""Named barriers for turns, beside the barrier of all threads: the first, and their number."""


@attrs.define(eq=False, repr=False)
class CudaStatements(Statements):
    """Writer of the statements of one kernel.

    Attributes:
        room: Placement of its shared arrays.
        group: Threads of a group along each axis.
        unseen: Whether instructions read shared memory by the async proxy: products of four warps, and stores of boxes.
        multiplies: Whether it multiplies matrices with 16-bit elements unwidened.
        channels: Its channels.
        roles: Roles of its warps.
    """

    room: SharedMemory = attrs.field(kw_only=True)
    group: tuple[int, ...] = attrs.field(kw_only=True)
    unseen: bool = attrs.field(kw_only=True)
    multiplies: bool = attrs.field(kw_only=True)
    channels: Channels = attrs.field(kw_only=True)
    roles: Roles = attrs.field(kw_only=True)
    _shared: dict[str, Shared] = attrs.field(factory=dict, init=False)

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements in order; products in flight overlap statements that do not depend on them."""
        begun: list[PendingProduct] = []
        changed: set[str] = set()
        for number, stmt in enumerate(stmts):
            after = stmts[number + 1] if number + 1 < len(stmts) else None
            if makes_zeros(stmt, after):
                self._finish(begun, changed, self._needed(stmt, begun))
                continue
            if isinstance(stmt, MatrixMultiply) and stmt.fragment in OF_WARPGROUPS:
                if any(stmt.left.start.array == each.stmt.accumulators.array for each in begun):
                    self._finish(begun, changed, len(begun))
                fresh = number > 0 and makes_zeros(stmts[number - 1], stmt)
                begun.append(warpgroups.begin(self.env, stmt, self.group, self._shared, fresh=fresh))
                continue
            needed = self._needed(stmt, begun)
            rest = (later for later in stmts[number + 1 :] if not isinstance(later, Channel))
            last = isinstance(stmt, If) and not any(self._needed(later, begun[:needed]) for later in rest)
            self._finish(begun, changed, needed, apart=last)
            super().write((stmt,))
            if begun:
                changed |= {place.array for each in statements((stmt,)) for place in writes(each)}
        self._finish(begun, changed, len(begun))

    def _finish(self, begun: list[PendingProduct], changed: set[str], count: int, *, apart: bool = False) -> None:
        """Wait for the first products in flight, after changes to arrays."""
        if count:
            warpgroups.finish(self.env, begun[:count], len(begun) - count, changed, apart=apart)
            del begun[:count]

    def _needed(self, stmt: Stmt, begun: list[PendingProduct]) -> int:
        """Return the number of products in flight that have to be done before a statement.

        Accesses to their sums, and releases of their operands, need them. Barriers wait for all. Nothing else in a
        race-free kernel depends on them: all threads of a product read its operands, so writes to these follow a
        barrier or a message.
        """
        if not begun or _meets(stmt):
            return len(begun)
        touched = {node.array for each in statements((stmt,)) for node in _nodes(each) if isinstance(node, Subscript)}
        released = self.channels.released(stmt)
        needed = (
            number
            for number, product in enumerate((each.stmt for each in begun), 1)
            if product.accumulators.array in touched
            or not released.isdisjoint((product.left.start.array, product.right.start.array))
        )
        return max(needed, default=0)

    def update(self, stmt: Update) -> None:
        """Write an atomic update as one step for all threads of the card."""
        update(self.env, stmt, 'syncscope("device") ')

    def is_abreast(self, loop: For) -> bool:  # noqa: ARG002
        """Return False: loops are not interleaved, as other warps run while one waits."""
        return False

    def instruction(self, stmt: Stmt) -> None:
        """Write a cooperative statement of a group."""
        out = self.env.out
        match stmt:
            case Barrier(scope=scope):
                self._meet(scope)
            case AsyncCopy():
                self._copy(stmt)
            case AsyncCommit():
                out.module.declarations["declare void @llvm.nvvm.cp.async.commit.group()"] = None
                out.effect("call void @llvm.nvvm.cp.async.commit.group()")
            case AsyncWait(pending=pending):
                out.module.declarations["declare void @llvm.nvvm.cp.async.wait.group(i32 immarg)"] = None
                out.effect(f"call void @llvm.nvvm.cp.async.wait.group(i32 {pending})")
            case Exchange():
                self._exchange(stmt)
            case Vote(kind=kind, target=target, value=value):
                name, own = f"llvm.nvvm.vote.{kind.value}.sync", evaluate(self.env, value).text
                found = Value(out.call("i1", name, ("i32", "-1"), ("i1", own)), value.type)
                store(out, self.env.arrays[target.array], offset_of(self.env, target.offset), found)
            case Arrive() | Await():
                flags.write(self.env, stmt, thread_number(self.env, self.group).text, lambda: self.roles.meet(out))
            case Channel():
                self.channels.step(stmt, self._shared)
            case BulkCopy():
                self.channels.copy(stmt, self._shared)
            case BulkStore():
                self.channels.store(stmt, self._shared)
            case BulkWait(pending=pending):
                self.channels.wait(pending)
            case MatrixMultiply():  # those of four warps are begun and waited for by write()
                products.multiply(self.env, stmt, self.group, self._shared)
            case WarpRole():
                self.roles.thread = thread_number(self.env, self.group).text
                self.roles.write(self.env, stmt, lambda: self.write(stmt.body))
            case Turn():
                self._turn(stmt)
            case _:
                super().instruction(stmt)

    def _meet(self, scope: Scope) -> None:
        """Wait for all threads of the group, or of the cluster."""
        out = self.env.out
        if self.unseen:
            out.effect('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')
        if scope is Scope.CLUSTER:
            meet_cluster(out)
        else:
            self.roles.meet(out)

    def begin_turns(self, kernel: KernelFunction) -> None:
        """Let the first part of a group with turns begin, as if the last had passed the turn on."""
        turn = next((stmt for stmt in statements(kernel.body) if isinstance(stmt, Turn)), None)
        if turn is not None and (taking := self._taking(turn)):
            first = range(0, len(taking), turn.threads)[-1]
            last = f"setp.ge.u32 p, $0, {taking.start + first};"
            within = f"setp.lt.and.u32 p, $0, {taking.stop}, p;" if taking.stop < math.prod(self.group) else ""
            arrive = f"@p bar.arrive {self.roles.meeting + _FIRST_TURN}, {2 * turn.threads};"
            lines = ("{", ".reg .pred p;", last, *filter(None, (within,)), arrive, "}")
            self._turning(lines, thread_number(self.env, self.group).text)

    def _turn(self, hint: Turn) -> None:
        """Take the turn, or pass it on, if several parts take turns."""
        taking = self._taking(hint)
        if not taking:
            return
        out, parts = self.env.out, len(taking) // hint.threads
        own = out.pure(f"sub i32 {thread_number(self.env, self.group).text}, {taking.start}")
        part = out.pure(f"udiv i32 {own}, {hint.threads}")
        if hint.step is TurnStep.PASS:
            after = out.pure(f"add i32 {part}, 1")
            part = out.pure(f"select i1 {out.pure(f'icmp eq i32 {after}, {parts}')}, i32 0, i32 {after}")
        word = "sync" if hint.step is TurnStep.TAKE else "arrive"
        number = out.pure(f"add i32 {part}, {self.roles.meeting + _FIRST_TURN}")
        self._turning((f"bar.{word} $0, {2 * hint.threads};",), number)

    def _taking(self, turn: Turn) -> range:
        """Return the threads whose parts take turns; none if there are no barriers for them."""
        threads = self.roles.taking(turn)
        parts = len(threads) // turn.threads
        return threads if 1 < parts <= _TURNS - self.roles.meeting and turn.threads % WARP == 0 else range(0)

    def _turning(self, lines: tuple[str, ...], operand: str) -> None:
        code = "\\0A".join(lines)
        self.env.out.effect(f'call void asm sideeffect "{code}", "r,~{{memory}}"(i32 {operand}) #{CONVERGENT}')

    def repeats(self, loop: For, begin: Value, end: Value) -> bool | int:
        """Return the unroll factor of a loop: whole steps of a contraction whose tile is unrolled.

        The assembler prefetches operands of later steps only within a block.
        """
        inside = tuple(statements(loop.body))
        inner = [stmt for stmt in inside if isinstance(stmt, For)]
        if any(isinstance(stmt, (Barrier, MatrixMultiply)) for stmt in inside):
            return super().repeats(loop, begin, end)
        if inner and begin.known is not None and end.known is not None:
            trips = len(range(begin.known, end.known, loop.step))
            if trips <= _MOST_STEPS and all(each.kind is LoopKind.UNROLL for each in inner):
                return trips
        return super().repeats(loop, begin, end)

    def place(self, array: DeclareArray) -> Place:
        """Return the place of an array: in shared memory, or in registers and local memory of the thread.

        Scratch arrays, which are meant for processors, are shared by the group as well.
        """
        if array.region is Region.PRIVATE:
            narrow = array.dtype.is_narrow and array.dtype.itemsize == 2 and not self.multiplies
            return attrs.evolve(super().place(array), narrow=narrow and array.size > _MOST_WIDENED)
        pointer, alignment = self.room.pointers[array], self.room.alignments[array]
        shared = self._shared[array.name] = Shared(f"ptrtoint (ptr addrspace(3) {pointer} to i32)", alignment)
        if array.name in self.channels.names:
            self.channels.open(array, shared)
        return Place(f"addrspacecast (ptr addrspace(3) {pointer} to ptr)", array.dtype, alignment)

    def _exchange(self, stmt: Exchange) -> None:
        """Write an exchange of words, lane by lane."""
        env, out, kind = self.env, self.env.out, Type(stmt.source.type.dtype)
        places = [(env.arrays[each.array], offset_of(env, each.offset)) for each in (stmt.target, stmt.source)]
        (target, to), (source, origin) = places
        assert isinstance(to, Offset)  # as threads exchange neighbours
        assert isinstance(origin, Offset)
        spelt = register(kind)
        for lane in range(stmt.source.type.lanes):
            own, there = (attrs.evolve(each, distance=each.distance + lane, step=1, lanes=1) for each in (origin, to))
            value = load(out, source, own, kind)
            word = value.text if spelt == "i32" else out.pure(f"bitcast {spelt} {value.text} to i32")
            operands = (("i32", "-1"), ("i32", word), ("i32", f"{stmt.mask}"), ("i32", f"{WARP - 1}"))
            got = out.call("i32", "llvm.nvvm.shfl.sync.bfly.i32", *operands)
            back = got if spelt == "i32" else out.pure(f"bitcast i32 {got} to {spelt}")
            store(out, target, there, Value(back, kind))

    def _branch(self, stmt: If) -> None:
        """Write a branch; none for a copy with a zero-filling condition, which instructions support."""
        copy = _copy_or_zeros(stmt)
        condition = None if copy is None else evaluate(self.env, stmt.condition)
        ends = None if copy is None or condition is None or condition.known is not None else self._ends(copy)
        if copy is None or ends is None:
            super()._branch(stmt)
        else:
            self._begin(copy, ends, condition)

    def _ends(self, stmt: AsyncCopy) -> tuple[str, str] | None:
        """Return pointers to destination and source of a copy, None if one may not be aligned."""
        env, size = self.env, stmt.target.type.lanes * stmt.target.type.dtype.itemsize
        place, origin = offset_of(env, stmt.target.offset), offset_of(env, stmt.source.offset)
        assert isinstance(place, Offset)  # neighbours are copied, and are contiguous in both arrays
        assert isinstance(origin, Offset)
        to, source = env.arrays[stmt.target.array], env.arrays[stmt.source.array]
        ends = pointer_to(env.out, to, place), pointer_to(env.out, source, origin)
        return (ends[0][0], ends[1][0]) if all(alignment % size == 0 for _, alignment in ends) else None

    def _copy(self, stmt: AsyncCopy) -> None:
        """Write an asynchronous copy; an ordinary one if the elements may not be aligned."""
        env, ends = self.env, self._ends(stmt)
        if ends is not None:
            self._begin(stmt, ends)
            return
        place, origin = offset_of(env, stmt.target.offset), offset_of(env, stmt.source.offset)
        value = load(env.out, env.arrays[stmt.source.array], origin, stmt.target.type)
        store(env.out, env.arrays[stmt.target.array], place, value)

    def _begin(self, stmt: AsyncCopy, ends: tuple[str, str], condition: Value | None = None) -> None:
        """Write an asynchronous copy between two pointers.

        If a condition does not hold, nothing is read, and zeros are written. The address may then be invalid, which
        LLVM must not draw conclusions from.
        """
        out, kind, (pointer, start) = self.env.out, stmt.target.type, ends
        size = kind.lanes * kind.dtype.itemsize
        shared = out.pure(f"addrspacecast ptr {pointer} to ptr addrspace(3)")
        memory = out.pure(f"addrspacecast ptr {start} to ptr addrspace(1)")
        name = f"llvm.nvvm.cp.async.{'cg' if size == _CACHED_ONCE else 'ca'}.shared.global.{size}"
        kinds, operands = ["ptr addrspace(3)", "ptr addrspace(1)"], [shared, memory]
        if condition is not None:
            name += ".s"
            kinds.append("i32")
            operands[1] = out.pure(f"freeze ptr addrspace(1) {memory}")
            operands.append(out.pure(f"select i1 {condition.text}, i32 {size}, i32 0"))
        out.module.declarations[f"declare void @{name}({', '.join(kinds)})"] = None
        values = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, operands, strict=True))
        out.effect(f"call void @{name}({values})")


def _copy_or_zeros(stmt: If) -> AsyncCopy | None:
    """Return the copy in a branch that writes zeros otherwise, as one conditional copy."""
    match stmt:
        case If(then=(AsyncCopy() as copy,), otherwise=(Assign(target=target, value=value),)) if target == copy.target:
            while isinstance(value, Broadcast):
                value = value.operand
            return copy if isinstance(value, Const) and value == Const.of(0, value.type) else None
        case _:
            return None


def _meets(stmt: Stmt) -> bool:
    """Return whether a statement contains a barrier of all threads."""
    return any(isinstance(each, Barrier | MatrixMultiply) for each in statements((stmt,)))


def _nodes(stmt: Stmt) -> Iterator[Expr]:
    for root in mentions(stmt):
        yield from walk(root)
