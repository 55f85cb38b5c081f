"""Reshapes, transpositions and repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Dim,
    Size,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    axis_within,
    call,
    dim_like,
    dims_of,
    expand,
    indices_of,
    integer_of,
    mistaken,
    rank_of,
)


def reshape(x: Tensor, *sizes: Size | Sequence[Size]) -> Tensor:
    """Return the same elements, in row-major order, under other sizes, of which one may be -1 for the remaining factor.

    ``reshape(x, 2, -1)`` and ``reshape(x, (2, -1))`` are equal. Nothing is moved.

    Raises:
        TileError: TIL217, more than one size is -1; TIL310 when compiling, the numbers of elements differ.
    """
    given = _spread(sizes)
    open_axes = [axis for axis, size in enumerate(given) if isinstance(size, int) and size == -1]
    if len(open_axes) > 1:
        raise mistaken("at most one size of a reshape is -1")
    result = list(given)
    for axis in open_axes:
        result[axis] = quotient(x, dims_of(x), [size for place, size in enumerate(given) if place != axis])
    return call("reshape", x, *result)


def flatten(x: Tensor, *, first: int = 0, last: int = -1) -> Tensor:
    """Return ``x`` with the axes from ``first`` to ``last`` as one; a scalar becomes a vector.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the last one comes before the first.

    """
    if rank_of(x) == 0:
        return call("reshape", x, 1)
    start, stop = axis_of(x, first), axis_of(x, last)
    if stop < start:
        raise mistaken(f"the last axis, {stop}, comes before the first, {start}")
    dims = dims_of(x)
    return call("reshape", x, *dims[:start], product(x, dims[start : stop + 1]), *dims[stop + 1 :])


def squeeze(x: Tensor, axes: Axes = None) -> Tensor:
    """Return ``x`` without ``axes`` of size 1, by default all whose size is known to be 1 in a program or for arrays.

    Raises:
        TileError: TIL314, there is no such axis; TIL310, one has another size (at the latest when compiling).

    """
    dims = dims_of(x)
    gone = [axis for axis, dim in enumerate(dims) if dim.known_for_arrays() == 1] if axes is None else axes_of(x, axes)
    return call("reshape", x, *(dim for axis, dim in enumerate(dims) if axis not in gone))


def unsqueeze(x: Tensor, axes: int | Sequence[int]) -> Tensor:
    """Return ``x`` with new axes of size 1, which are ``axes`` of the result; NumPy's ``expand_dims``.

    Raises:
        TileError: TIL314, the result has no such axis; TIL217, one is given twice.
    """
    wanted = tuple(axes) if isinstance(axes, list | tuple) else (axes,)
    rank = rank_of(x) + len(wanted)
    places = {axis_within(rank, integer_of(axis, "an axis")) for axis in wanted}
    if len(places) != len(wanted):
        raise mistaken(f"an axis stands twice among {wanted}")
    dims = iter(dims_of(x))
    return call("reshape", x, *(1 if axis in places else next(dims) for axis in range(rank)))


expand_dims = unsqueeze


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return ``x`` with its axes in another order, by default reversed; axis ``k`` of the result is ``axes[k]``.

    Raises:
        TileError: TIL217, not every axis is given once; TIL314, one does not exist.
    """
    rank = rank_of(x)
    order = list(range(rank))[::-1] if axes is None else [axis_of(x, axis) for axis in axes]
    if sorted(order) != list(range(rank)):
        raise mistaken(f"each of {rank} axes stands once in an order of axes, not {tuple(order)}")
    if order == sorted(order):
        return x
    source, dims = indices_of(x), dims_of(x)
    return aggregate(Aggregation.ASSIGN, x[source], [source[axis] for axis in order], [dims[axis] for axis in order])


permute = transpose


def swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    """Return ``x`` with two axes exchanged.

    Raises:
        TileError: TIL314, there is no such axis.

    """
    order = list(range(rank_of(x)))
    one, other = axis_of(x, first), axis_of(x, second)
    order[one], order[other] = other, one
    return transpose(x, order)


def moveaxis(x: Tensor, source: int, target: int) -> Tensor:
    """Return ``x`` with one axis moved, and the others in their order.

    Raises:
        TileError: TIL314, there is no such axis.
    """
    order = list(range(rank_of(x)))
    moved = order.pop(axis_of(x, source))
    order.insert(axis_of(x, target), moved)
    return transpose(x, order)


def broadcast_to(x: Tensor, *sizes: Size | Sequence[Size]) -> Tensor:
    """Return ``x`` repeated along new leading axes and along axes of size 1, so that it has ``sizes``; -1 keeps one.

    Raises:
        TileError: TIL310, ``x`` has more axes; TIL301 or TIL312 when compiling, an axis has another size.

    """
    given = _spread(sizes)
    skipped = len(given) - rank_of(x)
    kept = [
        dims_of(x)[axis - skipped] if isinstance(size, int) and size == -1 and axis >= skipped else size
        for axis, size in enumerate(given)
    ]
    return expand(x, kept)


def tile(x: Tensor, *counts: Size | Sequence[Size]) -> Tensor:
    """Return ``x`` as a whole repeated along its last axes, as NumPy's ``tile``; more counts make leading axes.

    Raises:
        TileError: TIL215 or TIL307, a count is no size.
    """
    given = _spread(counts)
    rank = max(rank_of(x), len(given))
    dims: list[Size] = [*[1] * (rank - rank_of(x)), *dims_of(x)]
    repeats: list[Size] = [*[1] * (rank - len(given)), *given]
    return _repeated(x, dims, repeats, inner=False)


def repeat(x: Tensor, count: Size, axis: int) -> Tensor:
    """Return ``x`` with each element on ``axis`` repeated ``count`` times, one after the other.

    Raises:
        TileError: TIL314, there is no such axis; TIL215 or TIL307, the count is no size.

    """
    place = axis_of(x, axis)
    return _repeated(x, dims_of(x), [count if a == place else 1 for a in range(rank_of(x))], inner=True)


def _repeated(x: Tensor, dims: Sequence[Size], counts: Sequence[Size], *, inner: bool) -> Tensor:
    """Repeat along a new axis beside each one, then merge the two, which needs no division."""
    wide: list[Size] = []
    narrow: list[Size] = []
    for dim, count in zip(dims, counts, strict=True):
        if isinstance(count, int) and count == 1:
            wide.append(dim)
            narrow.append(dim)
        else:
            wide += [dim, count] if inner else [count, dim]
            narrow += [dim, 1] if inner else [1, dim]
    spread = expand(call("reshape", x, *narrow), wide)
    return call("reshape", spread, *(dim_like(x, d) * dim_like(x, c) for d, c in zip(dims, counts, strict=True)))


def product(x: Tensor, dims: Sequence[Size]) -> Dim:
    """Return the product of sizes for the builder of ``x``."""
    result = dim_like(x, 1)
    for dim in dims:
        result = result * dim
    return result


def quotient(x: Tensor, dims: Sequence[Dim], divisors: Sequence[Size]) -> Dim:
    """Return the product of ``dims`` divided by that of ``divisors``; common factors cancel first."""
    left, right = list(dims), []
    for divisor in divisors:
        dim = dim_like(x, divisor)
        if dim in left:
            left.remove(dim)
        else:
            right.append(dim)
    numbers = [dim.value for dim in left if dim.value is not None]
    known = product(x, numbers)
    others = product(x, [dim for dim in left if dim.value is None])
    below = product(x, right)
    if below.value and known.value is not None and known.value % below.value == 0:
        return others * (known.value // below.value)
    return others * known / below


def _spread(sizes: tuple[Size | Sequence[Size], ...]) -> list[Size]:
    """Return sizes that were given one by one or as one sequence."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return [size if isinstance(size, Dim) else integer_of(size, "a size") for size in given]
