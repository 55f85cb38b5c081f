"""Layout of the two float types in which functions are computed, and constants split for each."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tileir.core import DType, attrs, rounded
from tileir.semtree.functions.draft import Term


def scaled_pi(bits: int) -> int:
    """Return π · 2**bits, rounded down or the integer below that, by Machin's formula."""
    guard = bits.bit_length() + 8
    one = 1 << (bits + guard)
    return 4 * (4 * _arctangent(5, one) - _arctangent(239, one)) >> guard


def _arctangent(inverse: int, one: int) -> int:
    """Return ``one · atan(1 / inverse)``, each term rounded down."""
    power = one // inverse
    total, divisor = power, 1
    while power:
        power //= -inverse * inverse
        divisor += 2
        total += power // divisor
    return total


PI: Final = Fraction(scaled_pi(300), 1 << 300)
LN_2: Final = Fraction("0.69314718055994530941723212145817656807550013436025525412068000949339362196969472")


@attrs.frozen
class Format:
    """Facts of a float type.

    Attributes:
        dtype: The type.
        digits: Bits of the fraction, without the leading one.
        bias: Bias of the exponent.
    """

    dtype: DType
    digits: int
    bias: int

    @property
    def magic(self) -> float:
        """Number that rounds a small addend to an integer, in the lowest bits of the sum."""
        return 1.5 * 2.0**self.digits

    @property
    def magic_bits(self) -> int:
        """The bits of :attr:`magic`."""
        return (self.digits + self.bias) << self.digits | 1 << (self.digits - 1)

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.dtype.bits - 1)

    @property
    def least_normal(self) -> float:
        """The least positive number of full precision."""
        return 2.0 ** (1 - self.bias)

    def parts(self, value: Fraction, count: int) -> tuple[float, ...]:
        """Split ``value`` into ``count`` numbers of falling size whose sum is as close to it as can be."""
        parts: list[float] = []
        for _ in range(count):
            # By f64: the error of a part in f32 is less than the next part corrects.
            parts.append(float(rounded(float(value), self.dtype)))
            value -= Fraction(parts[-1])
        return tuple(parts)

    def copysign(self, magnitude: Term, sign: Term) -> Term:
        """Return a non-negative ``magnitude`` with the sign of another term."""
        return (magnitude.bits | (sign.bits & self.sign)).real


FORMATS: Final[Mapping[DType, Format]] = MappingProxyType(
    {
        dtype: Format(dtype, dtype.format.fraction_bits, dtype.format.bias)
        for dtype in DType
        if dtype.is_float and not dtype.is_narrow
    }
)


def format_of(x: Term) -> Format:
    """Return the format of a float term."""
    return FORMATS[x.type.dtype]
