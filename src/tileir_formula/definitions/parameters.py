"""Parameters of the functions of formulas: their values, their controls, and the operands of a Tile body."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from tileir.core import attrs, nearest
from tileir_formula.ir import Colour, Number, Value, Weights, Word
from tileir_formula.text.printer import number_text, value_text

Operand: TypeAlias = int | float | np.ndarray[Any, np.dtype[np.float32]]
"""What a body is called with."""

YES, NO = "yes", "no"


@attrs.frozen
class NumberParameter:
    """A number from ``low`` to ``high``, both included.

    Attributes:
        default: Its value where a step gives none.
        step: Distance between neighbouring values of a control; whole numbers and steps make whole numbers.
        about: Description in a sentence.
    """

    name: str
    default: Number
    low: float
    high: float
    step: float
    about: str = ""

    @property
    def is_whole(self) -> bool:
        """True if only whole numbers are values."""
        return all(float(number).is_integer() for number in (self.low, self.step, self.default.value))

    def fault(self, value: Value) -> str | None:
        """Return the fault of a value."""
        if not isinstance(value, Number):
            return f"is a number, not {value_text(value)}"
        if self.is_whole and not float(value.value).is_integer():
            return f"is a whole number; it was {value_text(value)}"
        if not self.low <= value.value <= self.high:
            return f"is from {number_text(self.low)} to {number_text(self.high)}; it was {value_text(value)}"
        return None

    def operand(self, value: Value) -> Operand:
        """Return the body's operand: the number, an int where it is whole."""
        assert isinstance(value, Number)
        return int(value.value) if self.is_whole else float(value.value)

    def neighbours(self, value: float) -> tuple[float, float]:
        """Return the values of a control below and above one, within its bounds."""
        steps = (value - self.low) / self.step
        below, above = math.ceil(steps - 1e-9) - 1, math.floor(steps + 1e-9) + 1
        return max(self.low, self.low + below * self.step), min(self.high, self.low + above * self.step)


@attrs.frozen
class ChoiceParameter:
    """One of some words; the body sees its number, counted from 0."""

    name: str
    default: Word
    words: tuple[str, ...]
    about: str = ""

    def fault(self, value: Value) -> str | None:
        """Return the fault of a value."""
        if isinstance(value, Word) and value.word in self.words:
            return None
        near = nearest(value.word, self.words) if isinstance(value, Word) else ""
        return f"is one of {', '.join(self.words)}; it was {value_text(value)}{near}"

    def operand(self, value: Value) -> Operand:
        """Return the body's operand: the index of the word."""
        assert isinstance(value, Word)
        return self.words.index(value.word)


@attrs.frozen
class FlagParameter:
    """``yes`` or ``no``; the body sees 1 or 0."""

    name: str
    default: Word
    about: str = ""

    def fault(self, value: Value) -> str | None:
        """Return the fault of a value."""
        right = isinstance(value, Word) and value.word in (YES, NO)
        return None if right else f"is yes or no; it was {value_text(value)}"

    def operand(self, value: Value) -> Operand:
        """Return the body's operand: 1 or 0."""
        assert isinstance(value, Word)
        return int(value.word == YES)


@attrs.frozen
class ColourParameter:
    """Red, green and blue; the body sees a vector of three, from 0 to 1."""

    name: str
    default: Colour
    about: str = ""

    def fault(self, value: Value) -> str | None:
        """Return the fault of a value."""
        return None if isinstance(value, Colour) else f"is a colour like #ff8000; it was {value_text(value)}"

    def operand(self, value: Value) -> Operand:
        """Return the body's operand: a vector of f32."""
        assert isinstance(value, Colour)
        return channels(value)


@attrs.frozen
class WeightsParameter:
    """A window of weights; the body sees a matrix.

    Attributes:
        most: How many rows and columns it may have.

    """

    name: str
    default: Weights
    most: int
    about: str = ""

    def fault(self, value: Value) -> str | None:
        """Return the fault of a value."""
        if not isinstance(value, Weights):
            return f"is a window of weights like [1 2; 3 4]; it was {value_text(value)}"
        rows, columns = len(value.rows), len(value.rows[0])
        if max(rows, columns) > self.most:
            return f"has at most {self.most} rows and columns; it has {rows} by {columns}"
        if np.abs(np.asarray(value.rows)).max() > np.finfo(np.float32).max:
            return "has weights that 32 bits can hold; one was too large"
        return None

    def operand(self, value: Value) -> Operand:
        """Return the body's operand: a matrix of f32."""
        assert isinstance(value, Weights)
        return np.asarray(value.rows, np.float32)


Parameter: TypeAlias = NumberParameter | ChoiceParameter | FlagParameter | ColourParameter | WeightsParameter


def channels(colour: Colour) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return red, green and blue from 0 to 1, in f32."""
    return np.asarray((colour.red, colour.green, colour.blue), np.float32) / np.float32(255)
