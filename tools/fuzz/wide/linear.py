"""Rows of sums of products: matrices, einsum, distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.pointwise import real
from fuzz.wide.reductions import norm
from fuzz.wide.row import FLOATS, HALVES, Arguments, Array, Draw, Row

_EINSUMS: Final = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij,kj->ik",
    "ij,ij->",
    "ij->ji",
    "i,j->ij",
    "ijj->i",
    "abc,cd,bd->a",
    "ii->",
    "ijk,ilm->jklm",
    "ij,j",
    "i,i",
    "ij,jk,kl->il",
    "...i,...i->...",
)
_MANY: Final = 66_000


def _matmul(draw: Draw) -> Arguments:
    rows, depth, columns = (draw.size() for _ in range(3))
    if draw.dtype in ("f16", "bf16") and draw.integer(0, 24) == 24:
        rows, depth, columns = 1, _MANY, 2
    form = draw.integer(0, 3)
    if form == 0:
        return [draw.tensor((depth,)), draw.tensor((depth, columns))], {}
    if form == 1:
        return [draw.tensor((rows, depth)), draw.tensor((depth,))], {}
    batch = tuple(draw.integer(1, 3) for _ in range(draw.integer(0, 2)))
    other = tuple(1 if draw.integer(0, 2) == 2 else size for size in batch[draw.integer(0, len(batch)) :])
    return [draw.tensor((*batch, rows, depth)), draw.tensor((*other, depth, columns))], {}


def _einsum(draw: Draw) -> Arguments:
    pairs = [
        each for each in _EINSUMS if draw.dtype not in HALVES or each.count(",") < 2
    ]  # which are rounded one by one
    subscripts = draw.pick(pairs)
    sizes = {letter: draw.integer(0, 6) if draw.integer(0, 5) else 1 for letter in "abcdeijklm."}
    operands = subscripts.partition("->")[0].split(",")
    shapes = [[sizes[c] for c in each.replace("...", ".")] for each in operands]
    if len(operands) > 1 and draw.integer(0, 3) == 3:  # NumPy stretches axes of size 1
        shapes[-1] = [
            1 if draw.flag() and operands[-1].count(c) == 1 else s
            for c, s in zip(operands[-1].replace("...", "."), shapes[-1], strict=True)
        ]
    return [subscripts, *(draw.tensor(shape) for shape in shapes)], {}


def _summed(subscripts: str, *tensors: Array) -> Array:
    return np.asarray(np.einsum(subscripts, *tensors))


def _pair(first: Callable[[Draw], tuple[Any, Any]]) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        one, other = first(draw)
        return [draw.tensor(one), draw.tensor(other)], {}

    return draw


def _dot(draw: Draw) -> tuple[Any, Any]:
    depth = draw.integer(1, 6)
    one = (*draw.full(0, 2), depth) if draw.integer(0, 4) else ()
    before = draw.full(0, 2)
    return one, (*before[:-1], depth, *before[-1:])


def _inner(draw: Draw) -> tuple[Any, Any]:
    depth = draw.size()
    return (*draw.full(0, 2), depth), (*draw.full(0, 2), depth)


def _linear(draw: Draw) -> Arguments:
    depth, wide = draw.size(), draw.size()
    arguments = [draw.tensor((*draw.full(0, 2), depth)), draw.tensor((wide, depth))]
    return arguments + ([draw.tensor((wide,))] if draw.flag() else []), {}


def _gemm(draw: Draw) -> Arguments:
    rows, depth, columns = draw.full(3, 3)
    turned = draw.flag(), draw.flag()
    x, y = (depth, rows) if turned[0] else (rows, depth), (columns, depth) if turned[1] else (depth, columns)
    options = {
        "alpha": draw.pick((1, 0.5)),
        "beta": draw.pick((1, 2)),
        "transpose_x": turned[0],
        "transpose_y": turned[1],
    }
    c = [draw.tensor(draw.pick(((), (columns,), (rows, 1), (rows, columns))))] if draw.flag() else []
    return [draw.tensor(x), draw.tensor(y), *c], options


def _product(
    x: Array,
    y: Array,
    c: Array | float = 0,
    alpha: float = 1,
    beta: float = 1,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Array:
    return alpha * ((x.T if transpose_x else x) @ (y.T if transpose_y else y)) + beta * c


def _cdist(draw: Draw) -> Arguments:
    depth, batch = draw.integer(1, 6), draw.full(0, 1)
    order = draw.pick((2, 1, float("inf"), 0, 3 if draw.dtype == "f16" else 2))
    shapes = [(*batch, draw.size(), depth) for _ in range(2)]
    return [draw.tensor(shape) for shape in shapes], {"order": order}


def _distances(x: Array, y: Array, order: float) -> Array:
    return norm(real(x)[..., :, None, :] - real(y)[..., None, :, :], -1, order)


def _tensordot(draw: Draw) -> Arguments:
    common = draw.full(1, 2)
    return [draw.tensor((*draw.full(0, 2), *common)), draw.tensor((*common, *draw.full(0, 1))), len(common)], {}


def _absolute(oracle: Callable[..., Any]) -> Callable[..., Any]:
    """Return the oracle of magnitudes, which is the sum of the magnitudes of what is added."""

    def terms(*arguments: Any, **options: Any) -> Any:
        return 2 * np.asarray(oracle(*(abs(a) if isinstance(a, np.ndarray) else a for a in arguments), **options))

    return terms


def _kron(draw: Draw) -> tuple[Any, Any]:
    return (tuple(draw.integer(1, 4) for _ in range(draw.integer(1, 3))),) * 1 + (
        tuple(draw.integer(1, 3) for _ in range(draw.integer(1, 3))),
    )


def _cross(draw: Draw) -> Arguments:
    shape = [*draw.full(0, 2), 3]
    axis = draw.axis(shape)
    shape[axis], shape[-1] = shape[-1], shape[axis]
    return [draw.tensor(shape), draw.tensor(shape)], {"axis": axis}


def _crossed(x: Array, y: Array, axis: int) -> Array:
    (a, b, c), (d, e, f) = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def _crossed_terms(x: Array, y: Array, axis: int) -> Array:
    (a, b, c), (d, e, f) = np.moveaxis(abs(x), axis, 0), np.moveaxis(abs(y), axis, 0)
    return np.stack([b * f + c * e, c * d + a * f, a * e + b * d], axis)


_SUMS: Final = (*FLOATS, "i8", "u8", "i32", "i64")
_CALM: Final = ("normal", "ties", "zeros", "large", "tiny")  # 0 times infinity may be left out
ROWS_LINEAR: Final = tuple(
    Row(name, draw, oracle, dtypes, terms=terms or _absolute(oracle), flavours=_CALM[:-1] if name == "cdist" else _CALM)
    for name, draw, oracle, dtypes, terms in (
        ("matmul", _matmul, np.matmul, _SUMS, None),
        ("einsum", _einsum, _summed, _SUMS, None),
        ("dot", _pair(_dot), np.dot, _SUMS, None),
        ("inner", _pair(_inner), np.inner, _SUMS, None),
        ("outer", _pair(lambda d: (d.full(0, 2), d.full(0, 2))), np.multiply.outer, _SUMS, None),
        ("kron", _pair(_kron), np.kron, _SUMS, None),
        ("linear", _linear, lambda x, w, b=0: x @ w.T + b, _SUMS, None),
        ("gemm", _gemm, _product, FLOATS, None),
        ("tensordot", _tensordot, np.tensordot, _SUMS, None),
        ("cross", _cross, _crossed, FLOATS, _crossed_terms),
        ("cdist", _cdist, _distances, FLOATS, lambda x, y, order: 8 * _distances(x, y, order)),
    )
)
