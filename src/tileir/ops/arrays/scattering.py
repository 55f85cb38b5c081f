"""Updates at positions given by tensors: added, multiplied, replaced, or kept if they are extreme.

``mode`` defines the effect of an update on the element at its position:

- ``"add"``, ``"mul"``, ``"max"``, ``"min"``: all updates of an element, and the element itself, are aggregated;
- ``"set"``: the element becomes the update, of several the last one.

``bounds`` defines positions outside: ``"clamp"`` moves them to the nearest element, ``"drop"`` leaves them out, and
``"wrap"`` continues at the other end. Results have the dtype of ``x``.

Aggregations are Tile's ``scatter`` and its variants. ``unique`` promises that no two updates have one position: they
are then stored in any order, all at the same time. Replacements without it are Tile's ``scatter_last``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    for_sums,
    full,
    indices_of,
    mistaken,
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
    number = within(aligned, dims[place], rows, bounds)
    if place > 0:
        number = row_numbers(rows, dims[:place], 1) * dims[place] + number
    given = _given(x, updates, [*dims[:place], count, *dims[place + 1 :]])
    update = _Update(number, _kept(aligned, dims_of(x)[place], options), given, options)
    return resized(tf.reshape(update.put(rows), *dims), dims_of(x))


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
    given = _given(x, updates, dims_of(number))
    update = _Update(number, _kept(indices, dims_of(x)[place], options), given, options)
    return resized(tf.reshape(update.put(flat), *dims), dims_of(x))


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
    update = _Update(flat, None if kept is None else tf.reshape(kept, count), given, options)
    return resized(tf.reshape(update.put(rows), *dims), dims_of(x))


def update_cache(
    cache: Tensor, update: Tensor, positions: Tensor | None = None, *, axis: int = -2, circular: bool = False
) -> Tensor:
    """Return a cache with new elements along ``axis``, from ``positions`` on, 0 by default: [B], one for each example.

    ``update`` has the sizes of the cache, or less along ``axis``. Elements beyond the end are left out, or continue at
    the front if the cache is ``circular``.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, it is the first one, or positions have not one axis.

    Source: ONNX' ``TensorScatter``.
    """
    place = axis_of(cache, axis)
    if place == 0 or (positions is not None and rank_of(positions) != 1):
        raise mistaken("the first axis of a cache are examples, each with a position; it grows along another one")
    behind = [1] * (rank_of(cache) - place - 1)
    number = tf.index(full(cache, [dims_of(update)[place], *behind], 0), 0)
    if positions is not None:
        number = number + tf.reshape(positions, *dims_of(positions), *[1] * (rank_of(cache) - 1))
    else:
        number = tf.reshape(number, *[1] * place, *dims_of(number))
    bounds = "wrap" if circular else "drop"
    return scatter_along_axis(cache, number, update, place, mode="set", bounds=bounds, unique=True)


@attrs.frozen(repr=False)
class _Update:
    """Updates of rows.

    Attributes:
        numbers: The rows to update.
        kept: A mask of the updates that count, in a shape that broadcasts to that of the numbers; None for all.
        values: The updates; the numbers are for their first axes.
        options: Mode and bounds.
    """

    numbers: Tensor
    kept: Tensor | None
    values: Tensor
    options: _Options

    def put(self, rows: Tensor) -> Tensor:
        """Return rows with the updates."""
        mode = self.options.mode
        if mode == "set":
            return self._assigned(rows, "scatter_assign" if self.options.unique else "scatter_last")
        if not self.options.unique:
            # Sums and products are rounded with the rest.
            values = for_sums(self.values) if mode in ("add", "mul") else self.values
            return tf.as_like(_MERGES[mode](rows, self._scattered(f"scatter{_NAMES[mode]}", values, rows)), rows)
        if mode == "add":
            return tf.as_like(rows + self._assigned(tf.as_like(full(rows, dims_of(rows), 0), rows)), rows)
        before = call("gather", rows, self.numbers)
        return attrs.evolve(self, values=_MERGES[mode](before, self.values))._assigned(rows)

    def _assigned(self, rows: Tensor, function: str = "scatter_assign") -> Tensor:
        """Return rows, each replaced by its update, if there is one."""
        if self.kept is None:
            return call(function, self.values, self.numbers, rows)
        indices = indices_of(rows)
        more = aggregate(Aggregation.ASSIGN, rows[indices], indices, [dims_of(rows)[0] + 1, *dims_of(rows)[1:]])
        return _first(call(function, self.values, self._places(rows), more), rows)

    def _scattered(self, function: str, values: Tensor, rows: Tensor) -> Tensor:
        """Return updates aggregated in as many rows."""
        if self.kept is None:
            return call(function, values, self.numbers, rows)
        return _first(call(function, values, self._places(rows), _longer(rows)), rows)

    def _places(self, rows: Tensor) -> Tensor:
        """Return the rows to update: one after all others for updates that do not count."""
        if self.kept is None:
            return self.numbers
        longer = _longer(rows)
        return tf.where(self.kept, tf.as_like(self.numbers, tf.index(longer, 0)), dims_of(rows)[0])


_NAMES: Final = {"add": "", "mul": "_mul", "max": "_max", "min": "_min"}

_MERGES: Final[Mapping[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "add": lambda rows, found: rows + found,
    "mul": lambda rows, found: rows * found,
    "max": tf.max,
    "min": tf.min,
}


def _longer(rows: Tensor) -> Tensor:
    return full(rows, [dims_of(rows)[0] + 1], 0)


def _first(found: Tensor, rows: Tensor) -> Tensor:
    """Return as many rows as ``rows`` has."""
    indices = indices_of(found)
    return aggregate(Aggregation.ASSIGN, found[indices], indices, [dims_of(rows)[0], *dims_of(found)[1:]])


def _with_places(x: Tensor, axes: Sequence[int], options: _Options) -> Tensor:
    """Return ``x`` with a position for dropped updates along axes without elements."""
    return without_gaps(x, axes) if options.bounds == "drop" else x


def _kept(indices: Tensor, size: Dim, options: _Options) -> Tensor | None:
    return is_inside(indices, size) if options.bounds == "drop" else None


def _given(x: Tensor, updates: Operand, sizes: Sequence[Dim]) -> Tensor:
    """Return updates of these sizes in the dtype of ``x``."""
    if isinstance(updates, Tensor) and dims_of(updates):
        return tf.as_like(tf.reshape(updates, *sizes), x)
    return tf.as_like(full(x, sizes, updates), x)
