"""Values of expressions during inference."""

from __future__ import annotations

from typing import Final, TypeAlias

from tileir.core import DType, Span, attrs
from tileir.typed.ir import Shape

_LABEL_LENGTH: Final = 40


@attrs.frozen
class ConstantScalar:
    """A scalar known when compiling.

    Literals, dimensions and arithmetic on them have no dtype and adapt to the other operand, until a cast gives them
    one. A bool always has a dtype.
    """

    value: bool | int | float
    dtype: DType | None = None

    @property
    def shape(self) -> Shape:
        """The shape of a scalar."""
        return ()


@attrs.frozen
class Number:
    """A scalar known at each call: a number argument, or arithmetic on numbers and constants.

    Attributes:
        name: The argument or step that has the value.
        natural: ``dtype``, or the kind of a number without one: f64 or the first of i32, i64 and u64 that holds it.
        dtype: None if it adapts to the other operand, as in :class:`ConstantScalar`.
    """

    name: str
    natural: DType
    dtype: DType | None = None

    @property
    def shape(self) -> Shape:
        """The shape of a scalar."""
        return ()


@attrs.frozen
class Tensor:
    """The value of an operation or a parameter."""

    name: str
    dtype: DType
    shape: Shape


@attrs.frozen
class Group:
    """Several values grouped by ``tuple``; only ``element`` reads it."""

    items: tuple[Result, ...]


@attrs.frozen
class Stream:
    """Random numbers of the shape ``sizes`` that follow ``state``; only ``prng_value`` and ``prng_state`` read it."""

    state: Tensor
    sizes: Shape


Scalar: TypeAlias = ConstantScalar | Number | Tensor
"""An operand of elementwise operations."""

Result: TypeAlias = ConstantScalar | Number | Tensor | Group | Stream


@attrs.frozen
class Operand:
    """A value together with its expression, and the name by which it was read, if any."""

    value: Result
    span: Span | None
    name: str | None = None

    @property
    def label(self) -> str:
        """Name of the operand in messages: its own, or its text if that is short."""
        if self.name is not None:
            return repr(self.name)
        text = "" if self.span is None or self.span.place else self.span.text
        return "an operand" if not 0 < len(text) <= _LABEL_LENGTH or "\n" in text else f"'{text}'"


class PoisonedError(Exception):
    """A statement uses a name whose own statement is faulty, which is already reported."""


class DifferentiatedError(Exception):
    """A derivative is taken with respect to a value of these numbers, so they must be tensors from the start."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names
