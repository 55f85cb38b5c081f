"""Rows: laws that express an operation by others, and the means to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tileir.core import DType, Op, attrs
from tileir.core.numbers.ranges import Range
from tileir.semtree.functions.draft import Term


class Drafting(Protocol):
    """Means for writing a row: names for values used twice, and facts about operands."""

    def let(self, name: str, value: Term) -> Term:
        """Compute ``value`` once; the result may be used several times."""

    def defined(self, value: Term) -> Term:
        """Return an operation whose result is used only where C defines it."""

    def range(self, value: Term) -> Range:
        """Return the range of an integer."""


@attrs.frozen
class Row:
    """A law, and the function that writes its right side.

    ``spell`` gets a :class:`Drafting`, the operands, and for a conversion the target dtype. It uses an operand once,
    or names it by :meth:`Drafting.let`; its result may itself need another row.
    """

    law: str
    spell: Callable[..., Term] = attrs.field(eq=False)


def unsigned(dtype: DType) -> DType:
    """Return the unsigned type of the width of an integer type."""
    return DType(f"u{dtype.bits}")


def as_unsigned(value: Term) -> Term:
    """Return the bits of an integer as an unsigned one; itself if it is unsigned."""
    return value if not value.type.dtype.is_signed else value.bitcast(unsigned(value.type.dtype))


def as_bits_of(value: Term, dtype: DType) -> Term:
    """Return an integer as the other type of its width."""
    return value if value.type.dtype is dtype else value.bitcast(dtype)


def computed_in(dtype: DType, op: Op) -> Row:
    """Return the row that computes in a wider type, and narrows the result.

    In i32, operands of 8 and 16 bits fit, and so do all low bits of the result; in f32, it is rounded.
    """

    def spell(_: Drafting, first: Term, *others: Term) -> Term:
        wide = [other.cast(dtype) for other in others]
        result = first.cast(dtype).apply(op, *wide)
        return result if op.info.compares else result.cast(first.type.dtype)

    return Row(f"{op.value}(x, …) = narrow({op.value}({dtype.value}(x), …))", spell)
