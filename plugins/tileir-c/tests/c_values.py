"""Kernels that compute one expression for every element, and the values at which it is most likely to go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.semtree_values import same_content
from tileir.core.dtype import DType
from tileir.semtree.ir import (
    Assign,
    Const,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr

    Array = np.ndarray[Any, np.dtype[Any]]

INDEX: Final = Type(DType.I64)
COUNTER: Final = Var("i", INDEX)


def special_values(dtype: DType) -> Array:
    """Return limits, values around them, halves between integers, zeros, subnormals, infinities and NaN."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        edges = {low, low + 1, -1, 0, 1, 2, 3, 7, 31, 63, high - 1, high, high // 2, 2**24 + 1, 2**53 + 1, 0x101801}
        return np.array(sorted(value for value in edges if low <= value <= high), dtype.numpy)
    values = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-40, 6e-8, 6.1e-5, 127.5, 255.0, 256.0, 32767.5, 65504.0, 65520.0]
    values += [2.0**31, 2.0**32, 2.0**63, 2.0**64, 3.4e38, 1.0039062, 1.0000000000001, 65519.999999, np.inf]
    with np.errstate(all="ignore"):
        both = np.array([*values, *(-value for value in values), np.nan])
        return (both if dtype is DType.F64 else both.astype(np.float32)).astype(dtype.numpy)


def padded(array: Array) -> Array:
    """Repeat elements up to a multiple of 16."""
    return np.ascontiguousarray(np.resize(array, -(-array.size // 16) * 16))


def element(number: int, dtype: DType, lanes: int) -> Subscript:
    """Return what a mapped kernel reads of input ``number``."""
    return Subscript(f"in{number}", COUNTER, Type(dtype, lanes))


def mapped(name: str, inputs: tuple[DType, ...], output: DType, size: int, lanes: int, value: Expr) -> KernelFunction:
    """Return a kernel that computes ``value``, which reads elements, for each run of ``lanes`` elements."""
    store = Assign(Subscript("out", COUNTER, Type(output, lanes)), value)
    loop = For(COUNTER, Const(0, INDEX), Const(size, INDEX), lanes, (store,))
    params = (
        *(Param(f"in{number}", dtype, size, ParamAccess.READ) for number, dtype in enumerate(inputs)),
        Param("out", output, size, ParamAccess.WRITE),
    )
    return KernelFunction(name, params, (loop,))


def assert_same(actual: Array, expected: Array, label: str) -> None:
    """Compare to the bit, but for the bits of NaN and the sign of zero."""
    with np.errstate(invalid="ignore"):
        same = same_content(actual, expected)
    if not same:
        wrong = np.flatnonzero(~((actual == expected) | ((actual != actual) & (expected != expected))))
        raise AssertionError(f"{label}: at {wrong[:5]} {actual[wrong[:5]]}, not {expected[wrong[:5]]}")
