"""Products and norms of NumPy and of its ``linalg``, on tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import tileir.ops as ops
from tileir.numpy.dispatch import REFUSED, entered, named
from tileir.numpy.elementwise import product
from tileir.numpy.reductions import summable
from tileir.ops.shared.foundation import axes_of, axis_within, floating, mistaken
from tileir.tile.building.indices import value_for_arrays
from tileir.tile.building.scans import scan
from tileir.tile.building.tensors import Operand, Tensor, call


@named("linalg.solve")
def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return ``x`` with ``a @ x == b``, by Gauss-Jordan elimination with the greatest pivot of each column.

    Args:
        a: Square matrices, [..., N, N]; for singular ones the result has infinities or NaN, where NumPy raises.
        b: One vector, [N], or matrices, [..., N, M].
    """
    a = _square(a)
    right = ops.expand_dims(b, -1) if b.rank == 1 else b
    product = floating(ops.matmul(a, right))  # with the sizes and dtype of the result
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
    """Return the pivots of an elimination, and 1, or -1 if rows were swapped, along a new first axis."""
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
    """The divisor of a step of an elimination: the greatest element of a column from the step's row on."""

    row: Tensor
    place: Tensor  # [..., 1, 1], its row
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
        """Mask of the later rows, [N, 1]."""
        return ops.greater(self.rows, self.row)

    def column(self, matrix: Tensor) -> Tensor:
        """Return the column of the step, [..., N, 1]."""
        return ops.sum(ops.where(ops.equal(self.columns, self.row), matrix, 0.0), -1, keepdims=True)

    def row_of(self, matrix: Tensor) -> Tensor:
        """Return the row of the step, [..., 1, M]."""
        return ops.sum(ops.where(self.here, matrix, 0.0), -2, keepdims=True)

    def swapped(self, matrix: Tensor) -> Tensor:
        """Return a matrix with the rows of the step and of the pivot swapped."""
        there = ops.equal(self.rows, self.place)
        pivot = ops.sum(ops.where(there, matrix, 0.0), -2, keepdims=True)
        return ops.where(self.here, pivot, ops.where(there, self.row_of(matrix), matrix))


@named("linalg.cholesky")
def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """Return lower triangles ``L`` with ``L @ L.mT == x`` of positive definite matrices, [..., N, N], or ``L.mT``.

    Only the lower triangles of ``x`` are read; for a matrix that is not positive definite the result has NaN.
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
    """Return square matrices, which is checked if sizes are known."""
    if x.rank < 2:
        raise mistaken(f"a matrix has two axes at least, and this tensor has {x.rank}")
    size = x.dims[-2].call("match", x.dims[-1])
    return x if x.dims[-2] == x.dims[-1] else ops.reshape(x, *x.dims[:-2], size, size)


@named("dot")
@product
def dot(x: Operand, y: Operand) -> Tensor:
    """Return the product over the last axis of ``x`` and the last but one of ``y``."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or 0 in (x.rank, y.rank):
        return call("mul", x, y)
    if x.rank <= 2 and y.rank <= 2:
        return ops.matmul(x, y)
    return ops.tensordot(x, y, ([x.rank - 1], [max(y.rank - 2, 0)]))


@named("inner")
@product
def inner(x: Tensor, y: Tensor) -> Tensor:
    """Return the product over the last axes."""
    return ops.inner(x, y) if x.rank and y.rank else x * y


@named("vdot")
@product
def vdot(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of the products of all elements in order."""
    return ops.dot(ops.flatten(x), ops.flatten(y))


@named("vecdot", "linalg.vecdot")
@product
def vecdot(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """Return sums of products along an axis of both."""
    return ops.sum(x * y, axis)


@named("outer", "linalg.outer")
@product
def outer(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of all pairs of elements."""
    return ops.outer(ops.flatten(x), ops.flatten(y))


@named("tensordot", "linalg.tensordot")
@product
def tensordot(x: Tensor, y: Tensor, axes: Any = 2) -> Tensor:
    """Return a product over some axes of both."""
    if isinstance(axes, int):
        return ops.tensordot(x, y, axes)
    left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
    return ops.tensordot(x, y, (left, right))


@named("einsum")
@product
def einsum(subscripts: str, *operands: Tensor, **_: object) -> Tensor:
    """Return a product in Einstein's notation."""
    return ops.einsum(subscripts, *operands)


@named("diagonal", "linalg.diagonal")
def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a diagonal of two axes, as the last axis."""
    return ops.diagonal(x, offset=offset, first=axis1, second=axis2)


@named("trace", "linalg.trace")
def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the sum of a diagonal of two axes."""
    return ops.trace(summable(x), offset=offset, first=axis1, second=axis2)


@named("cross", "linalg.cross")
def cross(x: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """Return cross products of vectors of three elements, or the third element of those of two."""
    if x.dims[axis].value != 2 and value_for_arrays(x.recorder, x.dims[axis].expr) != 2:
        return ops.cross(x, y, axis=axis)
    place = axis_within(x.rank, axis)
    first, second = (ops.unstack(each, 2, place) for each in (x, y))
    return first[0] * second[1] - first[1] * second[0]


@named("linalg.norm")
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A002  NumPy's name
    """Return norms of vectors, or of matrices if two axes are given."""
    places = axes_of(x, axis)
    if ord is None:
        return ops.norm(x, places, keepdims=keepdims)
    if len(places) == 1:
        return ops.norm(x, places, order=ord, keepdims=keepdims)
    return matrix_norm(x, ord, places, keepdims)


def matrix_norm(x: Tensor, kind: Any, places: Sequence[int], keepdims: bool) -> Tensor:
    """Return norms of matrices that need no singular values."""
    row, column = places
    magnitude = ops.abs(x)
    if kind == "fro":
        return ops.norm(x, places, keepdims=keepdims)
    if kind not in (1, -1, float("inf"), float("-inf")):
        raise mistaken("norms of matrices are 'fro', 1, -1, inf and -inf; those of singular values are not offered")
    summed, other = (row, column) if kind in (1, -1) else (column, row)
    extreme = ops.max if kind > 0 else ops.min
    sums = ops.sum(magnitude, summed, keepdims=True)
    found = extreme(sums, other, keepdims=True)
    return found if keepdims else ops.squeeze(found, list(places))


@named("linalg.vector_norm")
def vector_norm(x: Tensor, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:  # noqa: A002
    """Return norms of vectors along some axes, by default of all elements."""
    return ops.norm(x, axis, order=ord, keepdims=keepdims)


@named("linalg.matrix_norm")
def standard_matrix_norm(x: Tensor, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:  # noqa: A002
    """Return norms of the matrices along the last two axes."""
    return matrix_norm(x, ord, (x.rank - 2, x.rank - 1), keepdims)


@named("linalg.matrix_power")
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Return powers of square matrices."""
    if n < 0:
        return matrix_power(inverse(x), -n)
    if n == 0:
        return ops.where(ops.eye(x, x.dims[-1]) != 0, ops.ones_like(x), 0)
    return functools.reduce(ops.matmul, [x] * n)


def _triangle(operation: Any) -> Any:
    def part(x: Tensor, k: int = 0) -> Tensor:
        """Return ``x`` with zeros on one side of a diagonal."""
        found: Tensor = operation(x if x.rank > 1 else ops.broadcast_to(x, (x.dims[0], x.dims[0])), offset=k)
        return found

    return part


entered(
    {
        "matmul linalg.matmul": product(ops.matmul),
        "matvec": lambda x, y: ops.squeeze(product(ops.matmul)(x, ops.expand_dims(y, -1)), -1),
        "vecmat": lambda x, y: ops.squeeze(product(ops.matmul)(ops.expand_dims(x, -2), y), -2),
        "linalg.multi_dot": lambda arrays: functools.reduce(ops.matmul, arrays),
        "kron": product(ops.kron),
        "tril": _triangle(ops.tril),
        "triu": _triangle(ops.triu),
        "diag": lambda x, k=0: ops.diag(x, offset=k) if x.rank == 1 else ops.diagonal(x, offset=k),
        "diagflat": lambda x, k=0: ops.diag(ops.flatten(x), offset=k),
        "vander": lambda x, N=None, increasing=False: ops.stack(  # noqa: N803  NumPy's name
            [
                functools.reduce(operator.mul, [x] * n) if n else ops.ones_like(x)
                for n in (range(N or x.dims[0].known()) if increasing else reversed(range(N or x.dims[0].known())))
            ],
            -1,
        ),
    }
)

_DECOMPOSITION = "of decompositions there are cholesky, det, inv, slogdet and solve; compute others on arrays before"
REFUSED.update(
    {
        f"linalg.{name}": _DECOMPOSITION
        for name in (
            *("cond", "eig", "eigh", "eigvals", "eigvalsh", "lstsq", "matrix_rank", "pinv", "qr", "svd", "svdvals"),
        )
    }
)
