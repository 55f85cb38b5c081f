"""Stores of boxes as Python closures, for the interpreter.

All threads of a group, or of a team of a role, come to the same stores, so that the first one makes it for all. What it
stores is read at once, and local elements count as being read until a wait and a barrier behind it.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from tileir.core.nodes import attrs
from tileir.semtree.interpret.evaluation import AGENT, SHARED, STEPS, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import Action
from tileir.semtree.interpret.memory import Agent, Memory, Stores
from tileir.semtree.ir import BulkStore, BulkWait
from tileir.semtree.swizzles import folded_place

_STORES: Final = "stores"
"""The key of what is known of stores, beside the slots of channels."""


@attrs.define(eq=False)
class _Own:
    """How many stores a thread has come to."""

    begun: int = 0


def _state(frame: Frame) -> tuple[Stores, _Own]:
    """Return the stores of the threads that run together, and the thread's own count."""
    party = frame[AGENT].party
    stores: Stores = frame[SHARED].setdefault((_STORES, party), Stores(party))
    own: _Own = frame[STEPS].setdefault(_STORES, _Own())
    return stores, own


def storing(expressions: ExpressionCompiler, stmt: BulkStore | BulkWait) -> Action:
    """Return the closure of a statement about stores of boxes."""
    return _waiting(stmt) if isinstance(stmt, BulkWait) else _storing(expressions, stmt)


def _storing(expressions: ExpressionCompiler, stmt: BulkStore) -> Action:
    """Return the closure that stores a box, once for all threads that come to it."""
    target, source = expressions.slot(stmt.target.array), expressions.slot(stmt.source.array)
    first, start = expressions.evaluator(stmt.target.offset), expressions.evaluator(stmt.source.offset)
    coordinates = [expressions.evaluator(each) for each in stmt.at]
    steps = np.array(list(product(*map(range, stmt.box))))

    def store(frame: Frame) -> None:
        stores, own = _state(frame)
        own.begun += 1
        if own.begun <= stores.begun:
            return
        stores.begun = own.begun
        agent: Agent = frame[AGENT]
        tensor: Memory = frame[target]
        local: Memory = frame[source]
        points = steps + np.array([each(frame) for each in coordinates])
        inside = np.all((points >= 0) & (points < np.array(stmt.extents)), axis=1)
        there = (points @ np.array(stmt.strides) + first(frame))[inside]
        here = folded_place(np.arange(len(points)) + start(frame), stmt.fold)
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
    """Return the closure that waits until stores have read local memory: others know so behind the next barrier."""

    def wait(frame: Frame) -> None:
        stores, own = _state(frame)
        stores.waited[frame[AGENT].clock.stretch] = own.begun - stmt.pending

    return wait
