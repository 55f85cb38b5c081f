"""Convolutions: valid, padded, strided, dilated, over channels and groups, transposed, with their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileir_testing.programs.case import Array, Conformance, halves


def _forward() -> Iterator[Conformance]:
    x, k = halves("f4", 9), halves("f4", 4, seed=1)
    valid = "function (I[N], K[M]) -> (O) { O[x : N - M + 1] = +(I[x + k] * K[k]); }"
    yield Conformance("convolution_1d", valid, {"I": x, "K": k}, {"O": np.correlate(x, k, "valid")})
    image, kernel = halves("f4", 6, 7), halves("f4", 3, 3, seed=1)
    same = """function (I[X, Y], K[KX, KY]) -> (O) {
      O[x, y : X, Y] = +(I[x + i - (KX - 1) / 2, y + j - (KY - 1) / 2] * K[i, j]);
    }"""
    yield Conformance(
        "convolution_2d_same", same, {"I": image, "K": kernel}, {"O": correlate(np.pad(image, 1), kernel)}
    )
    dilated = """function (I[X, Y], K[KX, KY]) -> (O) {
      O[x, y : X - 2 * (KX - 1), Y - 3 * (KY - 1)] = +(I[x + 2 * i, y + 3 * j] * K[i, j]);
    }"""
    spread = np.zeros((5, 7), np.float32)
    spread[::2, ::3] = kernel
    yield Conformance("convolution_dilated", dilated, {"I": image, "K": kernel}, {"O": correlate(image, spread)})
    strided = """function (I[X, Y], K[KX, KY]) -> (O) {
      O[x, y : (X - KX + 2) / 2, (Y - KY + 3) / 3] = +(I[2 * x + i, 3 * y + j] * K[i, j]);
    }"""
    result = correlate(image, kernel)[::2, ::3]
    yield Conformance("convolution_strided", strided, {"I": image, "K": kernel}, {"O": result})
    channels = """function (I[N, X, CI], K[KX, CI, CO]) -> (O) {
      O[n, x, co : N, X - KX + 1, CO] = +(I[n, x + k, ci] * K[k, ci, co]);
    }"""
    x3, k3 = halves("f4", 2, 6, 3), halves("f4", 2, 3, 4, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x3, 2, axis=1)
    full = np.einsum("nxck,kcd->nxd", windows, k3).astype("f4")
    yield Conformance("convolution_channels", channels, {"I": x3, "K": k3}, {"O": full})
    grouped = """function (I[N, X, G, CI], K[KX, G, CI, CO]) -> (O) {
      O[n, x, g, co : N, X - KX + 1, G, CO] = +(I[n, x + k, g, ci] * K[k, g, ci, co]);
    }"""
    x4, k4 = halves("f4", 2, 5, 2, 3), halves("f4", 2, 2, 3, 2, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x4, 2, axis=1)
    full = np.einsum("nxgck,kgcd->nxgd", windows, k4).astype("f4")
    yield Conformance("convolution_grouped", grouped, {"I": x4, "K": k4}, {"O": full})
    depthwise = """function (I[X, C], K[KX, C]) -> (O) {
      O[x, c : X - KX + 1, C] = +(I[x + k, c] * K[k, c]);
    }"""
    xd, kd = halves("f4", 6, 3), halves("f4", 2, 3, seed=1)
    full = xd[:-1] * kd[0] + xd[1:] * kd[1]
    yield Conformance("convolution_depthwise", depthwise, {"I": xd, "K": kd}, {"O": full})


def _gradients() -> Iterator[Conformance]:
    x, k = halves("f4", 9), halves("f4", 4, seed=1)
    gradient = """function (D[X], K[M], I[N]) -> (O) { O[x + k : N] = +(D[x] * K[k]); }"""
    inputs = {"D": halves("f4", 6), "K": k, "I": x}
    yield Conformance("convolution_gradient_data", gradient, inputs, {"O": np.convolve(inputs["D"], k)})
    gradient = """function (D[X], I[N], K[M]) -> (O) { O[k : M] = +(D[x] * I[x + k]); }"""
    inputs = {"D": halves("f4", 6), "I": x, "K": k}
    yield Conformance("convolution_gradient_kernel", gradient, inputs, {"O": np.correlate(x, inputs["D"], "valid")})
    strided = """function (D[X], K[M], I[N]) -> (O) { O[2 * x + 3 * k : N] = +(D[x] * K[k]); }"""
    inputs = {"D": halves("f4", 4), "K": halves("f4", 3, seed=1), "I": halves("f4", 12)}
    full = np.zeros(13, np.float32)
    for (p,), d in np.ndenumerate(inputs["D"]):
        for (q,), f in np.ndenumerate(inputs["K"]):
            full[2 * p + 3 * q] += d * f
    yield Conformance("convolution_gradient_strided_dilated", strided, inputs, {"O": full[:12]})
    transposed = """function (I[N, H, W, C], K[KH, KW, D, E]) -> (O) {
      O[0, y, x, 0 : 1, 5, 5, 1] = +(I[0, (y + j - 1) / 2, (x + i - 1) / 2, 0] * K[2 - j, 2 - i, 0, 0]);
    }"""
    inputs = {
        "I": np.array([[1, 3, -1], [0, 2, 4], [1, -1, -2]], "f4").reshape(1, 3, 3, 1),
        "K": np.array([[2, 3, 4], [6, -3, -1], [-1, -2, 1]], "f4").reshape(3, 3, 1, 1),
    }
    full = np.zeros((1, 5, 5, 1), np.float32)
    for y, x, j, i in np.ndindex(5, 5, 3, 3):
        row, column = y + j - 1, x + i - 1
        if row % 2 == 0 and column % 2 == 0 and 0 <= row < 6 and 0 <= column < 6:
            full[0, y, x, 0] += inputs["I"][0, row // 2, column // 2, 0] * inputs["K"][2 - j, 2 - i, 0, 0]
    yield Conformance("convolution_transposed", transposed, inputs, {"O": full})


def correlate(image: Array, kernel: Array) -> Array:
    """Return the valid two-dimensional correlation."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape)
    return np.asarray(np.einsum("xyij,ij->xy", windows, kernel), image.dtype)


CONVOLUTIONS: tuple[Conformance, ...] = (*_forward(), *_gradients())
