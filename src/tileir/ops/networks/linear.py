"""Linear algebra: products of matrices, diagonals and triangles."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import DType
from tileir.ops.arithmetic.einstein import contract
from tileir.ops.arithmetic.reductions import norm
from tileir.ops.arrays.joining import stack, unstack
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Operand,
    Size,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    call,
    cast_to,
    dim_like,
    dims_of,
    for_sums,
    index_of,
    indices_of,
    integer_of,
    mistake,
    mistaken,
    narrowed,
    promoted,
    rank_of,
    wide,
)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Return the matrix product over the last two axes, with batches broadcast, as NumPy's ``@``.

    A vector on the left is a row, on the right a column, and the result lacks that axis. One contraction: ``O[b, i, j]
    = +(X[b, i, k] * Y[b, k, j])``.

    Dtypes: the promoted one; sums of f16 and bf16 are in f32.

    Raises:
        TileError: TIL305, one has no axes; TIL310, the sizes do not agree (TIL301 or TIL312 if that is known only when
            compiling).
    """
    _with_axes(x, 1)
    _with_axes(y, 1)
    left = ["i", "k"] if rank_of(x) > 1 else ["k"]
    right = ["k", "j"] if rank_of(y) > 1 else ["k"]
    depth = max(rank_of(x) - len(left), rank_of(y) - len(right))
    batch = [f"b{axis}" for axis in range(depth)]
    lead, follow = (batch[depth - (rank_of(t) - len(own)) :] for t, own in ((x, left), (y, right)))
    return contract([(x, [*lead, *left]), (y, [*follow, *right])], [*batch, *left[:-1], *right[1:]], set(batch))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``O[b, o] = sum(X[b, i] * W[o, i]) + bias[o]`` over i: a layer with weights [out, in], as in PyTorch.

    Shapes: ``x`` is [..., in], the result [..., out]. Dtypes: the promoted one; sums of f16 and bf16 are in f32.

    Raises:
        TileError: TIL305, ``x`` has no axes, ``weight`` not two, or ``bias`` not one; TIL310, the sizes do not agree
            (TIL301 or TIL312 if that is known only when compiling).
    """
    _with_axes(x, 1)
    if rank_of(weight) != 2 or (bias is not None and rank_of(bias) != 1):
        raise mistake("TIL305", "the weights of a layer have two axes, and its bias one")
    outer = [f"b{axis}" for axis in range(rank_of(x) - 1)]
    wider = x if bias is None else for_sums(x)
    product = contract([(wider, [*outer, "i"]), (weight, ["o", "i"])], [*outer, "o"], set())
    return product if bias is None else promoted(product + bias, x, weight, bias)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum over the last axis of ``x`` and the last but one of ``y`` (the only one of a vector).

    Unlike in :func:`matmul`, all other axes are kept: those of ``x``, then those of ``y``. A scalar multiplies. Source:
    NumPy's ``dot``, PlaidML's ``Dot``.

    Raises:
        TileError: TIL310, the sizes differ (TIL312 if that is known only when compiling).
    """
    if not rank_of(x) or not rank_of(y):
        return x * y
    return tensordot(x, y, ([-1], [-2 if rank_of(y) > 1 else -1]))


def inner(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum over the last axis of both; all other axes are kept; errors as for :func:`dot`."""
    if not rank_of(x) or not rank_of(y):
        return x * y
    return tensordot(x, y, ([-1], [-1]))


def cross(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """Return the vector product over an axis of size 3: ``x[1] * y[2] - x[2] * y[1]`` and so on.

    Raises:
        TileError: TIL314, there is no such axis; TIL310, it has another size (at the latest when compiling).

    """
    left, right = (unstack(for_sums(t), 3, axis) for t in (x, y))
    parts = [left[(k + 1) % 3] * right[(k + 2) % 3] - left[(k + 2) % 3] * right[(k + 1) % 3] for k in range(3)]
    return promoted(stack(parts, axis), x, y)


def outer(x: Tensor, y: Tensor) -> Tensor:
    """Return all products of an element of ``x`` and one of ``y``: the axes of ``x``, then those of ``y``."""
    return tensordot(x, y, 0)


def cdist(x: Tensor, y: Tensor, *, order: float = 2) -> Tensor:
    """Return the distance of each row of ``x`` from each of ``y``: the :func:`tileir.ops.norm` of ``x[i] - y[j]``.

    Shapes: [..., M, K] and [..., N, K] give [..., M, N]; leading axes broadcast. Differences are computed element by
    element, so that the distance of equal rows and its gradient are 0. Integers give f32. Source: PyTorch's ``cdist``.

    Raises:
        TileError: TIL305, a tensor has fewer than two axes; TIL217, the order is NaN.
    """
    _with_axes(x, 2)
    _with_axes(y, 2)
    *left, rows, size = dims_of(x)
    *right, columns, other = dims_of(y)
    across, down = call("reshape", x, *left, rows, 1, size), call("reshape", y, *right, 1, columns, other)
    return narrowed(norm(wide(across) - wide(down), -1, order=order), x, y)


def tensordot(x: Tensor, y: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sum over pairs of axes, with the others of ``x``, then those of ``y``.

    ``axes`` are the axes of ``x`` and the corresponding ones of ``y``; or the number of the last axes of ``x`` that are
    paired with the first of ``y``.

    Raises:
        TileError: TIL217, the numbers of axes differ; TIL314, one does not exist; TIL310, sizes differ (TIL312 if that
            is
            known only when compiling).
    """
    if isinstance(axes, list | tuple):
        pairs = [(axis_of(x, a), axis_of(y, b)) for a, b in _paired(*axes)]
    else:
        count = integer_of(axes, "a number of axes")
        if not 0 <= count <= min(rank_of(x), rank_of(y)):
            raise mistaken(f"{count} axes cannot be summed over: the tensors have {rank_of(x)} and {rank_of(y)}")
        pairs = [(rank_of(x) - count + axis, axis) for axis in range(count)]
    left = [f"i{axis}" for axis in range(rank_of(x))]
    right = [f"j{axis}" for axis in range(rank_of(y))]
    for a, b in pairs:
        right[b] = left[a]
    shared = {left[a] for a, _ in pairs}
    output = [label for label in [*left, *right] if label not in shared]
    return contract([(x, left), (y, right)], output, set())


def _paired(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    if len(left) != len(right):
        raise mistaken(f"there are {len(left)} axes of one tensor, but {len(right)} of the other")
    return list(zip(left, right, strict=True))


def gemm(
    x: Tensor,
    y: Tensor,
    c: Operand | None = None,
    *,
    alpha: Operand = 1,
    beta: Operand = 1,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Tensor:
    """Return ``alpha * x' @ y' + beta * c``, where ``'`` optionally transposes a matrix; ``c`` is broadcast.

    Raises:
        TileError: TIL305, ``x`` or ``y`` is no matrix; TIL310, the sizes do not agree (TIL312 if that is known only
            when
            compiling).

    Source: BLAS' ``gemm``, ONNX' ``Gemm``.
    """
    for matrix in (x, y):
        if rank_of(matrix) != 2:
            raise mistake("TIL305", f"gemm multiplies matrices; this tensor has rank {rank_of(matrix)}")
    bare = _is_one(alpha) and c is None
    result = contract(
        [
            (x if bare else for_sums(x), ["k", "i"] if transpose_x else ["i", "k"]),
            (y, ["j", "k"] if transpose_y else ["k", "j"]),
        ],
        ["i", "j"],
        set(),
    )
    if bare:
        return result
    result = result if _is_one(alpha) else result * alpha
    if isinstance(c, int | float) and isinstance(beta, int | float):
        result = result + c * beta
    elif c is not None:
        result = result + (c if _is_one(beta) else call("mul", for_sums(c), beta))
    return promoted(result, x, y, alpha, *(() if c is None else (c, beta)))


def _is_one(value: Operand) -> bool:
    return isinstance(value, int | float) and value == 1


def kron(x: Tensor, y: Tensor) -> Tensor:
    """Return the Kronecker product: each element of ``x`` times all of ``y``, in blocks.

    The operand of lower rank gets leading axes of size 1. Source: NumPy's ``kron``.
    """
    rank = max(rank_of(x), rank_of(y))
    x, y = (call("reshape", each, *[1] * (rank - rank_of(each)), *dims_of(each)) for each in (x, y))
    left, right = ([f"{stem}{axis}" for axis in range(rank)] for stem in "ij")
    blocks = contract(
        [(x, left), (y, right)], [label for pair in zip(left, right, strict=True) for label in pair], set()
    )
    return call("reshape", blocks, *(a * b for a, b in zip(dims_of(x), dims_of(y), strict=True)))


def diagonal(x: Tensor, *, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """Return the elements whose position on the axis ``second`` is that on ``first`` plus ``offset``.

    Shapes: the other axes, then the diagonal. Source: NumPy's ``diagonal``.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, both axes are equal.
    """
    if len(axes_of(x, (first, second))) != 2:
        raise mistaken("a diagonal has two axes")
    row, column = axis_of(x, first), axis_of(x, second)
    down, right = max(-integer_of(offset, "an offset"), 0), max(offset, 0)
    variables, dims = indices_of(x), dims_of(x)
    i = variables[row]
    source = [i + down if a == row else i + right if a == column else v for a, v in enumerate(variables)]
    length = (
        (dims[row] - down)
        if down == right and dims[row] == dims[column]
        else (dims[row] - down).min(dims[column] - right)
    )
    others = [axis for axis in range(len(dims)) if axis not in (row, column)]
    sizes = [*(dims[axis] for axis in others), length if down == right == 0 else length.max(0)]
    return aggregate(Aggregation.ASSIGN, x[tuple(source)], [*(variables[axis] for axis in others), i], sizes)


def trace(x: Tensor, *, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """Return the sum of a diagonal; arguments and errors as for :func:`diagonal`."""
    across = diagonal(x, offset=offset, first=first, second=second)
    variables, dims = indices_of(across), dims_of(across)
    return aggregate(Aggregation.SUM, across[variables], variables[:-1], dims[:-1])


def diag(x: Tensor, *, offset: int = 0) -> Tensor:
    """Return the square matrix with a vector on its diagonal, or the diagonal of a matrix; as NumPy's ``diag``.

    Raises:
        TileError: TIL305, ``x`` is neither a vector nor a matrix.

    """
    if rank_of(x) == 2:
        return diagonal(x, offset=offset)
    if rank_of(x) != 1:
        raise mistake("TIL305", f"diag takes a vector or a matrix; this tensor has rank {rank_of(x)}")
    down, right = max(-integer_of(offset, "an offset"), 0), max(offset, 0)
    (i,), (size,) = indices_of(x), dims_of(x)
    length = size + (down + right)
    return aggregate(Aggregation.ASSIGN, x[i], [i + down, i + right], [length, length])


def tril(x: Tensor, *, offset: int = 0) -> Tensor:
    """Return ``x`` with 0 above the diagonal of its last two axes (moved right by ``offset``).

    Raises:
        TileError: TIL305, it has fewer than two axes.

    """
    return call("cond", _above(x, offset) <= offset, x, call("as_like", 0, x))


def triu(x: Tensor, *, offset: int = 0) -> Tensor:
    """Return ``x`` with 0 below the diagonal of its last two axes (moved right by ``offset``).

    Raises:
        TileError: TIL305, it has fewer than two axes.

    """
    return call("cond", _above(x, offset) >= offset, x, call("as_like", 0, x))


def _above(x: Tensor, offset: int) -> Tensor:
    """Return each element's distance to the right of the diagonal, in an integer type that holds ``offset``, too."""
    _with_axes(x, 2)
    distance = call("index", x, rank_of(x) - 1) - call("index", x, rank_of(x) - 2)
    return distance if DType.I32.minimum <= offset <= DType.I32.maximum else cast_to(distance, "i64")


def _with_axes(x: Tensor, least: int) -> None:
    if rank_of(x) < least:
        raise mistake("TIL305", f"at least {least} axes are needed; this tensor has rank {rank_of(x)}")


def eye(x: Operand, rows: Size, columns: Size | None = None, *, offset: int = 0) -> Tensor:
    """Return a matrix of f32 with 1 on its diagonal (moved right by ``offset``) and 0 elsewhere.

    ``x`` only identifies the builder: any tensor or dimension of it will do.
    """
    sizes: list[Dim] = [dim_like(x, rows), dim_like(x, rows if columns is None else columns)]
    return call("as_f32", call("cmp_eq", _above(_zeros(x, sizes), offset), offset))


def _zeros(x: Operand, sizes: Sequence[Dim]) -> Tensor:
    scalar = call("as_i32", dim_like(x, 0))
    i, j = index_of(x, "i"), index_of(x, "j")
    return aggregate(Aggregation.ASSIGN, scalar[()], [i, j], sizes)
