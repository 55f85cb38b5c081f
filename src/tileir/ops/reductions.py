"""Reductions over axes: sums, extrema, their positions, moments and norms."""
# ruff: noqa: A001  NumPy's names

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.ops.foundation import Aggregation, aggregate, axes_of, dims_of, indices_of

if TYPE_CHECKING:
    from tileir.ops.foundation import Axes, Tensor


def sum(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the sum over ``axes``, by default all.

    Shapes: that of ``x`` without the axes, or with 1 there. Dtypes: that of ``x``; bool gives i32.

    Raises:
        TileError: TIL314, an axis does not exist; TIL217, an axis stands there twice.

    """
    return _reduced(Aggregation.SUM, x, axes, keepdims)


def _reduced(aggregation: Aggregation, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """Aggregate ``x`` over axes; a reduction over none of them is one, too, so dtypes do not depend on that."""
    gone = axes_of(x, axes)
    source, dims = indices_of(x), dims_of(x)
    kept = [axis for axis in range(len(source)) if keepdims or axis not in gone]
    indices = [0 if axis in gone else source[axis] for axis in kept]
    sizes = [1 if axis in gone else dims[axis] for axis in kept]
    return aggregate(aggregation, x[source], indices, sizes)
