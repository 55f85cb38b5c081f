"""Spectra of signals: Fourier transforms, window functions, and mel filters.

Complex numbers are a last axis of two, the real and the imaginary part. A transform is one contraction with a matrix of
rotations by multiples of ``2 pi / N``, so its time grows with the square of the length. Source: ONNX' ``DFT``,
``STFT``, ``HannWindow`` and its like, and ``MelWeightMatrix``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from tileir.core.dtype import DType
from tileir.ops.arithmetic.elementwise import expm1
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Operand,
    Size,
    Tensor,
    aggregate,
    axis_of,
    call,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    full,
    index_of,
    indices_of,
    integer_of,
    mistake,
    mistaken,
    narrowed,
    rank_of,
    tensor_of,
    wide,
)
from tileir.tile import builder_functions as tf

WINDOWS: Final = MappingProxyType({"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)})
"""Coefficients of windows that are sums of cosines."""


def cosine_window(
    x: Operand,
    size: Size,
    coefficients: str | Sequence[float] = "hann",
    *,
    periodic: bool = True,
    dtype: DType | str = "f32",
) -> Tensor:
    """Return a window: ``a0 - a1 cos(t) + a2 cos(2 t) - …`` with ``t = 2 pi n / N`` for each n below ``size``.

    N is the size, or one less if the window is not ``periodic`` but symmetric. The coefficients are those of "hann",
    "hamming" (0.54 and 0.46; ONNX has 25 / 46 and 21 / 46) and "blackman", or numbers. ``x`` only identifies the
    builder: any tensor or dimension of it will do. The window is computed in f64 and rounded once.

    Raises:
        TileError: TIL217, there is no such window, or no coefficient; TIL206, there is no such dtype.

    Source: NumPy's ``hanning`` and its like, PyTorch's ``hann_window``.
    """
    if isinstance(coefficients, str):
        coefficients = WINDOWS[chosen(coefficients, tuple(WINDOWS), "coefficients")]
    if not coefficients:
        raise mistaken("a window has a coefficient or more")
    count = dim_like(x, size)
    steps = count if periodic else (count - 1).max(1)
    place = tf.index(full(x, [count], 0), 0)
    result = None
    for order, coefficient in enumerate(coefficients):
        term = _turn(place * order, steps)[0] * ((-1) ** order * float(coefficient))
        result = term if result is None else result + term
    assert result is not None  # there is a coefficient
    return cast_to(result, dtype)


def dft(
    x: Tensor,
    length: Size | None = None,
    *,
    axis: int = -2,
    inverse: bool = False,
    onesided: bool = False,
) -> Tensor:
    """Return the discrete Fourier transform along an axis: ``Y[k] = sum(X[n] * exp(-2 pi i k n / N))`` over n.

    Shapes: the last axis of ``x`` has the real part alone, or both; that of the result both. N is ``length``, by
    default the size of ``axis``; further elements of ``x`` are left out, and missing ones are 0. ``onesided`` leaves
    out the conjugates of earlier elements, all from ``N / 2 + 1`` on. The ``inverse`` has the opposite angle, and is
    divided by N; with ``onesided`` it is that of half a spectrum, which is real: the last axis has one element then,
    and N is by default twice the size less 2. Dtype: that of ``x``; integers give f32.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, it is the last one.
    """
    place, rank = axis_of(x, axis), rank_of(x)
    if place == rank - 1:
        raise mistaken("the last axis holds real and imaginary parts; transform another one")
    sizes, halved = list(dims_of(x)), inverse and onesided
    given = sizes[place]
    count = dim_like(x, length) if length is not None else (given - 1) * 2 if halved else given
    taken = given if length is None and not halved else given.min(count / 2 + 1 if halved else count)
    results = count / 2 + 1 if onesided and not inverse else count
    matrix = _turns(x, (results, taken, sizes[-1], dim_like(x, 1 if halved else 2)), count, inverse)
    if inverse:
        matrix = matrix / cast_to(count, "f64")
    if halved:
        frequency = tf.index(matrix, 1)
        single = tf.logical_or(frequency == 0, frequency * 2 == count)
        matrix = matrix * tf.where(single, 1, 2)
    wider = wide(x)
    matrix = tf.as_like(matrix, wider)
    own = list(indices_of(x))
    n, a = own[place], own[-1]
    k, b = index_of(x, "k"), index_of(x, "b")
    result = [k if axis == place else b if axis == rank - 1 else i for axis, i in enumerate(own)]
    sizes[place], sizes[-1] = results, dim_like(x, 1 if halved else 2)
    product = wider[tuple(own)] * matrix[k, n, a, b]
    return narrowed(aggregate(Aggregation.SUM, product.given(n < taken), result, sizes), x)


def stft(
    x: Tensor, step: int, window: Tensor | None = None, *, length: Size | None = None, onesided: bool = True
) -> Tensor:
    """Return the Fourier transforms of parts of signals, which begin every ``step`` elements.

    Shapes: ``x`` is [B, T, 1] or [B, T, 2], ``window`` [N], which multiplies each part, and the result [B, F, K, 2]
    with ``F = (T - N) / step + 1`` parts and K = N elements each, or N / 2 + 1 if it is ``onesided``. N is the size of
    the window, or ``length``. Dtype: that of ``x``; integers give f32.

    Raises:
        TileError: TIL305, a rank differs; TIL217, the step is no positive integer, or there is neither window nor
            length.
    """
    if rank_of(x) != _SIGNALS or (window is not None and rank_of(window) != 1):
        raise mistake("TIL305", f"signals have {_SIGNALS} axes, batch, time and parts, and a window has one")
    if integer_of(step, "step") < 1:
        raise mistaken(f"step is from 1 on, not {step}")
    batch, time, parts = dims_of(x)
    if length is not None:
        size = dim_like(x, length)
    elif window is not None:
        size = dims_of(window)[0]
    else:
        raise mistaken("give the window or its length")
    frames = (time - size) / step + 1
    i, f, n, c = (index_of(x, name) for name in "ifnc")
    wider = wide(x)
    element = wider[i, f * step + n, c]
    framed = element if window is None else element * window[n]
    cut = aggregate(Aggregation.ASSIGN, framed, [i, f, n, c], [batch, frames, size, parts])
    return narrowed(dft(cut, onesided=onesided), x)


def mel_weight_matrix(
    x: Operand,
    bins: int,
    dft_length: int,
    sample_rate: int,
    low: float,
    high: float,
    *,
    dtype: DType | str = "f32",
) -> Tensor:
    """Return filters of mel frequencies for half a spectrum, [dft_length / 2 + 1, bins]: triangles of height 1.

    The corners of ``bins`` triangles lie between the frequencies ``low`` and ``high``, in Hertz, in equal steps of mel,
    ``2595 log10(1 + f / 700)``; they are moved to the next lower element of the spectrum. ``x`` only identifies the
    builder.

    Raises:
        TileError: TIL217, a number is not positive, or ``high`` not above ``low``; TIL206, there is no such dtype.
    """
    for name, number in (("bins", bins), ("dft_length", dft_length), ("sample_rate", sample_rate)):
        if integer_of(number, name) < 1:
            raise mistaken(f"{name} is from 1 on, not {number}")
    if not 0 <= low < high:
        raise mistaken(f"frequencies rise from 0 on; they were {low} and {high}")
    first, last = (2595 * math.log1p(frequency / 700) / math.log(10) for frequency in (low, high))
    corner = cast_to(tf.index(full(x, [1, bins], 0), 1), "f64")
    step = (last - first) / (bins + 2)

    def element(number: int) -> Tensor:
        frequency = expm1(((corner + number) * step + first) * (math.log(10) / 2595)) * 700
        return tf.floor(frequency * (dft_length + 1) / sample_rate)

    left, middle, right = element(0), element(1), element(2)
    place = cast_to(tf.index(full(x, [dft_length // 2 + 1, 1], 0), 0), "f64")
    rising = tf.where(middle == left, 1, (place - left) / tf.max(middle - left, 1))
    falling = (right - place) / tf.max(right - middle, 1)
    behind = tf.where(tf.logical_and(place > middle, place < right), falling, 0)
    return cast_to(tf.where(tf.logical_and(place >= left, place <= middle), rising, behind), dtype)


_SIGNALS: Final = 3


def _turn(number: Tensor, parts: Dim) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of ``number / parts`` of a circle, in f64."""
    angle = cast_to(call("mod", cast_to(number, "i64"), parts), "f64") * (2 * math.pi) / cast_to(parts, "f64")
    return tf.cos(angle), tf.sin(angle)


def _turns(x: Tensor, sizes: tuple[Dim, Dim, Dim, Dim], count: Dim, inverse: bool) -> Tensor:
    """Return the factor between part a of element n and part b of element k: [K, N, A, B], in f64."""
    grid = full(tensor_of(x, 0), sizes, 0)
    k, n, a, b = (cast_to(tf.index(grid, axis), "i64") for axis in range(4))
    cosine, sine = _turn(k * n, count)
    forward = b if not inverse else a  # the part whose sine counts negatively
    return tf.where(a == b, cosine, tf.where(forward == 1, -sine, sine))
