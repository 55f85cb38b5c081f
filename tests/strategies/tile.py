"""Hypothesis strategies of the programs that :mod:`tileir_testing.generated` makes: ``cases()``.

Use :func:`assert_equal` on the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir_testing.generated.case import DTYPES, Case, Manner, assert_equal, make

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DTYPES", "FLOATS", "INTEGERS", "Case", "assert_equal", "cases"]

FLOATS = tuple(d for d in DType if d.is_float)
INTEGERS = tuple(d for d in DType if d.is_integer)

T = TypeVar("T")


@attrs.frozen
class Drawn:
    """Choices of Hypothesis, which shrinks what fails."""

    draw: st.DrawFn

    def integer(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    dtypes: Sequence[DType] = DTYPES,
    special: bool = False,
    functions: bool = False,
    largest_size: int = 4,
    empty: bool = False,
    statements: int = 4,
) -> Case:
    """Draw a function with one to ``statements`` statements, and its arguments; :class:`Manner` tells the rest.

    Args:
        draw: Given by Hypothesis.
        dtypes: Those that inputs and casts may have.
        special: Whether float inputs hold NaN, infinities and negative zeros.
        functions: Whether exp, sqrt and their like take part.
        largest_size: Of an axis.
        empty: Whether axes may have size 0.
        statements: At most as many are drawn.

    """
    least = 0 if empty else 1
    return make(Drawn(draw), Manner(tuple(dtypes), special, functions, least, largest_size, statements))
