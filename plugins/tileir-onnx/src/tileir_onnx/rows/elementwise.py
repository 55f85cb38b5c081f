"""Elementwise operators: arithmetic, comparisons, logic, bits, and changes of dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np
from onnx import TensorProto

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.narrow import NARROW
from tileir_onnx.rows.arguments import aligned, like, number, wide
from tileir_onnx.rows.table import row

_UNARY: Final[Mapping[str, Callable[..., Tensor]]] = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "BitwiseNot": operator.invert,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "IsNaN": ops.isnan,
    "Log": ops.log,
    "Neg": operator.neg,
    "Not": ops.logical_not,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
}

_BINARY: Final[Mapping[str, Callable[..., Tensor]]] = {
    "Add": operator.add,
    "And": ops.logical_and,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
    "Div": operator.truediv,
    "Equal": ops.equal,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
    "Mul": operator.mul,
    "Or": ops.logical_or,
    "Sub": operator.sub,
    "Xor": ops.logical_xor,
}

_BOOLEAN: Final = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
)
"""Operators with bool results for any inputs."""

_VARIADIC: Final[Mapping[str, Callable[..., Tensor]]] = {"Max": ops.maximum, "Min": ops.minimum, "Sum": operator.add}


def _entered(name: str, function: Callable[..., Tensor], binary: bool) -> None:
    """Enter the rows of a function of one or two tensors; those of opset 1 name inputs to reuse, which is ignored."""

    def result(x: Tensor, *others: Tensor) -> Tensor:
        return function(x, *others) if name in _BOOLEAN else like(function(x, *others), x)

    def unary(call: Call, x: Tensor, *, consumed_inputs: Sequence[int] = ()) -> Tensor:
        return result(x)

    def old(
        call: Call,
        x: Tensor,
        y: Tensor,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: Sequence[int] = (),
    ) -> Tensor:
        return result(x, aligned(x, y, axis))

    if binary:
        row(name, until=7)(old)
        row(name, since=7)(lambda _, x, y: result(x, y))
    else:
        row(name)(unary)


for _name, _function in _UNARY.items():
    _entered(_name, _function, binary=False)
for _name, _function in _BINARY.items():
    _entered(_name, _function, binary=True)


def _variadic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def apply(call: Call, *parts: Tensor, consumed_inputs: Sequence[int] = ()) -> Tensor:
        return like(reduce(function, parts), parts[0])

    return apply


for _name, _function in _VARIADIC.items():
    row(_name)(_variadic(_function))


@row("Mean")
def mean(call: Call, *parts: Tensor, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return like(reduce(operator.add, map(wide, parts)) / len(parts), parts[0])


@row("Pow", until=7)
def pow_before_7(call: Call, x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    return like(ops.pow(x, aligned(x, y, axis)), x)


@row("Pow", since=7)
def power(call: Call, x: Tensor, y: Tensor) -> Tensor:
    exponent = number(call, 1, y) if call.known(1) is not None and not y.rank else y
    if x.dtype.is_float or not y.dtype.is_float:
        base = wide(x)
        return like(ops.pow(base, exponent if not isinstance(exponent, Tensor) else like(exponent, base)), x)
    return like(ops.pow(ops.cast(x, DType.F64), exponent), x)


@row("Mod")
def mod(call: Call, x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    return like(ops.fmod(x, y) if fmod else ops.remainder(x, y), x)


@row("BitShift")
def bit_shift(call: Call, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Shift bits; shifts by the width of the dtype or more give 0, or the sign for shifts to the right."""
    last = x.dtype.bits - 1
    if direction == "LEFT":
        return like(ops.where(y > last, 0, x << y), x)
    shifted = like(x >> like(ops.minimum(y, last), y), x)
    return shifted if x.dtype.is_signed else like(ops.where(y > last, 0, shifted), x)


@row("Clip", until=11)
def clip_before_11(
    call: Call,
    x: Tensor,
    *,
    min: float | None = None,  # noqa: A002  ONNX's name
    max: float | None = None,  # noqa: A002
    consumed_inputs: Sequence[int] = (),
) -> Tensor:
    return x if min is None and max is None else like(ops.clip(x, min, max), x)


@row("Clip", since=11)
def clip(call: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is None and high is None:
        return x
    return like(ops.clip(x, number(call, 1, low), number(call, 2, high)), x)


@row("Where")
def where(call: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return like(ops.where(condition, x, y), x)


@row("IsInf")
def is_inf(call: Call, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = ops.isinf(x)
    if not detect_negative:
        found = ops.logical_and(found, x > 0)
    return found if detect_positive else ops.logical_and(found, x < 0)


@row("Cast")
def cast(call: Call, x: Tensor, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Convert elements; ``round_mode`` is for f8e8m0, and ``to`` was a text in opset 1."""
    number = TensorProto.DataType.Value(to) if isinstance(to, str) else to
    return _narrowed(call, x, number) if number in NARROW else _cast(_widened(call, x), call.dtype(number), saturate)


@row("CastLike")
def cast_like(call: Call, x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    kind = call.kind(1)
    return _cast(_widened(call, x), target.dtype, saturate) if kind is None else _narrowed(call, x, kind)


def _narrowed(call: Call, x: Tensor, kind: int) -> Tensor:
    """Convert elements to a narrow type."""
    return x if call.kind(0) == kind else call.of_kind(NARROW[kind].cast(x), kind)


def _widened(call: Call, x: Tensor) -> Tensor:
    """Return a tensor; one of a narrow type as an ordinary tensor."""
    return x if call.kind(0) is None else ops.cast(x, DType.F32 if x.dtype.is_float else DType.I32)


def _cast(x: Tensor, dtype: DType, saturate: int) -> Tensor:
    """Convert elements; only 8-bit floats saturate, or keep their infinities otherwise."""
    if x.dtype == dtype:
        return x
    return ops.cast(x, dtype, saturate=bool(saturate) and dtype.is_float and dtype.bits == np.iinfo(np.int8).bits)


@row("BitCast")
def bit_cast(call: Call, x: Tensor, *, to: int) -> Tensor:
    dtype = call.dtype(to)
    if x.dtype.is_bool:
        x = ops.cast(x, DType.U8)
    return ops.bit_cast(x, DType.U8) != 0 if dtype.is_bool else ops.bit_cast(x, dtype)
