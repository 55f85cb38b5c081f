"""Reader of affine expressions from the tokens of any language."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tileir.core.text.lexing import Cursor
from tileir.poly.affine import Affine, Rational


def read_affine(cursor: Cursor, number: str, integer: Callable[[], int], name: Callable[[], str]) -> Affine:
    """Read ``constant ± coefficient*index ± …`` in any order.

    Args:
        cursor: The cursor.
        number: The kind of number tokens.
        integer: Reads a number.
        name: Reads the name of an index.
    """
    coefficients: dict[str, Rational] = {}
    offset: Rational = 0
    sign = -1 if cursor.skip("-") else 1
    while True:
        factor: Rational = sign
        index: str | None = None
        if cursor.at(number):
            factor *= _rational(cursor, integer)
            index = name() if cursor.skip("*") else None
        else:
            index = name()
        if index is None:
            offset += factor
        else:
            coefficients[index] = coefficients.get(index, 0) + factor
        if not (cursor.at("+") or cursor.at("-")):
            return Affine.of(coefficients, offset)
        sign = 1 if cursor.advance().kind == "+" else -1


def _rational(cursor: Cursor, integer: Callable[[], int]) -> Rational:
    numerator = integer()
    if not cursor.skip("/"):
        return numerator
    token = cursor.token
    denominator = integer()
    if denominator <= 0:
        raise cursor.report_and_abandon("a denominator must be positive", cursor.span_of(token), "TIL104")
    return Fraction(numerator, denominator)
