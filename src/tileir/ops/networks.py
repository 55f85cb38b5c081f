"""Bitonic sorting networks over tensors: Batcher, "Sorting networks and their applications" (1968)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.ops.foundation import Aggregation, Tensor, aggregate, dim_like, dims_of, full, index_of, indices_of, inside
from tileir.ops.shaping import moveaxis, product
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from tileir.ops.foundation import Dim


def network_order(x: Tensor, axis: int, *, descending: bool, longest: int) -> Tensor:
    """Return where the elements of ``x`` along ``axis``, of at most ``longest``, come from when they are sorted."""
    rows = moveaxis(x, axis, -1)
    size = dims_of(rows)[-1]
    steps = (longest - 1).bit_length()
    values, places = _padded(rows, longest, 1 << steps)
    for merged in range(steps):
        for distance in reversed(range(merged + 1)):
            values, places = _exchanged(values, places, merged, distance, size, descending=descending)
    flat = tf.reshape(places, *dims_of(rows)[:-1], 1 << steps)
    indices = indices_of(flat)
    return moveaxis(aggregate(Aggregation.ASSIGN, flat[indices], indices, dims_of(rows)), -1, axis)


def ordered(a: Tensor, b: Tensor) -> Tensor:
    """Return whether ``a`` is before ``b``: less, or a number where ``b`` is NaN."""
    return tf.logical_and(tf.logical_not(b <= a), a == a)


def _padded(rows: Tensor, longest: int, size: int) -> tuple[Tensor, Tensor]:
    """Return the elements in rows of ``size``, and their places; those behind the end have places that show it."""
    dims = dims_of(rows)
    count = product(rows, dims[:-1])
    flat = tf.reshape(rows, count, dims[-1])
    o, i = index_of(rows, "o"), index_of(rows, "i")
    checked = inside(dims[-1] - 1, dim_like(rows, longest)) + 1
    values = aggregate(Aggregation.ASSIGN, flat[o, i].given(i < checked), [o, i], [count, size])
    return values, tf.index(full(rows, [count, size], 0), 1)


def _exchanged(
    values: Tensor, places: Tensor, merged: int, distance: int, size: Dim, *, descending: bool
) -> tuple[Tensor, Tensor]:
    """Return the elements after each was compared with that whose place differs in bit ``distance``.

    Blocks of ``2^(merged + 1)`` become sorted, by turns upwards and downwards.
    """
    dims = dims_of(values)
    count, length = dims[0], product(values, dims[1:])
    reach = 1 << distance
    sizes: list[Dim | int] = [count, length / (2 * reach), 2, reach]
    mine, my_place = tf.reshape(values, *sizes), tf.reshape(places, *sizes)
    other, other_place = _partner(mine), _partner(my_place)
    low, high = (other, mine) if descending else (mine, other)
    by_place = my_place < other_place
    by_value = tf.logical_and(tf.logical_not(ordered(high, low)), tf.logical_or(ordered(low, high), by_place))
    is_first = tf.where(tf.max(my_place, other_place) < size, by_value, by_place)
    # Each pair is one group of the third axis; its direction is the bit of its block.
    wants_first = tf.index(mine, 2) == (tf.index(mine, 1) >> (merged - distance) & 1)
    stays = is_first == wants_first
    return tf.where(stays, mine, other), tf.where(stays, my_place, other_place)


def _partner(x: Tensor) -> Tensor:
    o, a, h, j = (index_of(x, name) for name in "oahj")
    return aggregate(Aggregation.ASSIGN, x[o, a, 1 - h, j], [o, a, h, j], dims_of(x))
