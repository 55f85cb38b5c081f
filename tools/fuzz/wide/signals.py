"""Rows of signals: spectra and windows, causal convolutions, attention with a state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.row import Arguments, Array, Draw, Row

_WINDOWS: Final = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}
_TURN: Final = 2 * np.longdouble("3.14159265358979323846264338327950288")


def windowed(_: Array, size: int, coefficients: str = "hann", periodic: bool = True) -> Array:
    """Return a window of cosines."""
    angle = _TURN * np.arange(size).astype(np.longdouble) / (size if periodic else max(size - 1, 1))
    parts = [(-1) ** k * a * np.cos(k * angle) for k, a in enumerate(_WINDOWS[coefficients])]
    return np.sum(parts, axis=0)


def transformed(
    x: Array, length: int | None = None, *, axis: int = -2, inverse: bool = False, onesided: bool = False
) -> Array:
    """Return the definition of the Fourier transform, of complex numbers with an axis for their parts."""
    real, imaginary = np.take(x, 0, -1), np.take(x, 1, -1) if x.shape[-1] == 2 else 0 * np.take(x, 0, -1)
    place = axis % x.ndim
    real, imaginary = np.moveaxis(real, place, -1), np.moveaxis(imaginary, place, -1)
    halved = inverse and onesided
    count = length if length is not None else 2 * (real.shape[-1] - 1) if halved else real.shape[-1]
    taken = min(real.shape[-1], count // 2 + 1 if halved else count)
    real, imaginary = real[..., :taken], imaginary[..., :taken]
    results = count // 2 + 1 if onesided and not inverse else count
    turns = np.outer(np.arange(results), np.arange(taken)) % max(count, 1)
    angle = _TURN * turns.astype(np.longdouble) / count * (-1 if inverse else 1)
    weight = np.full(taken, 1 / np.longdouble(count) if inverse else np.longdouble(1))
    if halved:
        weight[[k for k in range(taken) if k > 0 and 2 * k != count]] *= 2
    cosine, sine = np.cos(angle) * weight, np.sin(angle) * weight
    found = real @ cosine.T + imaginary @ sine.T, imaginary @ cosine.T - real @ sine.T
    parts = [np.moveaxis(part, -1, place) for part in (found[:1] if halved else found)]
    return np.stack(parts, -1)


def _dft(draw: Draw) -> Arguments:
    shape = (*draw.full(1, 2), draw.integer(1, 2))
    axis = draw.integer(0, len(shape) - 2)
    options: dict[str, Any] = {
        "axis": axis - draw.pick((0, len(shape))),
        "inverse": draw.flag(),
        "onesided": draw.flag(),
    }
    length = [draw.integer(1, 9)] if (options["inverse"] and options["onesided"]) or draw.flag() else []
    return [draw.tensor(shape), *length], options


def _stft(draw: Draw) -> Arguments:
    size, step = draw.integer(1, 5), draw.integer(1, 3)
    x = draw.tensor((draw.integer(1, 2), size + draw.integer(0, 8), 1))
    return [x, step, draw.tensor((size,))], {"onesided": draw.flag()}


def framed(x: Array, step: int, window: Array, onesided: bool = True) -> Array:
    """Return the spectra of parts of a signal."""
    count = (x.shape[1] - len(window)) // step + 1
    parts = [x[:, f * step : f * step + len(window)] * window[:, None] for f in range(count)]
    return transformed(np.stack(parts, 1), onesided=onesided)


def _mel(draw: Draw) -> Arguments:
    low = draw.pick((0.0, 100.0))
    return [draw.tensor(()), draw.integer(1, 8), draw.pick((8, 16, 64)), 8000, low, draw.pick((1000.0, 4000.0))], {}


def mel_filters(_: Array, bins: int, dft_length: int, rate: int, low: float, high: float) -> Array:
    """Return triangles between frequencies in equal steps of mel, one after the other."""
    first, last = (2595 * math.log10(1 + frequency / 700) for frequency in (low, high))
    corners = [first + number * (last - first) / (bins + 2) for number in range(bins + 2)]
    places = [int((dft_length + 1) * 700 * (10 ** (corner / 2595) - 1) // rate) for corner in corners]
    found = np.zeros((dft_length // 2 + 1, bins), np.longdouble)
    for number, (left, middle, right) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        for place in range(left, right + 1):
            if place == middle or left < place < middle:
                found[place, number] = 1 if place == middle else (place - left) / np.longdouble(middle - left)
            elif middle < place < right:
                found[place, number] = (right - place) / np.longdouble(right - middle)
    return found


def _causal(draw: Draw) -> Arguments:
    batch, channels, time, kernel = draw.full(4, 4)
    arguments = [draw.tensor((batch, channels, time)), draw.tensor((channels, 1, kernel))]
    options: dict[str, Any] = {"activation": draw.pick(("none", "silu"))}
    if draw.flag():
        options |= {"bias": draw.tensor((channels,)), "state": draw.tensor((batch, channels, kernel - 1))}
    return arguments, options


def causal(
    x: Array, w: Array, bias: Array | None = None, state: Array | None = None, activation: str = "none"
) -> tuple[Array, Array]:
    """Return the convolution with what came before, and the last elements."""
    before = w.shape[2] - 1
    longer = np.concatenate([np.zeros((*x.shape[:2], before), x.dtype) if state is None else state, x], 2)
    found = np.stack([(longer[..., t : t + before + 1] * w[:, 0]).sum(-1) for t in range(x.shape[2])], -1)
    found = found if bias is None else found + bias[:, None]
    return found / (1 + np.exp(-found)) if activation == "silu" else found, longer[..., longer.shape[2] - before :]


def _causal_terms(x: Array, w: Array, **options: Any) -> Array:
    parts: list[Array] = [x, w, options.get("bias", x), options.get("state", x)]
    sizes = [np.abs(each).sum() for each in parts]
    return np.asarray(4 * (1 + sizes[0] + sizes[3]) * (1 + sizes[1]) + sizes[2])


def _linear(draw: Draw) -> Arguments:
    batch, keys, share, time, depth, width = draw.full(6, 6)
    sizes = ((batch, keys * share, time, depth), (batch, keys, time, depth), (batch, keys, time, width))
    arguments = [draw.tensor(size, "inside") for size in sizes]
    options = {}
    if draw.flag():
        options["state"] = draw.tensor((batch, keys, depth, width), "inside")
    if draw.flag():
        options["decay"] = draw.tensor((batch, keys, time, draw.pick((1, depth))), "inside")
    if draw.flag():
        options["beta"] = draw.tensor((batch, draw.pick((1, keys)), time, 1), "inside")
    return arguments, options


def linear_attention(
    q: Array,
    k: Array,
    v: Array,
    state: Array | None = None,
    *,
    decay: Array | None = None,
    beta: Array | None = None,
) -> tuple[Array, Array]:
    """Return attention over a state, time by time."""
    batch, keys, time, depth = k.shape
    share = q.shape[1] // keys
    now = np.zeros((batch, keys, depth, v.shape[-1]), q.dtype) if state is None else state
    found = []
    for t in range(time):
        if decay is not None:
            now = now * np.exp(decay[:, :, t])[..., None]
        value = v[:, :, t]
        if beta is not None:
            value = beta[:, :, t] * (value - np.einsum("bhde,bhd->bhe", now, k[:, :, t]))
        now = now + k[:, :, t, :, None] * value[:, :, None, :]
        found.append(np.einsum("bhd,bhde->bhe", q[:, :, t], np.repeat(now, share, 1)))
    return np.stack(found, 2) / np.sqrt(np.longdouble(depth)), now


def _greatest(x: Array, *_: Any, **__: Any) -> Array:
    return np.asarray(np.abs(x).sum() * 8)


def _sums(x: Array, step: int, window: Array, **_: Any) -> Array:
    return np.asarray(8 * np.abs(x).sum() * np.abs(window).sum())


_FULL: Final = ("f32", "f64")
ROWS_SIGNALS: Final[Sequence[Row]] = (
    Row(
        "cosine_window",
        lambda d: ([d.tensor(()), d.integer(1, 20), d.pick(tuple(_WINDOWS))], {"periodic": d.flag()}),
        windowed,
        ("f32",),
        constant="*",
        terms=lambda *_, **__: np.asarray(1.0),
    ),
    Row("dft", _dft, transformed, flavours=CALM, terms=_greatest),
    Row("stft", _stft, framed, _FULL, flavours=CALM, terms=_sums, units=16),
    Row("mel_weight_matrix", _mel, mel_filters, ("f32",), constant="*", units=4),
    Row("causal_conv", _causal, causal, flavours=CALM, terms=_causal_terms, units=16),
    Row(
        "linear_attention",
        _linear,
        linear_attention,
        _FULL,
        flavours=CALM,
        terms=lambda q, *_, **__: np.asarray(np.longdouble(64) * 4 ** q.shape[2]),
        units=256,
    ),
)
