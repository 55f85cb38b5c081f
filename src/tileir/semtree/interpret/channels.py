"""Channels as Python closures, for the interpreter: copies of boxes, the steps of messages, and barriers of clusters.

All threads of a group, or of a role, take equal steps, so that the first one to reach a copy executes it for all. A
thread that acquires waits for the releasing threads, and then knows what they did before; a thread that receives knows
of the copies alone. Copies, sends and releases shared by the groups of a cluster are kept for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import product

import numpy as np

from tileir.core import TileError, attrs, fail
from tileir.semtree.clusters import part_of
from tileir.semtree.interpret.evaluation import AGENT, CLUSTER, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import Action, PendingWait, Step, Steps
from tileir.semtree.interpret.memory import COPIER, Agent, Array, Memory, poisoned
from tileir.semtree.ir import Barrier, BulkCopy, BulkStore, Channel, ChannelStep, Expr, KernelFunction, Scope
from tileir.semtree.swizzles import folded_place


@attrs.define(eq=False)
class _Copies:
    """Messages that a group has sent through a channel of ``places`` messages.

    Attributes:
        copier: The writer of copies, as memory identifies it.
        places: Maximum messages under way.
        boxes: Requested boxes: their origins and targets.
        fresh: The copies since the last message: the memory, the places there, and the values.
        sent: The copies of each message; none after their arrival.
        released: Number of threads that have released each message.
        known: Knowledge of each party of threads when all of them have.
        others: Copies of other groups of the cluster for each message.
        together: The channels of all groups that send and release messages together.
    """

    copier: int
    places: int
    boxes: list[tuple[object, ...]] = attrs.field(factory=list)
    released: list[int] = attrs.field(factory=list)
    known: list[list[int]] = attrs.field(factory=list)
    fresh: list[tuple[Memory, Array, Array]] = attrs.field(factory=list)
    sent: list[list[tuple[Memory, Array, Array]]] = attrs.field(factory=list)
    others: dict[int, list[tuple[Memory, Array, Array]]] = attrs.field(factory=dict)
    together: list[_Copies] = attrs.field(factory=list)

    def release(self, number: int, agent: Agent) -> None:
        """Record that a thread has released a message."""
        if number == len(self.released):
            self.released.append(0)
            self.known.append([0] * len(agent.known))
        self.released[number] += 1
        agent.tells(self.known[number])


@attrs.define(eq=False)
class _StepCounts:
    """Number of steps of each kind that a thread has taken with a channel."""

    acquired: int = 0
    begun: int = 0
    sent: int = 0
    received: int = 0
    released: int = 0


@attrs.frozen(eq=False)
class ChannelState:
    """Finder of the state of the channel in a slot, which belongs to a cluster or a group."""

    slot: int
    joint: bool

    def of(self, frame: Frame) -> tuple[_Copies, _StepCounts]:
        """Return the state of a thread's group, and the thread's own."""
        slot = self.slot
        if slot not in frame[STEPS]:
            frame[STEPS][slot] = _StepCounts()
        channels = frame[SHARED].setdefault(STEPS, {})
        if slot not in channels:
            number, places = COPIER - len(channels), len(frame[slot].data) // 2
            made = [_Copies(number, places) for _ in frame[CLUSTER]]
            for memory, each in zip(frame[CLUSTER], made, strict=True):
                each.together = made if self.joint else [each]
                memory.setdefault(STEPS, {})[slot] = each
        return channels[slot], frame[STEPS][slot]


def acquiring(expressions: ExpressionCompiler, stmt: Channel, state: ChannelState, releasing: int) -> Steps:
    """Return the generator that waits until ``releasing`` threads have released the message in the next place."""
    find, kernel = state.of, expressions.kernel

    def acquire(frame: Frame) -> Generator[Step, None, None]:
        channel, own = find(frame)
        before = own.acquired - channel.places
        own.acquired += 1

        def is_free() -> bool:
            return before < 0 or (before < len(channel.released) and channel.released[before] == releasing > 0)

        yield PendingWait(stmt, is_free)
        if before < 0:
            return
        if not is_free():
            raise _endless(kernel, "acquires a channel, and nobody releases the message before")
        frame[AGENT].learns(channel.known[before])

    return acquire


def receiving(expressions: ExpressionCompiler, stmt: Channel, state: ChannelState) -> Steps:
    """Return the generator that waits until a message is sent, by all groups if it is shared, and takes it."""
    find, receive = state.of, stepping(expressions, stmt, state)

    def wait(frame: Frame) -> Generator[Step, None, None]:
        channel, own = find(frame)
        yield PendingWait(stmt, lambda: all(own.received < len(each.sent) for each in channel.together))
        receive(frame)

    return wait


def stepping(expressions: ExpressionCompiler, stmt: Channel, state: ChannelState) -> Action:
    """Return the closure for any step other than to acquire."""
    find, kernel = state.of, expressions.kernel

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
        for memory, places, values in (*channel.sent[own.received], *channel.others.pop(own.received, ())):
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
        for each in channel.together:
            each.release(own.released, agent)
        own.released += 1

    return {ChannelStep.SEND: send, ChannelStep.RECEIVE: receive, ChannelStep.RELEASE: release}[stmt.step]


def box_elements(
    expressions: ExpressionCompiler, stmt: BulkCopy | BulkStore, first: Expr, every: Array | int = 1
) -> Callable[[Frame], tuple[Array, Array]]:
    """Return a closure for the points of a box: those inside of the tensor, and the places of their elements."""
    start, coordinates = expressions.evaluator(first), [expressions.evaluator(each) for each in stmt.at]
    steps = np.array(list(product(*map(range, stmt.box)))) * every

    def elements(frame: Frame) -> tuple[Array, Array]:
        points = steps + np.array([each(frame) for each in coordinates])
        inside = np.all((points >= 0) & (points < np.array(stmt.extents)), axis=1)
        return inside, (points @ np.array(stmt.strides) + start(frame))[inside]

    return elements


def bulk_copying(
    expressions: ExpressionCompiler, stmt: BulkCopy, state: ChannelState, kernel: KernelFunction
) -> Action:
    """Return the closure that begins a copy of a box, or of a cluster's part of it, once for the group."""
    own_part, joint = part_of(stmt, kernel), stmt.scope is Scope.CLUSTER
    assert own_part is not None  # the verifier saw to it
    target, source = expressions.slot(stmt.target.array), expressions.slot(stmt.source.array)
    start = expressions.evaluator(own_part.target.offset)
    elements = box_elements(expressions, own_part, stmt.source.offset, np.array(stmt.every))
    asked = [expressions.evaluator(each) for each in (stmt.target.offset, *stmt.at)]

    def begin(frame: Frame) -> None:
        channel, own = state.of(frame)
        own.begun += 1
        if own.begun <= len(channel.boxes):
            return
        channel.boxes.append((target, source, *(each(frame) for each in asked)))
        origin: Memory = frame[source]
        inside, read = elements(frame)
        origin.check_inside(kernel.name, read)
        there = folded_place(np.arange(len(inside)) + start(frame), own_part.fold)
        there = there ^ ((there >> stmt.shift) & stmt.mask)
        if expressions.watched:
            origin.reads(read, frame[AGENT])
        values = np.full(len(inside), expressions.numbers.constant(0, stmt.target.type.dtype))
        values[inside] = origin.data[read]
        message = len(channel.sent)
        channel.fresh.append(put(frame[target], there, values, frame[AGENT], channel))
        for other, memory in zip(channel.together, frame[CLUSTER], strict=True) if joint else ():
            if other is not channel:
                _check_alike(channel.boxes, other.boxes, kernel.name)
                copy = put(memory[target], there, values, frame[AGENT], channel)
                other.others.setdefault(message, []).append(copy)

    def put(memory: Memory, there: Array, values: Array, agent: Agent, channel: _Copies) -> tuple[Memory, Array, Array]:
        memory.check_inside(kernel.name, there)
        memory.copied(there, agent, channel.copier, len(channel.sent))
        memory.data[there] = poisoned(stmt.target.type.dtype, len(there), expressions.numbers)
        return memory, there, values

    return begin


def meeting(barrier: Barrier, parties: int) -> Steps:
    """Return the generator for a barrier of a group, or of all groups of a cluster."""

    def meet(frame: Frame) -> Generator[Step, None, None]:
        yield barrier
        if barrier.scope is Scope.GROUP:
            return
        number = frame[STEPS][CLUSTER] = frame[STEPS].get(CLUSTER, 0) + 1
        own: list[list[int]] = frame[SHARED].setdefault(CLUSTER, [])
        own.extend([0] * parties for _ in range(len(own), number))
        agent: Agent = frame[AGENT]
        agent.tells(own[number - 1])
        groups = frame[CLUSTER]
        yield PendingWait(barrier, lambda: all(len(memory.get(CLUSTER, ())) >= number for memory in groups))
        for memory in groups:
            agent.learns(memory[CLUSTER][number - 1])

    return meet


def _check_alike(own: list[tuple[object, ...]], other: list[tuple[object, ...]], kernel: str) -> None:
    if len(other) >= len(own) and other[len(own) - 1] != own[-1]:
        message = f"groups of a cluster of kernel {kernel!r} ask for different boxes, or places of them"
        raise fail("TIL555", message)


def check_received(frame: Frame, kernel: str) -> None:
    """Check that no copies are pending when a group ends."""
    for channel in frame[SHARED].get(STEPS, {}).values():
        if channel.fresh or any(channel.sent):
            raise fail("TIL555", f"kernel {kernel!r} ends while boxes are being copied: receive the last messages")


def _endless(kernel: str, what: str) -> TileError:
    return fail("TIL555", f"kernel {kernel!r} {what}: it would wait for ever")
