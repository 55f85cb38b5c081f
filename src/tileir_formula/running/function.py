"""A formula for pictures of some dtypes as a callable, with the conversion of its pictures, parameters and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir import Jit, Options
from tileir.core import ArgumentError, DType, attrs
from tileir.driver.calls.arguments import tensor_types
from tileir.driver.programs import function_of
from tileir.typed.inference.inference import infer
from tileir_formula.running.footprint import Reach, reach_of
from tileir_formula.running.picture_parts import STRIP_PIXELS, Array, in_strips

if TYPE_CHECKING:
    from tileir_formula.lower.lowering import Crafted
    from tileir_formula.running.low_rank import Approximation


@attrs.frozen(eq=False)
class FormulaFunction:
    """A formula for pictures of some dtypes: its Tile function, its callable, and the arguments after the pictures."""

    crafted: Crafted
    call: Jit
    passed: tuple[Any, ...]
    approximations: tuple[Approximation, ...]
    _reaches: dict[tuple[tuple[int, ...], ...], Reach | None] = attrs.field(factory=dict, repr=False)
    _otherwise: dict[Options, Jit] = attrs.field(factory=dict, repr=False)

    def with_options(self, options: Options) -> FormulaFunction:
        """Return the formula compiled with other options; cached, since each move of a control asks."""
        if options not in self._otherwise:
            self._otherwise[options] = attrs.evolve(self.call, options=options)
        return attrs.evolve(self, call=self._otherwise[options])

    def on(self, arrays: Sequence[Array], out: Any = None) -> tuple[Array, ...]:
        """Return the results for pictures with channels."""
        results = self.call(*arrays, *self.passed, out=out)
        return results if isinstance(results, tuple) else (results,)

    def reach(self, arrays: Sequence[Array]) -> Reach | None:
        """Return how far results read around their places in these pictures; None where they depend on places."""
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._reaches:
            function = function_of(self.call.function)
            names = [each.name for each in function.inputs]
            types = tensor_types(function, dict(zip(names, (*arrays, *self.passed), strict=True)))
            self._reaches[shapes] = reach_of(infer(function, types), names[: len(arrays)])
        return self._reaches[shapes]

    def in_strips(self, arrays: Sequence[Array], reach: Reach) -> tuple[Array, ...]:
        """Return the results, computed strip after strip."""
        rows, columns = arrays[0].shape[:2]
        whole: list[Array] = []
        for place, parts in in_strips(self.on, arrays, reach, max(1, STRIP_PIXELS // columns)):
            whole = whole or [np.empty((rows, columns, each.shape[2]), each.dtype) for each in parts]
            for result, each in zip(whole, parts, strict=True):
                result[place.slices] = each
        return tuple(whole)


RANKS = (2, 3)
"""Ranks of pictures: [rows, columns], or [rows, columns, channels]."""


def dtype_of(name: str, array: Array) -> DType:
    """Return the dtype of the picture of an input.

    Raises:
        ArgumentError: TIL701, tileir does not know the dtype.
    """
    dtype = DType.of(array.dtype)
    if dtype is None:
        raise ArgumentError.of("TIL701", f"{name} has pixels of {array.dtype}, which tileir does not know")
    return dtype


def as_passed(value: Any) -> Any:
    """Return the value of a parameter in its fastest form: an array, except for integers, which determine sizes."""
    return np.asarray(value, np.float32) if isinstance(value, float) else value


def shown(results: tuple[Array, ...], flat: bool) -> Any:
    """Return the results for the caller: a single one without a tuple, one channel without its axis where asked."""
    shaped = tuple(_flattened(result, flat) for result in results)
    return shaped if len(shaped) > 1 else shaped[0]


def _flattened(result: Array, flat: bool) -> Array:
    return result[..., 0] if flat and result.ndim == max(RANKS) and result.shape[-1] == 1 else result
