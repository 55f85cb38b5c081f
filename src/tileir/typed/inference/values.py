"""Values of expressions while a function is inferred."""

from __future__ import annotations

from typing import Final, TypeAlias

from tileir.core import DType, Span, attrs
from tileir.typed.ir import Shape

_LABEL_LENGTH: Final = 40


@attrs.frozen
class Known:
    """A scalar known when compiling.

    A literal, a dimension, and what arithmetic makes of them have no dtype and adapt to the other
    operand; a cast gives one. A bool without a dtype does not exist.
    """

    value: bool | int | float
    dtype: DType | None = None

    @property
    def shape(self) -> Shape:
        """The shape of a scalar."""
        return ()


@attrs.frozen
class Number:
    """A scalar known at each call: a Python number that is passed, and what arithmetic makes of such and constants.

    Attributes:
        name: The argument or step that has the value.
        natural: ``dtype``, or the kind of a number without one: f64 or the first of i32, i64 and u64 that holds it.
        dtype: As of :class:`Known`: None for what adapts to the other operand.

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
    """The value that an operation or a parameter defines."""

    name: str
    dtype: DType
    shape: Shape


@attrs.frozen
class Group:
    """Several values that ``tuple`` put together; only ``element`` reads it."""

    items: tuple[Result, ...]


@attrs.frozen
class Stream:
    """Random numbers of the shape ``sizes`` that follow ``state``; only ``prng_value`` and ``prng_state`` read it."""

    state: Tensor
    sizes: Shape


Scalar: TypeAlias = Known | Number | Tensor
"""What elementwise operations work on."""

Result: TypeAlias = Known | Number | Tensor | Group | Stream


@attrs.frozen
class Operand:
    """A value together with the expression that it came from, and the name that it was read by, if any."""

    value: Result
    span: Span | None
    name: str | None = None

    @property
    def label(self) -> str:
        """Name of the operand in messages: its own, or its text where that is short."""
        if self.name is not None:
            return repr(self.name)
        text = "" if self.span is None or self.span.place else self.span.text
        return "an operand" if not 0 < len(text) <= _LABEL_LENGTH or "\n" in text else f"'{text}'"


class PoisonedError(Exception):
    """A statement uses a name whose own statement is wrong: there is nothing to add to that."""


class DifferentiatedError(Exception):
    """A derivative is taken with respect to what is made of these numbers, so they must be tensors from the start."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names
