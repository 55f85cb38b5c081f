"""Functions for several examples beside a loop over the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from tileir.core.numbers.arithmetic import dtype_of
from tileir.tile.batching import batched
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Name
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.tile.ir import Function

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]

COUNT = 3


def interpreted(function: Function, arrays: Mapping[str, Array]) -> Arrays:
    """Return what a function gives for arrays, by its meaning when typed."""
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in arrays.items()}
    return interpret(infer(function, types), arrays)


def looped(compute: Callable[[Arrays], Sequence[Array]], arrays: Arrays, axes: Sequence[int | None]) -> list[Array]:
    """Return results of ``compute`` for one example at a time, stacked along a first axis."""
    count = next(array.shape[axis] for array, axis in zip(arrays.values(), axes, strict=True) if axis is not None)
    rows = []
    for number in range(count):
        row = {
            name: array if axis is None else np.take(array, number, axis)
            for (name, array), axis in zip(arrays.items(), axes, strict=True)
        }
        rows.append(compute(row))
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def several(array: Array, axis: int | None, random: np.random.Generator) -> Array:
    """Return as many examples that are like ``array``: floats are scaled down a little, rows of integers moved."""
    if axis is None:
        return array
    if array.dtype.kind == "f":
        rows = [array * (1 - 0.1 * number) for number in range(COUNT)]
        return np.stack(rows, axis).astype(array.dtype)
    order = [random.permutation(array.shape[0]) if array.ndim else None for _ in range(COUNT)]
    return np.stack([array if places is None else array[places] for places in order], axis)


def drawn_axes(function: Function, arrays: Mapping[str, Array], random: np.random.Generator) -> list[int | None]:
    """Draw where examples lie in each input; sizes are the same for all, and one input has examples, if any can."""
    sizing = sizing_inputs(function)
    axes: list[int | None] = [
        None if name in sizing or random.integers(0, 3) == 0 else int(random.integers(0, array.ndim + 1))
        for name, array in arrays.items()
    ]
    if any(axis is not None for axis in axes):
        return axes
    return [None if name in sizing else 0 for name in arrays]


def with_dims(function: Function, ranks: Mapping[str, int]) -> Function:
    """Return a function whose inputs have dimensions, where they were declared without."""
    inputs = tuple(
        attrs.evolve(each, dims=tuple(Name(f"{each.name}_{axis}_axis") for axis in range(ranks[each.name])))
        if each.dims is None
        else each
        for each in function.inputs
    )
    return attrs.evolve(function, inputs=inputs)


def checked(function: Function, axes: Sequence[int | None]) -> Function:
    """Return the function for several examples, which verifies and reads back from its text."""
    made = batched(function, axes)
    verify(made)
    assert parse(to_text(made)) == made
    return made


def assert_each(function: Function, arrays: Arrays, axes: Sequence[int | None], tolerance: float) -> None:
    """Compare a function for several examples with itself in a loop over them; NaN equals NaN."""
    results = interpreted(checked(function, axes), arrays)
    wanted = looped(lambda row: list(interpreted(function, row).values()), arrays, axes)
    for (name, found), right in zip(results.items(), wanted, strict=True):
        assert (found.dtype, found.shape) == (right.dtype, right.shape), name
        if dtype_of(right).is_float:
            wide, near = right.astype(np.float64), found.astype(np.float64)
            scale = np.max(np.abs(wide[np.isfinite(wide)]), initial=1.0)
            np.testing.assert_allclose(near, wide, rtol=tolerance, atol=tolerance * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(found, right, err_msg=name)
