"""Channels as Python closures, for the interpreter: copies of boxes, and the steps of messages.

All threads of a group take the same steps, so that the first one to come to a copy makes it for the group. A thread
that acquires lets the others come as far, and knows then what they did before they released; a thread that receives
knows of the copies alone.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import attrs
import numpy as np

from tileir.core.errors import TileError, fail
from tileir.semtree.interpret.evaluation import AGENT, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.memory import COPIER, Agent, Array, Memory, poisoned
from tileir.semtree.ir import BulkCopy, Channel, ChannelStep, Stmt
from tileir.semtree.matrices import folded_place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tileir.semtree.interpret.instructions import Action, Steps


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
    steps, kernel = np.array(list(product(*map(range, stmt.box)))), expressions.kernel

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
