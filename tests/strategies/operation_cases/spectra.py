"""Cases of Fourier transforms, windows and filters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.wide.signals import mel_filters
from strategies.operations import Array, Case, sample
from tileir import ops

_COMPLEX: Final = {"X": sample(2, 5, 3, 2)}
_REAL: Final = {"X": sample(2, 6, 1)}
_SIGNAL: Final = {"X": sample(2, 11, 1), "W": sample(4, low=0.1)}


def _parts(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


def _of(x: Array) -> Any:
    return x[..., 0] + 1j * x[..., 1]


def _frames(x: Array, window: Array) -> Any:
    parts = [x[:, start : start + 4, 0] * window for start in range(0, 8, 3)]
    return np.stack(parts, 1)


CASES: Final = (
    Case(
        "dft",
        lambda x: ops.dft(x, axis=1),
        _COMPLEX,
        lambda x: _parts(np.fft.fft(_of(x), axis=1)),
        lambda t, x: t.view_as_real(t.fft.fft(t.view_as_complex(x), dim=1)),
    ),
    Case(
        "dft_of_another_length",
        lambda x: ops.dft(x, 8, axis=-3),
        _COMPLEX,
        lambda x: _parts(np.fft.fft(_of(x), 8, axis=1)),
    ),
    Case("dft_cut", lambda x: ops.dft(x, 3, axis=1), _COMPLEX, lambda x: _parts(np.fft.fft(_of(x), 3, axis=1))),
    Case(
        "dft_of_real_numbers",
        lambda x: ops.dft(x, onesided=True),
        _REAL,
        lambda x: _parts(np.fft.rfft(x[..., 0])),
        lambda t, x: t.view_as_real(t.fft.rfft(x[..., 0])),
    ),
    Case(
        "dft_inverse",
        lambda x: ops.dft(x, axis=0, inverse=True),
        _COMPLEX,
        lambda x: _parts(np.fft.ifft(_of(x), axis=0)),
    ),
    *(
        Case(
            f"dft_inverse_to_{length}",
            lambda x, length=length: ops.dft(x, length, axis=1, inverse=True, onesided=True),
            _COMPLEX,
            lambda x, length=length: np.fft.irfft(_of(x), length, axis=1)[..., None],
        )
        for length in (8, 7, 4)
    ),
    Case(
        "stft",
        lambda x, w: ops.stft(x, 3, w),
        _SIGNAL,
        lambda x, w: _parts(np.fft.rfft(_frames(x, w))),
        lambda t, x, w: t.view_as_real(
            t.stft(x[..., 0], 4, 3, window=w, center=False, return_complex=True).transpose(1, 2)
        ),
    ),
    Case(
        "stft_of_whole_spectra",
        lambda x, _: ops.stft(x, 3, length=4, onesided=False),
        _SIGNAL,
        lambda x, _: _parts(np.fft.fft(_frames(x, np.ones(4)))),
        wrt=("X",),
    ),
    *(
        Case(
            name,
            lambda x, name=name: ops.cosine_window(x, 7, name, periodic=False),
            {"X": sample(1)},
            lambda _, name=name: {"hann": np.hanning, "hamming": np.hamming, "blackman": np.blackman}[name](7),
            wrt=(),
            dtypes=("f32",),
        )
        for name in ("hann", "hamming", "blackman")
    ),
    Case(
        "mel_filters",
        lambda x: ops.mel_weight_matrix(x, 8, 16, 8192, 0, 4096),
        {"X": sample(1)},
        lambda x: mel_filters(x, 8, 16, 8192, 0, 4096).astype(np.float64),
        wrt=(),
        dtypes=("f32",),
    ),
)
