"""Initial weights: random numbers whose spread depends on the numbers of inputs and outputs of a unit.

Weights have ``inputs`` and ``outputs`` on two axes, by default the last two; all other axes, such as those of the
window of a convolution, multiply both numbers. PyTorch's layout is ``in_axis=1, out_axis=0``. Each function returns the
weights, of f32 unless ``dtype`` is given, and the next state.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core.dtype import DType
from tileir.ops.arithmetic.random import normal, uniform
from tileir.ops.arrays.shaping import product
from tileir.ops.shared.foundation import Dim, Size, Tensor, axis_within, dim_like, mistaken, real, tensor_of
from tileir.tile import builder_functions as tf


def glorot_uniform(
    state: Tensor, sizes: Sequence[Size], *, in_axis: int = -2, out_axis: int = -1, dtype: DType | str = "f32"
) -> tuple[Tensor, Tensor]:
    """Return uniform weights in ±``sqrt(6 / (inputs + outputs))``, and the next state.

    Raises:
        TileError: TIL217, both axes are one; TIL314, there is no such axis.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).
    """
    inputs, outputs = _fans(state, sizes, in_axis, out_axis)
    limit = _root(state, 6, inputs + outputs)
    return uniform(state, sizes, low=-limit, high=limit, dtype=dtype)


def glorot_normal(
    state: Tensor, sizes: Sequence[Size], *, in_axis: int = -2, out_axis: int = -1, dtype: DType | str = "f32"
) -> tuple[Tensor, Tensor]:
    """Return normal weights of deviation ``sqrt(2 / (inputs + outputs))``, and the next state.

    Errors and source are those of :func:`glorot_uniform`.
    """
    inputs, outputs = _fans(state, sizes, in_axis, out_axis)
    return normal(state, sizes, std=_root(state, 2, inputs + outputs), dtype=dtype)


def he_uniform(
    state: Tensor, sizes: Sequence[Size], *, in_axis: int = -2, out_axis: int = -1, dtype: DType | str = "f32"
) -> tuple[Tensor, Tensor]:
    """Return uniform weights in ±``sqrt(6 / inputs)``, and the next state.

    Raises:
        TileError: TIL217, both axes are one; TIL314, there is no such axis.

    Source: He, Zhang, Ren and Sun, "Delving deep into rectifiers" (2015).
    """
    limit = _root(state, 6, _fans(state, sizes, in_axis, out_axis)[0])
    return uniform(state, sizes, low=-limit, high=limit, dtype=dtype)


def he_normal(
    state: Tensor, sizes: Sequence[Size], *, in_axis: int = -2, out_axis: int = -1, dtype: DType | str = "f32"
) -> tuple[Tensor, Tensor]:
    """Return normal weights of deviation ``sqrt(2 / inputs)``, and the next state.

    Errors and source are those of :func:`he_uniform`.
    """
    inputs, _ = _fans(state, sizes, in_axis, out_axis)
    return normal(state, sizes, std=_root(state, 2, inputs), dtype=dtype)


def _fans(state: Tensor, sizes: Sequence[Size], in_axis: int, out_axis: int) -> tuple[Dim, Dim]:
    """Return the numbers of inputs and outputs of a unit."""
    first, last = axis_within(len(sizes), in_axis), axis_within(len(sizes), out_axis)
    if first == last:
        raise mistaken(f"inputs and outputs are two axes, not both {first}")
    around = product(state, [size for axis, size in enumerate(sizes) if axis not in (first, last)])
    return dim_like(state, sizes[first]) * around, dim_like(state, sizes[last]) * around


def _root(state: Tensor, factor: float, count: Dim) -> Tensor:
    return tf.sqrt(tf.cast(tensor_of(state, factor), "f32") / real(count))
