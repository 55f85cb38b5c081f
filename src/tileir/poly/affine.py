"""Affine expressions with exact rational coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

from tileir.core import TextNode, attrs

Rational: TypeAlias = int | Fraction


def exact(value: Rational) -> Rational:
    """Return ``value`` in canonical form: an int if it is integral, else a Fraction."""
    if type(value) is int:  # nearly always, and far cheaper than the check of the abstract class behind Fraction
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


@attrs.frozen(cache_hash=True, repr=False)
class Affine(TextNode):
    """``offset + Σ coefficient·index``; ``terms`` sorted by index, without zero coefficients.

    The constructor takes the canonical form only; :meth:`of` makes it.
    """

    terms: tuple[tuple[str, Rational], ...] = ()
    offset: Rational = 0

    @classmethod
    def of(cls, coefficients: Mapping[str, Rational], offset: Rational = 0) -> Affine:
        """Return the canonical form of ``offset + Σ coefficients[i]·i``."""
        terms = [(i, c if type(c) is int else exact(c)) for i, c in coefficients.items() if c]
        terms.sort()
        return cls(tuple(terms), offset if type(offset) is int else exact(offset))

    @classmethod
    def index(cls, name: str) -> Affine:
        """Return the expression that is just the index ``name``."""
        return cls(((name, 1),))

    @classmethod
    def constant(cls, value: Rational) -> Affine:
        """Return the expression that is ``value`` everywhere."""
        return cls((), exact(value))

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices with a non-zero coefficient, sorted."""
        return tuple([i for i, _ in self.terms])

    @property
    def is_constant(self) -> bool:
        """True if it contains no index."""
        return not self.terms

    @property
    def is_integral(self) -> bool:
        """True if all coefficients and the offset are integers."""
        return type(self.offset) is int and all(type(c) is int for _, c in self.terms)

    @property
    def is_never_integral(self) -> bool:
        """True if no integer point has an integral value because the offset alone is fractional."""
        return type(self.offset) is not int and all(type(c) is int for _, c in self.terms)

    def coefficient(self, name: str) -> Rational:
        """Return the coefficient of index ``name``; 0 if it does not occur."""
        for index, coefficient in self.terms:
            if index == name:
                return coefficient
        return 0

    def coefficients(self) -> dict[str, Rational]:
        """Return the terms as a new dictionary."""
        return dict(self.terms)

    def __add__(self, other: Affine | Rational) -> Affine:
        if not isinstance(other, Affine):
            return Affine(self.terms, exact(self.offset + other))
        if not other.terms:
            return Affine(self.terms, exact(self.offset + other.offset)) if other.offset else self
        if not self.terms:
            return Affine(other.terms, exact(self.offset + other.offset)) if self.offset else other
        total = dict(self.terms)
        for index, coefficient in other.terms:
            total[index] = total.get(index, 0) + coefficient
        return Affine.of(total, self.offset + other.offset)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return Affine(tuple((i, -c) for i, c in self.terms), -self.offset)

    def __sub__(self, other: Affine | Rational) -> Affine:
        return self + (-other)

    def __rsub__(self, other: Rational) -> Affine:
        return -self + other

    def __mul__(self, factor: Rational) -> Affine:
        if factor == 0:
            return Affine()
        if factor == 1 or not (self.terms or self.offset):
            return self
        return Affine(tuple([(i, exact(c * factor)) for i, c in self.terms]), exact(self.offset * factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Rational) -> Affine:
        return self if divisor == 1 else self * exact(Fraction(1) / divisor)

    def evaluate(self, values: Mapping[str, int]) -> Rational:
        """Return the value at an index point that binds every index of the expression."""
        return exact(self.offset + sum(c * values[i] for i, c in self.terms))

    def substitute(self, replacements: Mapping[str, Affine | Rational]) -> Affine:
        """Replace indices by expressions; those not in ``replacements`` stay."""
        for i, _ in self.terms:
            if i in replacements:
                break
        else:
            return self
        offset = self.offset
        kept: dict[str, Rational] = {}
        for index, coefficient in self.terms:
            replacement = replacements.get(index)
            if isinstance(replacement, Affine):
                offset += replacement.offset * coefficient
                for inner, factor in replacement.terms:
                    kept[inner] = kept.get(inner, 0) + factor * coefficient
            elif replacement is None:
                kept[index] = kept.get(index, 0) + coefficient
            else:
                offset += replacement * coefficient
        return Affine.of(kept, offset)

    def rename(self, names: Mapping[str, str]) -> Affine:
        """Rename indices; coefficients of indices that get equal names are added."""
        if not any(i in names for i, _ in self.terms):
            return self
        total: dict[str, Rational] = {}
        for index, coefficient in self.terms:
            name = names.get(index, index)
            total[name] = total.get(name, 0) + coefficient
        return Affine.of(total, self.offset)

    def bounds(self, ranges: Mapping[str, int]) -> tuple[Rational, Rational]:
        """Return the least and greatest value over the box ``0 <= i < ranges[i]``."""
        low = high = self.offset
        for index, coefficient in self.terms:
            reach = coefficient * (ranges[index] - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return exact(low), exact(high)

    def __str__(self) -> str:
        """Print the constant first, then the terms by index: ``4 - i + 3*x``."""
        parts: list[str] = [] if self.offset == 0 and self.terms else [str(self.offset)]
        for index, coefficient in self.terms:
            size = abs(coefficient)
            body = index if size == 1 else f"{size}*{index}"
            if not parts:
                parts.append(body if coefficient > 0 else f"-{body}")
            else:
                parts.append(f"{'+' if coefficient > 0 else '-'} {body}")
        return " ".join(parts)


def movement(access: Iterable[Affine], strides: Iterable[int], index: str) -> int:
    """Return the number of elements that an integral access moves when ``index`` grows by one."""
    steps = ((term, stride) for affine, stride in zip(access, strides, strict=True) for term in affine.terms)
    return sum(int(coefficient) * stride for (name, coefficient), stride in steps if name == index)


def total(expressions: Iterable[Affine]) -> Affine:
    """Return the sum of ``expressions``."""
    result = Affine()
    for expression in expressions:
        result = result + expression
    return result
