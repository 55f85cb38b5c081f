"""Statements compiled to Python closures, for the interpreter, including stores of boxes.

All threads of a group, or of a team of a role, reach the same stores, so that the first one executes it for all. It
reads at once, and local elements count as being read until a wait and a barrier after it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Final, assert_never

import numpy as np

from tileir.core import attrs, fail
from tileir.core.numbers.number_system import NumberSystem
from tileir.semtree.clusters import channels_of_clusters
from tileir.semtree.interpret.channels import (
    ChannelState,
    acquiring,
    box_elements,
    bulk_copying,
    meeting,
    receiving,
    stepping,
)
from tileir.semtree.interpret.evaluation import AGENT, CLUSTER, COPIES, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import (
    Action,
    PendingWait,
    Step,
    Steps,
    copying,
    exchanging,
    masked,
    multiplying,
    trading,
    voting,
    waiting,
)
from tileir.semtree.interpret.memory import NO_CHECKS, Agent, Checks, Memory, Stores, WatchedMemory, poisoned
from tileir.semtree.interpret.orders import Order
from tileir.semtree.interpret.scalar_arithmetic import operation
from tileir.semtree.ir import (
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
    Update,
    Var,
    Vote,
    WarpRole,
)
from tileir.semtree.matrices import waits
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import releasing
from tileir.semtree.swizzles import folded_place

_STORES: Final = "stores"
"""Key of the state of stores, beside the slots of channels."""


@attrs.define(eq=False)
class _StoreCount:
    """Count of the stores of a thread."""

    begun: int = 0


def _state(frame: Frame) -> tuple[Stores, _StoreCount]:
    """Return the stores of the threads that run together, and the thread's own count."""
    party = frame[AGENT].party
    stores: Stores = frame[SHARED].setdefault((_STORES, party), Stores(party))
    own: _StoreCount = frame[STEPS].setdefault(_STORES, _StoreCount())
    return stores, own


def storing(expressions: ExpressionCompiler, stmt: BulkStore | BulkWait) -> Action:
    """Return the closure of a statement about stores of boxes."""
    return _waiting(stmt) if isinstance(stmt, BulkWait) else _storing(expressions, stmt)


def _storing(expressions: ExpressionCompiler, stmt: BulkStore) -> Action:
    """Return the closure that stores a box, once for all threads that come to it."""
    target, source = expressions.slot(stmt.target.array), expressions.slot(stmt.source.array)
    start, elements = expressions.evaluator(stmt.source.offset), box_elements(expressions, stmt, stmt.target.offset)

    def store(frame: Frame) -> None:
        stores, own = _state(frame)
        own.begun += 1
        if own.begun <= stores.begun:
            return
        stores.begun = own.begun
        agent: Agent = frame[AGENT]
        tensor: Memory = frame[target]
        local: Memory = frame[source]
        inside, there = elements(frame)
        here = folded_place(np.arange(len(inside)) + start(frame), stmt.fold)
        here = (here ^ ((here >> stmt.shift) & stmt.mask))[inside]
        for memory, places in ((tensor, there), (local, here)):
            memory.check_inside(expressions.kernel, places)
        values = local.data[here]
        if expressions.watched:
            local.reads(here, agent)
            local.stored(here, stores)
            tensor.writes(there, agent, values)
        tensor.data[there] = values

    return store


def _waiting(stmt: BulkWait) -> Action:
    """Return the closure that waits until stores have read local memory: others know this after the next barrier."""

    def wait(frame: Frame) -> None:
        stores, own = _state(frame)
        stores.waited[frame[AGENT].clock.stretch] = own.begun - stmt.pending

    return wait


def updating(expressions: ExpressionCompiler, stmt: Update) -> Action:
    """Return the closure that merges a value into an element."""
    slot, offset = expressions.slot(stmt.target.array), expressions.evaluator(stmt.target.offset)
    value, merge = expressions.evaluator(stmt.value), operation(stmt.op, stmt.target.type, expressions.numbers)

    plain = not stmt.target.type.dtype.is_float

    def update(frame: Frame) -> None:
        memory: Memory = frame[slot]
        place, own = offset(frame), value(frame)
        if not 0 <= place < len(memory.data):
            raise memory.outside(expressions.kernel, place, place)
        if expressions.watched:
            memory.updates(place, frame[AGENT])
        before = memory.data.item(place) if plain else memory.data[place]
        memory.data[place] = merge(before, own)

    return update


def arriving(expressions: ExpressionCompiler, stmt: Arrive) -> Steps:
    """Return the generator that lets a group arrive at a flag, once all its threads have come."""
    slot, offset = expressions.slot(stmt.flag.array), expressions.evaluator(stmt.flag.offset)
    store = expressions.store(stmt.target, lambda frame: frame[SHARED][stmt][1])

    def arrive(frame: Frame) -> Generator[Step, None, None]:
        yield stmt
        memory, place = _flag(frame, slot, offset(frame), expressions.kernel)
        if frame[AGENT].thread == 0:
            before = memory.data[place]
            order = _learn(frame[AGENT], memory, place)
            memory.arrivals[place] = order.arrives()
            frame[SHARED][stmt] = place, before
            memory.data[place] = before + 1
        yield stmt
        _check_same(expressions.kernel, stmt, frame[SHARED][stmt][0], place)
        store(frame)

    return arrive


def awaiting(expressions: ExpressionCompiler, stmt: Await) -> Steps:
    """Return the generator that lets a group wait until others have arrived at a flag."""
    slot, offset = expressions.slot(stmt.flag.array), expressions.evaluator(stmt.flag.offset)
    count = expressions.evaluator(stmt.count)

    def wait(frame: Frame) -> Generator[Step, None, None]:
        (memory, place), least = _flag(frame, slot, offset(frame), expressions.kernel), count(frame)
        yield PendingWait(stmt, lambda: bool(memory.data[place] >= least))
        if frame[AGENT].thread == 0:
            _learn(frame[AGENT], memory, place)
            frame[SHARED][stmt] = place, least
        yield stmt
        _check_same(expressions.kernel, stmt, frame[SHARED][stmt], (place, least))

    return wait


def _flag(frame: Frame, slot: int, place: int, kernel: str) -> tuple[Memory, int]:
    """Return the memory of a flag, and its place there."""
    memory: Memory = frame[slot]
    if not 0 <= place < len(memory.data):
        raise memory.outside(kernel, place, place)
    return memory, place


def _learn(agent: Agent, memory: Memory, place: int) -> Order:
    """Read a flag, and give the group the knowledge of all that have arrived there."""
    assert agent.order is not None
    agent.order.learns(memory.arrivals.get(place, {}))
    agent.known[agent.party] = agent.time
    memory.reads(place, agent)
    return agent.order


def _check_same(kernel: str, stmt: Arrive | Await, first: object, own: object) -> None:
    if first != own:
        word = type(stmt).__name__.lower()
        raise fail("TIL555", f"kernel {kernel!r}: threads of a group {word} different flags of {stmt.flag.array!r}")


@attrs.define(eq=False, repr=False)
class StatementCompiler:
    """Compiler of the statements of one kernel to closures, for ``parties`` parties of its threads."""

    kernel: KernelFunction
    checks: Checks
    numbers: NumberSystem
    parties: int = 1
    expressions: ExpressionCompiler = attrs.field(init=False)
    _releasing: Mapping[str, int] = attrs.field(init=False)
    _joint: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.expressions = ExpressionCompiler(self.kernel.name, self.checks != NO_CHECKS, self.numbers)
        self._releasing, self._joint = releasing(self.kernel), channels_of_clusters(self.kernel)

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
            case AssignLanes() | Update():
                return updating(self.expressions, stmt) if isinstance(stmt, Update) else masked(self.expressions, stmt)
            case DeclareArray():
                return self._allocate(stmt)
            case For():
                return self._loop(stmt)
            case If():
                return self._branch(stmt)
            case Barrier() | Exchange() | Vote() | Arrive() | Await():  # the steps below let threads meet
                return self.body(())
            case AsyncCopy():
                return copying(self.expressions, stmt)
            case AsyncCommit():
                return lambda frame: frame[COPIES].append([])
            case AsyncWait(pending=pending):
                return waiting(pending)
            case Channel() | BulkCopy():
                return self._message(stmt)
            case BulkStore() | BulkWait():
                return storing(self.expressions, stmt)
            case MatrixMultiply():
                return multiplying(self.expressions, stmt, self.kernel)
            case Hint() | WarpRole():  # roles are run separately, after all other statements
                return self.body(())
            case _:
                assert_never(stmt)

    def _message(self, stmt: Channel | BulkCopy) -> Action:
        channel = self._channel(stmt)
        if isinstance(stmt, Channel):
            return stepping(self.expressions, stmt, channel)
        return bulk_copying(self.expressions, stmt, channel, self.kernel)

    def _channel(self, stmt: Channel | BulkCopy) -> ChannelState:
        name = stmt.channel.array
        return ChannelState(self.expressions.slot(name), name in self._joint)

    def _set(self, variable: Var, value: Expr) -> Action:
        slot, evaluate = self.expressions.slot(variable.name), self.expressions.evaluator(value)

        def assign(frame: Frame) -> None:
            frame[slot] = evaluate(frame)

        return assign

    def _allocate(self, stmt: DeclareArray) -> Action:
        slot = self.expressions.slot(stmt.name)
        threads = math.prod(self.kernel.group) * self.kernel.cluster

        def fresh() -> Memory:
            data = poisoned(stmt.dtype, stmt.size, self.numbers)
            if self.checks == NO_CHECKS:
                return Memory(stmt.name, data)
            defined = np.zeros(stmt.size, np.bool_) if self.checks.undefined else None
            watched = threads if self.checks.races and stmt.region is not Region.PRIVATE else 1
            return WatchedMemory(
                stmt.name, data, self.kernel.name, defined, False, watched, self.parties * self.kernel.cluster
            )

        def private(frame: Frame) -> None:
            frame[slot] = fresh()

        def shared(frame: Frame) -> None:
            if slot not in frame[SHARED]:
                for memory in frame[CLUSTER]:
                    memory[slot] = fresh()
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

        def run_all(frame: Frame) -> Generator[Step, None, None]:
            for step in steps:
                yield from step(frame)

        return run_all

    def _steps(self, stmt: Stmt) -> Steps:
        if isinstance(stmt, Barrier):
            return meeting(stmt, self.parties * self.kernel.cluster)
        if isinstance(stmt, Channel) and stmt.step is ChannelStep.ACQUIRE:
            return acquiring(self.expressions, stmt, self._channel(stmt), self._releasing.get(stmt.channel.array, 0))
        if isinstance(stmt, Channel) and stmt.step is ChannelStep.RECEIVE:
            return receiving(self.expressions, stmt, self._channel(stmt))
        if isinstance(stmt, Exchange):
            return trading(self.expressions, stmt, self.kernel)
        if isinstance(stmt, Vote):
            return voting(self.expressions, stmt, self.kernel)
        if isinstance(stmt, Arrive):
            return arriving(self.expressions, stmt)
        if isinstance(stmt, Await):
            return awaiting(self.expressions, stmt)
        if isinstance(stmt, MatrixMultiply) and waits(stmt):
            return exchanging(self.expressions, stmt, self.kernel)
        if isinstance(stmt, For | If) and any(map(waits, statements((stmt,)))):
            return self._stepped_loop(stmt) if isinstance(stmt, For) else self._stepped_branch(stmt)
        return _at_once(self._action(stmt))

    def _stepped_loop(self, loop: For) -> Steps:
        slot, step = self.expressions.slot(loop.counter.name), loop.step
        begin, end = self.expressions.evaluator(loop.begin), self.expressions.evaluator(loop.end)
        body = self.stepped_body(loop.body)

        def iterate(frame: Frame) -> Generator[Step, None, None]:
            for value in range(begin(frame), end(frame), step):
                frame[slot] = value
                yield from body(frame)

        return iterate

    def _stepped_branch(self, stmt: If) -> Steps:
        condition = self.expressions.evaluator(stmt.condition)
        then, otherwise = self.stepped_body(stmt.then), self.stepped_body(stmt.otherwise)
        return lambda frame: (then if condition(frame) else otherwise)(frame)


def _at_once(action: Action) -> Steps:
    def run(frame: Frame) -> Generator[Step, None, None]:
        action(frame)
        yield from ()

    return run
