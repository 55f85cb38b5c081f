"""Signals: Fourier transforms, windows, and mel filters."""

from __future__ import annotations

from typing import Any

from tileir import ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import somewhere
from tileir_onnx.rows.table import row

_WINDOWS = {
    "BlackmanWindow": (0.42, 0.5, 0.08),
    "HammingWindow": (25 / 46, 21 / 46),
    "HannWindow": (0.5, 0.5),
}


def _number(array: Array | None) -> Any:
    """Return a number, possibly symbolic; None if omitted."""
    if array is None:
        return None
    (value,) = array.flat
    return value if isinstance(value, Dim) else int(value)


@row("DFT", since=17, until=20, known=("length",))
def dft_17(
    call: Call, x: Tensor, length: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return ops.dft(x, _number(length), axis=axis, inverse=bool(inverse), onesided=bool(onesided))


@row("DFT", since=20, known=("length", "axis"))
def dft(
    call: Call,
    x: Tensor,
    length: Array | None = None,
    axis: Array | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    place = -2 if axis is None else int(axis)
    return ops.dft(x, _number(length), axis=place, inverse=bool(inverse), onesided=bool(onesided))


@row("STFT", since=17, known=("step", "length"))
def stft(
    call: Call, x: Tensor, step: Array, window: Tensor | None = None, length: Array | None = None, *, onesided: int = 1
) -> Tensor:
    whole = x if x.rank == 3 else ops.expand_dims(x, -1)
    return ops.stft(whole, int(step), window, length=_number(length), onesided=bool(onesided))


for _name, _terms in _WINDOWS.items():

    @row(_name, since=17, known=("size",))
    def window(
        call: Call, size: Array, *, output_datatype: int = 1, periodic: int = 1, terms: tuple[float, ...] = _terms
    ) -> Tensor:
        dtype = call.dtype(output_datatype)
        return ops.cosine_window(somewhere(call), _number(size), terms, periodic=bool(periodic), dtype=dtype)


@row("MelWeightMatrix", since=17, known=("bins", "length", "rate", "low", "high"))
def mel_weight_matrix(
    call: Call, bins: Array, length: Array, rate: Array, low: Array, high: Array, *, output_datatype: int = 1
) -> Tensor:
    dtype = call.dtype(output_datatype)
    return ops.mel_weight_matrix(
        somewhere(call), int(bins), int(length), int(rate), float(low), float(high), dtype=dtype
    )
