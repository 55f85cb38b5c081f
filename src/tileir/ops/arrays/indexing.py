"""Elements at positions given by tensors: taken along axes, interpolated, or chosen by conditions.

Positions are integers of any type. ``mode`` defines positions outside of an axis: ``"clamp"`` takes the nearest
element, ``"fill"`` gives the value ``fill``, and ``"wrap"`` continues at the other end, so that -1 is the last.
"""

from __future__ import annotations

from typing import Final

from tileir.ops.arrays.shaping import product
from tileir.ops.shared.foundation import (
    Dim,
    Operand,
    Tensor,
    axis_of,
    call,
    cast_to,
    chosen,
    dims_of,
    for_sums,
    full,
    integer_of,
    mistaken,
    promoted,
    rank_of,
)
from tileir.ops.shared.positions import (
    coordinates_of,
    element_numbers,
    is_inside,
    row_numbers,
    widened,
    within,
    without_gaps,
)
from tileir.tile import builder_functions as tf

MODES: Final = ("clamp", "fill", "wrap")
NEAREST: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


def take(
    x: Tensor, indices: Tensor, axis: int = 0, *, batch_dims: int = 0, mode: str = "clamp", fill: Operand = 0
) -> Tensor:
    """Return the slices of ``x`` along ``axis`` at ``indices``: ``y[b, o, j, r] = x[b, o, indices[b, j], r]``.

    ``b`` are the first ``batch_dims`` axes of both, ``o`` and ``r`` those of ``x`` before and after ``axis``, and ``j``
    all other axes of the indices. The dtype is that of ``x``. Its gradient adds up slices.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, an option is wrong; TIL302, indices of floats.

    Source: NumPy's ``take``; TensorFlow's and PlaidML's ``gather``.
    """
    place = axis_of(x, axis)
    batch = _batch_dims(indices, batch_dims, place)
    chosen(mode, MODES, "mode")
    if place == 0 and mode == "clamp":
        return call("gather", x, indices)
    source = without_gaps(x, [place]) if mode == "fill" else x
    dims, size = dims_of(source), dims_of(x)[place]
    rows = tf.reshape(source, product(x, dims[: place + 1]), *dims[place + 1 :])
    sizes = dims_of(indices)
    aligned = tf.reshape(indices, *sizes[:batch], *[1] * (place - batch), *sizes[batch:])
    number = within(aligned, dims[place], rows, mode)
    if place > 0:
        number = row_numbers(rows, dims[:place], len(sizes) - batch) * dims[place] + number
    taken = call("gather", rows, number)
    return _filled(taken, aligned, size, fill, rank_of(x) - place - 1) if mode == "fill" else taken


def take_along_axis(x: Tensor, indices: Tensor, axis: int, *, mode: str = "clamp", fill: Operand = 0) -> Tensor:
    """Return the elements of ``x`` at ``indices`` along ``axis``: ``y[o, j, r] = x[o, indices[o, j, r], r]``.

    Both have as many axes; sizes of all but ``axis`` are those of ``x``, and may be 1 in the indices.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the ranks differ, or an option is wrong; TIL302, indices of
            floats.

    Source: NumPy's ``take_along_axis``; PyTorch's ``gather``.
    """
    place = axis_of(x, axis)
    chosen(mode, MODES, "mode")
    source = without_gaps(x, [place]) if mode == "fill" else x
    dims = dims_of(source)
    flat = tf.reshape(source, product(x, dims))
    taken = call("gather", flat, element_numbers(flat, dims, indices, place, mode))
    return _filled(taken, indices, dims_of(x)[place], fill, 0) if mode == "fill" else taken


def gather_nd(
    x: Tensor,
    indices: Tensor,
    *,
    depth: int | None = None,
    batch_dims: int = 0,
    mode: str = "clamp",
    fill: Operand = 0,
) -> Tensor:
    """Return elements or slices at points: ``y[b, j, r] = x[b, indices[b, j, 0], …, indices[b, j, d - 1], r]``.

    ``b`` are the first ``batch_dims`` axes of both. The last axis of the indices has the size ``d``, which ``depth``
    gives if it is a dimension.

    Raises:
        TileError: TIL217, ``d`` is not known, or greater than the number of axes, or an option is wrong; TIL312 when
            compiling, ``d`` differs.

    Source: TensorFlow's ``gather_nd``; PlaidML's ``gather`` in the mode ``nd``.
    """
    batch = _batch_dims(indices, batch_dims, rank_of(x))
    chosen(mode, MODES, "mode")
    parts = coordinates_of(indices, depth, rank_of(x) - batch)
    end = batch + len(parts)
    source = without_gaps(x, range(batch, end)) if mode == "fill" else x
    dims = dims_of(source)
    rows = tf.reshape(source, product(x, dims[:end]), *dims[end:])
    number = row_numbers(rows, dims[:batch], rank_of(indices) - 1 - batch) if batch > 0 else None
    for part, size in zip(parts, dims[batch:end], strict=True):
        position = within(part, size, rows, mode)
        number = position if number is None else number * size + position
    assert number is not None  # there is one coordinate at least
    taken = call("gather", rows, number)
    if mode == "fill":
        for part, size in zip(parts, dims_of(x)[batch:end], strict=True):
            taken = _filled(taken, part, size, fill, len(dims) - end)
    return taken


def interpolated_take(
    x: Tensor,
    positions: Tensor,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    interpolation: str = "linear",
    nearest: str = "round_prefer_floor",
    coefficient: float = -0.5,
    mode: str = "clamp",
    fill: Operand = 0,
) -> Tensor:
    """Return ``x`` between its elements, at positions that are floats; shapes as in :func:`take`.

    ``interpolation`` is ``"nearest"``, ``"linear"`` or ``"cubic"``: one, two or four neighbours, weighted by their
    distance. Cubic weights are ``(c + 2)|t|³ - (c + 3)|t|² + 1`` for distances ``|t| <= 1``, and ``c|t|³ - 5c|t|² +
    8c|t| - 4c`` below 2, with ``c`` the coefficient. ``nearest`` is the rule for the nearest element:
    ``"round_prefer_floor"``, ``"round_prefer_ceil"``, ``"floor"``, ``"ceil"`` or ``"simple"``, which drops the
    fraction. ``mode`` holds for each neighbour. Linear and cubic interpolation have gradients for ``positions``, too.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, an option is wrong.

    Source: PlaidML's ``gather``; Keys, "Cubic convolution interpolation for digital image processing" (1981).
    """
    place = axis_of(x, axis)
    chosen(interpolation, ("nearest", "linear", "cubic"), "interpolation")
    chosen(nearest, NEAREST, "nearest")
    batch = _batch_dims(positions, batch_dims, place)

    def tap(position: Tensor) -> Tensor:
        whole = cast_to(position, "i32")
        return take(x, whole, place, batch_dims=batch, mode=mode, fill=fill)

    if interpolation == "nearest":
        return tap(nearest_of(positions, nearest))
    given, x, positions = (x, positions, fill), for_sums(x), for_sums(positions)
    sizes = dims_of(positions)
    behind = rank_of(x) - place - 1
    low = tf.floor(positions)
    part = tf.reshape(positions - low, *sizes[:batch], *[1] * (place - batch), *sizes[batch:], *[1] * behind)
    if interpolation == "linear":
        return promoted(tap(low) * (1 - part) + tap(low + 1) * part, *given)
    weights = cubic_weights(part, coefficient)
    result = tap(low - 1) * weights[0]
    for offset, weight in enumerate(weights[1:]):
        result = result + tap(low + offset) * weight
    return promoted(result, *given)


def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 0, time_axis: int = 1) -> Tensor:
    """Return ``x`` with the first elements of each example reversed, their number given by ``lengths``, [B].

    Raises:
        TileError: TIL314, there is no such axis; TIL217, both axes are one, or ``lengths`` has not one axis.

    Source: TensorFlow's and ONNX' ``ReverseSequence``.
    """
    batch, time = axis_of(x, batch_axis), axis_of(x, time_axis)
    if batch == time or rank_of(lengths) != 1:
        raise mistaken("examples and times are two axes, and lengths have one")
    sizes = [size if axis in (batch, time) else 1 for axis, size in enumerate(dims_of(x))]
    ends = tf.reshape(widened(lengths), *[sizes[axis] if axis == batch else 1 for axis in range(len(sizes))])
    place = tf.index(full(x, sizes, 0), time)
    return take_along_axis(x, tf.where(place < ends, ends - 1 - place, place), time)


def embedding(table: Tensor, indices: Tensor, *, padding_index: int | None = None) -> Tensor:
    """Return the rows of a table: ``y[j, e] = table[indices[j], e]``; the row ``padding_index`` gets no gradient.

    Indices outside of the table are clamped.

    Raises:
        TileError: TIL217, the table has no axis, or ``padding_index`` is no integer; TIL302, indices of floats.

    Source: PyTorch's ``embedding``.
    """
    if rank_of(table) == 0:
        raise mistaken("a table of embeddings has at least one axis")
    rows = call("gather", table, indices)
    if padding_index is None:
        return rows
    padding = integer_of(padding_index, "padding_index")
    number = dims_of(table)[0] + padding if padding < 0 else padding
    is_padding = tf.reshape(widened(indices) == number, *dims_of(indices), *[1] * (rank_of(table) - 1))
    return tf.where(is_padding, tf.stop_gradient(rows), rows)


def _batch_dims(indices: Tensor, count: int, most: int) -> int:
    batch = integer_of(count, "batch_dims")
    if not 0 <= batch <= min(most, rank_of(indices)):
        raise mistaken(f"batch_dims is from 0 to {min(most, rank_of(indices))}, not {batch}")
    return batch


def _filled(taken: Tensor, indices: Tensor, size: Dim, fill: Operand, behind: int) -> Tensor:
    """Put ``fill`` where an index lies outside of an axis; ``behind`` axes follow those of the indices."""
    inside = tf.reshape(is_inside(indices, size), *dims_of(indices), *[1] * behind)
    return tf.where(inside, taken, tf.as_like(fill, taken))


def nearest_of(positions: Tensor, rule: str) -> Tensor:
    """Return the nearest integer positions by one of the rules :data:`NEAREST`, as floats."""
    match rule:
        case "round_prefer_floor":
            return tf.ceil(positions - 0.5)
        case "round_prefer_ceil":
            return tf.floor(positions + 0.5)
        case "floor":
            return tf.floor(positions)
        case "ceil":
            return tf.ceil(positions)
        case _:
            return tf.trunc(positions)


def cubic_weights(part: Tensor, coefficient: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the weights of four neighbours of a position that is ``part`` after the second one."""
    near, far = (_near(part, coefficient), _near(1 - part, coefficient)), _far(2 - part, coefficient)
    return _far(part + 1, coefficient), *near, far


def cubic_weight(distance: Tensor, coefficient: float) -> Tensor:
    """Return the weight of a neighbour at any distance, which is 0 from 2 on."""
    behind = tf.where(distance < 2, _far(distance, coefficient), 0)
    return tf.where(distance <= 1, _near(distance, coefficient), behind)


def _near(t: Tensor, c: float) -> Tensor:
    """Return the cubic weight of a neighbour at a distance of at most 1."""
    return ((c + 2) * t - (c + 3)) * t * t + 1


def _far(t: Tensor, c: float) -> Tensor:
    """Return the cubic weight of a neighbour at a distance between 1 and 2."""
    return ((c * t - 5 * c) * t + 8 * c) * t - 4 * c
