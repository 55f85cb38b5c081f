"""Asynchronous copies and matrix products as Python closures, for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

import numpy as np

from tileir.core import Op, attrs
from tileir.core.fragments import FRAGMENTS, Fragment, Layout
from tileir.semtree.interpret.evaluation import AGENT, COPIES, ExpressionCompiler, Frame
from tileir.semtree.interpret.memory import Array, Memory, poisoned
from tileir.semtree.ir import (
    WARP,
    AssignLanes,
    AsyncCopy,
    Await,
    Barrier,
    Channel,
    Exchange,
    KernelFunction,
    MatrixMultiply,
    MatrixOperand,
    Stmt,
    Subscript,
    Var,
    Vote,
    VoteKind,
)
from tileir.semtree.matrices import held, held_of_left
from tileir.semtree.swizzles import folded_place

Action: TypeAlias = "Callable[[Frame], None]"


@attrs.frozen(eq=False)
class PendingWait:
    """A step of a channel, flag or cluster at which a thread waits for a condition."""

    stmt: Channel | Barrier | Await
    is_over: Callable[[], bool]


Step: TypeAlias = "Stmt | PendingWait"
Steps: TypeAlias = "Callable[[Frame], Generator[Step, None, None]]"
"""Generator that runs statements, and yields each one at which threads wait for others."""


def masked(expressions: ExpressionCompiler, stmt: AssignLanes) -> Action:
    """Return the closure that sets some lanes."""
    begin, end, target = expressions.evaluator(stmt.begin), expressions.evaluator(stmt.end), stmt.target
    read = _in_lanes(expressions, stmt.value) if isinstance(stmt.value, Subscript) else None
    value = expressions.evaluator(stmt.value)
    written = _in_lanes(expressions, target) if isinstance(target, Subscript) else None
    slot = expressions.slot(target.name) if isinstance(target, Var) else 0

    def assign(frame: Frame) -> None:
        lanes = slice(max(0, begin(frame)), max(0, end(frame)))
        if lanes.start >= min(lanes.stop, target.type.lanes):
            return
        if read is None:
            new = value(frame)[lanes]
        else:
            array, places = read(frame, lanes)
            if expressions.watched:
                array.reads(places, frame[AGENT])
            new = array.data[places]
        if written is None:
            frame[slot] = np.array(frame[slot])
            frame[slot][lanes] = new
            return
        array, places = written(frame, lanes)
        if expressions.watched:
            array.writes(places, frame[AGENT], new)
        array.data[places] = new

    return assign


def _in_lanes(expressions: ExpressionCompiler, place: Subscript) -> Callable[[Frame, slice], tuple[Memory, Array]]:
    """Return a function for the places of some lanes of elements, within their array."""
    memory, offset = expressions.slot(place.array), expressions.evaluator(place.offset)
    steps = np.arange(place.type.lanes) if place.offset.type.lanes == 1 else 0

    def chosen(frame: Frame, lanes: slice) -> tuple[Memory, Array]:
        array: Memory = frame[memory]
        places = (offset(frame) + steps)[lanes]
        array.check_span(expressions.kernel, places)
        return array, places

    return chosen


def copying(expressions: ExpressionCompiler, stmt: AsyncCopy) -> Action:
    """Return the closure that begins a copy; its elements are undefined until a wait."""
    memory, place = expressions.slot(stmt.target.array), expressions.evaluator(stmt.target.offset)
    value, lanes, kernel = expressions.evaluator(stmt.source), stmt.target.type.lanes, expressions.kernel

    def begin(frame: Frame) -> None:
        array: Memory = frame[memory]
        first, new = place(frame), value(frame)
        there = array.neighbours(kernel, first, lanes)
        unknown = poisoned(stmt.target.type.dtype, lanes, expressions.numbers)
        if expressions.watched:
            array.writes(there, frame[AGENT], unknown)
            array.forget(there)
        array.data[there] = unknown
        frame[COPIES][-1].append((array, there, new))

    return begin


def waiting(pending: int) -> Action:
    """Return the closure that completes all groups of copies except the last ``pending`` groups."""

    def wait(frame: Frame) -> None:
        groups = frame[COPIES]
        while len(groups) - 1 > pending:
            for array, there, new in groups.pop(0):
                array.writes(there, frame[AGENT], np.atleast_1d(new))
                array.data[there] = new

    return wait


def multiplying(expressions: ExpressionCompiler, stmt: MatrixMultiply, kernel: KernelFunction) -> Action:
    """Return the closure that adds a product to a thread's elements.

    It reads both operands as a whole, since any thread may load any part of them.
    """
    left, add = _reader(expressions, stmt.left, (stmt.tile[0], stmt.tile[2])), _adding(expressions, stmt, kernel)
    return lambda frame: add(frame, left(frame))


def exchanging(expressions: ExpressionCompiler, stmt: MatrixMultiply, kernel: KernelFunction) -> Steps:
    """Return the generator that adds to a thread's elements a product whose left operand threads hold.

    All threads publish their elements before any of them multiplies, and have multiplied before any publishes more.
    """
    add, number, fragment = _adding(expressions, stmt, kernel), _numbering(kernel), FRAGMENTS[stmt.fragment]
    layout, count, (height, _, depth) = fragment.a.layout, held_of_left(stmt), stmt.tile
    assert layout is not None
    assert count is not None
    rows, columns = (_places(fragment, layout, axis, extent) for axis, extent in (("m", height), ("k", depth)))
    places = np.concatenate([(m[:, None, :] * depth + k[None]).reshape(-1) for m, k in zip(rows, columns, strict=True)])
    memory, start = expressions.slot(stmt.left.start.array), expressions.evaluator(stmt.left.start.offset)
    told: dict[int, Array] = {}

    def exchange(frame: Frame) -> Generator[Step, None, None]:
        array: Memory = frame[memory]
        there, thread = array.neighbours(kernel.name, start(frame), count), number(frame)
        if expressions.watched:
            array.reads(there, frame[AGENT])
        told[thread] = array.data[there].copy()
        yield stmt
        left = np.empty(height * depth, array.data.dtype)
        team = thread - thread % fragment.threads
        left[places] = np.concatenate([told[team + lane] for lane in range(fragment.threads)])
        add(frame, left.reshape(height, depth))
        yield stmt

    return exchange


def trading(expressions: ExpressionCompiler, stmt: Exchange, kernel: KernelFunction) -> Steps:
    """Return the generator that sets elements to those of another thread, once all threads have published theirs."""
    number, value = _numbering(kernel), expressions.evaluator(stmt.source)
    told: dict[int, object] = {}
    store = expressions.store(stmt.target, lambda frame: told[number(frame) ^ stmt.mask])

    def trade(frame: Frame) -> Generator[Step, None, None]:
        told[number(frame)] = np.copy(value(frame))
        yield stmt
        store(frame)
        yield stmt

    return trade


def voting(expressions: ExpressionCompiler, stmt: Vote, kernel: KernelFunction) -> Steps:
    """Return the generator that sets an element to the vote of a warp, once all threads have voted."""
    number, value = _numbering(kernel), expressions.evaluator(stmt.value)
    told: dict[int, bool] = {}
    decide = any if stmt.kind is VoteKind.ANY else all

    def decided(frame: Frame) -> np.bool_:
        first = number(frame) // WARP * WARP
        return np.bool_(decide(told[thread] for thread in range(first, first + WARP)))

    store = expressions.store(stmt.target, decided)

    def vote(frame: Frame) -> Generator[Step, None, None]:
        told[number(frame)] = bool(value(frame))
        yield stmt
        store(frame)
        yield stmt

    return vote


def _numbering(kernel: KernelFunction) -> Callable[[Frame], int]:
    """Return a function that numbers the threads of a group."""
    extents = (*kernel.group, 1, 1)[:3]
    return lambda frame: int(frame[3] + extents[0] * (frame[4] + extents[1] * frame[5]))


def _adding(
    expressions: ExpressionCompiler, stmt: MatrixMultiply, kernel: KernelFunction
) -> Callable[[Frame, Array], None]:
    """Return the closure that multiplies a left operand, and adds a thread's elements of the product."""
    fragment, (height, width, depth), size = FRAGMENTS[stmt.fragment], stmt.tile, held(stmt)
    layout, number = fragment.sums, _numbering(kernel)
    own_rows, own_columns = (_places(fragment, layout, axis, extent) for axis, extent in (("m", height), ("n", width)))
    sums, start = expressions.slot(stmt.accumulators.array), expressions.evaluator(stmt.accumulators.offset)
    right = _reader(expressions, stmt.right, (depth, width))
    numbers, dtype = expressions.numbers, stmt.accumulators.type.dtype
    multiplied = _remembered(lambda left, right: numbers.product(left, right, dtype))

    def add(frame: Frame, left: Array) -> None:
        lane = number(frame) % fragment.threads
        array: Memory = frame[sums]
        there = array.neighbours(kernel.name, start(frame), size)
        product = multiplied(left, right(frame))
        own = product[own_rows[lane][:, None], own_columns[lane][None]].reshape(-1)
        if expressions.watched:
            array.reads(there, frame[AGENT])
        new = numbers.apply(Op.ADD, dtype, array.data[there], own)
        if expressions.watched:
            array.writes(there, frame[AGENT], new)
        array.data[there] = new

    return add


def _remembered(multiply: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a function that reuses the previous thread's product if the operands are equal, bit by bit."""
    last: list[tuple[bytes, bytes, Array]] = []

    def product(left: Array, right: Array) -> Array:
        if left.dtype.hasobject or right.dtype.hasobject:
            return multiply(left, right)
        bits = left.tobytes(), right.tobytes()
        if not last or last[0][:2] != bits:
            last[:] = [(*bits, multiply(left, right))]
        return last[0][2]

    return product


def _places(fragment: Fragment, layout: Layout, axis: str, extent: int) -> Array:
    """Return the places of each thread's elements along an axis of a tile: [threads, fragments, elements]."""
    unit = fragment.mnk["mnk".index(axis)]
    inside = [[layout.at(axis, lane, n) for n in range(layout.held)] for lane in range(fragment.threads)]
    places: Array = np.array(inside)[:, None] + np.arange(0, extent, unit)[None, :, None]
    return places


def _reader(
    expressions: ExpressionCompiler, operand: MatrixOperand, extents: tuple[int, int]
) -> Callable[[Frame], Array]:
    """Return the closure that reads an operand as a matrix."""
    memory, start = expressions.slot(operand.start.array), expressions.evaluator(operand.start.offset)
    places = np.add.outer(*(np.arange(n) * stride for n, stride in zip(extents, operand.strides, strict=True)))

    def read(frame: Frame) -> Array:
        array: Memory = frame[memory]
        there = places + start(frame)
        there = folded_place(there, operand.fold)
        there = there ^ ((there >> operand.shift) & operand.mask)
        array.check_span(expressions.kernel, there)
        if expressions.watched:
            array.reads(there.reshape(-1), frame[AGENT])
        values: Array = array.data[there]
        return values

    return read
