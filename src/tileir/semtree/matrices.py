"""Matrix products that neighbouring threads compute together, and their replacement by scalar code.

A thread has the number ``n`` in its group, axis 0 fastest; ``lane = n % threads`` is its place among the threads of a
fragment (:mod:`tileir.core.fragments`), which share operands. The tile of a :class:`tileir.semtree.ir.MatrixMultiply`
is split into fragments, row by row, and of each in turn a thread holds the elements of the fragment's layout. Operands
in f32 may be rounded to the ten bits of TF32.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from math import prod
from typing import Final, get_args

from tileir.core import BackendError, NameScope, Op, attrs
from tileir.core.fragments import FRAGMENTS, NOTHING, Layout, OperandMemory
from tileir.semtree.ir import (
    WARP,
    Apply,
    Arrive,
    Assign,
    AssignLanes,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Await,
    Barrier,
    BulkCopy,
    BulkStore,
    BulkWait,
    Cast,
    Channel,
    ChannelStep,
    Const,
    Declare,
    DeclareArray,
    Exchange,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    Instruction,
    KernelFunction,
    MatrixMultiply,
    MatrixOperand,
    Ramp,
    Region,
    Scope,
    Stmt,
    Subscript,
    Type,
    Update,
    Var,
    Vote,
    VoteKind,
    WarpRole,
)
from tileir.semtree.rewrite import kernel_names, rewrite_stmts, statements, with_body
from tileir.semtree.swizzles import PLAIN, swizzled


def copied_in_turn(stmt: BulkCopy | BulkStore, kernel: KernelFunction, names: NameScope) -> Stmt:
    """Return a loop in which threads copy the elements of a box in turn; elements out of bounds become zero."""
    index = Type(kernel.index)
    element, stride = Var(names.fresh("element"), index), prod(stmt.box)
    there: Expr = stmt.tensor.offset
    inside: list[Expr] = []

    def apply(op: Op, left: Expr, right: Expr | int) -> Expr:
        return Apply(op, (left, Const(right, left.type) if isinstance(right, int) else right))

    axes = zip(stmt.at, stmt.box, stmt.every, stmt.extents, stmt.strides, strict=True)
    for at, size, every, extent, step in axes:
        stride //= size
        digit = apply(Op.MOD, apply(Op.DIV, element, stride), size)
        digit = digit if every == 1 else apply(Op.MUL, digit, every)
        place = apply(Op.ADD, at, digit if at.type == index else Cast(digit, at.type))
        inside += [apply(Op.CMP_GE, place, 0), apply(Op.CMP_LT, place, extent)]
        moved = apply(Op.MUL, place, step)
        there = apply(Op.ADD, there, moved if moved.type == there.type else Cast(moved, there.type))
    start, kind = stmt.local.offset, stmt.local.type
    own = apply(Op.ADD, start, element if start.type == index else Cast(element, start.type))
    local = Subscript(stmt.local.array, swizzled(own, stmt.shift, stmt.mask, stmt.fold), kind)
    tensor = Subscript(stmt.tensor.array, there, kind)
    condition = reduce(lambda left, right: Apply(Op.BIT_AND, (left, right)), inside)
    if isinstance(stmt, BulkStore):
        body = If(condition, (Assign(tensor, local),))
    else:
        body = If(condition, (Assign(local, tensor),), (Assign(local, Const.of(0, kind)),))
    return For(element, thread_number(kernel), Const(prod(stmt.box), index), prod(kernel.group), (body,))


def thread_number(kernel: KernelFunction) -> Expr:
    """Return the number of a thread in its group, axis 0 fastest."""
    index = Type(kernel.index)
    number: Expr = GridIndex(GridLevel.LOCAL, len(kernel.group) - 1, index)
    for axis in reversed(range(len(kernel.group) - 1)):
        scaled = Apply(Op.MUL, (number, Const(kernel.group[axis], index)))
        number = Apply(Op.ADD, (GridIndex(GridLevel.LOCAL, axis, index), scaled))
    return number


_RARE: Final = frozenset((*get_args(Instruction), WarpRole))
"""Classes of statements that most kernels lack."""


def is_plain(stmt: MatrixMultiply) -> bool:
    """Return whether neither operand is folded."""
    return stmt.left.fold == stmt.right.fold == PLAIN


def held(stmt: MatrixMultiply) -> int:
    """Return the number of elements of the result that a thread holds."""
    fragment = FRAGMENTS[stmt.fragment]
    return stmt.tile[0] * stmt.tile[1] // fragment.threads


def held_of_left(stmt: MatrixMultiply) -> int | None:
    """Return the number of elements of the left operand that a thread can hold; None if it cannot."""
    fragment = FRAGMENTS[stmt.fragment]
    layout = fragment.a.layout
    if fragment.a.where is OperandMemory.TILE or layout is None or NOTHING in (*layout.threads, *layout.elements):
        return None
    return layout.held * (stmt.tile[0] // fragment.mnk[0]) * (stmt.tile[2] // fragment.mnk[2])


def waits(stmt: Stmt) -> bool:
    """Return whether threads wait at a statement for others: at a barrier, for exchanged elements, or for messages."""
    if isinstance(stmt, Channel):
        return stmt.step in (ChannelStep.ACQUIRE, ChannelStep.RECEIVE)
    meets = isinstance(stmt, Barrier | Exchange | Vote | Arrive | Await)
    return meets or (isinstance(stmt, MatrixMultiply) and stmt.left.held > 0)


def without_instructions(
    kernel: KernelFunction,
    spelt: Collection[str] = (),
    *,
    masks: bool = True,
    copies: bool = True,
    folds: bool = False,
    exchanges: bool = True,
    channels: bool = True,
    roles: bool = True,
    flags: bool = True,
    updates: int = 0,
) -> KernelFunction:
    """Return an equal kernel without the instructions that few devices have; itself if it has none.

    Copies become synchronous, and each thread computes its own sums; operands in registers of threads, and exchanged
    elements, go through local memory. Threads meet at barriers to acquire or receive messages of channels.

    Args:
        kernel: The kernel.
        spelt: The fragments that the back end supports, which stay.
        masks: Whether to replace assignments to some lanes by loops.
        copies: Whether to replace asynchronous copies.
        folds: Whether the back end supports folded operands.
        exchanges: Whether to replace exchanges and votes.
        channels: Whether to replace channels and their copies, and clusters with them.
        roles: Whether the back end lacks roles.
        flags: Whether it lacks flags.
        updates: Bytes of the widest elements that it updates atomically; 0 for none.

    Raises:
        BackendError: TIL804, the kernel has roles, flags or updates that the back end lacks, without a replacement.
    """
    kernel = attrs.evolve(kernel, cluster=1) if channels and kernel.cluster > 1 else kernel
    if _RARE.isdisjoint(map(type, statements(kernel.body))):
        return kernel
    _refuse_waits(kernel, roles=roles, channels=channels, flags=flags, updates=updates)
    names = NameScope.of(kernel_names(kernel))

    def plain(stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case AssignLanes() if masks:
                return _lane_by_lane(stmt, names)
            case AsyncCopy(target=target, source=source) if copies:
                return (Assign(target, source),)
            case AsyncCommit() | AsyncWait() if copies:
                return ()
            case Channel() | BulkWait() | Barrier(scope=Scope.CLUSTER) if channels:
                return (Barrier(),) if waits(stmt) else ()
            case BulkCopy() | BulkStore() if channels:
                return (copied_in_turn(stmt, kernel, names),)
            case Exchange() | Vote() if exchanges:
                return _exchanged(stmt, kernel, names) if isinstance(stmt, Exchange) else _voted(stmt, kernel, names)
            case MatrixMultiply() if stmt.fragment not in spelt or not (folds or is_plain(stmt)):
                return _Product(stmt, kernel, names).statements()
            case _:
                return (stmt,)

    return with_body(kernel, rewrite_stmts(plain, kernel.body))


def _refuse_waits(kernel: KernelFunction, *, roles: bool, channels: bool, flags: bool, updates: int) -> None:
    """Refuse a kernel with roles, waits or updates that the back end lacks."""
    found = [stmt for stmt in kernel.body if isinstance(stmt, WarpRole)]
    if found and (roles or (channels and any(isinstance(s, Channel | BulkCopy) for s in statements(found)))):
        message = f"kernel {kernel.name!r} gives warps roles that wait for each other, which the device cannot do so"
        raise BackendError.of("TIL804", message, None, "schedule it without roles")
    if flags and any(isinstance(stmt, Arrive | Await) for stmt in statements(kernel.body)):
        message = f"groups of kernel {kernel.name!r} tell each other by flags how far they are, which the device cannot"
        raise BackendError.of("TIL804", message, None, "schedule it without flags")
    sizes = [stmt.target.type.dtype.itemsize for stmt in statements(kernel.body) if isinstance(stmt, Update)]
    if max(sizes, default=0) > updates:
        message = f"threads of kernel {kernel.name!r} update elements of {max(sizes)} bytes at the same time"
        raise BackendError.of("TIL804", f"{message}, which the device cannot", None, "schedule it without updates")


def _lane_by_lane(stmt: AssignLanes, names: NameScope) -> tuple[Stmt, ...]:
    """Return a loop over the set lanes; variables, and values that are no elements, are moved to arrays."""
    target, value, index = stmt.target, stmt.value, stmt.begin.type
    if isinstance(target, Subscript) and isinstance(value, Subscript):  # all is read before anything is written
        moved = Var(names.fresh("moved"), value.type)
        steps = (attrs.evolve(stmt, target=moved), attrs.evolve(stmt, value=moved))
        return (
            Declare(moved, Const.of(0, value.type)),
            *(each for step in steps for each in _lane_by_lane(step, names)),
        )
    lane, before = Var(names.fresh("lane"), index), list[Stmt]()

    def kept(whole: Expr) -> Subscript:
        array = DeclareArray(names.fresh("lanes"), whole.type.dtype, whole.type.lanes)
        before.extend((array, Assign(Subscript(array.name, Const(0, index), whole.type), whole)))
        return Subscript(array.name, Const(0, index), whole.type)

    def one(place: Subscript) -> Subscript:
        offset, kind = place.offset, Type(place.offset.type.dtype)
        if offset.type.lanes > 1 and not isinstance(offset, Ramp):
            return Subscript(place.array, one(kept(offset)), Type(place.type.dtype))
        number: Expr = lane if kind == index else Cast(lane, kind)
        first, step = (offset.base, Const.of(offset.stride, kind)) if isinstance(offset, Ramp) else (offset, None)
        own = Apply(Op.ADD, (first, number if step is None else Apply(Op.MUL, (number, step))))
        return Subscript(place.array, own, Type(place.type.dtype))

    source, there = (each if isinstance(each, Subscript) else kept(each) for each in (value, target))
    begin = Apply(Op.MAX, (stmt.begin, Const(0, index)))
    end = Apply(Op.MIN, (stmt.end, Const(target.type.lanes, index)))
    copy = For(lane, begin, end, 1, (Assign(one(there), one(source)),))
    return (*before, copy, *(() if there is target else (Assign(target, there),)))


def _exchanged(stmt: Exchange, kernel: KernelFunction, names: NameScope) -> tuple[Stmt, ...]:
    """Return statements that put the elements of each thread into local memory, and take those of the other."""
    source, lanes, number = stmt.source, stmt.source.type.lanes, thread_number(kernel)
    array = DeclareArray(names.fresh("exchanged"), source.type.dtype, prod(kernel.group) * lanes, Region.LOCAL)
    other = Apply(Op.BIT_XOR, (number, Const(stmt.mask, number.type)))
    own, there = (
        Subscript(array.name, place if lanes == 1 else Apply(Op.MUL, (place, Const(lanes, place.type))), source.type)
        for place in (number, other)
    )
    return array, Assign(own, source), Barrier(), Assign(stmt.target, there), Barrier()


def _voted(stmt: Vote, kernel: KernelFunction, names: NameScope) -> tuple[Stmt, ...]:
    """Return statements that put the value of each thread into local memory, and merge those of its warp."""
    kind, number, lane = stmt.value.type, thread_number(kernel), Var(names.fresh("lane"), Type(kernel.index))
    array = DeclareArray(names.fresh("votes"), kind.dtype, prod(kernel.group), Region.LOCAL)
    own, one = (Subscript(array.name, place, kind) for place in (number, Apply(Op.BIT_XOR, (number, lane))))
    merge = Assign(stmt.target, Apply(Op.BIT_OR if stmt.kind is VoteKind.ANY else Op.BIT_AND, (stmt.target, one)))
    loop = For(lane, Const(0, lane.type), Const(WARP, lane.type), 1, (merge,))
    return array, Assign(own, stmt.value), Barrier(), Assign(stmt.target, own), loop, Barrier()


class _Product:
    """Scalar code of one thread for a product."""

    def __init__(self, stmt: MatrixMultiply, kernel: KernelFunction, names: NameScope) -> None:
        self.stmt, self.names, self.index = stmt, names, Type(kernel.index)
        self.fragment = FRAGMENTS[stmt.fragment]
        self.group = prod(kernel.group)
        number = thread_number(kernel)
        self.lane = Apply(Op.MOD, (number, self._constant(self.fragment.threads)))
        self.team = Apply(Op.DIV, (number, self._constant(self.fragment.threads)))

    def statements(self) -> tuple[Stmt, ...]:
        """Return statements that compute the sums of a thread."""
        stmt, lane = self.stmt, Var(self.names.fresh("lane"), self.index)
        if not stmt.left.held:
            return (Declare(lane, self.lane), self._product(lane, stmt.left))
        own = self._own(lane)
        product = self._product(lane, self._shared(own[0]))
        return (Declare(lane, self.lane), *own, Barrier(), product, Barrier())

    def _own(self, lane: Var) -> tuple[DeclareArray, Stmt]:
        """Return a local array, and statements that store a thread's elements of the left operand there, team by team.

        Each team has its own rows, as long as the depth of the product.
        """
        (height, _, depth), left = self.stmt.tile, self.stmt.left
        assert self.fragment.a.layout is not None  # the verifier saw to it
        teams = self.group // self.fragment.threads
        array = DeclareArray(self.names.fresh("held"), left.start.type.dtype, teams * height * depth, Region.LOCAL)
        extents, places, place = self._held(self.fragment.a.layout, ("m", "k"), lane)
        there = self._sum(self._times(places["m"], depth), places["k"])
        target = Subscript(array.name, self._sum(there, self._times(self.team, height * depth)), left.start.type)
        value = Subscript(left.start.array, self._sum(place, left.start.offset), left.start.type)
        return array, self._loops(extents, Assign(target, value))

    def _shared(self, array: DeclareArray) -> MatrixOperand:
        """Return the left operand in a local array."""
        height, _, depth = self.stmt.tile
        start = Subscript(array.name, self._times(self.team, height * depth), self.stmt.left.start.type)
        return MatrixOperand(start, (depth, 1))

    def _product(self, lane: Var, left: MatrixOperand) -> Stmt:
        """Return loops over tiles, and in each over a thread's elements."""
        stmt, step = self.stmt, self._counter("step")
        extents, places, place = self._held(self.fragment.sums, ("m", "n"), lane)
        target = Subscript(stmt.accumulators.array, self._sum(place, stmt.accumulators.offset), stmt.accumulators.type)
        a, b = self._element(left, places["m"], step), self._element(stmt.right, step, places["n"])
        return self._loops([*extents, (step, stmt.tile[2])], Assign(target, self._added(a, b, target)))

    def _loops(self, extents: list[tuple[Var, int]], body: Stmt) -> Stmt:
        for counter, extent in reversed(extents):
            body = For(counter, self._constant(0), self._constant(extent), 1, (body,))
        return body

    def _held(
        self, layout: Layout, axes: tuple[str, str], lane: Var
    ) -> tuple[list[tuple[Var, int]], dict[str, Expr], Expr]:
        """Return loops over a thread's elements; their rows and columns, by axis; and their places."""
        units, sizes = ([each["mnk".index(axis)] for axis in axes] for each in (self.fragment.mnk, self.stmt.tile))
        counters = [self._counter(name) for name in ("row", "column")]
        extents = [(counter, size // unit) for counter, size, unit in zip(counters, sizes, units, strict=True)]
        places: dict[str, Expr] = {
            axis: self._times(counter, unit) for axis, counter, unit in zip(axes, counters, units, strict=True)
        }
        place: Expr = self._sum(self._times(counters[0], extents[1][1]), counters[1])
        for run in reversed(layout.element_runs()):
            counter = self._counter("element")
            extents.append((counter, run.extent))
            places[run.axis] = self._sum(places[run.axis], self._times(counter, 1 << run.bit))
            place = self._sum(self._times(place, run.extent), counter)
        for run in layout.thread_runs():
            digit: Expr = Apply(Op.DIV, (lane, self._constant(1 << run.start))) if run.start else lane
            if run.start + run.count < len(layout.threads):
                digit = Apply(Op.MOD, (digit, self._constant(run.extent)))
            places[run.axis] = self._sum(places[run.axis], self._times(digit, 1 << run.bit))
        return extents, places, place

    def _added(self, a: Expr, b: Expr, total: Expr) -> Expr:
        if total.type.dtype.is_float:
            return Apply(Op.FMA, (a, b, total))
        return Apply(Op.ADD, (total, Apply(Op.MUL, (a, b))))

    def _element(self, operand: MatrixOperand, row: Expr, column: Expr) -> Expr:
        start = operand.start
        place = self._sum(self._times(row, operand.strides[0]), self._times(column, operand.strides[1]))
        place = swizzled(self._sum(start.offset, place), operand.shift, operand.mask, operand.fold)
        value = Subscript(start.array, place, start.type)
        wide = self.stmt.accumulators.type
        return value if start.type == wide else Cast(value, wide)

    def _counter(self, name: str) -> Var:
        return Var(self.names.fresh(name), self.index)

    def _constant(self, value: int) -> Const:
        return Const(value, self.index)

    def _sum(self, left: Expr, right: Expr) -> Expr:
        return Apply(Op.ADD, (left, Cast(right, left.type) if right.type != left.type else right))

    def _times(self, value: Expr, factor: int) -> Expr:
        return value if factor == 1 else Apply(Op.MUL, (value, Const(factor, value.type)))
