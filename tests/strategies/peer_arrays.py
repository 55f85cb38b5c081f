"""Sample arrays for libraries beside ours: their elements, layouts, and names of dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.core.dtype import DType

Array = np.ndarray[Any, Any]

TORCH: Final = {
    **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    "bool": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
LAYOUTS: Final[dict[str, Callable[[Any], Any]]] = {
    "plain": lambda a: a,
    "element": lambda a: a[1, 2],
    "empty": lambda a: a[:0],
    "strided": lambda a: a[::2, 1::2],
    "row": lambda a: a[1:2],
}


def sample(dtype: DType) -> Array:
    return (np.arange(24) % 5).reshape(4, 6).astype(dtype.numpy)


def bits(array: Array) -> list[Any]:
    found: list[Any] = np.ascontiguousarray(array).view(f"u{array.itemsize}").tolist()
    return found
