"""Expressions compiled to Python closures, for the interpreter.

Trees become Python source text, so that one function computes a whole tree without a call for each operator. Variables,
constants and functions are parameters of the text: trees of one form, such as the offsets of an unrolled kernel, share
the compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

import attrs
import numpy as np

from tileir.core import DType, Op
from tileir.core.numbers.number_system import NumberSystem
from tileir.semtree.dots import plain_dot
from tileir.semtree.interpret.memory import Memory
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

DEEPEST: Final = 24
"""Maximum nesting of operators in one text: Python refuses a hundred brackets."""
_RING: Final[Mapping[Op, str]] = MappingProxyType({Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"})
"""Operators whose results modulo the range of a dtype follow from operands modulo that range."""
_COMPARISONS: Final[Mapping[Op, str]] = MappingProxyType(
    {Op.CMP_EQ: "==", Op.CMP_NE: "!=", Op.CMP_LT: "<", Op.CMP_LE: "<=", Op.CMP_GT: ">", Op.CMP_GE: ">="}
)
_BITS: Final[Mapping[Op, str]] = MappingProxyType({Op.BIT_AND: "&", Op.BIT_OR: "|", Op.BIT_XOR: "^"})
_DIVISIONS: Final[Mapping[Op, str]] = MappingProxyType({Op.DIV: "//", Op.MOD: "%"})


@attrs.define(eq=False, repr=False)
class OperatorTree:
    """The text of one expression, and the values of its parameters.

    Attributes:
        slot: The place of a variable or coordinate in a frame.
        function: Returns the function of an operation or a conversion without a Python operator.
        evaluator: The closure that computes any other expression in a frame.
    """

    slot: Callable[[Var | GridIndex], int]
    function: Callable[[Apply | Cast], Callable[..., Any]]
    evaluator: Callable[[Expr], Callable[[Any], Any]]
    _values: list[Any] = attrs.field(factory=list, init=False)
    _names: int = attrs.field(default=0, init=False)

    def closure(self, expr: Apply | Cast) -> Callable[[Any], Any]:
        """Return the function that computes ``expr`` in a frame."""
        text = self._whole(expr, 0)
        function: Callable[[Any], Any] = _maker(text, len(self._values))(*self._values)
        return function

    def _whole(self, expr: Expr, depth: int) -> str:
        """Return the text of a value within the range of its dtype."""
        text, within = self._text(expr, depth)
        if within:
            return text
        name, dtype = self._name(), expr.type.dtype
        wrapped = f"{self._held(_wrapper(dtype))}({name})"
        return f"({name} if {dtype.minimum} <= ({name} := {text}) <= {dtype.maximum} else {wrapped})"

    def _text(self, expr: Expr, depth: int) -> tuple[str, bool]:
        """Return the text of an expression, and False if a scalar integer may be outside its dtype's range."""
        match expr:
            case Const():
                return self._held(self.evaluator(expr)(None)), True
            case Var() | GridIndex():
                return f"f[{self._held(self.slot(expr))}]", True
            case Apply() | Cast() if depth < DEEPEST:
                return self.inlined(expr, depth + 1) or (self._called(expr, depth + 1), True)
            case _:
                return f"{self._held(self.evaluator(expr))}(f)", True

    def _called(self, expr: Apply | Cast, depth: int) -> str:
        operands = (expr.operand,) if isinstance(expr, Cast) else expr.args
        texts = [self._whole(operand, depth) for operand in operands]
        return f"{self._held(self.function(expr))}({', '.join(texts)})"

    def inlined(self, expr: Apply | Cast, depth: int) -> tuple[str, bool] | None:
        """Return :meth:`_text` for expressions with Python operators; None for anything else."""
        operand = expr.operand if isinstance(expr, Cast) else expr.args[-1]
        if operand.type.lanes > 1 or operand.type.dtype.is_float:
            return None
        if isinstance(expr, Cast):
            return self._cast(expr, depth)
        if operand.type.dtype.is_integer and expr.op in _RING:
            left, right = (self._text(arg, depth)[0] for arg in expr.args)
            return f"({left} {_RING[expr.op]} {right})", False
        if expr.op in _COMPARISONS or expr.op in _BITS:
            left, right = (self._whole(arg, depth) for arg in expr.args)
            return f"({left} {(_COMPARISONS.get(expr.op) or _BITS[expr.op])} {right})", True
        if expr.op in _DIVISIONS and isinstance(operand, Const) and operand.value > 0:
            return self._divided(_DIVISIONS[expr.op], expr.args[0], operand, depth), True
        return None

    def _divided(self, sign: str, dividend: Expr, divisor: Const, depth: int) -> str:
        """Return the text of a truncating division; Python's rounds down."""
        name, text, by = self._name(), self._whole(dividend, depth), self._held(divisor.value)
        return f"({name} {sign} {by} if ({name} := {text}) >= 0 else -(-{name} {sign} {by}))"

    def _cast(self, expr: Cast, depth: int) -> tuple[str, bool] | None:
        source, target = expr.operand.type.dtype, expr.type.dtype
        if not (source.is_integer and target.is_integer):
            return None
        if target.bits <= source.bits:  # the remaining bits depend on no others
            text, within = self._text(expr.operand, depth)
            return text, within and source is target
        return self._whole(expr.operand, depth), target.minimum < 0 or source.minimum == 0

    def _held(self, value: Any) -> str:
        """Return the name of a parameter."""
        self._values.append(value)
        return f"p{len(self._values) - 1}"

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"


@lru_cache(maxsize=4096)
def _maker(text: str, parameters: int) -> Callable[..., Any]:
    """Return a function from parameter values to closures of one form."""
    names = ", ".join(f"p{number}" for number in range(parameters))
    maker: Callable[..., Any] = eval(f"lambda {names}: lambda f: {text}", {"__builtins__": {}})
    return maker


@lru_cache
def _wrapper(dtype: DType) -> Callable[[int], int]:
    return lambda value: wrap(value, dtype)


Frame: TypeAlias = list[Any]
"""The state of one thread: its coordinates, then a slot for each name of the kernel."""

Evaluator: TypeAlias = "Callable[[Frame], Value]"

AGENT: Final = 6
SHARED: Final = 7
COPIES: Final = 8
"""Groups of pending asynchronous copies, the open one last."""
STEPS: Final = 9
"""Steps of the thread with each channel, by the channel's slot."""
CLUSTER: Final = 10
"""State shared by the threads of each group of the cluster, by the group's place there."""
FIRST_FREE: Final = 11
_COORDINATES: Final = {GridLevel.GROUP: 0, GridLevel.LOCAL: 3}


@attrs.define(eq=False, repr=False)
class ExpressionCompiler:
    """Compiler of the expressions of one kernel.

    Attributes:
        kernel: The kernel's name, for messages.
        watched: Whether accesses are recorded, for :class:`tileir.semtree.interpret.memory.WatchedMemory`.
        numbers: The number system.
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
