"""Products and norms of NumPy and of its ``linalg``, on tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import tileir.ops as ops
from tileir.numpy.decompositions import inverse
from tileir.numpy.dispatch import REFUSED, entered, named
from tileir.numpy.elementwise import product
from tileir.numpy.reductions import summable
from tileir.ops.shared.foundation import axes_of, axis_within, mistaken
from tileir.tile.building.indices import value_for_arrays
from tileir.tile.building.tensors import Operand, Tensor, call


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
    """Return norms of vectors, or of matrices where two axes are given."""
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
