"""Cases of linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_SQUARE: Final = sample(4, 4)
_WIDE: Final = sample(3, 5)


def _named(arrays: tuple[Array, ...]) -> dict[str, Array]:
    return dict(zip("ABCDEFG", arrays, strict=False))


def _many(
    name: str, build: Callable[..., Any], numpy: Callable[..., Any], torch: Callable[..., Any] | None, *arrays: Array
) -> Case:
    return Case(name, build, _named(arrays), numpy, torch, tolerance=3.0)


def _matmul(name: str, *shapes: tuple[int, ...]) -> Case:
    left, right = (sample(*shape, seed=seed) for seed, shape in enumerate(shapes))
    return _many(f"matmul_{name}", ops.matmul, np.matmul, lambda torch, x, y: torch.matmul(x, y), left, right)


def _einsum(name: str, subscripts: str, *shapes: tuple[int, ...]) -> Case:
    return _many(
        f"einsum_{name}",
        lambda *tensors: ops.einsum(subscripts, *tensors),
        lambda *arrays: np.einsum(subscripts, *arrays),
        lambda torch, *tensors: torch.einsum(subscripts, *tensors),
        *(sample(*shape, seed=seed) for seed, shape in enumerate(shapes)),
    )


_PRODUCTS: Final = (
    *(
        Case(
            f"distances_of_order_{order}",
            lambda x, y, order=order: ops.cdist(x, y, order=order),
            {"X": sample(2, 3, 4), "Y": sample(5, 4, seed=1)},
            lambda x, y, order=order: np.linalg.norm(x[:, :, None] - y[None, None], order, -1),
            lambda torch, x, y, order=order: torch.cdist(x, y.expand(2, 5, 4), p=float(order)),
        )
        for order in (1, 2, 3)
    ),
    Case(
        "linear",
        ops.linear,
        {"X": sample(2, 3, 4), "W": sample(5, 4, seed=1), "B": sample(5, seed=2)},
        lambda x, w, b: x @ w.T + b,
        lambda torch, x, w, b: torch.nn.functional.linear(x, w, b),
        dims={"X": "N M I", "W": "O I"},
    ),
    Case(
        "linear_of_a_vector",
        ops.linear,
        {"X": sample(4), "W": sample(5, 4, seed=1)},
        lambda x, w: w @ x,
        lambda torch, x, w: torch.nn.functional.linear(x, w),
    ),
    _matmul("of_matrices", (3, 4), (4, 5)),
    _matmul("of_a_row", (4,), (4, 5)),
    _matmul("of_a_column", (3, 4), (4,)),
    _matmul("of_vectors", (4,), (4,)),
    _matmul("in_batches", (2, 3, 4), (2, 4, 5)),
    _matmul("with_broadcast_batches", (2, 1, 3, 4), (5, 4, 2)),
    _matmul("with_unknown_batches", (1, 3, 4), (2, 4, 5)),
    _matmul("of_a_row_in_batches", (4,), (2, 4, 5)),
    _many("dot", ops.dot, np.dot, None, sample(2, 3, 4), sample(5, 4, 2)),
    _many("dot_of_vectors", ops.dot, np.dot, lambda torch, x, y: torch.dot(x, y), sample(4), sample(4, seed=1)),
    _many("dot_of_scalar", ops.dot, np.dot, None, np.array(1.5), sample(4)),
    _many("inner", ops.inner, np.inner, lambda torch, x, y: torch.inner(x, y), sample(2, 3, 4), sample(5, 4)),
    _many("outer", ops.outer, np.outer, lambda torch, x, y: torch.outer(x, y), sample(3), sample(4)),
    _many(
        "tensordot",
        lambda x, y: ops.tensordot(x, y, ([0, -1], [1, 0])),
        lambda x, y: np.tensordot(x, y, ([0, -1], [1, 0])),
        lambda torch, x, y: torch.tensordot(x, y, ([0, 2], [1, 0])),
        sample(2, 3, 4),
        sample(4, 2, 5),
    ),
    _many("tensordot_of_two_axes", ops.tensordot, np.tensordot, None, sample(2, 3, 4), sample(3, 4, 2)),
    _many(
        "cross",
        lambda x, y: ops.cross(x, y, axis=1),
        lambda x, y: np.cross(x, y, axis=1),
        lambda torch, x, y: torch.linalg.cross(x, y, dim=1),
        sample(2, 3, 2),
        sample(2, 3, 2, seed=1),
    ),
    _many("kron", ops.kron, np.kron, lambda torch, x, y: torch.kron(x, y), sample(2, 3), sample(3, 2)),
    _many("gemm", ops.gemm, np.matmul, lambda torch, x, y: torch.matmul(x, y), sample(2, 3), sample(3, 4)),
    _many(
        "gemm_with_all_options",
        lambda x, y, c: ops.gemm(x, y, c, alpha=0.5, beta=2, transpose_x=True, transpose_y=True),
        lambda x, y, c: 0.5 * x.T @ y.T + 2 * c,
        lambda torch, x, y, c: torch.addmm(c, x.T, y.T, beta=2, alpha=0.5),
        sample(3, 2),
        sample(4, 3),
        sample(4),
    ),
)

_DIAGONALS: Final = (
    *(
        _many(
            f"diagonal_{offset}".replace("-", "minus_"),
            lambda x, k=offset: ops.diagonal(x, offset=k),
            lambda x, k=offset: np.diagonal(x, k),
            lambda _, x, k=offset: x.diagonal(k),
            _WIDE,
        )
        for offset in (0, 2, -1, 9)
    ),
    _many(
        "diagonal_of_inner_axes",
        lambda x: ops.diagonal(x, first=-1, second=0),
        lambda x: np.diagonal(x, 0, -1, 0),
        None,
        sample(3, 2, 4),
    ),
    _many("trace", ops.trace, np.trace, lambda torch, x: torch.trace(x), _SQUARE),
    _many(
        "trace_in_batches",
        lambda x: ops.trace(x, offset=1, first=1, second=2),
        lambda x: np.trace(x, 1, 1, 2),
        None,
        sample(2, 3, 4),
    ),
    *(
        _many(
            f"{name}_{offset}".replace("-", "minus_"),
            lambda x, n=name, k=offset: getattr(ops, n)(x, offset=k),
            lambda x, n=name, k=offset: getattr(np, n)(x, k),
            lambda torch, x, n=name, k=offset: getattr(torch, n)(x, k),
            array,
        )
        for name, array in (("diag", sample(3)), ("tril", _WIDE), ("triu", _WIDE))
        for offset in (0, 1, -2)
    ),
    _many("diag_of_a_matrix", ops.diag, np.diag, lambda torch, x: torch.diag(x), _SQUARE),
    Case(
        "eye",
        lambda x: ops.cast(ops.eye(x, 3, x.dims[1], offset=1), "i32"),
        {"A": _WIDE},
        lambda _: np.eye(3, 5, 1, np.int32),
        None,
        (),
    ),
)

_SUMS: Final = (
    _einsum("product", "ij,jk->ik", (2, 3), (3, 4)),
    _einsum("without_result", "ij, jk", (2, 3), (3, 4)),
    _einsum("in_other_order", "ba", (2, 3)),
    _einsum("of_a_trace", "ii", (3, 3)),
    _einsum("of_a_diagonal", "iij->ji", (3, 3, 2)),
    _einsum("of_one_axis", "ijk->j", (2, 3, 4)),
    _einsum("of_nothing_in_common", "i,j->ij", (2,), (3,)),
    _einsum("summed_alone", "ij,jk->k", (5, 3), (3, 4)),
    _einsum("of_scalars", ",->", (), ()),
    _einsum("with_dots", "...ij,...jk->...ik", (2, 3, 4), (2, 4, 2)),
    _einsum("with_broadcast_dots", "...ij,jk...->i...k", (5, 1, 3, 4), (4, 2, 3)),
    _einsum("with_dots_summed", "i...->...", (3, 2, 2)),
    _einsum("with_dots_and_no_result", "...i,i", (2, 3), (3,)),
    _einsum("of_three", "ij,jk,kl->il", (2, 3), (3, 5), (5, 2)),
    _einsum("of_five", "ab,bc,cd,de,ea->c", (2, 3), (3, 4), (4, 2), (2, 5), (5, 2)),
    _einsum("of_a_bilinear_form", "bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5)),
    _einsum("with_large_letters", "aA,Ab->ba", (2, 3), (3, 2)),
    _einsum("of_the_same_letters", "ij,ij->", (3, 4), (3, 4)),
    _einsum("of_repeated_letters_in_two", "ii,ij->j", (3, 3), (3, 4)),
)

CASES: Final = (*_PRODUCTS, *_DIAGONALS, *_SUMS)
