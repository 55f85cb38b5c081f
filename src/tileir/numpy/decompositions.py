"""Solutions of linear equations, determinants and Cholesky factors, by elimination in a scan over rows."""

from __future__ import annotations

from typing import NamedTuple

import tileir.ops as ops
from tileir.numpy.dispatch import named
from tileir.ops.shared.foundation import floating, mistaken
from tileir.tile.building.scans import scan
from tileir.tile.building.tensors import Tensor, call


@named("linalg.solve")
def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return ``x`` with ``a @ x == b``, by Gauss and Jordan's elimination with the greatest pivot of each column.

    Args:
        a: Square matrices, [..., N, N]; of singular ones the result has infinities or NaN, where NumPy raises.
        b: One vector, [N], or matrices, [..., N, M].

    """
    a = _square(a)
    right = ops.expand_dims(b, -1) if b.rank == 1 else b
    product = floating(ops.matmul(a, right))  # which has the sizes and dtype of the result
    wide = ops.broadcast_to(call("as_like", right, product), product.dims)
    square = ops.broadcast_to(call("as_like", a, product), (*product.dims[:-2], *a.dims[-2:]))

    def step(left: Tensor, right: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        chosen = _Pivot.of(left, row)
        left, right = chosen.swapped(left), chosen.swapped(right)
        factors = ops.where(chosen.here, 0.0, chosen.column(left))
        found = []
        for part in (left, right):
            top = chosen.row_of(part) / chosen.value
            found.append(ops.where(chosen.here, top, part - factors * top))
        return found[0], found[1]

    found = scan(step, (square, wide), (_rows(a),))[1]
    return ops.squeeze(found, -1) if b.rank == 1 else found


@named("linalg.inv")
def inverse(x: Tensor) -> Tensor:
    """Return the inverses of square matrices, [..., N, N]."""
    x = _square(x)
    return solve(x, ops.broadcast_to(ops.eye(x, x.dims[-1]), x.dims))


class SignAndLogarithm(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


@named("linalg.slogdet")
def slogdet(x: Tensor) -> SignAndLogarithm:
    """Return signs of the determinants of square matrices, [..., N, N], and logarithms of their magnitudes."""
    signs, pivots = _pivots(x)
    sign = ops.prod(signs * call("sign", pivots), 0)
    return SignAndLogarithm(sign, ops.sum(ops.log(ops.abs(pivots)), 0))


@named("linalg.det")
def determinant(x: Tensor) -> Tensor:
    """Return the determinants of square matrices, [..., N, N]."""
    signs, pivots = _pivots(x)
    return ops.prod(signs * pivots, 0)


def _pivots(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pivots of an elimination, and 1, or -1 where rows were swapped, along a new first axis."""
    x = _square(x)

    def step(left: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chosen = _Pivot.of(left, row)
        left = chosen.swapped(left)
        divisor = ops.where(ops.equal(chosen.value, 0.0), 1.0, chosen.value)  # of a column of zeros
        factors = ops.where(chosen.below, chosen.column(left) / divisor, 0.0)
        sign = ops.where(ops.equal(chosen.place, row), 1.0, -1.0)
        return left - factors * chosen.row_of(left), ops.squeeze(sign, [-1, -2]), ops.squeeze(chosen.value, [-1, -2])

    _, signs, pivots = scan(step, (floating(x),), (_rows(x),))
    return call("as_like", signs, pivots), pivots


class _Pivot(NamedTuple):
    """The element that a step of an elimination divides by: the greatest of a column from the step's row on."""

    row: Tensor
    place: Tensor  # [..., 1, 1], the row that it stands in
    rows: Tensor  # [N, 1], the number of each row
    columns: Tensor  # [1, N]
    value: Tensor  # [..., 1, 1]

    @classmethod
    def of(cls, matrix: Tensor, row: Tensor) -> _Pivot:
        """Return the pivot of a step for a matrix, [..., N, N]."""
        numbers = _rows(matrix)
        rows, columns = ops.expand_dims(numbers, -1), ops.expand_dims(numbers, 0)
        column = ops.sum(ops.where(ops.equal(columns, row), matrix, 0.0), -1, keepdims=True)
        place = ops.argmax(ops.where(ops.less(rows, row), -1.0, ops.abs(column)), -2, keepdims=True)
        value = ops.sum(ops.where(ops.equal(rows, place), column, 0.0), -2, keepdims=True)
        return cls(row, place, rows, columns, value)

    @property
    def here(self) -> Tensor:
        """Mask of the row of the step, [N, 1]."""
        return ops.equal(self.rows, self.row)

    @property
    def below(self) -> Tensor:
        """Mask of the rows that come later, [N, 1]."""
        return ops.greater(self.rows, self.row)

    def column(self, matrix: Tensor) -> Tensor:
        """Return the column of the step, [..., N, 1]."""
        return ops.sum(ops.where(ops.equal(self.columns, self.row), matrix, 0.0), -1, keepdims=True)

    def row_of(self, matrix: Tensor) -> Tensor:
        """Return the row of the step, [..., 1, M]."""
        return ops.sum(ops.where(self.here, matrix, 0.0), -2, keepdims=True)

    def swapped(self, matrix: Tensor) -> Tensor:
        """Return a matrix whose row of the step is that of the pivot, and the other way round."""
        there = ops.equal(self.rows, self.place)
        pivot = ops.sum(ops.where(there, matrix, 0.0), -2, keepdims=True)
        return ops.where(self.here, pivot, ops.where(there, self.row_of(matrix), matrix))


@named("linalg.cholesky")
def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """Return lower triangles ``L`` with ``L @ L.mT == x`` of positive definite matrices, [..., N, N], or ``L.mT``.

    Only the lower triangles of ``x`` are read; of a matrix that is not positive definite the result has NaN.
    """
    x = _square(x)

    def step(rest: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        numbers = _rows(rest)
        column = ops.sum(ops.where(ops.equal(numbers, row), rest, 0.0), -1)
        pivot = ops.sum(ops.where(ops.equal(numbers, row), column, 0.0), -1, keepdims=True)
        found = ops.where(ops.less(numbers, row), 0.0, column / ops.sqrt(pivot))
        return rest - ops.expand_dims(found, -1) * ops.expand_dims(found, -2), found

    columns = scan(step, (floating(x),), (_rows(x),))[1]
    return ops.transpose(columns, [*range(1, x.rank - 1), *((0, x.rank - 1) if upper else (x.rank - 1, 0))])


def _rows(x: Tensor) -> Tensor:
    return ops.arange(x, x.dims[-1])


def _square(x: Tensor) -> Tensor:
    """Return matrices whose rows and columns are as many, which is checked where sizes are known."""
    if x.rank < 2:
        raise mistaken(f"a matrix has two axes at least, and this tensor has {x.rank}")
    size = x.dims[-2].call("match", x.dims[-1])
    return x if x.dims[-2] == x.dims[-1] else ops.reshape(x, *x.dims[:-2], size, size)
