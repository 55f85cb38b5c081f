"""Spectra: what is refused, and what inverse transforms give back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.dft(x, axis=3), "TIL314", "the axis is 3"),
        (lambda x: ops.dft(x, axis=-1), "TIL217", "the last axis holds real and imaginary parts"),
        (lambda x: ops.stft(ops.sum(x, 0), 2, length=3), "TIL305", "signals have 3 axes, batch, time and parts"),
        (lambda x: ops.stft(x, 0, length=3), "TIL217", "step is from 1 on, not 0"),
        (lambda x: ops.stft(x, 1), "TIL217", "give the window or its length"),
        (lambda x: ops.cosine_window(x, 4, "flat"), "TIL217", "coefficients is one of 'hann', 'hamming', 'blackman'"),
        (lambda x: ops.cosine_window(x, 4, ()), "TIL217", "a window has a coefficient or more"),
        (lambda x: ops.mel_weight_matrix(x, 0, 8, 8, 0, 1), "TIL217", "bins is from 1 on, not 0"),
        (lambda x: ops.mel_weight_matrix(x, 1, 8, 8, 2, 1), "TIL217", "frequencies rise from 0 on"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "T", "C")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_inverse_transforms_give_the_signal_back(size: int) -> None:
    x = sample(2, size, 2)
    back = run(lambda x: ops.dft(ops.dft(x), inverse=True), x)
    np.testing.assert_allclose(back, x, atol=1e-12 * size)
    real = x[..., :1]
    half = run(lambda x: ops.dft(ops.dft(x, onesided=True), size, inverse=True, onesided=True), real)
    np.testing.assert_allclose(half, real, atol=1e-12 * size)


def test_windows_of_one_element() -> None:
    for periodic in (True, False):
        assert run(lambda x, p=periodic: ops.cosine_window(x, 1, periodic=p), np.ones(1)) == 0
