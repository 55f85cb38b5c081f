"""Constants: their names and dimensions, and their values as numbers, elements or digests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import ArrayValue, DType, Span, attrs
from tileir.core.numbers import arithmetic
from tileir.core.text.lexing import Cursor, Token
from tileir.tile.ir import Attribute, Constant, IntLiteral, Name, Size
from tileir.tile.text.contraction_parser import TENSOR
from tileir.tile.text.grammar import DIGEST, MAX_INTEGER
from tileir.tile.text.lexer import FLOAT, INDEX, INTEGER, NAME

DTYPES: Final[Mapping[str, DType]] = MappingProxyType({dtype.value: dtype for dtype in DType})
"""Dtypes by their names."""
_WORDS: Final[Mapping[str, float]] = MappingProxyType({"inf": math.inf, "nan": math.nan})
_FORM: Final = "a number, or a dtype, sizes and elements as in f32[2, 2](1.0, 0.5, 0.5, 1.0)"
_MOST_DIGITS: Final = len(str(MAX_INTEGER))


@attrs.frozen(repr=False)
class _Bits:
    """An element of a float array, given by its bits."""

    pattern: int


@attrs.frozen
class ConstantParser:
    """The grammar of constants, at a cursor; ``arrays`` are those that a text may name by their digests."""

    cursor: Cursor
    arrays: Mapping[str, ArrayValue]

    def read(self, attributes: tuple[Attribute, ...], start: int) -> Constant:
        """Read ``constant name[dims…] = value``."""
        cursor = self.cursor
        cursor.advance()
        name = cursor.expect(NAME, TENSOR)
        dims = cursor.enclosed(self.dimension, "[]") if cursor.at("[") else None
        cursor.expect("=")
        value = self._value()
        where, span = cursor.span_of(name), cursor.span_from(start)
        return Constant(name.text, value, dims, attributes, span=span, name_span=where)

    def dimension(self) -> Size:
        """Read the size of an axis: the name of a dimension, or a number."""
        cursor = self.cursor
        if cursor.at(INTEGER):
            start = cursor.token.start
            return IntLiteral(self._size(), span=cursor.span_from(start))
        name = cursor.expect(NAME, "a number, or the name of a dimension, which begins with a capital letter or '#',")
        return Name(name.text, span=cursor.span_of(name))

    def _value(self) -> ArrayValue | bool | int | float:
        cursor = self.cursor
        word = cursor.token.text if cursor.at(INDEX) else ""
        if word in ("true", "false"):
            return cursor.advance().text == "true"
        if word in DTYPES:
            return self.array(DTYPES[word])
        if cursor.at("-") or cursor.at(INTEGER) or cursor.at(FLOAT) or word in _WORDS:
            return self._number()
        raise cursor.unexpected(_FORM)

    def array(self, dtype: DType) -> ArrayValue:
        """Read an array, at the name of its dtype."""
        cursor = self.cursor
        start = cursor.advance().start
        shape = cursor.enclosed(self._size, "[]", "'[' and the sizes of the array")
        if cursor.at(INDEX) and cursor.token.text.startswith(DIGEST):
            return self._by_digest(dtype, shape, start)
        elements = cursor.enclosed(lambda: self._element(dtype), what="'(' and the elements of the array")
        if len(elements) != prod(shape):
            message = f"there are {len(elements)} elements, where the sizes {list(shape)} ask for {prod(shape)}"
            raise cursor.report_and_abandon(message, cursor.span_from(start), "TIL219")
        return _array(dtype, shape, elements)

    def _by_digest(self, dtype: DType, shape: tuple[int, ...], start: int) -> ArrayValue:
        """Return the array that the text only names."""
        cursor = self.cursor
        found = self.arrays.get(cursor.advance().text.removeprefix(DIGEST))
        span = cursor.span_from(start)
        if found is None:
            message = (
                "the text holds only the digest of this array, and not its elements; pass it among the arrays of"
                " parse(text, arrays=…), or keep the program as JSON"
            )
            raise cursor.report_and_abandon(message, span, "TIL219")
        if (found.dtype, found.shape) != (dtype, shape):
            raise cursor.report_and_abandon(f"the array of this digest is {found}; write that type", span, "TIL219")
        return found

    def _size(self) -> int:
        token = self.cursor.expect(INTEGER, "a size")
        if len(token.text) > _MOST_DIGITS or int(token.text) >= 1 << 63:
            raise self._out_of_range(self.cursor.span_of(token), "a size", "2**63 - 1")
        return int(token.text)

    def _element(self, dtype: DType) -> int | float | _Bits:
        cursor = self.cursor
        start = cursor.token.start
        if dtype.is_float and cursor.at(INDEX) and cursor.token.text == "bits":
            return self._bits(dtype)
        value = self._number()
        span = cursor.span_from(start)
        if dtype.is_float:
            limited = arithmetic.rounded(value, dtype)
            if math.isinf(limited) and not (isinstance(value, float) and math.isinf(value)):
                raise cursor.report_and_abandon(f"{dtype.value} does not hold {span.text}; write inf", span, "TIL104")
        elif isinstance(value, float) or not arithmetic.fits(value, dtype):
            message = f"{span.text} is no element of type {dtype.value}, from {dtype.minimum} to {dtype.maximum}"
            raise cursor.report_and_abandon(message, span, "TIL104")
        return value

    def _bits(self, dtype: DType) -> _Bits:
        cursor = self.cursor
        cursor.advance()
        cursor.expect("(")
        token = cursor.expect(INTEGER, "the bits of the element as an integer")
        if len(token.text) > _MOST_DIGITS or int(token.text) >= 1 << dtype.bits:
            raise self._out_of_range(cursor.span_of(token), f"the bits of {dtype.value}", f"2**{dtype.bits} - 1")
        cursor.expect(")")
        return _Bits(int(token.text))

    def _number(self) -> int | float:
        """Read a number with or without a sign."""
        cursor = self.cursor
        start = cursor.token.start
        negative = cursor.skip("-")
        if cursor.at(INDEX) and cursor.token.text in _WORDS:
            value: int | float = _WORDS[cursor.advance().text]
            return -value if negative else value
        token: Token = cursor.advance() if cursor.at(FLOAT) else cursor.expect(INTEGER, "a number")
        span = cursor.span_from(start)
        if token.kind == FLOAT:
            value = float(token.text)
            if math.isinf(value):
                raise cursor.report_and_abandon("no float is that large; write inf", span, "TIL104")
        elif len(token.text.lstrip("0")) > _MOST_DIGITS or int(token.text) > (1 << 63 if negative else MAX_INTEGER):
            raise self._out_of_range(span, "an integer", "2**64 - 1, from -2**63 on")
        else:
            value = int(token.text)
        return -value if negative else value

    def _out_of_range(self, span: Span, what: str, limit: str) -> Exception:
        return self.cursor.report_and_abandon(f"{what} is at most {limit}", span, "TIL104")


def _array(dtype: DType, shape: tuple[int, ...], elements: tuple[int | float | _Bits, ...]) -> ArrayValue:
    """Return the array with these elements, which are rounded once."""
    if not dtype.is_float:
        return ArrayValue.of(np.array(elements, dtype.numpy).reshape(shape))
    plain = [0.0 if isinstance(element, _Bits) else arithmetic.rounded(element, dtype) for element in elements]
    array = np.array(plain, np.float64).astype(dtype.numpy)
    patterns = array.view(f"u{dtype.itemsize}")
    for place, element in enumerate(elements):
        if isinstance(element, _Bits):
            patterns[place] = element.pattern
    return ArrayValue.of(array.reshape(shape))
