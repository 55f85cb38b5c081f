"""Channels as Python closures, for the interpreter: copies of boxes, and the steps of messages.

All threads of a group, or of a role, take the same steps, so that the first one to come to a copy makes it for all. A
thread that acquires waits for those that release, and knows then what they did before; a thread that receives knows of
the copies alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import product

import numpy as np

from tileir.core import attrs
from tileir.core.errors import TileError, fail
from tileir.semtree.interpret.evaluation import AGENT, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import Action, Step, Steps, Waiting
from tileir.semtree.interpret.memory import COPIER, Agent, Array, Memory, poisoned
from tileir.semtree.ir import BulkCopy, Channel, ChannelStep
from tileir.semtree.matrices import folded_place


@attrs.define(eq=False)
class _Copies:
    """What a group has sent through a channel of ``places`` messages.

    Attributes:
        copier: Who writes what is copied, as memory calls it.
        places: How many messages may be under way.
        begun: How many copies were begun.
        fresh: The copies since the last message: the memory, the places there, and the values.
        sent: The copies of each message; none where they have arrived.
        released: How many threads have released each message.
        known: What is known of each party of threads when all of them have.

    """

    copier: int
    places: int
    begun: int = 0
    released: list[int] = attrs.field(factory=list)
    known: list[list[int]] = attrs.field(factory=list)
    fresh: list[tuple[Memory, Array, Array]] = attrs.field(factory=list)
    sent: list[list[tuple[Memory, Array, Array]]] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Own:
    """How many steps of each kind a thread has taken with a channel."""

    acquired: int = 0
    begun: int = 0
    sent: int = 0
    received: int = 0
    released: int = 0


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


def acquiring(expressions: ExpressionCompiler, stmt: Channel, releasing: int) -> Steps:
    """Return the generator that waits until so many threads have released the message whose place is next."""
    find, kernel = _of_frame(expressions.slot(stmt.channel.array)), expressions.kernel

    def acquire(frame: Frame) -> Generator[Step, None, None]:
        channel, own = find(frame)
        before = own.acquired - channel.places
        own.acquired += 1

        def is_free() -> bool:
            return before < 0 or (before < len(channel.released) and channel.released[before] == releasing > 0)

        yield Waiting(stmt, is_free)
        if before < 0:
            return
        if not is_free():
            raise _endless(kernel, "acquires a channel, and nobody releases the message before")
        frame[AGENT].learns(channel.known[before])

    return acquire


def receiving(expressions: ExpressionCompiler, stmt: Channel) -> Steps:
    """Return the generator that waits until a message is sent, and takes it."""
    find, receive = _of_frame(expressions.slot(stmt.channel.array)), stepping(expressions, stmt)

    def wait(frame: Frame) -> Generator[Step, None, None]:
        channel, own = find(frame)
        yield Waiting(stmt, lambda: own.received < len(channel.sent))
        receive(frame)

    return wait


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
        channel, own = find(frame)
        agent: Agent = frame[AGENT]
        agent.released += 1
        if own.released >= own.received:
            raise fail("TIL555", f"kernel {kernel!r} releases a message that it has not received")
        if own.released == len(channel.released):
            channel.released.append(0)
            channel.known.append([0] * len(agent.known))
        channel.released[own.released] += 1
        agent.tells(channel.known[own.released])
        own.released += 1

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


def check_received(frame: Frame, kernel: str) -> None:
    """Check that nothing is still being copied when a group ends."""
    for channel in frame[SHARED].get(STEPS, {}).values():
        if channel.fresh or any(channel.sent):
            raise fail("TIL555", f"kernel {kernel!r} ends while boxes are being copied: receive the last messages")


def _check_inside(memory: Memory, places: Array, kernel: str) -> None:
    outside = places[(places < 0) | (places >= len(memory.data))]
    if len(outside):
        raise memory.outside(kernel, int(outside.min()), int(outside.max()))


def _endless(kernel: str, what: str) -> TileError:
    return fail("TIL555", f"kernel {kernel!r} {what}: it would wait for ever")
