"""Conversion of Python values of parameters to text of a formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.core.errors import ArgumentError
from tileir_formula.definitions.parameters import NO, YES
from tileir_formula.ir import Number, Weights
from tileir_formula.text.printer import value_text

GivenScalar: TypeAlias = "bool | float | np.bool_ | np.integer[Any] | np.floating[Any]"
GivenValue: TypeAlias = "str | GivenScalar | Sequence[Sequence[float]] | np.ndarray[Any, np.dtype[Any]]"
"""Text as it stands in a formula, a flag, a number, or the rows of weights."""

RANK_OF_WEIGHTS = 2


def given_text(path: str, value: GivenValue) -> str:
    """Return a value as text of a formula; text is returned as it is.

    Raises:
        ArgumentError: TIL707, formulas have no spelling for it, such as infinity, or an array that is not a window.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return YES if value else NO
    if isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value):
        return value_text(Number(value.item() if isinstance(value, np.generic) else value))
    rows = _rows(value)
    if rows is None:
        kind = f"{value}" if isinstance(value, int | float | np.number) else f"a value of type {type(value).__name__}"
        message = f"{path} was {kind:.80}; pass text, a bool, a finite number, or rows of finite weights"
        raise ArgumentError.of("TIL707", message)
    return value_text(Weights(rows))


def _rows(value: object) -> tuple[tuple[float, ...], ...] | None:
    """Return the rows of a window; None for other values."""
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return None
    if array.ndim != RANK_OF_WEIGHTS or not array.size or array.dtype.kind not in "biuf":
        return None
    found = array.astype(np.float64)
    return tuple(map(tuple, found.tolist())) if np.isfinite(found).all() else None
