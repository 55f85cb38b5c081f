"""Two finite fields in place of the reals: arithmetic is exact there, so that no order of sums shows in a result.

A float that depends on an argument is a pair of residues, one modulo :data:`P` and one modulo :data:`Q`, a divisor of
``P - 1``. Sums, products and quotients are those of the fields. ``exp`` takes the residue modulo Q as exponent of a
:data:`GENERATOR` of the subgroup of order Q, so ``exp(a) * exp(b) = exp(a + b)`` modulo P; the other residue of its
result is a hash. All further functions are hashes of their arguments. Comparisons, maxima and minima go by the
residue of least magnitude modulo P, which negation turns round; only residues modulo P are compared in the end. Two
polynomials of degree d that differ agree at random points with probability d / P at most (Schwartz and Zippel).

A float that depends on constants and coordinates alone is also a *known* number, computed as the compiler does when it
folds constants. It is embedded into the fields when it meets a number that is not known: as the fraction that it was
rounded from, so that 0.1 is the same in f32 and f64. Where two known numbers make one whose fraction cannot be
recognised, the residues are lost, and with them what is computed from it and an argument: such an element is equal to
any other. So is nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

Q: Final = 33554093
P: Final = 2 * Q + 1
GENERATOR: Final = 4
SHIFT: Final = 1 << 26
"""Residues are packed as ``a · SHIFT + b``, below 2^52, which a double holds exactly."""

LOST: Final = -1.0
ONE: Final = float(SHIFT + 1)
_LARGEST_DENOMINATOR: Final = 1000
_MASK: Final = SHIFT - 1


def packed(first: Array, second: Array) -> Array:
    """Return pairs of residues as doubles."""
    return np.asarray(first.astype(np.uint64) * np.uint64(SHIFT) + second.astype(np.uint64)).astype(np.float64)


def unpacked(residues: Array) -> tuple[Array, Array]:
    """Return pairs of residues as integers; those that are lost as anything."""
    bits = np.abs(residues).astype(np.uint64)
    return bits // np.uint64(SHIFT), bits & np.uint64(_MASK)


def centred(residues: Array) -> Array:
    """Return the numbers of least magnitude with these residues modulo P, by which pairs are ordered."""
    first, _ = unpacked(residues)
    signed = first.astype(np.int64)
    return np.where(signed > P // 2, signed - P, signed).astype(np.float64)


def add(left: Array, right: Array) -> Array:
    """Add pairs of residues."""
    (a, b), (c, d) = unpacked(left), unpacked(right)
    return packed((a + c) % np.uint64(P), (b + d) % np.uint64(Q))


def negative(operand: Array) -> Array:
    """Return pairs of residues of the opposite sign."""
    a, b = unpacked(operand)
    return packed((np.uint64(P) - a) % np.uint64(P), (np.uint64(Q) - b) % np.uint64(Q))


def multiply(left: Array, right: Array) -> Array:
    """Multiply pairs of residues."""
    (a, b), (c, d) = unpacked(left), unpacked(right)
    return packed(a * c % np.uint64(P), b * d % np.uint64(Q))


def inverse(operand: Array) -> Array:
    """Return what the pairs give one with; 0 for 0."""
    a, b = unpacked(operand)
    return packed(_power(a, np.full_like(a, P - 2), P), _power(b, np.full_like(b, Q - 2), Q))


def power(operand: Array, exponents: Array) -> Array:
    """Raise pairs to whole powers."""
    base = np.where(exponents < 0, inverse(operand), operand)
    a, b = unpacked(base)
    size = np.abs(exponents).astype(np.uint64)
    return packed(_power(a, size, P), _power(b, size, Q))


def exponential(operand: Array) -> Array:
    """Return ``exp`` of pairs: a homomorphism from Z_Q to the multiplicative group of Z_P."""
    _, b = unpacked(operand)
    first = _power(np.full_like(b, GENERATOR), b, P)
    _, second = unpacked(hashed("exp", packed(first, np.zeros_like(first))))
    second = np.where(first == 1, np.uint64(1), second)
    return packed(first, second)


def hashed(name: str, *operands: Array) -> Array:
    """Return residues that depend on a name and on the operands' residues modulo P."""
    state = np.asarray(np.uint64(_seed(name)))
    for operand in operands:
        state = _mixed(state ^ unpacked(operand)[0])
    return packed(np.asarray(state >> np.uint64(32)) % np.uint64(P), state % np.uint64(Q))


def embedded(values: Array) -> Array:
    """Return the residues of known finite numbers: those of the fractions that they were rounded from."""
    flat = np.asarray(values, np.float64).reshape(-1)
    result = np.empty(flat.shape)
    whole = (np.abs(flat) < 2.0**53) & (flat == np.rint(flat))
    integers = np.where(whole, flat, 0.0).astype(np.int64)
    result[:] = packed(np.mod(integers, P), np.mod(integers, Q))
    for place in np.flatnonzero(~whole):
        result[place] = _of_fraction(float(flat[place])) if math.isfinite(flat[place]) else 0.0
    return result.reshape(np.shape(values))


def _power(base: Array, exponents: Array, modulus: int) -> Array:
    result, square, left = np.ones_like(base), base.copy(), exponents.copy()
    while np.any(left):
        result = np.where(left & np.uint64(1) == 1, result * square % np.uint64(modulus), result)
        square, left = square * square % np.uint64(modulus), left >> np.uint64(1)
    return result


@lru_cache(maxsize=1024)
def _seed(name: str) -> int:
    return int.from_bytes(name.encode(), "little") * 0x9E3779B97F4A7C15 % (1 << 64)


def _mixed(state: Array) -> Array:
    """Scramble 64 bits (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)."""
    with np.errstate(over="ignore"):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


@lru_cache(maxsize=1 << 16)
def _of_fraction(value: float) -> float:
    fraction = fraction_of(value)
    above, below = fraction.numerator, fraction.denominator
    first, second = (above * pow(below, -1, modulus) % modulus for modulus in (P, Q))
    return float(first * SHIFT + second)


def fraction_of(value: float) -> Fraction:
    """Return the number that a finite float was most likely rounded from.

    It is the float itself if that has at most 12 significant bits, else a fraction with a small denominator that is as
    near as f32 can tell, else the decimal fraction of six digits.
    """
    mantissa, _ = math.frexp(value)
    if (mantissa * 4096).is_integer():
        return Fraction(value)
    near = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    if abs(near - Fraction(value)) <= abs(Fraction(value)) / (1 << 22):
        return near
    return Fraction(f"{value:.6g}")
