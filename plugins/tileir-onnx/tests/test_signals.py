"""Signals beside NumPy and the reference of ONNX: transforms of all lengths, windows, filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rows import check, floats

Array = np.ndarray[Any, Any]


def parts(x: Array) -> Array:
    """Return complex numbers as pairs of real ones."""
    return np.stack([x.real, x.imag], -1).astype(np.float32)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("length", [None, 4, 8, 9])
@pytest.mark.parametrize(("axis", "version"), [(1, 17), (1, 20), (2, 20), (-2, 20)])
def test_transforms(axis: int, version: int, length: int | None) -> None:
    real, pairs = floats(2, 6, 7, 1), floats(2, 6, 7, 2)
    both = pairs[..., 0] + 1j * pairs[..., 1]
    place = axis % 4
    options: dict[str, Any] = {"version": version, "opened": False, "tolerance": 1e-4}
    attributes = {"axis": axis} if version == 17 else {}
    rest = [None if length is None else np.array(length), *([np.array(axis)] if version > 17 else [])]
    options["constants"] = (1, 2)
    if length is None and version == 17:
        rest = []
    check("DFT", [real, *rest], attributes, wanted=[parts(np.fft.fft(real[..., 0], length, place))], **options)
    half = parts(np.fft.rfft(real[..., 0], length, place))
    check("DFT", [real, *rest], {**attributes, "onesided": 1}, wanted=[half], **options)
    check("DFT", [pairs, *rest], attributes, wanted=[parts(np.fft.fft(both, length, place))], **options)
    inverse = parts(np.fft.ifft(both, length, place))
    check("DFT", [pairs, *rest], {**attributes, "inverse": 1}, wanted=[inverse], **options)


@pytest.mark.parametrize("onesided", [0, 1])
def test_transforms_of_parts(onesided: int) -> None:
    x, window = floats(2, 30, 1), np.hanning(8).astype(np.float32)
    starts = np.arange(0, 23, 3)
    pieces = np.stack([x[:, at : at + 8, 0] for at in starts], 1).astype(np.float64)
    transform = np.fft.rfft if onesided else np.fft.fft
    options: dict[str, Any] = {"constants": (1, 3), "tolerance": 1e-4}
    wanted = [parts(transform(pieces * window))]
    check("STFT", [x, np.array(3), window], {"onesided": onesided}, wanted=wanted, **options)
    check(
        "STFT",
        [x, np.array(3), None, np.array(8)],
        {"onesided": onesided},
        wanted=[parts(transform(pieces))],
        **options,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(op: str, periodic: int) -> None:
    check(op, [np.array(10)], {"periodic": periodic}, constants=(), opened=False)
    check(op, [np.array(7)], {"periodic": periodic, "output_datatype": 11}, tolerance=1e-7, opened=False)


@pytest.mark.parametrize("bins", [3, 8])
def test_filters(bins: int) -> None:
    arrays = [np.array(bins), np.array(64), np.array(8192), np.array(10.0, np.float32), np.array(3000.0, np.float32)]
    check("MelWeightMatrix", arrays, opened=False)
