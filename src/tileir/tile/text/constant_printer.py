"""Constants as text: short arrays by their elements, which read back to the bit, and long ones by their digests."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np

from tileir.core.arithmetic import rounded
from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.tile.text.grammar import DIGEST, LONGEST_CONSTANT

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH: Final = 96
_DIGITS: Final = 17
"""As many decimal digits tell any two floats apart."""


def value_text(value: ArrayValue | bool | int | float, longest: int = LONGEST_CONSTANT) -> str:
    """Return what stands behind the ``=`` of a constant; arrays of more than ``longest`` elements as their digest."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_text(value, DType.F64)
    if value.elements > longest:
        return f"{value} {DIGEST}{value.digest}"
    elements = ", ".join(_elements(value))
    if len(elements) < _WIDTH:
        return f"{value}({elements})"
    lines = textwrap.wrap(elements, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join([f"{value}(", *lines]) + "\n)"


def _elements(value: ArrayValue) -> Iterator[str]:
    array = value.numpy().reshape(-1)
    if not value.dtype.is_float:
        return (str(int(element)) for element in array)
    bits = array.view(f"u{value.dtype.itemsize}")
    quiet = int(np.array(math.nan, value.dtype.numpy).view(bits.dtype))
    return (
        _float_text(float(element), value.dtype)
        if element == element or pattern == quiet  # only a NaN differs from itself
        else f"bits({pattern})"
        for element, pattern in zip(array, map(int, bits), strict=True)
    )


def _float_text(value: float, dtype: DType) -> str:
    """Return the shortest decimal that is rounded to ``value``, which is one of ``dtype``."""
    if not math.isfinite(value):
        return str(value)
    for digits in range(1, _DIGITS + 1):
        text = f"{value:.{digits}g}"
        if rounded(float(text), dtype) == value:
            break
    return text if "." in text or "e" in text else f"{text}.0"
