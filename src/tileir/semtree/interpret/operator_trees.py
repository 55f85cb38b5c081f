"""Expressions as text of Python, so that one function computes a whole tree and none is called for each operator.

The text of a tree says nothing of its variables, constants and functions, which are parameters: trees of one form, as
the offsets of a kernel that is unrolled, share what Python compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import attrs

from tileir.core import DType, Op
from tileir.semtree.interpret.scalar_arithmetic import wrap
from tileir.semtree.ir import Apply, Cast, Const, Expr, GridIndex, Var

DEEPEST: Final = 24
"""Operators within each other in one text: Python refuses a hundred brackets."""
_RING: Final[Mapping[Op, str]] = MappingProxyType({Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"})
"""Operators whose results modulo the range of a dtype are known from operands modulo that range."""
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
        function: What computes an operation or a conversion that has no operator of Python.
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
        """Return the text of an expression, and False where a scalar integer may lie outside of its dtype's range."""
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
        """Return the same as :meth:`_text` for what Python has operators for; None for anything else."""
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
        """Return the text of a division that truncates, where Python's rounds down."""
        name, text, by = self._name(), self._whole(dividend, depth), self._held(divisor.value)
        return f"({name} {sign} {by} if ({name} := {text}) >= 0 else -(-{name} {sign} {by}))"

    def _cast(self, expr: Cast, depth: int) -> tuple[str, bool] | None:
        source, target = expr.operand.type.dtype, expr.type.dtype
        if not (source.is_integer and target.is_integer):
            return None
        if target.bits <= source.bits:  # the bits that are kept need no others
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
    """Return what makes closures of one form from the values of their parameters."""
    names = ", ".join(f"p{number}" for number in range(parameters))
    maker: Callable[..., Any] = eval(f"lambda {names}: lambda f: {text}", {"__builtins__": {}})
    return maker


@lru_cache
def _wrapper(dtype: DType) -> Callable[[int], int]:
    return lambda value: wrap(value, dtype)
