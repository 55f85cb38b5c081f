"""Tuple reductions of arrays of any shape, with ties, infinities, NaN and zeros of both signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
from hypothesis import strategies as st

from tileir.core.combines import Combine
from tileir.core.dtype import DType
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import reduce
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.tile import ir as tile
    from tileir.tile.builder import Tensor
    from tileir.typed.ir import Function

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: Final = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.U8, DType.I32, DType.I64, DType.BOOL)
SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.0)


@attrs.frozen(eq=False)
class TupleCase:
    """A tuple reduction of an array; ``shift`` asks that 1 is added to elements first, where that is exact enough."""

    combine: Combine
    axes: tuple[int, ...]
    dtype: DType
    data: Array
    shift: bool

    @property
    def program(self) -> tile.Function:
        """The function of one input X, whose results O0, O1, … are the components."""
        builder = FunctionBuilder()
        x: Tensor = builder.input("X", *(f"D{axis}" for axis in range(self.data.ndim)))
        read = x + x * 0.5 if self.shift else x
        return builder.build(**{f"O{n}": part for n, part in enumerate(reduce(self.combine, read, *self.axes))})

    @property
    def function(self) -> Function:
        """The same, typed."""
        return infer(self.program, {"X": TensorType(self.dtype, self.data.shape)})

    @property
    def elements(self) -> Array:
        """Return the reduced elements: the reduced axes as one, in front."""
        data = self.data.astype(np.float64) if self.dtype in (DType.F16, DType.BF16) else self.data
        if self.shift:
            half = np.asarray(0.5, data.dtype if self.dtype.is_float else np.float32)
            data = data + data * half
        axes = self.axes or tuple(range(data.ndim))
        moved = np.moveaxis(data, axes, range(len(axes)))
        return (
            moved.reshape(-1, *moved.shape[len(axes) :])
            if 0 not in moved.shape
            else moved[:0].reshape(0, *moved.shape[len(axes) :])
        )

    def expected(self) -> tuple[Array, ...]:
        """Return the components by NumPy, in f64 where they are rounded."""
        elements = self.elements
        if self.combine.is_extremum:
            return _extremum(self.combine, elements)
        wide = elements.astype(np.float64)
        with np.errstate(all="ignore"):
            if self.combine is Combine.MOMENTS:
                mean = wide.mean(0)
                return np.full(mean.shape, float(len(wide))), mean, ((wide - mean) ** 2).sum(0)
            most = wide.max(0)
            powers = np.where(wide == most, 1.0, np.exp(wide - most))
            return most, powers.sum(0)


def _extremum(combine: Combine, elements: Array) -> tuple[Array, Array]:
    """Return extrema and their positions; NaN is the first of its kind that NumPy finds, or the last."""
    last = combine in (Combine.LAST_ARGMAX, Combine.LAST_ARGMIN)
    find = np.argmax if combine in (Combine.ARGMAX, Combine.LAST_ARGMAX) else np.argmin
    place = len(elements) - 1 - find(elements[::-1], 0) if last else find(elements, 0)
    return np.take_along_axis(elements, place[None], 0)[0], place


@st.composite
def tuple_cases(draw: st.DrawFn, *, most: int = 40, dtypes: tuple[DType, ...] = DTYPES) -> TupleCase:
    """Draw a reduction of a tensor that has elements."""
    combine = draw(st.sampled_from(list(Combine)))
    sizes = st.sampled_from([1, 2, 3, 5, 8, 17, 33, most])
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=3).filter(lambda s: np.prod(s) <= 20_000)))
    axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1)))))
    dtype = draw(st.sampled_from(dtypes))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.is_float:
        special = draw(st.booleans())
        values = generator.choice(SPECIAL, shape) if special else generator.standard_normal(shape) * 3
        if combine is Combine.MOMENTS:
            values = np.where(np.isfinite(values), values, 2.0)
        data = values.astype(dtype.numpy)
    else:
        data = generator.integers(0, 2 if dtype.is_bool else 5, shape).astype(dtype.numpy)
    exact = dtype in (DType.F32, DType.F64) and combine.is_extremum
    return TupleCase(combine, axes, dtype, data, exact and draw(st.booleans()))


def assert_components(case: TupleCase, found: tuple[Array, ...]) -> None:
    """Assert that components are those of NumPy: exactly for extrema, else within a bound of their rounding."""
    for number, (got, want) in enumerate(zip(found, case.expected(), strict=True)):
        if case.combine.is_extremum:
            np.testing.assert_array_equal(np.asarray(got).astype(want.dtype), want, f"component {number}")
        else:
            tolerance = 1e-12 if got.dtype == np.float64 else 2e-5
            scale = 1.0 + np.max(np.abs(np.where(np.isfinite(want), want, 0.0)), initial=0.0)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)
