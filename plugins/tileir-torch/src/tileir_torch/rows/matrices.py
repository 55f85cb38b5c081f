"""Factorisation of small matrices and solution of linear equations, by elimination in a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import scan
from tileir_torch.importing import Call
from tileir_torch.rows.table import row

_MOST: Final = 64
"""Maximum size up to which a loop is about as fast as LAPACK's blocks, which eager execution calls."""


def _checked(call: Call, *matrices: Tensor) -> None:
    if any(int(size) > _MOST for x in matrices for size in x.shape[-2:]):
        raise call.refuse(f"LAPACK is faster for more than {_MOST} rows or columns")


def _numbers(call: Call, count: int) -> Tensor:
    return call.tensor(np.arange(count))


def _turned(x: Tensor) -> Tensor:
    """Return transposed matrices."""
    return ops.swapaxes(x, -1, -2)


def _spread(x: Tensor, batch: Sequence[int]) -> Tensor:
    return ops.broadcast_to(x, *batch, *(int(size) for size in x.shape[-2:]))


def _batch(*tensors: Tensor) -> tuple[int, ...]:
    return np.broadcast_shapes(*(tuple(int(size) for size in x.shape[:-2]) for x in tensors))


def _column(x: Tensor, columns: Tensor, at: Tensor) -> Tensor:
    """Return a column, [..., M, 1]."""
    return ops.sum(ops.where(columns == at, x, 0), [x.rank - 1], keepdims=True)


def _row(x: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    """Return a row, [..., 1, N], which may differ for each matrix."""
    return ops.sum(ops.where(rows == at, x, 0), [x.rank - 2], keepdims=True)


def _swapped(x: Tensor, rows: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return matrices with two rows swapped."""
    first, second = _row(x, rows, one), _row(x, rows, other)
    return ops.where(rows == one, second, ops.where(rows == other, first, x))


def _factors(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return L below the diagonal and U, [..., M, N], and the pivot row, from 1 on, of each step, [..., K]."""
    _checked(call, x)
    height, width = (int(size) for size in x.shape[-2:])
    if 0 in x.shape:
        return x, call.full(0, (*_batch(x), min(height, width)), DType.I32)

    def step(rest: Tensor, at: Tensor, high: Tensor, wide: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = ops.expand_dims(high, 1), ops.expand_dims(wide, 0)
        size = ops.where(rows < at, -1.0, ops.abs(_column(rest, columns, at)))
        place = ops.cast(ops.argmax(size, rest.rank - 2, keepdims=True), DType.I64)
        rest = _swapped(rest, rows, at, place)
        top, column = _row(rest, rows, at), _column(rest, columns, at)
        pivot = _column(top, columns, at)
        factors = ops.where(rows > at, column / ops.where(pivot == 0, 1.0, pivot), 0.0)
        below = ops.where(columns > at, rest - factors * top, ops.where(columns == at, factors, rest))
        return ops.where(rows > at, below, rest), ops.cast(place, DType.I32) + 1

    steps = _numbers(call, min(height, width))
    found, places = scan(step, [x], [steps], [_numbers(call, height), _numbers(call, width)])
    flat = ops.reshape(places, *(int(size) for size in places.shape[: x.rank - 1]))
    return found, ops.moveaxis(flat, 0, flat.rank - 1)


def _permuted(call: Call, x: Tensor, places: Tensor, *, back: bool) -> Tensor:
    """Return matrices with rows permuted as in an elimination, or ``back``."""
    if 0 in x.shape or 0 in places.shape:
        return x
    count = int(places.shape[-1])
    batch = [int(size) for size in x.shape[:-2]]
    along = ops.moveaxis(ops.cast(ops.broadcast_to(places, *batch, count), DType.I64) - 1, len(batch), 0)
    along = ops.reshape(along, count, *batch, 1, 1)

    def step(rest: Tensor, at: Tensor, place: Tensor, high: Tensor) -> Tensor:
        return _swapped(rest, ops.expand_dims(high, 1), at, place)

    rows = _numbers(call, int(x.shape[-2]))
    return scan(step, [x], [_numbers(call, count), along], [rows], reverse=back)[0]


def _triangular(call: Call, a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """Return ``x`` with ``a @ x == b``, without reading the other triangle of ``a``, nor a unit diagonal."""
    _checked(call, a, b)
    batch = _batch(a, b)
    if 0 in (*batch, *b.shape):
        return _spread(b, batch)

    def step(rest: Tensor, at: Tensor, a: Tensor, numbers: Tensor) -> Tensor:
        rows, columns = ops.expand_dims(numbers, 1), ops.expand_dims(numbers, 0)
        column, top = _column(a, columns, at), _row(rest, rows, at)
        top = top if unit else top / _row(column, rows, at)
        later = rows < at if upper else rows > at
        return ops.where(rows == at, top, ops.where(later, rest - column * top, rest))

    numbers = _numbers(call, int(a.shape[-1]))
    return scan(step, [_spread(b, batch)], [numbers], [_spread(a, batch), numbers], reverse=upper)[0]


def _solved(call: Call, factors: Tensor, places: Tensor, b: Tensor, *, adjoint: bool = False) -> Tensor:
    """Return ``x`` with ``a @ x == b``, or ``a.mT @ x == b``, for the factors of ``a``."""
    b = _spread(b, _batch(factors, b))
    if adjoint:
        y = _triangular(call, _turned(factors), b, upper=False)
        return _permuted(call, _triangular(call, _turned(factors), y, upper=True, unit=True), places, back=True)
    y = _triangular(call, factors, _permuted(call, b, places, back=False), upper=False, unit=True)
    return _triangular(call, factors, y, upper=True)


def _diagonal(call: Call, x: Tensor) -> Tensor:
    if 0 in x.shape:
        return call.full(0, (*_batch(x), min(int(size) for size in x.shape[-2:])), x.dtype)
    height, width = (_numbers(call, int(size)) for size in x.shape[-2:])
    found = ops.sum(ops.where(ops.expand_dims(height, 1) == ops.expand_dims(width, 0), x, 0.0), [x.rank - 2])
    return ops.slice(found, ..., slice(0, min(int(x.shape[-2]), int(x.shape[-1]))))


def _fault(call: Call, diagonal: Tensor) -> Tensor:
    """Return the first step, from 1 on, whose pivot is 0 or not a number; 0 if there is none."""
    count = int(diagonal.shape[-1])
    if not count:
        return call.full(0, [int(size) for size in diagonal.shape[:-1]], DType.I32)
    good = ops.abs(diagonal) > 0
    steps = ops.cast(_numbers(call, count), DType.I32) + 1
    first = ops.min(ops.where(good, count + 1, steps), [diagonal.rank - 1])
    return ops.cast(ops.where(first > count, 0, first), DType.I32)


def _eye(call: Call, x: Tensor, size: int) -> Tensor:
    return call.tensor(np.eye(size, dtype=x.dtype.numpy))


@row("linalg_lu_factor_ex.default")
def lu_factor(
    call: Call, x: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    factors, places = _factors(call, x)
    return factors, places, _fault(call, _diagonal(call, factors))


@row("lu_unpack.default")
def unpack(
    call: Call, factors: Tensor, places: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the permutation, L and U; unrequested matrices have no elements."""
    _checked(call, factors)
    height, width = (int(size) for size in factors.shape[-2:])
    batch, least = _batch(factors), min(height, width)
    sizes = [call.importer.sizes(each) for each in call.value]
    order, left, right = (call.full(0, each, factors.dtype) for each in sizes)
    if unpack_pivots:
        order = _permuted(call, _spread(_eye(call, factors, height), batch), places, back=True)
    if unpack_data and 0 not in factors.shape:
        part = ops.slice(factors, ..., slice(0, least))
        eye = call.tensor(np.eye(height, least, dtype=factors.dtype.numpy))
        left = ops.where(call.tensor(np.tri(height, least, -1, dtype=bool)), part, eye)
        part = ops.slice(factors, ..., slice(0, least), slice(None))
        right = ops.where(call.tensor(~np.tri(least, width, -1, dtype=bool)), part, 0.0)
    return order, left, right


@row("linalg_lu.default")
def lu(call: Call, x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    return unpack(call, *_factors(call, x))


@row("linalg_lu_solve.default")
def lu_solve(
    call: Call, factors: Tensor, places: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if left:
        return _solved(call, factors, places, b, adjoint=adjoint)
    return _turned(_solved(call, factors, places, _turned(b), adjoint=not adjoint))


@row("_linalg_solve_ex.default")
def solve(
    call: Call, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    is_vector = b.rank == 1 or tuple(b.shape) == tuple(a.shape[:-1])
    factors, places = _factors(call, a)
    right = ops.expand_dims(b, b.rank) if is_vector else b
    found = lu_solve(call, factors, places, right, left=left or is_vector)
    found = ops.squeeze(found, -1) if is_vector else found
    return found, factors, places, _fault(call, _diagonal(call, factors))


@row("linalg_inv_ex.default")
def inverse(call: Call, x: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    factors, places = _factors(call, x)
    found = _solved(call, factors, places, _eye(call, x, int(x.shape[-1])))
    return found, _fault(call, _diagonal(call, factors))


def _signs(call: Call, places: Tensor, dtype: DType) -> Tensor:
    """Return -1 if an odd number of rows were swapped, and 1 otherwise."""
    steps = ops.cast(_numbers(call, int(places.shape[-1])), DType.I32) + 1
    return ops.prod(ops.where(places == steps, call.full(1, (), dtype), -1.0), [places.rank - 1])


def _of_determinant(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of eager execution: of the transposed matrix if it is row-major."""
    return _factors(call, _turned(x) if call.given(0).is_contiguous() else x)


@row("_linalg_det.default")
def determinant(call: Call, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, places = _of_determinant(call, x)
    diagonal = _diagonal(call, factors)
    return ops.prod(diagonal, [diagonal.rank - 1]) * _signs(call, places, x.dtype), factors, places


@row("_linalg_slogdet.default")
def log_determinant(call: Call, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, places = _of_determinant(call, x)
    diagonal = _diagonal(call, factors)
    axes = [diagonal.rank - 1]
    sign = ops.prod(ops.sign(diagonal), axes) * _signs(call, places, x.dtype)
    return sign, ops.sum(ops.log(ops.abs(diagonal)), axes), factors, places


@row("linalg_solve_triangular.default")
def solve_triangular(
    call: Call, a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if left:
        return _triangular(call, a, b, upper=upper, unit=unitriangular)
    return _turned(_triangular(call, _turned(a), _turned(b), upper=not upper, unit=unitriangular))


@row("triangular_solve.default")
def triangular_solve(
    call: Call, b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    turned = _turned(a) if transpose else a
    found = _triangular(call, turned, b, upper=upper is not transpose, unit=unitriangular)
    return found, _spread(a, _batch(a, b))


@row("linalg_cholesky_ex.default")
def cholesky(call: Call, x: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Return triangles, reading only that triangle of the argument, and the first minor that is not positive."""
    _checked(call, x)
    if 0 in x.shape:
        return x, _fault(call, _diagonal(call, x))

    def step(rest: Tensor, at: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = ops.expand_dims(numbers, 1), ops.expand_dims(numbers, 0)
        column = ops.where(rows < at, 0.0, _column(rest, columns, at))
        column = column / ops.sqrt(_row(column, rows, at))
        return rest - column * _turned(column), ops.squeeze(column, -1)

    numbers = _numbers(call, int(x.shape[-1]))
    columns = scan(step, [_turned(x) if upper else x], [numbers], [numbers])[1]
    found = ops.moveaxis(columns, 0, x.rank - 2 if upper else x.rank - 1)
    return found, _fault(call, _diagonal(call, found))


@row("cholesky_solve.default")
def cholesky_solve(call: Call, b: Tensor, x: Tensor, upper: bool = False) -> Tensor:
    lower = _turned(x) if upper else x
    return _triangular(call, _turned(lower), _triangular(call, lower, b, upper=False), upper=True)


@row("cholesky_inverse.default")
def cholesky_inverse(call: Call, x: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(call, _eye(call, x, int(x.shape[-1])), x, upper)
