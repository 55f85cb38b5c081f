"""Floats narrower than f32 as their bits: conversions by integer operations, and arithmetic in f32.

All follows from the row of a format in :mod:`tileir.core.dtype`. Conversions round to nearest even, as
:func:`tileir.core.numbers.arithmetic.cast` does. Nothing depends on whether a processor flushes subnormal f32 results
that are rounded further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import FORMATS, DType, FloatFormat, Op
from tileir.semtree.functions.draft import Term, where
from tileir.semtree.legalise.row import Drafting, Row, unsigned

_F32: Final = FORMATS[DType.F32]
_SINGLE_MAGNITUDE: Final = 0x7FFF_FFFF


def _sign(form: FloatFormat) -> int:
    return 1 << (form.bits - 1)


def _scale(form: FloatFormat) -> int:
    return (_F32.bias - form.bias) << _F32.fraction_bits


def _word(value: Term) -> Term:
    return value.bitcast(unsigned(value.type.dtype)).cast(DType.U32)


def _of_value(draft: Drafting, value: Term, target: DType) -> Term:
    return _narrowed(draft, value.cast(DType.F32), value.type.dtype.format).cast(unsigned(target)).bitcast(target)


def _to_value(draft: Drafting, value: Term, target: DType) -> Term:
    word = value.bitcast(unsigned(target)).cast(DType.U32)
    return _widened(draft, word, target.format).cast(target)


def _widened(draft: Drafting, word: Term, form: FloatFormat) -> Term:
    """Move exponent and fraction to their places; subtract the implicit bit of subnormal numbers, which have none."""
    shift = _F32.fraction_bits - form.fraction_bits
    if form.exponent_bits == _F32.exponent_bits:
        return (word << shift).real
    word = draft.let("word", word)
    size = draft.let("size", word & (_sign(form) - 1))
    moved = draft.let("moved", size << shift)
    least = _scale(form) + (1 << _F32.fraction_bits)
    subnormal = ((moved + least).real - form.smallest_normal).bits
    # The exponent of infinities becomes that of f32; without them the largest fraction alone is NaN.
    special = moved + ((255 << _F32.fraction_bits) - (((1 << form.exponent_bits) - 1) << _F32.fraction_bits))
    normal = where(size >= form.greatest_bits + (not form.infinities), special, moved + _scale(form))
    magnitude = where(size < 1 << form.fraction_bits, subnormal, normal)
    return (magnitude | ((word & _sign(form)) << (32 - form.bits))).real


def _rounded(word: Term, shift: int) -> Term:
    return (word + ((1 << (shift - 1)) - 1) + ((word >> shift) & 1)) >> shift


def _cut(draft: Drafting, value: Term, form: FloatFormat) -> Term:
    """Round to a format with the exponent of f32, alike for all signs and magnitudes except NaN."""
    shift = _F32.fraction_bits - form.fraction_bits
    value = draft.let("value", value)
    word = draft.let("word", value.bits)
    quiet = (word >> shift) | (1 << (form.fraction_bits - 1))
    return where(value.differs(value), quiet, _rounded(word, shift))


def _narrowed(draft: Drafting, value: Term, form: FloatFormat) -> Term:
    """Round by integer operations; for subnormal numbers the addition of an f32 rounds."""
    if form.exponent_bits == _F32.exponent_bits and form.infinities:
        return _cut(draft, value, form)
    shift = _F32.fraction_bits - form.fraction_bits
    word = draft.let("word", value.bits)
    size = draft.let("size", word & _SINGLE_MAGNITUDE)
    usual = _rounded(size - _scale(form), shift)
    unit = form.smallest_subnormal / _F32.epsilon
    tiny = (size.real + unit).bits - unit_bits(unit)
    finite = where(size < _scale(form) + (1 << _F32.fraction_bits), tiny, usual)
    beyond = (_F32.bias + form.bias + 2 - form.infinities) << _F32.fraction_bits
    nan = size.of(form.nan_bits)
    if form.infinities:
        finite = where(size >= beyond, form.greatest_bits, finite)
        nan = nan | ((size >> shift) & ((1 << form.fraction_bits) - 1))  # payload of NaN, as far as it fits
    else:
        finite = draft.let("finite", finite)
        finite = where((size >= beyond) | (finite > form.greatest_bits), nan, finite)
    infinity = ((1 << _F32.exponent_bits) - 1) << _F32.fraction_bits
    magnitude = where(size > infinity, nan, finite)
    return magnitude | ((word >> (32 - form.bits)) & _sign(form))


def unit_bits(power: float) -> int:
    """Return the bits of f32 of a power of two."""
    mantissa, exponent = power.hex().split("p")
    assert mantissa == "0x1.0000000000000"
    return (int(exponent) + _F32.bias) << _F32.fraction_bits


def _rounded_to_odd(draft: Drafting, value: Term, target: DType) -> Term:
    """Round f64 to f32 so that rounding the result again equals rounding once (Boldo and Melquiond 2008).

    If f32 cannot represent the value, its lower neighbour with the last bit set is taken.
    """
    value = draft.let("value", value)
    near = draft.let("near", value.cast(DType.F32))
    back = draft.let("back", near.cast(DType.F64))
    lost = (back < value) | (back > value)
    away = where(value < 0.0, back < value, back > value)
    word = near.bits - away.cast(DType.U32)
    return (word | lost.cast(DType.U32)).real.cast(target)


def _of_integer(draft: Drafting, value: Term, target: DType) -> Term:
    """Round once: by f32 if that is exact, or if the rounded value is too large, else without low bits.

    Bits below those that decide the rounding are merged into one sticky bit: the rest fits into f32, for numbers up to
    some powers of two different rests.
    """
    dtype, form = value.type.dtype, target.format
    bits = dtype.bits - dtype.is_signed
    if form.largest < 2.0**_F32.precision or bits <= _F32.precision:
        return value.cast(DType.F32).cast(target)
    value = draft.let("value", value)

    def folded(least: int) -> Term:
        """Return a number of at least ``2**least`` with fewer bits."""
        low = (1 << (least - form.precision)) - 1
        kept = value & (~low if dtype.is_signed else int(dtype.maximum) - low)
        return kept | where((value & low).differs(0), value.of((low + 1) >> 1), 0)

    limits = range(_F32.precision, bits, _F32.precision - form.precision - 1)
    rests = [value, *map(folded, limits)]
    result = rests.pop()
    for limit, rest in zip(reversed(limits), reversed(rests), strict=True):
        below = value < 1 << limit
        result = where(below & (value > -(1 << limit)) if dtype.is_signed else below, rest, result)
    return result.cast(DType.F32).cast(target)


def _extremum(sign: Op) -> Callable[[Drafting, Term, Term], Term]:
    def spell(draft: Drafting, left: Term, right: Term) -> Term:
        left, right = draft.let("left", left), draft.let("right", right)
        first, second = (draft.let("wide", each.cast(DType.F32)) for each in (left, right))
        return where(first.apply(sign, second) | first.differs(first), left, right)

    return spell


def _bitwise(op: Op, mask: Callable[[FloatFormat], int]) -> Callable[[Drafting, Term], Term]:
    def spell(_: Drafting, value: Term) -> Term:
        dtype = value.type.dtype
        return value.bitcast(unsigned(dtype)).apply(op, mask(dtype.format)).bitcast(dtype)

    return spell


WIDENED: Final = Row(
    "cast<f32>(x) = real(exponent and fraction of x, moved)",
    lambda draft, x, _: _widened(draft, _word(x), x.type.dtype.format),
)
NARROWED: Final = Row(
    "cast<T>(x) = bits(x) rounded to fewer",
    lambda draft, x, target: _narrowed(draft, x, target.format).cast(unsigned(target)).bitcast(target),
)
OF_VALUE: Final = Row("bits(x) = bits(cast<f32>(x)) rounded to fewer", _of_value)
TO_VALUE: Final = Row("real(x) = cast<T>(real(exponent and fraction of x, moved))", _to_value)
ODD: Final = Row("cast<T>(x) = cast<T>(f32(x) rounded to odd)", _rounded_to_odd)
OF_INTEGER: Final = Row("cast<T>(x) = cast<T>(cast<f32>(x without low bits))", _of_integer)
BY_F32: Final = Row("cast<T>(x) = cast<T>(cast<f32>(x))", lambda _, x, target: x.cast(DType.F32).cast(target))

SPELT: Final[Mapping[Op, Row]] = MappingProxyType(
    {
        Op.NEG: Row("-x = real(bits(x) ^ sign)", _bitwise(Op.BIT_XOR, _sign)),
        Op.ABS: Row("abs(x) = real(bits(x) & ~sign)", _bitwise(Op.BIT_AND, lambda form: _sign(form) - 1)),
        Op.MAX: Row("max(x, y) = f32(x) > f32(y) | x != x ? x : y", _extremum(Op.CMP_GT)),
        Op.MIN: Row("min(x, y) = f32(x) < f32(y) | x != x ? x : y", _extremum(Op.CMP_LT)),
    }
)
"""Operations without rounding."""


def cast_row(source: DType, target: DType) -> Row:
    """Return the row for a conversion from or to a narrow float, or both."""
    if source.is_narrow:
        return WIDENED if target is DType.F32 else BY_F32
    if source is DType.F32:
        return NARROWED
    return ODD if source is DType.F64 else OF_INTEGER
