"""Statements compiled to Python closures, for the interpreter.

Channels as Python closures, for the interpreter: copies of boxes, and the steps of messages.

All threads of a group take the same steps, so that the first one to come to a copy makes it for the group. A thread
that acquires lets the others come as far, and knows then what they did before they released; a thread that receives
knows of the copies alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from itertools import product
from typing import assert_never

import attrs
import numpy as np

from tileir.core.errors import TileError, fail
from tileir.core.number_system import NumberSystem
from tileir.semtree.interpret.evaluation import AGENT, COPIES, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import (
    Action,
    Steps,
    copying,
    exchanging,
    masked,
    multiplying,
    trading,
    waiting,
)
from tileir.semtree.interpret.memory import COPIER, NO_CHECKS, Agent, Array, Checks, Memory, WatchedMemory, poisoned
from tileir.semtree.ir import (
    Assign,
    AssignLanes,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    BulkCopy,
    Channel,
    ChannelStep,
    Declare,
    DeclareArray,
    Exchange,
    Expr,
    For,
    Hint,
    If,
    KernelFunction,
    MatrixMultiply,
    Region,
    Stmt,
    Var,
)
from tileir.semtree.matrices import folded_place, waits
from tileir.semtree.rewrite import statements


@attrs.define(eq=False, repr=False)
class StatementCompiler:
    """Turns the statements of one kernel into closures."""

    kernel: KernelFunction
    checks: Checks
    numbers: NumberSystem
    expressions: ExpressionCompiler = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.expressions = ExpressionCompiler(self.kernel.name, self.checks != NO_CHECKS, self.numbers)

    def body(self, stmts: tuple[Stmt, ...]) -> Action:
        """Return the closure that runs statements in which barriers have no effect."""
        actions = tuple(self._action(stmt) for stmt in stmts if not isinstance(stmt, Barrier))
        if len(actions) == 1:
            return actions[0]

        def run_all(frame: Frame) -> None:
            for action in actions:
                action(frame)

        return run_all

    def _action(self, stmt: Stmt) -> Action:
        match stmt:
            case Declare(variable=variable, value=value):
                return self._set(variable, value)
            case Assign(target=target, value=value):
                if isinstance(target, Var):
                    return self._set(target, value)
                return self.expressions.store(target, self.expressions.evaluator(value))
            case AssignLanes():
                return masked(self.expressions, stmt)
            case DeclareArray():
                return self._allocate(stmt)
            case For():
                return self._loop(stmt)
            case If():
                return self._branch(stmt)
            case Barrier() | Exchange():  # the steps below let threads meet
                return self.body(())
            case AsyncCopy():
                return copying(self.expressions, stmt)
            case AsyncCommit():
                return lambda frame: frame[COPIES].append([])
            case AsyncWait(pending=pending):
                return waiting(pending)
            case Channel():
                return stepping(self.expressions, stmt)
            case BulkCopy():
                return bulk_copying(self.expressions, stmt)
            case MatrixMultiply():
                return multiplying(self.expressions, stmt, self.kernel)
            case Hint():
                return self.body(())
            case _:
                assert_never(stmt)

    def _set(self, variable: Var, value: Expr) -> Action:
        slot, evaluate = self.expressions.slot(variable.name), self.expressions.evaluator(value)

        def assign(frame: Frame) -> None:
            frame[slot] = evaluate(frame)

        return assign

    def _allocate(self, stmt: DeclareArray) -> Action:
        slot = self.expressions.slot(stmt.name)
        threads = math.prod(self.kernel.group)

        def fresh() -> Memory:
            data = poisoned(stmt.dtype, stmt.size, self.numbers)
            if self.checks == NO_CHECKS:
                return Memory(stmt.name, data)
            defined = np.zeros(stmt.size, np.bool_) if self.checks.undefined else None
            watched = threads if self.checks.races and stmt.region is not Region.PRIVATE else 1
            return WatchedMemory(stmt.name, data, self.kernel.name, defined, groups=False, threads=watched)

        def private(frame: Frame) -> None:
            frame[slot] = fresh()

        def shared(frame: Frame) -> None:
            if slot not in frame[SHARED]:
                frame[SHARED][slot] = fresh()
            frame[slot] = frame[SHARED][slot]

        return private if stmt.region is Region.PRIVATE or threads == 1 else shared

    def _loop(self, loop: For) -> Action:
        slot, step = self.expressions.slot(loop.counter.name), loop.step
        begin, end = self.expressions.evaluator(loop.begin), self.expressions.evaluator(loop.end)
        body = self.body(loop.body)

        def iterate(frame: Frame) -> None:
            for value in range(begin(frame), end(frame), step):
                frame[slot] = value
                body(frame)

        return iterate

    def _branch(self, stmt: If) -> Action:
        condition = self.expressions.evaluator(stmt.condition)
        then, otherwise = self.body(stmt.then), self.body(stmt.otherwise)

        def choose(frame: Frame) -> None:
            (then if condition(frame) else otherwise)(frame)

        return choose

    def stepped_body(self, stmts: tuple[Stmt, ...]) -> Steps:
        """Return the generator that runs statements and yields each one at which threads wait for others."""
        steps = tuple(self._steps(stmt) for stmt in stmts)

        def run_all(frame: Frame) -> Generator[Stmt, None, None]:
            for step in steps:
                yield from step(frame)

        return run_all

    def _steps(self, stmt: Stmt) -> Steps:
        if isinstance(stmt, Barrier):
            return _meeting(stmt)
        if isinstance(stmt, Channel) and stmt.step is ChannelStep.ACQUIRE:
            return acquiring(self.expressions, stmt)
        if isinstance(stmt, Exchange):
            return trading(self.expressions, stmt, self.kernel)
        if isinstance(stmt, MatrixMultiply) and waits(stmt):
            return exchanging(self.expressions, stmt, self.kernel)
        if isinstance(stmt, For | If) and any(map(waits, statements((stmt,)))):
            return self._stepped_loop(stmt) if isinstance(stmt, For) else self._stepped_branch(stmt)
        return _at_once(self._action(stmt))

    def _stepped_loop(self, loop: For) -> Steps:
        slot, step = self.expressions.slot(loop.counter.name), loop.step
        begin, end = self.expressions.evaluator(loop.begin), self.expressions.evaluator(loop.end)
        body = self.stepped_body(loop.body)

        def iterate(frame: Frame) -> Generator[Stmt, None, None]:
            for value in range(begin(frame), end(frame), step):
                frame[slot] = value
                yield from body(frame)

        return iterate

    def _stepped_branch(self, stmt: If) -> Steps:
        condition = self.expressions.evaluator(stmt.condition)
        then, otherwise = self.stepped_body(stmt.then), self.stepped_body(stmt.otherwise)
        return lambda frame: (then if condition(frame) else otherwise)(frame)


def _meeting(barrier: Stmt) -> Steps:
    def meet(frame: Frame) -> Generator[Stmt, None, None]:
        yield barrier
        agent: Agent = frame[AGENT]
        agent.known = agent.time

    return meet


def _at_once(action: Action) -> Steps:
    def run(frame: Frame) -> Generator[Stmt, None, None]:
        action(frame)
        yield from ()

    return run


@attrs.define(eq=False)
class _Copies:
    """What a group has sent through a channel of ``places`` messages.

    Attributes:
        copier: Who writes what is copied, as memory calls it.
        places: How many messages may be under way.
        begun: How many copies were begun.
        fresh: The copies since the last message: the memory, the places there, and the values.
        sent: The copies of each message; none where they have arrived.

    """

    copier: int
    places: int
    begun: int = 0
    fresh: list[tuple[Memory, Array, Array]] = attrs.field(factory=list)
    sent: list[list[tuple[Memory, Array, Array]]] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Own:
    """How many steps of each kind a thread has taken with a channel, and when it released each message."""

    acquired: int = 0
    begun: int = 0
    sent: int = 0
    received: int = 0
    released: list[int] = attrs.field(factory=list)


def _of_frame(slot: int) -> Callable[[Frame], tuple[_Copies, _Own]]:
    """Return what finds the state of the channel in a slot: that of the group, and that of the thread."""

    def find(frame: Frame) -> tuple[_Copies, _Own]:
        if slot not in frame[STEPS]:
            frame[STEPS][slot] = _Own()
        channels = frame[SHARED].setdefault(STEPS, {})
        if slot not in channels:
            channels[slot] = _Copies(COPIER - len(channels), len(frame[slot].data) // 2)
        return channels[slot], frame[STEPS][slot]

    return find


def acquiring(expressions: ExpressionCompiler, stmt: Channel) -> Steps:
    """Return the generator that waits until a message can be sent."""
    find, kernel = _of_frame(expressions.slot(stmt.channel.array)), expressions.kernel

    def acquire(frame: Frame) -> Generator[Stmt, None, None]:
        yield stmt
        channel, own = find(frame)
        before = own.acquired - channel.places
        own.acquired += 1
        if before < 0:
            return
        if before >= len(own.released):
            raise _endless(kernel, "acquires a channel, and nobody releases the message before")
        agent: Agent = frame[AGENT]
        agent.known = max(agent.known, own.released[before])

    return acquire


def stepping(expressions: ExpressionCompiler, stmt: Channel) -> Action:
    """Return the closure that takes another step than to acquire."""
    find, kernel = _of_frame(expressions.slot(stmt.channel.array)), expressions.kernel

    def send(frame: Frame) -> None:
        channel, own = find(frame)
        own.sent += 1
        if own.sent > own.acquired:
            raise fail("TIL555", f"kernel {kernel!r} sends a message whose place it has not acquired")
        if own.sent > len(channel.sent):
            channel.sent.append(channel.fresh)
            channel.fresh = []

    def receive(frame: Frame) -> None:
        channel, own = find(frame)
        if own.received >= len(channel.sent):
            raise _endless(kernel, "receives a message that nobody sends")
        for memory, places, values in channel.sent[own.received]:
            memory.arrived(places)
            memory.data[places] = values
        channel.sent[own.received] = []
        own.received += 1
        frame[AGENT].received[channel.copier] = own.received

    def release(frame: Frame) -> None:
        _, own = find(frame)
        agent: Agent = frame[AGENT]
        agent.released += 1
        own.released.append(agent.time)
        if len(own.released) > own.received:
            raise fail("TIL555", f"kernel {kernel!r} releases a message that it has not received")

    return {ChannelStep.SEND: send, ChannelStep.RECEIVE: receive, ChannelStep.RELEASE: release}[stmt.step]


def bulk_copying(expressions: ExpressionCompiler, stmt: BulkCopy) -> Action:
    """Return the closure that begins a copy of a box, once for the group."""
    find = _of_frame(expressions.slot(stmt.channel.array))
    target, source = expressions.slot(stmt.target.array), expressions.slot(stmt.source.array)
    start, first = expressions.evaluator(stmt.target.offset), expressions.evaluator(stmt.source.offset)
    coordinates = [expressions.evaluator(each) for each in stmt.at]
    steps, kernel = np.array(list(product(*map(range, stmt.box)))) * np.array(stmt.every), expressions.kernel

    def begin(frame: Frame) -> None:
        channel, own = find(frame)
        own.begun += 1
        if own.begun <= channel.begun:
            return
        channel.begun += 1
        memory: Memory = frame[target]
        origin: Memory = frame[source]
        points = steps + np.array([each(frame) for each in coordinates])
        inside = np.all((points >= 0) & (points < np.array(stmt.extents)), axis=1)
        read = (points @ np.array(stmt.strides) + first(frame))[inside]
        _check_inside(origin, read, kernel)
        there = folded_place(np.arange(len(points)) + start(frame), stmt.fold)
        there = there ^ ((there >> stmt.shift) & stmt.mask)
        _check_inside(memory, there, kernel)
        if expressions.watched:
            origin.reads(read, frame[AGENT])
            memory.copied(there, frame[AGENT], channel.copier, len(channel.sent))
        values = np.full(len(points), expressions.numbers.constant(0, stmt.target.type.dtype))
        values[inside] = origin.data[read]
        memory.data[there] = poisoned(stmt.target.type.dtype, len(points), expressions.numbers)
        channel.fresh.append((memory, there, values))

    return begin


def _check_inside(memory: Memory, places: Array, kernel: str) -> None:
    outside = places[(places < 0) | (places >= len(memory.data))]
    if len(outside):
        raise memory.outside(kernel, int(outside.min()), int(outside.max()))


def _endless(kernel: str, what: str) -> TileError:
    return fail("TIL555", f"kernel {kernel!r} {what}: it would wait for ever")
