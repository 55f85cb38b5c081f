"""Several tensors as one, and one as several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tileir.core import promote_all
from tileir.ops.arrays.shaping import unsqueeze
from tileir.ops.arrays.slicing import select
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Size,
    Tensor,
    aggregate,
    axis_of,
    call,
    cast_to,
    dim_like,
    dims_of,
    equal_sizes,
    indices_of,
    integer_of,
    mistake,
    mistaken,
    rank_of,
)
from tileir.tile.building.dtypes import dtype_of

_CHAIN: Final = 4
"""Greatest length of a chain of joined tensors. More are joined in a tree of chains: the work of interpreters, which
copy defaults, and of gradients, which keep one of the whole for each default, grows with the length of a chain.
"""


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors one after the other on ``axis``; all other sizes have to be equal.

    Dtype: the promoted one, if those of the tensors are known; otherwise they have to be equal.

    Raises:
        TileError: TIL217, there is no tensor; TIL305, they have different ranks; TIL314, there is no such axis; TIL310,
            other sizes differ (TIL312 if that is known only when compiling).
    """
    parts = _of_one_dtype(list(tensors))
    if not parts:
        raise mistaken("there is nothing to concatenate")
    place = axis_of(parts[0], axis)
    for part in parts[1:]:
        if rank_of(part) != rank_of(parts[0]):
            raise mistake("TIL305", f"tensors of rank {rank_of(parts[0])} and {rank_of(part)} cannot be concatenated")
    while len(parts) > 1:
        parts = [_joined(parts[start : start + _CHAIN], place) for start in range(0, len(parts), _CHAIN)]
    return parts[0]


def _of_one_dtype(parts: list[Any]) -> list[Tensor]:
    """Return tensors in their promoted dtype, if that is known."""
    found = [dtype_of(part.recorder, part.reference) if isinstance(part, Tensor) else None for part in parts]
    kinds = [kind for kind in found if kind is not None]
    if len(kinds) < len(parts) or len(set(kinds)) < 2:
        return parts
    common = promote_all(kinds)
    return [cast_to(part, common) for part in parts]


def _joined(parts: Sequence[Tensor], place: int) -> Tensor:
    """Write tensors into one, each with its predecessors, followed by zeros, as its default.

    A default without other readers is written in place, so that every element is copied once.
    """
    first, *others = parts
    if not others:
        return first
    dims = dims_of(first)
    whole = list(dims)
    for part in others:
        whole[place] = whole[place] + dims_of(part)[place]
    variables = indices_of(first)
    result = aggregate(Aggregation.ASSIGN, first[variables], variables, whole)
    behind = dims[place]
    for part in others:
        variables, own = indices_of(part), dims_of(part)
        checks = [
            check
            for axis, i in enumerate(variables)
            if axis != place
            for check in equal_sizes(i, dims[axis], own[axis])
        ]
        places = [i + behind if axis == place else i for axis, i in enumerate(variables)]
        result = aggregate(Aggregation.ASSIGN, part[variables].given(*checks), places, whole, default=result)
        behind = behind + own[place]
    return result


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors of one shape side by side on a new axis, which is ``axis`` of the result.

    Raises:
        TileError: As for :func:`concatenate`.

    """
    return concatenate([unsqueeze(x, axis) for x in tensors], axis)


def unstack(x: Tensor, count: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices at all positions of ``axis``, without that axis; there have to be ``count`` of them.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, ``count`` is not positive; TIL310, the axis has another size
            (at the latest when compiling).
    """
    place, number, dims = axis_of(x, axis), integer_of(count, "a number of parts"), dims_of(x)
    if number < 1:
        raise mistaken(f"there is at least one part, not {number}")
    size = dims[place].value
    if size is None:
        x = call("reshape", x, *dims[:place], number, *dims[place + 1 :])
    elif size != number:
        raise mistake("TIL310", f"the axis has size {size}, so it has not {number} positions")
    return tuple(select(x, place, position) for position in range(number))


def split(x: Tensor, parts: int | Sequence[Size], axis: int = 0) -> tuple[Tensor, ...]:
    """Return parts of ``x`` on ``axis``: a number of equal parts, or one for each given size.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the number of parts is not positive; TIL310, the size of the
            axis
            differs from the sum of the parts (TIL312 if that is known only when compiling).
    """
    size = dims_of(x)[axis_of(x, axis)]
    if isinstance(parts, list | tuple):
        lengths = [dim_like(x, part) for part in parts]
    else:
        count = integer_of(parts, "a number of parts")
        if count < 1:
            raise mistaken(f"there is at least one part, not {count}")
        lengths = [size / count] * count
    stops = [dim_like(x, 0)]
    for length in lengths:
        stops.append(stops[-1] + length)
    whole = stops[-1] if isinstance(parts, list | tuple) else lengths[0] * len(lengths)
    return tuple(_part(x, axis, start, length, whole) for start, length in zip(stops, lengths, strict=False))


def _part(x: Tensor, axis: int, start: Dim, length: Dim, whole: Dim) -> Tensor:
    """Return some positions of an axis whose size has to be ``whole``."""
    place, variables, sizes = axis_of(x, axis), indices_of(x), list(dims_of(x))
    position = variables[place] + start
    checks = equal_sizes(position, sizes[place], whole)
    source = [position if a == place else i for a, i in enumerate(variables)]
    sizes[place] = length
    return aggregate(Aggregation.ASSIGN, x[tuple(source)].given(*checks), variables, sizes)
