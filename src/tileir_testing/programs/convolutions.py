"""Convolutions: valid, padded, strided, dilated, over channels and groups, transposed, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tileir_testing.programs.case import Array, Conformance, halves, integers

MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def _matrix_products() -> Iterator[Conformance]:
    sizes = [
        (1, 1, 1),
        (2, 2, 2),
        (3, 3, 3),
        (5, 5, 5),
        (32, 32, 32),
        (100, 100, 100),
        (61, 79, 57),
        (128, 32, 3),
        (4096, 32, 8),
    ]
    for m, k, n in sizes:
        a, b = halves("f4", m, k), halves("f4", k, n, seed=1)
        yield Conformance(f"matmul_{m}x{k}x{n}", MATMUL, {"A": a, "B": b}, {"C": a @ b})
    sevens = np.full((49, 49), 7, np.float32)
    yield Conformance("matmul_of_sevens", MATMUL, {"A": sevens, "B": sevens}, {"C": sevens @ sevens})
    a = np.array([[1, 2, 3, 4, 5], [4, 5, 6, 7, 8], [7, 8, 9, 7, 8], [1, 2, 3, 1, 2], [1, 2, 3, 1, 2]], np.int32)
    b = np.array([[1, 2, 3, 1, 2]] * 5, np.int32)
    c = np.array(
        [[15, 30, 45, 15, 30], [30, 60, 90, 30, 60], [39, 78, 117, 39, 78], [9, 18, 27, 9, 18], [9, 18, 27, 9, 18]]
    )
    yield Conformance("matmul_golden", MATMUL, {"A": a, "B": b}, {"C": c.astype(np.int32)})
    for dtype in ("i1", "u2", "i8", "u8", "f2", "f8"):
        a, b = integers(dtype, 4, 7), integers(dtype, 7, 5, seed=1)
        yield Conformance(f"matmul_{a.dtype}", MATMUL, {"A": a, "B": b}, {"C": a @ b})
    a, b, bias = halves("f4", 8, 6), halves("f4", 6, 4, seed=1), halves("f4", 4, seed=2)
    layer = """function (A[M, L], B[L, N], D[N]) -> (O) {
      C[i, j : M, N] = +(A[i, k] * B[k, j]);
      O = relu(C + D);
    }"""
    inputs = {"A": a, "B": b, "D": bias}
    yield Conformance("matmul_bias_relu", layer, inputs, {"O": np.maximum(a @ b + bias, 0)})
    among = """function (A[M, L], B[L, N], D[M, N]) -> (O) {
      X = -A; Y = -B;
      C[i, j : M, N] = +(X[i, k] * Y[k, j]);
      O = C + D;
    }"""
    inputs = {"A": a, "B": b, "D": halves("f4", 8, 4, seed=3)}
    yield Conformance("matmul_among_elementwise", among, inputs, {"O": a @ b + inputs["D"]})
    twice = """function (A[M, L], B[L, N], D[N, P]) -> (C, E, C2) {
      C[i, j : M, N] = +(A[i, k] * B[k, j]);
      E[i, j : M, P] = +(C[i, k] * D[k, j]);
      C2 = C;
    }"""
    d = halves("f4", 4, 3, seed=4)
    yield Conformance("double_dot", twice, {"A": a, "B": b, "D": d}, {"C": a @ b, "E": a @ b @ d, "C2": a @ b})


def _reductions() -> Iterator[Conformance]:
    x = halves("f4", 3, 4, 5)
    indices, sizes = ("i", "j", "k"), ("X", "Y", "Z")
    table: tuple[tuple[str, str, Callable[..., Array]], ...] = (
        ("+", "sum", np.sum), (">", "max", np.max), ("<", "min", np.min), ("*", "prod", np.prod),
    )  # fmt: skip
    for symbol, verb, function in table:
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            kept = [axis for axis in range(3) if axis not in axes]
            output = ", ".join(indices[a] for a in kept)
            shape = ", ".join(sizes[a] for a in kept)
            text = f"function (I[X, Y, Z]) -> (O) {{ O[{output} : {shape}] = {symbol}(I[i, j, k]); }}"
            name = f"{verb}_over_{''.join(map(str, axes))}"
            tolerance = 1e-5 if symbol == "*" else 0.0
            yield Conformance(name, text, {"I": x}, {"O": function(x, axis=axes)}, tolerance)
    keep = "function (I[X, Y, Z]) -> (O) { O[i, 0, k : X, 1, Z] = +(I[i, j, k]); }"
    yield Conformance("sum_keepdims", keep, {"I": x}, {"O": x.sum(axis=1, keepdims=True)})
    least = "function (I[X, Y, Z]) -> (O) { J = -I; M[] = >(J[i, j, k]); O = -M; }"
    yield Conformance("global_min", least, {"I": x}, {"O": x.min()})
    mean = "function (I[X, Y]) -> (O) { S[y : Y] = +(I[x, y]); O = S / X; }"
    yield Conformance("mean_by_size", mean, {"I": x[:, :, 0]}, {"O": x[:, :, 0].sum(axis=0) / np.float32(3)})
    cumsum = "function (I[N]) -> (O) { O[i : N] = +(I[k]), i - k < N; }"
    yield Conformance("cumulative_sum", cumsum, {"I": x[0, 0]}, {"O": np.cumsum(x[0, 0])})
    again = "function (I[N]) -> (O) { O[i : N] = +(I[i - j]), j < N; }"
    yield Conformance("cumulative_sum_by_offset", again, {"I": x[0, 0]}, {"O": np.cumsum(x[0, 0])})
    cumprod = "function (I[N]) -> (O) { O[i : N] = *(I[k]), i - k < N; }"
    n = integers("i8", 6)
    yield Conformance("cumulative_product", cumprod, {"I": n}, {"O": np.cumprod(n)})
    most = """function (I[N]) -> (O) {
      M[] = >(I[i]);
      X = index(I, 0);
      C[i : N] = +(I[i] == M[] ? X[i]);
      O[] = >(C[i]);
    }"""
    n = np.array([3, 9, 1, 9, 2], np.int32)
    yield Conformance("argmax_takes_the_last", most, {"I": n}, {"O": np.int32(3)})
    negative = "function (I[N]) -> (O) { O[] = >(I[i]); }"
    yield Conformance("max_of_negatives", negative, {"I": np.array([-3.0, -1.5], "f4")}, {"O": np.float32(-1.5)})
    lowest = np.array([-128, -128], np.int8)
    yield Conformance("max_of_minimum", negative, {"I": lowest}, {"O": np.int8(-128)})
    nan = np.array([1.0, np.nan, 2.0], np.float32)
    yield Conformance("max_propagates_nan", negative, {"I": nan}, {"O": np.float32(np.nan)})
    count = "function (I[N], J[N]) -> (O, P) { O[] = +(I[i] == J[i]); P[] = >(I[i] == J[i]); }"
    inputs = {"I": np.array([1, 2, 3], "i4"), "J": np.array([1, 0, 3], "i4")}
    yield Conformance("count_equals", count, inputs, {"O": np.int32(2), "P": np.bool_(True)})
    empty = "function (I[N, M]) -> (O, P, Q) { O[i : N] = +(I[i, j]); P[j : M] = >(I[i, j]); Q = I + 1; }"
    none = np.zeros((2, 0), np.float32)
    yield Conformance("zero_size", empty, {"I": none}, {"O": np.zeros(2, "f4"), "P": np.zeros(0, "f4"), "Q": none})


CONTRACTIONS: tuple[Conformance, ...] = (*_matrix_products(), *_reductions())


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
