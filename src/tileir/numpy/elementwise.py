"""Elementwise functions of NumPy and of the array API standard, on tensors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import tileir.ops as ops
from tileir.core import DType
from tileir.numpy.dispatch import OPERATORS, REFUSED, element_type, entered, named
from tileir.ops.shared.foundation import cast_to, floating, mistaken, promoted, tensor_of, wide, wide_together
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.tensors import Operand, Tensor, call, constant_of, divided as quotient


def known_dtype(x: Operand) -> DType | None:
    """Return the dtype of a tensor if it is known while the function is built."""
    return dtype_of(x.recorder, x.reference) if isinstance(x, Tensor) else None


def product(multiply: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a sum of products; for booleans, it is the disjunction of the terms."""

    @functools.wraps(multiply)
    def product(*operands: Any, **options: Any) -> Tensor:
        found = multiply(*operands, **options)
        tensors = [each for each in operands if isinstance(each, Tensor)]
        return cast_to(found, DType.BOOL) if all(known_dtype(each) is DType.BOOL for each in tensors) else found

    return product


@named("divide", "true_divide")
def divide(x: Operand, y: Operand) -> Tensor:
    """Return a quotient in floats: that of integers in f32, or f64 beside 64-bit integers."""
    kinds = [known_dtype(each) for each in (x, y)]
    if any(kind is not None and kind.is_float for kind in kinds) or any(isinstance(each, float) for each in (x, y)):
        return quotient(x, y)
    if isinstance(x, Tensor) and isinstance(y, Tensor) and kinds[0] is not kinds[1]:
        return quotient(*wide_together(x, y))
    return quotient(*(floating(each) if isinstance(each, Tensor) else each for each in (x, y)))


@named("power", "pow")
def power(x: Operand, exponent: Operand) -> Tensor:
    """Return powers; those of integers are exact, and wrap around as products do."""
    kind, other = (known_dtype(each) for each in (x, exponent))
    counts = isinstance(x, int) or (kind is not None and not kind.is_float)
    if counts and isinstance(exponent, Tensor) and other is not None and not other.is_float:
        return _integer_power(x, exponent, other)
    if kind is None or kind.is_float or not isinstance(exponent, int):
        return call("pow", x, exponent)
    if exponent < 0:
        raise mistaken("integers to negative powers are no integers; cast the base to a float")
    assert isinstance(x, Tensor)
    return _power(x, exponent)


def _power(x: Tensor, exponent: int) -> Tensor:
    """Multiply squares: as many products as the exponent has bits."""
    factors = []
    while exponent:
        if exponent & 1:
            factors.append(x)
        exponent >>= 1
        x = x * x if exponent else x
    return functools.reduce(operator.mul, factors) if factors else ops.ones_like(x)


def _integer_power(x: Operand, exponent: Tensor, kind: DType) -> Tensor:
    """Multiply the squares for the bits of exponents; for negative exponents, the result is 0."""
    square = promoted(tensor_of(exponent, x), x, exponent)
    found = ops.ones_like(square + exponent)
    for bit in range(kind.bits - kind.is_signed):
        found = ops.where(((exponent >> bit) & 1) != 0, found * square, found)
        square = square * square
    return ops.where(exponent < 0, 0, found) if kind.is_signed else found


@named("float_power")
def float_power(x: Operand, exponent: Operand) -> Tensor:
    """Return powers in f64."""
    return call(
        "pow", *(cast_to(each, DType.F64) if isinstance(each, Tensor) else float(each) for each in (x, exponent))
    )


@named("logaddexp2")
def logaddexp2(x: Operand, y: Operand) -> Tensor:
    """Return log2(2^x + 2^y)."""
    like = floating(call("add", x, y))  # an integer beside f64 has to become f64, too
    return ops.logaddexp(*(call("as_like", each, like) * math.log(2) for each in (x, y))) / math.log(2)


@named("cbrt")
def cbrt(x: Tensor) -> Tensor:
    """Return the cube root, which has the sign of ``x``."""
    return promoted(copysign(ops.pow(ops.abs(wide(x)), 1 / 3), wide(x)), floating(x))


@named("clip")
def clip(
    x: Tensor,
    a_min: Operand | None = None,
    a_max: Operand | None = None,
    *,
    min: Operand | None = None,  # noqa: A002  NumPy's name
    max: Operand | None = None,  # noqa: A002
) -> Tensor:
    """Return ``x`` between two bounds, either of which may be None."""
    low, high = a_min if min is None else min, a_max if max is None else max
    kind = known_dtype(x)
    if kind is not None and not kind.is_float and not kind.is_bool:  # bounds of all elements need not fit the dtype
        low = None if isinstance(low, int) and low <= kind.minimum else low
        high = None if isinstance(high, int) and high >= kind.maximum else high
    return x if low is None and high is None else ops.clip(x, low, high)


@named("astype")
def astype(x: Tensor, dtype: Any, **_: object) -> Tensor:
    """Return ``x`` in another dtype."""
    return cast_to(x, element_type(dtype))


@named("where")
def where(condition: Operand, x: Operand | None = None, y: Operand | None = None) -> Tensor:
    """Return ``x`` where the condition holds, else ``y``."""
    if x is None or y is None:
        raise mistaken("where with one argument has a result of unknown size; write where(condition, x, y)")
    return ops.where(condition, x, y)


@named("isin")
def isin(element: Tensor, test_elements: Any, *_: object, invert: bool = False, **__: object) -> Tensor:
    """Return whether each element is one of some others."""
    given = constant_of(element.recorder, np.ravel(test_elements)) if isinstance(test_elements, list) else test_elements
    others = ops.flatten(given) if isinstance(given, Tensor) else given
    found = ops.any(ops.equal(ops.expand_dims(element, -1), others), -1)
    return ops.logical_not(found) if invert else found


@named("signbit")
def signbit(x: Tensor) -> Tensor:
    """Return whether a number is negative, or the negative zero."""
    kind = known_dtype(x)
    negative = x < 0
    return negative if kind is not None and not kind.is_float else negative | (call("div", 1.0, x) < 0)


@named("copysign")
def copysign(x: Operand, y: Operand) -> Tensor:
    """Return the magnitude of ``x`` with the sign of ``y``, also of zeros, as a float."""
    x = floating(x) if isinstance(x, Tensor) else x
    if not isinstance(y, Tensor):
        return ops.copysign(x, math.copysign(1, y) if isinstance(y, int | float) else y)
    magnitude = ops.copysign(x, ops.abs(y))
    return ops.where(signbit(y), -magnitude, magnitude)


@named("arctan2", "atan2")
def arctan2(y: Operand, x: Operand) -> Tensor:
    """Return the angle of a point in radians, with the sign of ``y``; zeros have signs, too."""
    both = floating(call("add", x, y))
    down, across = (call("as_like", each, both) for each in (y, x))
    angle = ops.atan2(down, across)
    on_axis = ops.equal(down, 0)
    angle = ops.where(ops.logical_and(ops.logical_and(on_axis, ops.equal(across, 0)), signbit(across)), math.pi, angle)
    return ops.where(ops.logical_and(on_axis, signbit(down)), -angle, angle)


@named("nextafter")
def nextafter(x: Operand, y: Operand) -> Tensor:
    """Return the next float after ``x`` in the direction of ``y``, which has no derivative."""
    both = floating(call("add", x, y))
    start, end = (call("as_like", each, both) for each in (x, y))
    kind = known_dtype(start)
    if kind is None:
        raise mistaken("nextafter needs floats whose dtype is known; declare those of inputs")
    bits = ops.bit_cast(start, f"i{kind.bits}")
    moved = ops.bit_cast(ops.where(ops.equal(end > start, start > 0), bits + 1, bits - 1), kind)
    least = ops.bit_cast(ops.ones_like(bits), kind)
    away = ops.where(ops.equal(start, 0.0), ops.where(end > 0, least, -least), moved)
    return ops.where(ops.equal(start, end), end, ops.where(ops.isnan(start) | ops.isnan(end), start + end, away))


@named("bitwise_count")
def bitwise_count(x: Tensor) -> Tensor:
    """Return the number of ones among the bits of the magnitude of an integer, as u8."""
    kind = known_dtype(x)
    if kind is None or kind.is_float:
        raise mistaken("bitwise_count needs integers whose dtype is known; declare those of inputs")
    found = cast_to(x, DType.U8) if kind.is_bool else ops.bit_cast(ops.abs(x), f"u{kind.bits}")
    bits = 8 if kind.is_bool else kind.bits
    ones, twos, fours, each = (int(f"{byte:02x}" * (bits // 8), 16) for byte in (0x55, 0x33, 0x0F, 1))
    found = found - ((found >> 1) & ones)
    found = (found & twos) + ((found >> 2) & twos)
    found = (found + (found >> 4)) & fours
    return cast_to((found * each) >> (bits - 8), DType.U8)


@named("ldexp")
def ldexp(x: Operand, n: Operand) -> Tensor:
    """Return x * 2^n, rounded once, also where 2^n is no float."""
    start = wide(tensor_of(n, x) if isinstance(n, Tensor) else floating(x))
    kind = known_dtype(start)
    if kind is None:
        raise mistaken("ldexp needs floats whose dtype is known; declare those of inputs")
    digits, most = (52, 1022) if kind is DType.F64 else (23, 126)
    power = cast_to(tensor_of(start, n), DType.I64 if kind is DType.F64 else DType.I32)
    power = ops.clip(power, -3 * most, 3 * most)
    third = ops.where(ops.abs(power) <= most, 0, ops.floor_divide(power, 3))
    scale, rest = (ops.bit_cast((each + (most + 1)) << digits, kind) for each in (third, power - 2 * third))
    return promoted(start * scale * scale * rest, floating(x) if isinstance(x, Tensor) else start)


@named("angle")
def angle(z: Tensor, deg: bool = False) -> Tensor:
    """Return the angle of a real number: 0, or half a turn below 0, in radians or degrees."""
    x = floating(z)
    return ops.where(signbit(x), 180.0 if deg else math.pi, ops.where(ops.isnan(x), x, 0.0))


@named("view", tensors=1)
def view(x: Tensor, dtype: Any) -> Tensor:
    """Return the bits of elements as numbers of another dtype with as many bits."""
    return ops.bit_cast(x, element_type(dtype))


@named("sign")
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1, or NaN."""
    return call("sign", x)


@named("round", "around")
def round_to(x: Tensor, decimals: int = 0) -> Tensor:
    """Return the nearest number with ``decimals`` decimals, the even one of two."""
    kind = known_dtype(x)
    if kind is not None and not kind.is_float and decimals >= 0:
        return x
    if decimals == 0:
        return ops.round(x)
    scale = 10.0 ** abs(decimals)
    return ops.round(x * scale) / scale if decimals > 0 else ops.round(x / scale) * scale


def _rounding(word: str) -> Any:
    def rounded(x: Tensor) -> Tensor:
        kind = known_dtype(x)
        return x if kind is not None and not kind.is_float else call(word, x)

    rounded.__name__, rounded.__doc__ = word, "Return integers as they are, and floats rounded."
    return rounded


@named("divmod")
def quotient_and_remainder(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Return the quotient, rounded down, and the remainder."""
    return ops.floor_divide(x, y), ops.remainder(x, y)


@named("modf")
def modf(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return fractions and integer parts, both with the sign of ``x``."""
    whole = ops.trunc(x)
    return ops.where(ops.isinf(x), 0.0, x - whole), whole


def _of_numbers(operation: Callable[[Operand, Operand], Tensor]) -> Callable[[Operand, Operand], Tensor]:
    """Return an operation of two values whose result is the other operand if one is NaN."""

    def either(x: Operand, y: Operand) -> Tensor:
        if not isinstance(x, Tensor):
            x, y = y, x
        return ops.where(x != x, y, ops.where(y != y, x, operation(x, y)))

    return either


def _same(x: Tensor, *_: object, **__: object) -> Tensor:
    return x


def _like(x: Tensor, value: Operand, dtype: Any, shape: Any = None) -> Tensor:
    typed = x if dtype is None else cast_to(x, element_type(dtype))
    if shape is None:
        return ops.full_like(typed, value)
    sizes = shape if isinstance(shape, list | tuple) else [shape]
    return ops.broadcast_to(call("as_like", value, typed), sizes)


def _close(a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    near = ops.isclose(a, b, rtol=rtol, atol=atol)
    return near | (ops.not_equal(a, a) & ops.not_equal(b, b)) if equal_nan else near


_ALSO: Final[Mapping[str, str]] = MappingProxyType(
    {
        "invert": "bitwise_not bitwise_invert",
        "left_shift": "bitwise_left_shift",
        "right_shift": "bitwise_right_shift",
    }
)
"""Other names of functions for which Python has operators."""

_MAYBE_FLOATS: Final = (None, *(each for each in DType if each.is_float))
_OTHER: Final = ("absolute", "divide", "floor_divide", "matmul", "power", "remainder")
"""Functions that have NumPy's meaning in every context."""

entered(
    {
        **{f"{name} {_ALSO.get(name, '')}": apply for name, apply in OPERATORS.items() if name not in _OTHER},
        **{word: _rounding(word) for word in ("ceil", "floor", "trunc")},
        "fix": _rounding("trunc"),
        "absolute abs": lambda x: x if known_dtype(x) is DType.BOOL else call("abs", x),
        "fabs": lambda x: call("abs", floating(x)),
        "arccos acos": ops.acos,
        "arccosh acosh": ops.acosh,
        "arcsin asin": ops.asin,
        "arcsinh asinh": ops.asinh,
        "arctan atan": ops.atan,
        "arctanh atanh": ops.atanh,
        "cos": ops.cos,
        "cosh": ops.cosh,
        "deg2rad radians": ops.deg2rad,
        "exp": ops.exp,
        "exp2": ops.exp2,
        "expm1": ops.expm1,
        "floor_divide": ops.floor_divide,
        "fmod": ops.fmod,
        "heaviside": lambda x, value: ops.heaviside(call("as_like", x, floating(call("add", x, value))), value),
        "hypot": ops.hypot,
        "isfinite": ops.isfinite,
        "isinf": ops.isinf,
        "isnan": ops.isnan,
        "isneginf": lambda x: ops.equal(floating(x), float("-inf")),
        "isposinf": lambda x: ops.equal(floating(x), float("inf")),
        "isreal": lambda x: cast_to(ops.ones_like(x), DType.BOOL),
        "imag": ops.zeros_like,
        "log": ops.log,
        "log10": ops.log10,
        "log1p": ops.log1p,
        "log2": ops.log2,
        "logaddexp": ops.logaddexp,
        "logical_and": ops.logical_and,
        "logical_not": ops.logical_not,
        "logical_or": ops.logical_or,
        "logical_xor": ops.logical_xor,
        "maximum": ops.maximum,
        "minimum": ops.minimum,
        "fmax": _of_numbers(ops.maximum),
        "fmin": _of_numbers(ops.minimum),
        "nan_to_num": lambda x, **fills: ops.nan_to_num(x, **fills) if known_dtype(x) in _MAYBE_FLOATS else x,
        "positive conjugate conj real copy ascontiguousarray": _same,
        "asarray array": lambda x, dtype=None, **_: x if dtype is None else cast_to(x, element_type(dtype)),
        "rad2deg degrees": ops.rad2deg,
        "spacing": lambda x: nextafter(x, ops.copysign(float("inf"), x)) - x,
        "reciprocal": ops.reciprocal,
        "remainder mod": ops.remainder,
        "rint": lambda x: ops.round(floating(x)),
        "sin": ops.sin,
        "sinc": ops.sinc,
        "sinh": ops.sinh,
        "sqrt": ops.sqrt,
        "square": ops.square,
        "tan": ops.tan,
        "tanh": ops.tanh,
        "zeros_like": lambda x, dtype=None, *, shape=None, **_: _like(x, 0, dtype, shape),
        "empty_like": lambda x, dtype=None, *, shape=None, **_: _like(x, 0, dtype, shape),
        "ones_like": lambda x, dtype=None, *, shape=None, **_: _like(x, 1, dtype, shape),
        "full_like": lambda x, fill_value, dtype=None, *, shape=None, **_: _like(x, fill_value, dtype, shape),
        "isclose": _close,
        "allclose": lambda *given, **options: ops.all(_close(*given, **options)),
        "array_equal": lambda a, b: ops.all(ops.equal(a, b)) if a.ndim == b.ndim else False,
        "array_equiv": lambda a, b: ops.all(ops.equal(a, b)),
        "iscomplex": lambda x: cast_to(ops.zeros_like(x), DType.BOOL),
        "iscomplexobj": lambda _: False,
        "isrealobj": lambda _: True,
        "shape": lambda x: x.shape,
        "ndim": lambda x: x.ndim,
        "size": lambda x, axis=None: x.size if axis is None else x.shape[axis],
    }
)


REFUSED.update(
    {
        "frexp": "there is no operation for it; divide by exp2(floor(log2(abs(x))))",
        "gcd": "write Euclid's algorithm with tileir.while_loop",
        "lcm": "write Euclid's algorithm with tileir.while_loop",
        "nonzero": "the size of its result depends on values; use where(mask, x, 0) or count_nonzero",
        "argwhere": "the size of its result depends on values; use where(mask, x, 0)",
        "flatnonzero": "the size of its result depends on values; use where(mask, x, 0)",
        "unique": "the size of its result depends on values; sort x and compare neighbours",
        "unique_all": "the size of its result depends on values; sort x and compare neighbours",
        "unique_counts": "the size of its result depends on values; sort x and compare neighbours",
        "unique_inverse": "the size of its result depends on values; sort x and compare neighbours",
        "unique_values": "the size of its result depends on values; sort x and compare neighbours",
        "compress": "the size of its result depends on values; use where(mask, x, 0)",
        "extract": "the size of its result depends on values; use where(mask, x, 0)",
        "bincount": "the size of its result depends on values; write zeros.at[i].add(1)",
        "put": "tensors never change; write x = x.at[key].set(y)",
        "put_along_axis": "tensors never change; write x = x.at[key].set(y)",
        "place": "tensors never change; write x = numpy.where(mask, y, x)",
        "putmask": "tensors never change; write x = numpy.where(mask, y, x)",
        "apply_along_axis": "map the function with tileir.vmap",
        "copyto": "tensors never change; write x = numpy.where(mask, y, x)",
        "fill_diagonal": "tensors never change; write numpy.where(numpy.eye(n), value, x)",
        "save": "it has no values; run the function and save its results",
    }
)
