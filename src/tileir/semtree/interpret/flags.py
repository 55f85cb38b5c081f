"""Flags, for the interpreter: groups that arrive at them, and that wait for others."""

from __future__ import annotations

from collections.abc import Generator

from tileir.core.errors import fail
from tileir.semtree.interpret.evaluation import AGENT, SHARED, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import Step, Steps, Waiting
from tileir.semtree.interpret.memory import Agent, Memory
from tileir.semtree.interpret.orders import Order
from tileir.semtree.ir import Arrive, Await


def arriving(expressions: ExpressionCompiler, stmt: Arrive) -> Steps:
    """Return the generator that lets a group arrive at a flag, when all its threads have come."""
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
        yield Waiting(stmt, lambda: bool(memory.data[place] >= least))
        if frame[AGENT].thread == 0:
            _learn(frame[AGENT], memory, place)
            frame[SHARED][stmt] = place, least
        yield stmt
        _check_same(expressions.kernel, stmt, frame[SHARED][stmt], (place, least))

    return wait


def _flag(frame: Frame, slot: int, place: int, kernel: str) -> tuple[Memory, int]:
    """Return the memory of a flag, and where it is there."""
    memory: Memory = frame[slot]
    if not 0 <= place < len(memory.data):
        raise memory.outside(kernel, place, place)
    return memory, place


def _learn(agent: Agent, memory: Memory, place: int) -> Order:
    """Read a flag, and let the group know what those do that have arrived there."""
    assert agent.order is not None
    agent.order.learns(memory.arrivals.get(place, {}))
    agent.known[agent.party] = agent.time
    memory.reads(place, agent)
    return agent.order


def _check_same(kernel: str, stmt: Arrive | Await, first: object, own: object) -> None:
    if first != own:
        word = type(stmt).__name__.lower()
        raise fail("TIL555", f"kernel {kernel!r}: threads of a group {word} different flags of {stmt.flag.array!r}")
