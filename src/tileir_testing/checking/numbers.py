"""The number system of checks: floats are numbers of two finite fields, or known ones."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, Op
from tileir.core.numbers import arithmetic
from tileir.core.numbers.arithmetic import Number
from tileir.core.numbers.number_system import NumberSystem
from tileir_testing.checking import fields

Array: TypeAlias = np.ndarray[Any, Any]

UNKNOWN: Final = -1.5e308
"""The real part of a number that depends on arguments; that of a known one is its value. NaN is undefined memory."""

_ARITHMETIC: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FMA})
_LARGEST_EXPONENT: Final = 1024


class ExactNumbers(NumberSystem):
    """Floats as complex numbers: the known value, or :data:`UNKNOWN`, with packed residues."""

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """Return complex128 for floats."""
        return np.dtype(np.complex128) if dtype.is_float else dtype.numpy

    def encoded(self, array: Array) -> Array:
        """Return known numbers."""
        dtype = arithmetic.dtype_of(array)
        return _known(array.astype(np.float64)) if dtype.is_float else array

    def constant(self, value: Number, dtype: DType) -> Array:
        """Return a known number."""
        return self.encoded(arithmetic.constant(value, dtype))

    def cast(self, array: Array, dtype: DType) -> Array:
        """Convert by value; floats that depend on arguments are equal in all float types."""
        if array.dtype != np.complex128:
            return self.encoded(arithmetic.cast(array, dtype))
        unknown = _is_unknown(array)
        with np.errstate(all="ignore"):
            values = np.where(unknown, 0.0, array.real)
            if dtype.is_float:
                rounded = arithmetic.cast(values, dtype).astype(np.float64)
                kept = unknown | (rounded == values)
                return array if kept.all() else np.where(kept, array, _known(rounded))
            if dtype.is_bool:
                return np.asarray(unknown | (array.real != 0))
            whole = arithmetic.cast(values, dtype)
            first, _ = fields.unpacked(fields.hashed("integer", array.imag))
            return np.where(unknown, (first % np.uint64(100)).astype(dtype.numpy), whole)

    def apply(self, op: Op, dtype: DType, *args: Array) -> Array:
        """Compute argument-dependent values in the finite fields, and known values as the compiler does."""
        if all(arg.dtype != np.complex128 for arg in args):
            return self.encoded(super().apply(op, dtype, *args))
        if op is Op.COND:
            return np.where(args[0], args[1], args[2])
        if op is Op.IDENT:
            return args[0]
        if op is Op.BITS:
            return _pattern(args[0], dtype)
        if all(arg.ndim == 0 for arg in args) and (single := _single(op, args)) is not None:
            return single
        args = tuple(np.broadcast_arrays(*args))
        with np.errstate(all="ignore"):
            if op.info.compares:
                return arithmetic.apply(op, *map(_ordered, args))
            if op in (Op.MAX, Op.MIN):
                return _extremum(op, *args)
            return _computed(op, dtype, args)

    def order(self, array: Array, axis: int, *, descending: bool) -> Array:
        """Return the places of the elements in sorted order."""
        plain = _ordered(array) if array.dtype == np.complex128 else array
        return super().order(plain, axis, descending=descending)

    def merge_at(self, aggregation: Aggregation, dtype: DType, out: Array, places: Array, values: Array) -> None:
        """Merge pairs of values that meet at one place until one of each is left: so few steps do."""
        op = aggregation.op
        if out.dtype != np.complex128 or op is None:
            super().merge_at(aggregation, dtype, out, places, values)
            return
        order = np.argsort(places, kind="stable")
        where, what = places[order], np.broadcast_to(values, (*places.shape, *out.shape[1:]))[order]
        while where.size and (same := where[1:] == where[:-1]).any():
            starts = np.flatnonzero(np.concatenate(([True], ~same)))
            rank = np.arange(where.size) - np.repeat(starts, np.diff(np.append(starts, where.size)))
            second = np.flatnonzero(rank % 2 == 1)
            what = what.copy()
            what[second - 1] = self.apply(op, dtype, what[second - 1], what[second])
            where, what = (np.delete(column, second, axis=0) for column in (where, what))
        out[where] = self.apply(op, dtype, out[where], what)

    def product(self, left: Array, right: Array, dtype: DType) -> Array:
        """Multiply matrices."""
        if not dtype.is_float:
            return super().product(left, right, dtype)
        total = np.zeros((left.shape[0], right.shape[1]), np.complex128)
        for step in range(left.shape[1]):
            total = self.apply(Op.FMA, dtype, left[:, step, None], right[None, step, :], total)
        return total

    def random(self, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Return random numbers: residues for floats, small integers, and bools."""
        if dtype.is_float:
            first, second = (rng.integers(2, modulus, shape).astype(np.uint64) for modulus in (fields.P, fields.Q))
            return _unknown(fields.packed(first, second))
        if dtype.is_bool:
            return rng.integers(0, 2, shape).astype(np.bool_)
        return rng.integers(0 if not dtype.is_signed else -4, 9, shape).astype(dtype.numpy)


EXACT: Final = ExactNumbers()


def differing(left: Array, right: Array) -> Array:
    """Return the positions where two results of one dtype differ; numbers without residues equal all but NaN."""
    if left.dtype != np.complex128:
        return np.asarray(left != right)
    undefined = np.isnan(left.real) != np.isnan(right.real)
    known = ~_is_unknown(left) & ~_is_unknown(right)
    with np.errstate(all="ignore"):
        near = np.isclose(left.real, right.real, rtol=1e-3, atol=1e-6, equal_nan=True)
        unequal = fields.unpacked(left.imag)[0] != fields.unpacked(right.imag)[0]
    infinite = np.isinf(left.real) | np.isinf(right.real)
    lost = (left.imag < 0) | (right.imag < 0)
    return np.asarray(undefined | np.where(known | infinite, ~near, unequal & ~lost & ~np.isnan(left.real)))


def shown(value: object) -> str:
    """Return a number as messages show it: a known one, or its residue modulo P."""
    if not isinstance(value, complex):
        return str(value)
    if value.real != UNKNOWN:
        return "undefined" if np.isnan(value.real) else f"{value.real:.9g}"
    return f"{int(fields.unpacked(np.asarray(value.imag))[0])} (mod {fields.P})"


def _pattern(array: Array, dtype: DType) -> Array:
    """Return a value in place of the bits of numbers: equal for equal numbers."""
    hashes = fields.hashed(Op.BITS.value, array.imag)
    return _unknown(hashes) if dtype.is_float else (fields.unpacked(hashes)[0] % np.uint64(100)).astype(dtype.numpy)


def _is_unknown(array: Array) -> Array:
    return np.asarray(array.real == UNKNOWN)


def _known(values: Array) -> Array:
    result = np.empty(values.shape, np.complex128)
    result.real, result.imag = values, fields.embedded(values)
    return result


def _unknown(residues: Array) -> Array:
    """Return numbers with these residues; those of 0 and 1 are known."""
    result = np.empty(np.shape(residues), np.complex128)
    result.real = np.where(residues == 0, 0.0, np.where(residues == fields.ONE, 1.0, UNKNOWN))
    result.imag = residues
    return result


def _ordered(array: Array) -> Array:
    """Return plain floats that are ordered as the numbers are."""
    return np.where(_is_unknown(array), fields.centred(array.imag), array.real)


def _extremum(op: Op, left: Array, right: Array) -> Array:
    one, other = _ordered(left), _ordered(right)
    takes_left = (one >= other) if op is Op.MAX else (one <= other)
    return np.where((takes_left | np.isnan(one)) & ~np.isnan(other), left, right)


def _single(op: Op, args: tuple[Array, ...]) -> Array | None:
    """Compute the commonest operations on single numbers that are not known, without the cost of arrays."""
    parts = []
    for arg in args:
        number = complex(arg)
        if number.real != UNKNOWN or number.imag < 0:
            return None
        parts.append(divmod(int(number.imag), fields.SHIFT))
    match op:
        case Op.ADD:
            first, second = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        case Op.SUB:
            first, second = parts[0][0] - parts[1][0], parts[0][1] - parts[1][1]
        case Op.MUL:
            first, second = parts[0][0] * parts[1][0], parts[0][1] * parts[1][1]
        case Op.FMA:
            first, second = (one * other + third for one, other, third in zip(*parts, strict=True))
        case _:
            return None
    residues = first % fields.P * fields.SHIFT + second % fields.Q
    return np.asarray(complex(UNKNOWN, residues)) if residues not in (0, int(fields.ONE)) else None


def _computed(op: Op, dtype: DType, args: tuple[Array, ...]) -> Array:
    """Compute an operation whose result is a float."""
    unknown = [_is_unknown(arg) for arg in args]
    any_unknown = np.logical_or.reduce(unknown)
    if any_unknown.all() and all(lanes.all() for lanes in unknown):
        return _from_residues(op, args)
    plain = [_ordered(arg) for arg in args]
    values = arithmetic.apply(op, *(value.astype(dtype.numpy) for value in plain)).astype(np.float64)
    special = ~np.isfinite(plain[0]) if len(args) == 1 else ~np.logical_and.reduce([np.isfinite(p) for p in plain])
    if op in (Op.DIV, Op.MOD):
        special = special | (plain[1] == 0)
    known = _known(values)
    if op in _ARITHMETIC or op in (Op.NEG, Op.ABS):
        residues = _from_residues(op, args).imag
        recognised = special | (known.imag == residues) | ~np.isfinite(values)
        known.imag = np.where(recognised, known.imag, fields.LOST)
    by_value = ~any_unknown | special
    return known if by_value.all() else np.where(by_value, known, _from_residues(op, args))


def _from_residues(op: Op, args: tuple[Array, ...]) -> Array:
    residues = [arg.imag for arg in args]
    lost = np.logical_or.reduce([part < 0 for part in residues])
    result = _function(op, args, residues)
    return _unknown(np.where(lost, fields.LOST, result) if lost.any() else result)


def _function(op: Op, args: tuple[Array, ...], residues: list[Array]) -> Array:
    """Compute in the fields."""
    match op:
        case Op.ADD:
            return fields.add(*residues)
        case Op.SUB:
            return fields.add(residues[0], fields.negative(residues[1]))
        case Op.MUL:
            return fields.multiply(*residues)
        case Op.FMA:
            return fields.add(fields.multiply(residues[0], residues[1]), residues[2])
        case Op.DIV:
            return fields.multiply(residues[0], fields.inverse(residues[1]))
        case Op.NEG:
            return fields.negative(residues[0])
        case Op.ABS:
            return np.where(_ordered(args[0]) < 0, fields.negative(residues[0]), residues[0])
        case Op.EXP:
            return fields.exponential(residues[0])
        case Op.SIGMOID:
            ones = np.full_like(residues[0], fields.ONE)
            return fields.inverse(fields.add(ones, fields.exponential(fields.negative(residues[0]))))
        case Op.RSQRT:
            return fields.inverse(fields.hashed(Op.SQRT.value, residues[0]))
        case Op.POW:
            return _power(args[1], residues)
        case _:
            return fields.hashed(op.value, *residues)


def _power(exponent: Array, residues: list[Array]) -> Array:
    """Raise to known whole powers by products, as passes may; other powers are hashes."""
    value = exponent.real
    whole = (np.abs(value) <= _LARGEST_EXPONENT) & (value == np.rint(value))
    result = fields.hashed(Op.POW.value, *residues)
    if not whole.any():
        return result
    return np.where(whole, fields.power(residues[0], np.where(whole, value, 0.0)), result)
