"""Elementwise arithmetic, comparisons and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import common, wide
from tileir_torch.rows.table import row

Operation = Callable[..., Any]

_HALF: Final = 0.5


def _in_dtype(call: Call, *values: Any) -> list[Any]:
    """Return operands in the dtype of the computation, if that is the one of the result.

    Tensors of rank 0 may have more bits than that: they are rounded first, as in eager.
    """
    return [call.operand(_rounded_to(call.dtype, value), wide(call.dtype)) for value in values]


def _rounded_to(dtype: DType, value: Any) -> Any:
    is_wider = isinstance(value, Tensor) and value.dtype.is_float and dtype.is_float and value.dtype.bits > dtype.bits
    return ops.cast(value, dtype) if is_wider else value


def _with_exact(call: Call, x: Any, y: Any) -> tuple[Any, Any]:
    """Return operands of a product or quotient, whose second operand eager does not round."""
    return _in_dtype(call, x)[0], call.operand(y, wide(call.dtype))


def _mapped(function: Operation, call: Call, x: Any) -> Any:
    return function(*_in_dtype(call, x))


def _sign(x: Tensor) -> Tensor:
    if x.dtype.is_bool:
        return x
    return ops.cast(x > 0, x.dtype) - ops.cast(x < 0, x.dtype)


def _rounded(function: Operation) -> Operation:
    def rounded(x: Tensor) -> Tensor:
        return function(x) if x.dtype.is_float else x

    return rounded


_UNARY: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        **{name: getattr(ops, name) for name in ("acosh", "asin", "asinh", "atan", "atanh", "acos", "cos", "cosh")},
        **{name: getattr(ops, name) for name in ("erf", "erfc", "exp", "exp2", "expm1", "log", "log10", "log1p")},
        **{name: getattr(ops, name) for name in ("log2", "rsqrt", "sigmoid", "sin", "sinh", "sinc", "sqrt", "tan")},
        **{name: getattr(ops, name) for name in ("tanh", "deg2rad", "rad2deg", "frac")},
        **{name: _rounded(getattr(ops, name)) for name in ("ceil", "floor", "trunc", "round")},
        "sign": _sign,
        "sgn": _sign,
        "reciprocal": lambda x: 1 / x,
        "square": lambda x: x * x,
    }
)
"""Functions of one tensor computed in the dtype of the result."""

for _name, _function in _UNARY.items():
    row(f"{_name}.default", f"special_{_name}.default")(partial(_mapped, _function))


@row("abs.default")
def absolute(call: Call, x: Tensor) -> Tensor:
    return x if x.dtype.is_bool else ops.abs(x)


@row("neg.default")
def negative(call: Call, x: Tensor) -> Tensor:
    return -x


@row("round.decimals")
def round_to_decimals(call: Call, x: Tensor, *, decimals: int = 0) -> Tensor:
    if not x.dtype.is_float:
        if decimals < 0:
            raise call.refuse("integers are rounded to powers of ten")
        return x
    ten = 10.0 ** abs(decimals)
    y = ops.cast(x, wide(x.dtype))
    return ops.round(y * ten) / ten if decimals > 0 else ops.round(y / ten) * ten if decimals else ops.round(y)


@row("positive.default", "alias.default", "detach.default", "lift_fresh_copy.default", "lift_fresh.default")
@row("alias_copy.default", "lift.default", "detach_copy.default", "view_as_real_copy.default", "resolve_conj.default")
def same(call: Call, x: Tensor) -> Tensor:
    return x


@row("isnan.default")
def is_nan(call: Call, x: Tensor) -> Tensor:
    return x != x if x.dtype.is_float else call.full(False, call.sizes, DType.BOOL)


@row("isinf.default")
def is_infinite(call: Call, x: Tensor) -> Tensor:
    if not x.dtype.is_float:
        return call.full(False, call.sizes, DType.BOOL)
    return ops.isinf(ops.cast(x, wide(x.dtype)))


@row("isfinite.default")
def is_finite(call: Call, x: Tensor) -> Tensor:
    if not x.dtype.is_float:
        return call.full(True, call.sizes, DType.BOOL)
    return ops.isfinite(ops.cast(x, wide(x.dtype)))


@row("isposinf.default")
def is_positive_infinity(call: Call, x: Tensor) -> Tensor:
    return x == call.number(np.inf, x.dtype) if x.dtype.is_float else call.full(False, call.sizes, DType.BOOL)


@row("isneginf.default")
def is_negative_infinity(call: Call, x: Tensor) -> Tensor:
    return x == call.number(-np.inf, x.dtype) if x.dtype.is_float else call.full(False, call.sizes, DType.BOOL)


@row("signbit.default")
def sign_bit(call: Call, x: Tensor) -> Tensor:
    return call.full(False, call.sizes, DType.BOOL) if x.dtype.is_bool else _has_sign(x)


def _has_sign(x: Tensor) -> Tensor:
    """Return whether the sign bit of each element is set, also for zeros and NaN."""
    return (ops.bit_cast(x, f"i{x.dtype.bits}") if x.dtype.is_float else x) < 0


def _with_sign(x: Any, y: Any) -> Any:
    """Return the magnitude of ``x`` with the sign of ``y``, of which one is a tensor."""
    if not isinstance(y, Tensor):
        return ops.copysign(x, math.copysign(1, y))
    magnitude = ops.abs(x) if isinstance(x, Tensor) else ops.full_like(y, abs(x))
    return ops.where(_has_sign(y), -magnitude, magnitude)


@row("bitwise_not.default")
def inverted(call: Call, x: Tensor) -> Tensor:
    return ops.logical_not(x) if x.dtype.is_bool else ~x


@row("logical_not.default")
def logical_not(call: Call, x: Tensor) -> Tensor:
    return x == 0 if not x.dtype.is_bool else ops.logical_not(x)


@row("add.Tensor", "add.Scalar")
def add(call: Call, x: Any, y: Any, alpha: Any = 1, **named: Any) -> Any:
    alpha = named.get("alpha", alpha)
    x, y = _in_dtype(call, x, y)
    if call.dtype.is_bool:
        return x | y if alpha else x
    return x + (y if alpha == 1 else y * call.number(alpha, wide(call.dtype)))


@row("sub.Tensor", "sub.Scalar")
def subtract(call: Call, x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = _in_dtype(call, x, y)
    return x - (y if alpha == 1 else y * call.number(alpha, wide(call.dtype)))


@row("rsub.Tensor", "rsub.Scalar")
def subtract_from(call: Call, x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = _in_dtype(call, x, y)
    return y - (x if alpha == 1 else x * call.number(alpha, wide(call.dtype)))


@row("mul.Tensor", "mul.Scalar")
def multiply(call: Call, x: Any, y: Any) -> Any:
    x, y = _with_exact(call, x, y)
    return x & y if call.dtype.is_bool else x * y


@row("div.Tensor", "div.Scalar", "true_divide.Tensor")
def divide(call: Call, x: Any, y: Any) -> Any:
    x, y = _with_exact(call, x, y)
    return x / y


@row("div.Tensor_mode", "div.Scalar_mode")
def divide_rounding(call: Call, x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    x, y = _in_dtype(call, x, y)
    if rounding_mode is None:
        return x / y
    if rounding_mode == "trunc":
        return ops.trunc(x / y) if call.dtype.is_float else x / y
    return _floored(call, x, y) if call.dtype.is_float else ops.floor_divide(x, y)


def _floored(call: Call, x: Any, y: Any) -> Any:
    """Return the quotient rounded down like PyTorch: exactly, but for infinities like the rounded quotient."""
    rest = ops.fmod(x, y)
    quotient = (x - rest) / y
    quotient = ops.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    nearest = ops.floor(quotient)
    nearest = ops.where(quotient - nearest > _HALF, nearest + 1, nearest)
    whole = ops.where(quotient == 0, _with_sign(0 * quotient, x / y), nearest)
    return ops.where(y == 0, x / y, whole)


@row("floor_divide.default", "floor_divide.Scalar")
def floor_divide(call: Call, x: Any, y: Any) -> Any:
    return divide_rounding(call, x, y, rounding_mode="floor")


@row("fmod.Tensor", "fmod.Scalar")
def remainder_of_truncated(call: Call, x: Any, y: Any) -> Any:
    return ops.fmod(*_in_dtype(call, x, y))


@row("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(call: Call, x: Any, y: Any) -> Any:
    return ops.remainder(*_in_dtype(call, x, y))


@row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(call: Call, x: Any, y: Any) -> Any:
    if not isinstance(y, Tensor) and y in _POWERS and call.dtype.is_float:
        return _POWERS[y](*_in_dtype(call, x))
    if not isinstance(y, Tensor) and not call.dtype.is_float and y == 2:
        return _in_dtype(call, x)[0] * _in_dtype(call, x)[0]
    if call.dtype.is_bool:
        raise call.refuse("powers of truth values")
    x, y = _in_dtype(call, x, y)
    if not call.dtype.is_float:
        return _integer_power(call, x, y)
    return ops.pow(x, y)


def _integer_power(call: Call, x: Any, y: Any) -> Any:
    """Return a power of integers by repeated squaring, wrapping like PyTorch's; 0, 1 or -1 for negative exponents."""
    if not isinstance(y, Tensor):
        result = ops.full_like(x, 1)
        for digit in f"{y:b}":
            result = result * result * x if digit == "1" else result * result
        return result
    result = ops.full_like(x * 0 + y * 0, 1)
    base, square, rest = result * x, result * x, result * y
    for _ in range(call.dtype.bits - call.dtype.is_signed):
        result = ops.where((rest & 1) != 0, result * square, result)
        square, rest = square * square, ops.cast(rest, call.dtype) >> 1
    if not call.dtype.is_signed:
        return result
    one, sign = ops.full_like(result, 1), 1 - 2 * (y & 1)
    negative = ops.where(base == 1, one, ops.where(base == -1, sign, one * 0))
    return ops.where(one * y < 0, ops.cast(negative, call.dtype), result)


_POWERS: Final[Mapping[Any, Operation]] = MappingProxyType(
    {
        0.5: ops.sqrt,
        -0.5: ops.rsqrt,
        1: lambda x: x,
        2: lambda x: x * x,
        3: lambda x: x * x * x,
        -1: lambda x: 1 / x,
        -2: lambda x: 1 / (x * x),
    }
)
"""Powers without a function call, as in PyTorch."""


@row("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def power_of_floats(call: Call, x: Any, y: Any) -> Any:
    return ops.pow(*_in_dtype(call, x, y))


def _compared(function: Operation, call: Call, x: Any, y: Any) -> Any:
    dtype = common(call, 0, 1)
    return function(call.operand(x, dtype), call.operand(y, dtype))


_COMPARED: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
    }
)
"""Comparisons, in the common dtype of both operands."""

for _name, _function in _COMPARED.items():
    row(f"{_name}.Tensor", f"{_name}.Scalar")(partial(_compared, _function))


def _bitwise(function: Operation, call: Call, x: Any, y: Any) -> Any:
    return function(*[call.operand(value, call.dtype) for value in (x, y)])


for _name, _function in {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}.items():
    row(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor")(
        partial(_bitwise, _function)
    )
    row(f"__{_name}__.Tensor", f"__{_name}__.Scalar")(partial(_bitwise, _function))


def _logical(function: Operation, call: Call, x: Tensor, y: Tensor) -> Any:
    return function(x != 0 if not x.dtype.is_bool else x, y != 0 if not y.dtype.is_bool else y)


for _name, _function in {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}.items():
    row(f"logical_{_name}.default")(partial(_logical, _function))


@row("maximum.default", "max.other")
def maximum(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.operand(each, call.dtype) for each in (x, y))
    return x | y if call.dtype.is_bool else ops.maximum(x, y)


@row("minimum.default", "min.other")
def minimum(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.operand(each, call.dtype) for each in (x, y))
    return x & y if call.dtype.is_bool else ops.minimum(x, y)


@row("fmax.default")
def maximum_of_numbers(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.operand(each, call.dtype) for each in (x, y))
    if not call.dtype.is_float:
        return maximum(call, x, y)
    return ops.where(x != x, y, ops.where(y != y, x, ops.maximum(x, y)))


@row("fmin.default")
def minimum_of_numbers(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.operand(each, call.dtype) for each in (x, y))
    if not call.dtype.is_float:
        return minimum(call, x, y)
    return ops.where(x != x, y, ops.where(y != y, x, ops.minimum(x, y)))


@row("clamp.default", "clamp.Tensor")
def clamp(call: Call, x: Tensor, low: Any = None, high: Any = None, **named: Any) -> Any:
    low, high = named.get("min", low), named.get("max", high)
    dtype = call.dtype
    x = call.operand(x, dtype)
    if low is not None:
        x = ops.maximum(x, call.operand(low, dtype))
    if high is not None:
        x = ops.minimum(x, call.operand(high, dtype))
    return x


@row("clamp_min.default", "clamp_min.Tensor")
def clamp_min(call: Call, x: Tensor, low: Any) -> Any:
    return clamp(call, x, low)


@row("clamp_max.default", "clamp_max.Tensor")
def clamp_max(call: Call, x: Tensor, high: Any) -> Any:
    return clamp(call, x, None, high)


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(call: Call, condition: Tensor, x: Any, y: Any) -> Any:
    return ops.where(condition, call.operand(x, call.dtype), call.operand(y, call.dtype))


@row("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call, x: Tensor, mask: Tensor, value: Any) -> Any:
    return ops.where(mask, call.operand(value, x.dtype), x)


@row("atan2.default", "atan2.out")
def atan2(call: Call, y: Tensor, x: Tensor) -> Tensor:
    y, x = _in_dtype(call, y, x)
    angle = ops.where((y == 0) & (x == 0) & _has_sign(x), math.pi, ops.atan2(y, x))
    return ops.where((y == 0) & _has_sign(y), -angle, angle)


@row("copysign.Tensor", "copysign.Scalar")
def copysign(call: Call, x: Any, y: Any) -> Tensor:
    return _with_sign(*_in_dtype(call, x, y))


for _name in ("hypot", "logaddexp", "heaviside", "xlogy"):
    _overloads = (f"{_name}.default", f"{_name}.Tensor", f"{_name}.Scalar_Self", f"{_name}.Scalar_Other")
    row(*_overloads, f"{_name}.Scalar")(
        partial(lambda function, call, x, y: function(*_in_dtype(call, x, y)), getattr(ops, _name))
    )


@row("lerp.Scalar", "lerp.Tensor")
def lerp(call: Call, x: Tensor, y: Tensor, weight: Any) -> Any:
    x, y, weight = _in_dtype(call, x, y, weight)
    if isinstance(weight, Tensor):
        return ops.where(ops.abs(weight) < _HALF, x + weight * (y - x), y - (y - x) * (1 - weight))
    return x + weight * (y - x) if abs(weight) < _HALF else y - (y - x) * (1 - weight)


@row("addcmul.default")
def add_product(call: Call, x: Tensor, y: Tensor, z: Tensor, *, value: Any = 1) -> Any:
    x, y, z = _in_dtype(call, x, y, z)
    return x + (y * z if value == 1 else call.number(value, wide(call.dtype)) * y * z)


@row("addcdiv.default")
def add_quotient(call: Call, x: Tensor, y: Tensor, z: Tensor, *, value: Any = 1) -> Any:
    x, y, z = _in_dtype(call, x, y, z)
    return x + call.number(value, wide(call.dtype)) * (y / z)


@row("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default")
def to_dtype(call: Call, x: Tensor, *_: Any, **__: Any) -> Any:
    if x.dtype.is_float and call.dtype.bits == 8 and not (call.dtype.is_float or call.dtype.is_bool):
        x = ops.cast(x, DType.I32)  # as PyTorch does on processors
    return x if x.dtype is call.dtype else ops.cast(x, call.dtype)


@row("prims.convert_element_type.default")
def convert_element_type(call: Call, x: Tensor, dtype: Any) -> Any:
    return ops.cast(x, call.dtype)


@row("nan_to_num.default")
def nan_to_num(call: Call, x: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not x.dtype.is_float:
        return x
    limits = np.finfo(x.dtype.numpy) if x.dtype is not DType.BF16 else None
    most = 3.3895313892515355e38 if limits is None else float(limits.max)
    values = [0.0 if nan is None else nan, most if posinf is None else posinf, -most if neginf is None else neginf]
    zero, above, below = (call.tensor(np.array(each, x.dtype.numpy)) for each in values)
    y = ops.where(x != x, zero, x)
    y = ops.where(x == call.number(np.inf, x.dtype), above, y)
    return ops.where(x == call.number(-np.inf, x.dtype), below, y)


for _name, _function in {"left": lambda x, y: x << y, "right": lambda x, y: x >> y}.items():
    row(
        *(f"bitwise_{_name}_shift.{_kind}" for _kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{_name[0]}shift__.{_kind}" for _kind in ("Tensor", "Scalar")),
    )(partial(_bitwise, _function))


@row("clone.default", "contiguous.default")
def clone(call: Call, x: Tensor, **_: Any) -> Any:
    return x


@row("copy.default")
def copied(call: Call, x: Tensor, source: Tensor, *_: Any) -> Any:
    return ops.broadcast_to(ops.cast(source, x.dtype), *call.sizes) if x.rank else ops.cast(source, x.dtype)


@row("ldexp.Tensor")
def load_exponent(call: Call, x: Tensor, y: Tensor) -> Any:
    x, y = _in_dtype(call, x, y)
    return x * ops.pow(ops.full_like(y, 2), y)


@row("dist.default")
def distance(call: Call, x: Tensor, y: Tensor, p: Any = 2) -> Any:
    difference = call.operand(x, wide(call.dtype)) - call.operand(y, wide(call.dtype))
    return ops.norm(difference, order=float(p)) if difference.rank else ops.abs(difference)


@row("nextafter.default")
def next_after(call: Call, x: Tensor, y: Tensor) -> Any:
    """Return the next number from x towards y, whose bits are an integer more or less."""
    x, y = (call.operand(each, call.dtype) for each in (x, y))
    integer = _INTEGERS[call.dtype.bits]
    bits = ops.bit_cast(x, integer)
    moved = ops.bit_cast(ops.where((y > x) == (x > 0), bits + 1, bits - 1), call.dtype)
    least = ops.bit_cast(ops.full_like(bits, 1), call.dtype)
    moved = ops.where(x == 0, ops.where(y < 0, -least, least), moved)
    return ops.where(x == y, y, ops.where((x != x) | (y != y), x + y, moved))


@row("frexp.Tensor")
def mantissa_and_exponent(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mantissa in [1/2, 1), with the sign of x, and the exponent of its power of two."""
    y = ops.cast(x, wide(x.dtype))
    integer, digits, bias = (DType.I64, 52, 1022) if y.dtype is DType.F64 else (DType.I32, 23, 126)
    shift = digits + 2
    tiny = ops.abs(y) < np.finfo(y.dtype.numpy).tiny
    bits = ops.bit_cast(ops.where(tiny, y * 2.0**shift, y), integer)
    exponent = ((bits >> digits) & (2 * bias + 3)) - bias
    mantissa = ops.bit_cast((bits & ~((2 * bias + 3) << digits)) | (bias << digits), y.dtype)
    whole = (y == 0) | (y != y) | (ops.abs(y) == np.inf)
    exponent = ops.where(tiny, exponent - shift, exponent)
    return ops.where(whole, y, mantissa), ops.where(whole, 0, exponent)


_INTEGERS: Final = MappingProxyType({16: DType.I16, 32: DType.I32, 64: DType.I64})


@row("gcd.default")
def greatest_common_divisor(call: Call, x: Tensor, y: Tensor) -> Any:
    return ops.gcd(call.operand(x, call.dtype), call.operand(y, call.dtype))


@row("lcm.default")
def least_common_multiple(call: Call, x: Tensor, y: Tensor) -> Any:
    return ops.lcm(call.operand(x, call.dtype), call.operand(y, call.dtype))


@row("angle.default")
def angle(call: Call, x: Tensor) -> Any:
    y = call.operand(x, wide(call.dtype))
    return ops.where(y != y, y, ops.where(y < 0, call.number(np.pi, y.dtype), ops.full_like(y, 0)))
