"""Rows of the conformance table, and the arguments that their programs are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core import attrs, dtype_of
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[Any]]


def _arrays(given: Mapping[str, ArrayLike]) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in given.items()}


@attrs.frozen(eq=False)
class Conformance:
    """A program, its arguments and its results; ``tolerance`` is relative to the largest result, 0 means equal."""

    name: str
    text: str
    inputs: dict[str, Array]
    expected: dict[str, Array] = attrs.field(converter=_arrays)
    tolerance: float = 0.0

    @property
    def types(self) -> dict[str, TensorType]:
        """The types of the arguments."""
        return {name: TensorType(dtype_of(array), array.shape) for name, array in self.inputs.items()}

    def check(self, actual: dict[str, Array]) -> None:
        """Compare results with the expected ones; NaN equals NaN."""
        assert list(actual) == list(self.expected)
        for name, right in self.expected.items():
            left = np.asarray(actual[name])
            assert (left.dtype, left.shape) == (right.dtype, right.shape), name
            if not dtype_of(right).is_float:
                np.testing.assert_array_equal(left, right, err_msg=name)
                continue
            wide = right.astype(np.float64)
            largest = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
            np.testing.assert_allclose(
                left.astype(np.float64), wide, rtol=self.tolerance, atol=self.tolerance * largest, err_msg=name
            )


def halves(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Return multiples of 1/2 from -4 to 4."""
    values: Array = np.random.default_rng(seed).integers(-8, 9, shape) / 2
    return values.astype(dtype)


def integers(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Return integers from 0 to 5, with signs where the dtype has them."""
    signed = np.dtype(dtype).kind != "u"
    values: Array = np.random.default_rng(seed).integers(-4 if signed else 0, 6, shape)
    return values.astype(dtype)


def as_array(values: ArrayLike, dtype: str) -> Array:
    """Return an array."""
    return np.array(values, dtype)
