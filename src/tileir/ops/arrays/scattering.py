"""Elements put at positions that tensors tell: added, multiplied, replaced, or kept where they are extreme.

``mode`` says what an update does to the element at its position:

- ``"add"``, ``"mul"``, ``"max"``, ``"min"``: all updates of an element, and the element itself, are aggregated;
- ``"set"``: the element becomes the update, of several the last one.

``bounds`` says what becomes of positions outside: ``"clamp"`` moves them to the nearest element, ``"drop"`` leaves them
out, and ``"wrap"`` counts on from the other end. Results have the dtype of ``x``.

Additions are Tile's ``scatter``, linear in the updates. Other modes first bring together updates of one position, by
comparing each with each along the axis of the positions; ``unique`` promises that there are none, and spares that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.ops.arrays.shaping import product
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Operand,
    Tensor,
    aggregate,
    axis_of,
    call,
    chosen,
    dims_of,
    full,
    indices_of,
    rank_of,
)
from tileir.ops.shared.positions import (
    coordinates_of,
    element_numbers,
    is_inside,
    next_number,
    resized,
    row_numbers,
    within,
    without_gaps,
)
from tileir.tile import builder_functions as tf

MODES: Final = ("add", "mul", "max", "min", "set")
BOUNDS: Final = ("clamp", "drop", "wrap")


@attrs.frozen(repr=False)
class _Options:
    mode: str
    bounds: str
    unique: bool

    @classmethod
    def of(cls, mode: str, bounds: str, unique: bool) -> _Options:
        return cls(chosen(mode, MODES, "mode"), chosen(bounds, BOUNDS, "bounds"), unique)


def scatter(
    x: Tensor,
    indices: Tensor,
    updates: Operand,
    *,
    axis: int = 0,
    mode: str = "add",
    bounds: str = "clamp",
    unique: bool = False,
) -> Tensor:
    """Return ``x`` with its slices along ``axis`` at ``indices`` updated: the inverse of :func:`tileir.ops.take`.

    ``updates[o, j, r]`` goes to ``x[o, indices[j], r]``, where ``j`` are all axes of the indices; a number goes
    everywhere.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, an option is wrong; TIL302, indices of floats; TIL310 when
            compiling, the updates have another shape.

    Source: NumPy's ``add.at`` and its like, JAX's ``at[…].add``; PlaidML's ``scatter`` is a sum into zeros, and with
    ``"set"`` its mode ``update_slice``.
    """
    options = _Options.of(mode, bounds, unique)
    place = axis_of(x, axis)
    source = _with_places(x, [place], options)
    dims, count = dims_of(source), product(x, dims_of(indices))
    rows = tf.reshape(source, product(x, dims[: place + 1]), *dims[place + 1 :])
    aligned = tf.reshape(indices, *[1] * place, count)
    number = position = within(aligned, dims[place], rows, bounds)
    if place > 0:
        number = row_numbers(rows, dims[:place], 1) * dims[place] + position
    given = _given(x, updates, [*dims[:place], count, *dims[place + 1 :]])
    update = _Update(position, _kept(aligned, dims_of(x)[place], options), given, place, options)
    return resized(tf.reshape(update.put(rows, number), *dims), dims_of(x))


def scatter_along_axis(
    x: Tensor,
    indices: Tensor,
    updates: Operand,
    axis: int,
    *,
    mode: str = "add",
    bounds: str = "clamp",
    unique: bool = False,
) -> Tensor:
    """Return ``x`` with elements updated along ``axis``: the inverse of :func:`tileir.ops.take_along_axis`.

    ``updates[o, j, r]`` goes to ``x[o, indices[o, j, r], r]``. All axes but ``axis`` have the sizes of ``x``.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the ranks differ, or an option is wrong; TIL302, indices of
            floats; TIL310 when compiling, the updates have another shape than the indices.

    Source: PyTorch's ``scatter`` and ``scatter_reduce``; NumPy's ``put_along_axis``; PlaidML's mode ``update_elt``.
    """
    options = _Options.of(mode, bounds, unique)
    place = axis_of(x, axis)
    source = _with_places(x, [place], options)
    dims = dims_of(source)
    flat = tf.reshape(source, product(x, dims))
    number = element_numbers(flat, dims, indices, place, bounds)
    position = within(indices, dims[place], flat, bounds)
    given = _given(x, updates, dims_of(number))
    update = _Update(position, _kept(indices, dims_of(x)[place], options), given, place, options)
    return resized(tf.reshape(update.put(flat, number), *dims), dims_of(x))


def scatter_nd(
    x: Tensor,
    indices: Tensor,
    updates: Operand,
    *,
    depth: int | None = None,
    mode: str = "add",
    bounds: str = "clamp",
    unique: bool = False,
) -> Tensor:
    """Return ``x`` updated at points: the inverse of :func:`tileir.ops.gather_nd`.

    ``updates[j, r]`` goes to ``x[indices[j, 0], …, indices[j, d - 1], r]``; ``depth`` is ``d``, if it is a dimension.

    Raises:
        TileError: TIL217, ``d`` is not known, or greater than the number of axes, or an option is wrong; TIL302,
            indices of floats; TIL310 when compiling, the updates have another shape.

    Source: TensorFlow's ``tensor_scatter_nd_update``; PlaidML's mode ``update_nd``.
    """
    options = _Options.of(mode, bounds, unique)
    parts = coordinates_of(indices, depth, rank_of(x))
    source = _with_places(x, range(len(parts)), options)
    dims = dims_of(source)
    rows = tf.reshape(source, product(x, dims[: len(parts)]), *dims[len(parts) :])
    count = product(x, dims_of(indices)[:-1])
    number, kept = None, None
    for part, size, own in zip(parts, dims, dims_of(x), strict=False):
        number = next_number(number, size, within(part, size, rows, bounds))
        inside = _kept(part, own, options)
        if inside is not None:
            kept = inside if kept is None else tf.logical_and(kept, inside)
    assert number is not None  # there is a coordinate
    flat = tf.reshape(number, count)
    given = _given(x, updates, [count, *dims[len(parts) :]])
    update = _Update(flat, None if kept is None else tf.reshape(kept, count), given, 0, options)
    return resized(tf.reshape(update.put(rows, flat), *dims), dims_of(x))


@attrs.frozen(repr=False)
class _Update:
    """What is put where.

    Attributes:
        positions: Where along an axis; their shape broadcasts with the first axes of ``values``.
        kept: Which of them count, in the same shape; None for all.
        values: What is put there.
        axis: The axis of both along which positions may come twice.
        options: How it is put.

    """

    positions: Tensor
    kept: Tensor | None
    values: Tensor
    axis: int
    options: _Options

    def put(self, rows: Tensor, numbers: Tensor) -> Tensor:
        """Return rows with the updates at these numbers of rows."""
        mode = self.options.mode
        update = self if self.options.unique or mode == "add" else self._merged()
        values = (
            call("widen", update.values) if mode == "add" else update.values
        )  # whose sums are rounded with the rest
        summed = call("scatter", update._masked(values, 0), numbers, rows)
        if mode == "add":
            return tf.as_like(rows + summed, rows)
        ones = update._masked(full(rows, dims_of(numbers), 1), 0)
        hit = call("scatter", ones, numbers, rows) > 0
        hit = tf.reshape(hit, *dims_of(hit), *[1] * (rank_of(rows) - 1))
        summed = tf.as_like(summed, rows)
        match mode:
            case "mul":
                new = rows * summed
            case "max":
                new = tf.max(rows, summed)
            case "min":
                new = tf.min(rows, summed)
            case _:
                new = summed
        return tf.as_like(tf.where(hit, new, rows), rows)

    def _masked(self, values: Tensor, otherwise: int) -> Tensor:
        """Return values where they are kept."""
        if self.kept is None:
            return values
        behind = rank_of(values) - rank_of(self.kept)
        return tf.where(tf.reshape(self.kept, *dims_of(self.kept), *[1] * behind), values, otherwise)

    def _merged(self) -> _Update:
        """Return updates of which only the last of each position is kept, with the others brought into it."""
        one, other = self._pairs(self.positions)
        same = one == other
        if self.kept is not None:
            same = tf.logical_and(same, self._pairs(self.kept)[1])
        order = tf.index(same, self.axis + 1) > tf.index(same, self.axis)
        last = tf.logical_not(self._over_others(Aggregation.MAX, tf.logical_and(same, order)))
        kept = last if self.kept is None else tf.logical_and(last, self.kept)
        aggregation = _AGGREGATIONS.get(self.options.mode)
        if aggregation is None:
            return attrs.evolve(self, kept=kept)
        mine, others = self._pairs(self.values)
        wide = tf.reshape(same, *dims_of(same), *[1] * (rank_of(mine) - rank_of(same)))
        # What is not of this position must change nothing, and take no part of the gradient.
        values = tf.where(wide, others, 1 if self.options.mode == "mul" else tf.stop_gradient(mine))
        return attrs.evolve(self, kept=kept, values=self._over_others(aggregation, values))

    def _pairs(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return values twice, so that each meets each along the axis and the one behind it."""
        sizes = dims_of(values)
        before, size, after = sizes[: self.axis], sizes[self.axis], sizes[self.axis + 1 :]
        return tf.reshape(values, *before, size, 1, *after), tf.reshape(values, *before, 1, size, *after)

    def _over_others(self, aggregation: Aggregation, values: Tensor) -> Tensor:
        """Aggregate over the axis behind the axis."""
        indices, sizes, gone = indices_of(values), dims_of(values), self.axis + 1
        kept = [*indices[:gone], *indices[gone + 1 :]]
        return aggregate(aggregation, values[indices], kept, [*sizes[:gone], *sizes[gone + 1 :]])


_AGGREGATIONS: Final = {"mul": Aggregation.PROD, "max": Aggregation.MAX, "min": Aggregation.MIN}


def _with_places(x: Tensor, axes: Sequence[int], options: _Options) -> Tensor:
    """Return ``x``, with a place for updates that are dropped along axes without elements."""
    return without_gaps(x, axes) if options.bounds == "drop" else x


def _kept(indices: Tensor, size: Dim, options: _Options) -> Tensor | None:
    return is_inside(indices, size) if options.bounds == "drop" else None


def _given(x: Tensor, updates: Operand, sizes: Sequence[Dim]) -> Tensor:
    """Return updates of these sizes in the dtype of ``x``."""
    if isinstance(updates, Tensor) and dims_of(updates):
        return tf.as_like(tf.reshape(updates, *sizes), x)
    return tf.as_like(full(x, sizes, updates), x)
