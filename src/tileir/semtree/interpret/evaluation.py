"""Expressions compiled to Python closures, for the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, assert_never

import attrs
import numpy as np

from tileir.core.numbers.number_system import NumberSystem
from tileir.semtree.dots import plain_dot
from tileir.semtree.interpret.memory import Memory
from tileir.semtree.interpret.operator_trees import OperatorTree
from tileir.semtree.interpret.scalar_arithmetic import (
    Value,
    constant,
    conversion,
    operation,
    reduction,
    reinterpretation,
    wrap,
)
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Dot,
    Expr,
    GridIndex,
    GridLevel,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Var,
)

Frame: TypeAlias = list[Any]
"""The state of one thread: its coordinates, then a slot for each name of the kernel."""

Evaluator: TypeAlias = "Callable[[Frame], Value]"

AGENT: Final = 6
SHARED: Final = 7
COPIES: Final = 8
"""Groups of asynchronous copies that have not been waited for, the one that grows last."""
STEPS: Final = 9
"""What the thread has done with each channel, by the channel's slot."""
CLUSTER: Final = 10
"""What the threads of each group of the cluster share, by the group's place there."""
FIRST_FREE: Final = 11
_COORDINATES: Final = {GridLevel.GROUP: 0, GridLevel.LOCAL: 3}


@attrs.define(eq=False, repr=False)
class ExpressionCompiler:
    """Compiles the expressions of one kernel.

    Attributes:
        kernel: The kernel's name, for messages.
        watched: Whether accesses are noted, as :class:`tileir.semtree.interpret.memory.WatchedMemory` needs.
        numbers: What to compute with.

    """

    kernel: str
    watched: bool
    numbers: NumberSystem
    _slots: dict[str, int] = attrs.field(factory=dict, init=False)

    def slot(self, name: str) -> int:
        """Return the place of a variable or array in a frame."""
        return self._slots.setdefault(name, FIRST_FREE + len(self._slots))

    @property
    def frame_size(self) -> int:
        """Length of a frame for all names seen so far."""
        return FIRST_FREE + len(self._slots)

    def evaluator(self, expr: Expr) -> Evaluator:
        """Return the closure that computes ``expr`` in a frame."""
        match expr:
            case Const(value=value, type=kind):
                return _holder(constant(value, kind, self.numbers))
            case Var() | GridIndex():
                return _slot_reader(self._place(expr))
            case Apply() | Cast():
                return OperatorTree(self._place, self._function, self.evaluator).closure(expr)
            case Bitcast(operand=operand, type=kind):
                return _unary(reinterpretation(operand.type, kind.dtype), self.evaluator(operand))
            case Broadcast():
                return self._broadcast(expr)
            case Ramp():
                return self._ramp(expr)
            case Reduce(op=op, operand=operand):
                return _unary(reduction(op, operand.type, self.numbers), self.evaluator(operand))
            case Shuffle():
                return self._shuffle(expr)
            case Dot():
                return self.evaluator(plain_dot(expr))
            case Subscript():
                return self._load(expr)
            case _:
                assert_never(expr)

    def _place(self, expr: Var | GridIndex) -> int:
        return self.slot(expr.name) if isinstance(expr, Var) else _COORDINATES[expr.level] + expr.axis

    def _function(self, expr: Apply | Cast) -> Callable[..., Value]:
        if isinstance(expr, Cast):
            return conversion(expr.operand.type, expr.type.dtype, self.numbers)
        return operation(expr.op, expr.args[-1].type, self.numbers)

    def _broadcast(self, expr: Broadcast) -> Evaluator:
        operand, lanes, dtype = self.evaluator(expr.operand), expr.lanes, self.numbers.storage(expr.type.dtype)
        if lanes == 1:
            return operand
        return lambda frame: np.full(lanes, operand(frame), dtype)

    def _ramp(self, expr: Ramp) -> Evaluator:
        base, dtype = self.evaluator(expr.base), expr.type.dtype
        if expr.lanes == 1:
            return base
        steps = np.array([wrap(lane * expr.stride, dtype) for lane in range(expr.lanes)], dtype.numpy)
        scalar = dtype.numpy.type
        return lambda frame: steps + scalar(base(frame))

    def _shuffle(self, expr: Shuffle) -> Evaluator:
        operands = [self.evaluator(operand) for operand in expr.operands]
        kind = expr.operands[0].type
        dtype, plain = self.numbers.storage(kind.dtype), not kind.dtype.is_float
        places = np.array(expr.lanes)

        def lanes(frame: Frame) -> Value:
            joined = np.concatenate([np.atleast_1d(np.asarray(operand(frame), dtype)) for operand in operands])
            if len(places) > 1:
                return joined[places]
            return joined.item(places[0]) if plain else joined[places[0]]

        return lanes

    def _load(self, expr: Subscript) -> Evaluator:
        slot, offset = self.slot(expr.array), self.evaluator(expr.offset)
        lanes, watched, kernel = expr.type.lanes, self.watched, self.kernel
        plain = not expr.type.dtype.is_float

        def scalar(frame: Frame) -> Value:
            array: Memory = frame[slot]
            place = offset(frame)
            if not 0 <= place < len(array.data):
                raise array.outside(kernel, place, place)
            if watched:
                array.reads(place, frame[AGENT])
            return array.data.item(place) if plain else array.data[place]

        def neighbours(frame: Frame) -> Value:
            array: Memory = frame[slot]
            place = offset(frame)
            if not 0 <= place <= len(array.data) - lanes:
                raise array.outside(kernel, place, place + lanes - 1)
            if watched:
                array.reads(slice(place, place + lanes), frame[AGENT])
            return array.data[place : place + lanes].copy()

        def gather(frame: Frame) -> Value:
            array: Memory = frame[slot]
            places = offset(frame)
            array.check_span(kernel, places)
            if watched:
                array.reads(places, frame[AGENT])
            return array.data[places]

        if lanes == 1:
            return scalar
        return neighbours if expr.offset.type.lanes == 1 else gather

    def store(self, target: Subscript, value: Evaluator) -> Callable[[Frame], None]:
        """Return the closure that computes ``value`` and writes it to array elements."""
        slot, offset = self.slot(target.array), self.evaluator(target.offset)
        lanes, watched, kernel = target.type.lanes, self.watched, self.kernel

        def scalar(frame: Frame) -> None:
            array: Memory = frame[slot]
            place, new = offset(frame), value(frame)
            if not 0 <= place < len(array.data):
                raise array.outside(kernel, place, place)
            if watched:
                array.writes(place, frame[AGENT], new)
            array.data[place] = new

        def neighbours(frame: Frame) -> None:
            array: Memory = frame[slot]
            place, new = offset(frame), value(frame)
            if not 0 <= place <= len(array.data) - lanes:
                raise array.outside(kernel, place, place + lanes - 1)
            if watched:
                array.writes(slice(place, place + lanes), frame[AGENT], new)
            array.data[place : place + lanes] = new

        def scatter(frame: Frame) -> None:
            array: Memory = frame[slot]
            places, new = offset(frame), value(frame)
            array.check_span(kernel, places)
            if watched:
                array.writes(places, frame[AGENT], new)
            array.data[places] = new

        if lanes == 1:
            return scalar
        return neighbours if target.offset.type.lanes == 1 else scatter


def _holder(value: Value) -> Evaluator:
    return lambda _: value


def _slot_reader(slot: int) -> Evaluator:
    return lambda frame: frame[slot]


def _unary(function: Callable[[Value], Value], operand: Evaluator) -> Evaluator:
    return lambda frame: function(operand(frame))
