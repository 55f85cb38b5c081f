"""Neural network layers and their gradients: convolutions and pools of one to three axes, normalisation, sampling.

Expected results are summed point by point, directly from the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tileir_testing.programs.case import Array, Conformance, as_array, halves

Point = tuple[int, ...]


def contracted(
    shape: tuple[int, ...],
    ranges: tuple[int, ...],
    target: Callable[..., Point],
    *factors: tuple[Array, Callable[..., Point]],
) -> Array:
    """Return the sum over all points of products; a point that leaves a tensor adds nothing."""
    result = np.zeros(shape, factors[0][0].dtype)
    for point in np.ndindex(*ranges):
        places = [(array, access(*point)) for array, access in factors]
        into = target(*point)
        inside = all(0 <= i < n for array, place in places for i, n in zip(place, array.shape, strict=True))
        if inside and all(0 <= i < n for i, n in zip(into, shape, strict=True)):
            result[into] += np.prod([array[place] for array, place in places])
    return result


def _convolutions() -> Iterator[Conformance]:
    """Yield convolutions with strides, dilations and padding, each with both of its gradients."""
    for name, stride, dilation, pad, size in (
        ("strided_2_3", (2, 3), (1, 1), (0, 0), (7, 8)),
        ("strided_2_3_of_one_row", (2, 3), (1, 1), (0, 0), (1, 6)),
        ("padded_by_half", (1, 1), (1, 1), (1, 1), (4, 5)),
        ("dilated_2_3", (1, 1), (2, 3), (0, 0), (6, 8)),
        ("strided_dilated_padded", (2, 3), (3, 2), (2, 1), (7, 9)),
    ):
        kernel = (1, 2) if size[0] == 1 else (3, 3)
        out = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(size, pad, dilation, kernel, stride, strict=True)
        )
        (sy, sx), (dy, dx), (py, px) = stride, dilation, pad
        read = f"{sy} * y + {dy} * i - {py}, {sx} * x + {dx} * j - {px}"
        data, weights, upstream = halves("f4", *size, 2), halves("f4", *kernel, 2, 3, seed=1), halves("f4", *out, 3)
        ranges = (*out, *kernel, 2, 3)

        def at(
            y: int, x: int, i: int, j: int, c: int, _d: int, o: tuple[int, ...] = (*stride, *dilation, *pad)
        ) -> Point:
            return (o[0] * y + o[2] * i - o[4], o[1] * x + o[3] * j - o[5], c)

        def tap(_y: int, _x: int, i: int, j: int, c: int, d: int) -> Point:
            return (i, j, c, d)

        def place(y: int, x: int, _i: int, _j: int, _c: int, d: int) -> Point:
            return (y, x, d)

        parts: dict[str, tuple[Array, Callable[..., Point]]] = {
            "A": (data, at),
            "K": (weights, tap),
            "O": (upstream, place),
        }
        forms = {
            "forward": ("O", f"O[y, x, d : {out[0]}, {out[1]}, 3] = +(A[{read}, c] * K[i, j, c, d]);"),
            "data": ("A", f"G[{read}, c : {size[0]}, {size[1]}, 2] = +(O[y, x, d] * K[i, j, c, d]);"),
            "weights": ("K", f"G[i, j, c, d : {kernel[0]}, {kernel[1]}, 2, 3] = +(O[y, x, d] * A[{read}, c]);"),
        }
        for kind, (result, statement) in forms.items():
            reads = [n for n in ("O", "A", "K") if n != result] if kind != "forward" else ["A", "K"]
            target = "G" if kind != "forward" else "O"
            text = f"function ({', '.join(reads)}) -> ({target}) {{ {statement} }}"
            array, access = parts[result]
            expected = contracted(array.shape, ranges, access, *(parts[n] for n in reads))
            inputs = {n: parts[n][0] for n in reads}
            yield Conformance(f"convolution_{name}_{kind}", text, inputs, {target: expected})


def _special_convolutions() -> Iterator[Conformance]:
    a, k = halves("f4", 4, 5, 3, 2), halves("f4", 2, 3, 2, 2, 3, seed=1)
    text = """function (A[X, Y, Z, C], K[I, J, L, C, D]) -> (O) {
      O[x, y, z, d : X - I + 1, Y - J + 1, Z - L + 1, D] = +(A[x + i, y + j, z + l, c] * K[i, j, l, c, d]);
    }"""
    windows = np.lib.stride_tricks.sliding_window_view(a, (2, 3, 2), axis=(0, 1, 2))
    yield Conformance("convolution_3d", text, {"A": a, "K": k}, {"O": np.einsum("xyzcijl,ijlcd->xyzd", windows, k)})
    a, k = halves("f4", 3, 2, 4), halves("f4", 2, 3, 2, seed=1)
    text = """function (A[X, Y, Z], K[I, J, L]) -> (O) {
      O[2 * x + i, y + j, 3 * z + l : 2 * X, Y + J - 1, 3 * Z] = +(A[x, y, z] * K[i, j, l]);
    }"""
    full = contracted(
        (6, 4, 12), (*a.shape, *k.shape), lambda x, y, z, i, j, m: (2 * x + i, y + j, 3 * z + m),
        (a, lambda x, y, z, *_: (x, y, z)), (k, lambda _x, _y, _z, *place: place),
    )  # fmt: skip
    yield Conformance("convolution_transposed_3d", text, {"A": a, "K": k}, {"O": full})
    a, depth, point = halves("f4", 6, 5, 3), halves("f4", 3, 2, 3, 2, seed=1), halves("f4", 3, 2, 4, seed=2)
    text = """function (A[H, W, C], P[I, J, C, M], Q[C, M, D]) -> (O) {
      T[y, x, c, m : H - I + 1, W - J + 1, C, M] = +(A[y + i, x + j, c] * P[i, j, c, m]);
      O[y, x, d : H - I + 1, W - J + 1, D] = +(T[y, x, c, m] * Q[c, m, d]);
    }"""
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 2), axis=(0, 1))
    inner = np.einsum("yxcij,ijcm->yxcm", windows, depth)
    yield Conformance(
        "convolution_separable", text, {"A": a, "P": depth, "Q": point}, {"O": np.einsum("yxcm,cmd->yxd", inner, point)}
    )
    text = """function (I[N, H, W, G, CI], K[KH, KW, G, CI, CO]) -> (O) {
      P = KH / 2; Q = KW / 2;
      O[n, y, x, g, c : N, (H + 1) / 2, (W + 1) / 2, G, CO] =
        +(I[n, 2 * y + j - P, 2 * x + i - Q, g, k] * K[j, i, g, k, c]);
    }"""
    for name, shape, kernel in (("tiny", (1,) * 5, (1,) * 5), ("small", (2, 3, 4, 2, 2), (3, 3, 2, 2, 3))):
        a, k = halves("f4", *shape), halves("f4", *kernel, seed=1)
        frame = [(size // 2, size - 1 - size // 2) for size in kernel[:2]]
        framed = np.pad(a, [(0, 0), *frame, (0, 0), (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(framed, kernel[:2], axis=(1, 2))[:, ::2, ::2]
        full = np.einsum("nyxgkji,jigkc->nyxgc", windows, k)
        yield Conformance(f"convolution_grouped_strided_{name}", text, {"I": a, "K": k}, {"O": full})


def _pools() -> Iterator[Conformance]:
    cube = halves("f4", 4, 5, 6)
    text = """function (A[X, Y, Z]) -> (M, S) {
      M[x, y, z : X / 2, (Y + 1) / 2, Z / 3] = >(A[2 * x + i, 2 * y + j, 3 * z + k]), i < 2, j < 2, k < 3;
      T[x, y, z : X / 2, Y / 2, Z / 3] = +(A[2 * x + i, 2 * y + j, 3 * z + k]), i < 2, j < 2, k < 3;
      S = T / 12;
    }"""
    padded = np.pad(cube, ((0, 0), (0, 1), (0, 0)), constant_values=-np.inf)
    greatest = padded.reshape(2, 2, 3, 2, 2, 3).max(axis=(1, 3, 5))
    mean = cube[:, :4].reshape(2, 2, 2, 2, 2, 3).sum(axis=(1, 3, 5)) / np.float32(12)
    yield Conformance("pools_3d", text, {"A": cube}, {"M": greatest, "S": mean})
    plane = halves("f4", 5, 7)
    text = """function (A[Y, X]) -> (O) {
      One = A * 0 + 1;
      S[y, x : (Y + 1) / 2, (X + 1) / 2] = +(A[2 * y + j - 1, 2 * x + i - 1]), j < 3, i < 3;
      C[y, x : (Y + 1) / 2, (X + 1) / 2] = +(One[2 * y + j - 1, 2 * x + i - 1]), j < 3, i < 3;
      O = S / C;
    }"""
    framed, ones = np.pad(plane, 1), np.pad(np.ones_like(plane), 1)
    sums, counts = (
        np.lib.stride_tricks.sliding_window_view(v, (3, 3))[::2, ::2].sum(axis=(2, 3)) for v in (framed, ones)
    )
    yield Conformance("average_pool_counts_what_is_inside", text, {"A": plane}, {"O": sums / counts})
    text = """function (A[Y, X], P[V, U], D[V, U]) -> (G) {
      G[2 * y + j, 2 * x + i : Y, X] = +(A[2 * y + j, 2 * x + i] == P[y, x] ? D[y, x]), j < 2, i < 2;
    }"""
    data = as_array(np.random.default_rng(0).integers(0, 3, (5, 6)), "f4")
    edged = np.pad(data, ((0, 1), (0, 0)), constant_values=-1)
    best = edged.reshape(3, 2, 3, 2).max(axis=(1, 3))
    upstream = halves("f4", 3, 3)
    spread = (np.repeat(np.repeat(v, 2, axis=0), 2, axis=1)[:5] for v in (best, upstream))
    most, flow = spread
    inputs = {"A": data, "P": best, "D": upstream}
    yield Conformance("max_pool_2d_gradient_with_ties", text, inputs, {"G": np.where(data == most, flow, 0)})


def _normalisation() -> Iterator[Conformance]:
    a = halves("f4", 4, 6)
    text = """function (A[B, F], G[F], H[F]) -> (O) {
      S[b, 0 : B, 1] = +(A[b, f]);
      D = A - S / F;
      Q = D * D;
      V[b, 0 : B, 1] = +(Q[b, f]);
      O = D * rsqrt(V / F + 0.00001) * G + H;
    }"""
    gain, shift = halves("f4", 6, seed=1), halves("f4", 6, seed=2)
    wide = a.astype("f8")
    scaled = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    inputs = {"A": a, "G": gain, "H": shift}
    yield Conformance("layer_norm", text, inputs, {"O": (scaled * gain + shift).astype("f4")}, 1e-5)
    text = """function (A[X, Y, Z]) -> (M, V) {
      S[y : Y] = +(A[x, y, z]); M = S / (X * Z);
      E[x, y, z : X, Y, Z] = +(A[x, y, z] + W[y]);
      Q = E * E; T[y : Y] = +(Q[x, y, z]); V = T / (X * Z);
    }""".replace("E[x", "W = -M; E[x")
    cube = halves("f4", 2, 3, 5)
    mean, variance = cube.astype("f8").mean(axis=(0, 2)), cube.astype("f8").var(axis=(0, 2))
    yield Conformance(
        "mean_and_variance_by_sizes", text, {"A": cube}, {"M": mean.astype("f4"), "V": variance.astype("f4")}, 1e-5
    )
    text = """function (X, G, V, L) -> (Y, W) {
      N[] = +(Z[i, j]); P[] = +(H[i, j]);
      R = L * sqrt(N) / (sqrt(P) + 0.0005 * sqrt(N));
      W = 0.9 * V + R * (G + 0.0005 * X); Y = X - W;
    }""".replace("N[] =", "Z = X * X; H = G * G; N[] =")
    x, g, v = halves("f4", 3, 4), halves("f4", 3, 4, seed=1), halves("f4", 3, 4, seed=2)
    wx, wg = np.sqrt((x.astype("f8") ** 2).sum()), np.sqrt((g.astype("f8") ** 2).sum())
    step = 0.9 * v.astype("f8") + 0.125 * wx / (wg + 0.0005 * wx) * (g + 0.0005 * x.astype("f8"))
    inputs = {"X": x, "G": g, "V": v, "L": np.asarray(np.float32(0.125))}
    yield Conformance("lars_momentum", text, inputs, {"Y": (x - step).astype("f4"), "W": step.astype("f4")}, 1e-5)


def _sampling() -> Iterator[Conformance]:
    v, size = as_array([1, 2, 3, 4, 5], "i4"), 5
    text = "function (I[N]) -> (O) { O[2 * x + i : 100] = +(I[x]), i < 4; }"
    long = as_array(range(50), "i4")
    full = contracted((100,), (50, 4), lambda x, i: (2 * x + i,), (long, lambda x, _: (x,)))
    yield Conformance("unpool_overlap_golden", text, {"I": long}, {"O": full})
    text = "function (I[N]) -> (O) { O[i : 10] = +(I[i - 5]); }"
    yield Conformance("shifted_by_five", text, {"I": v}, {"O": np.concatenate([np.zeros(5, "i4"), v])})
    text = "function (I[N], K[M]) -> (O) { O[i : 2 * N] = +(I[i / 2 + k / 2] * K[k]); }"
    k = as_array([1, 2, 3, 4, 5], "i4")
    halved = "function (I[N], K[M]) -> (O) { O[i : 2 * N] = +(I[(i + k) / 2] * K[k]); }"
    both = np.zeros(10, np.int32)
    for i in range(10):
        for j in range(5):
            if (i + j) % 2 == 0 and (i + j) // 2 < size:
                both[i] += v[(i + j) // 2] * k[j]
    yield Conformance("halves_of_a_sum", halved, {"I": v, "K": k}, {"O": both})
    yield Conformance("sum_of_halves", text, {"I": v, "K": k}, {"O": both})
    corners = halves("f4", 2, 3, 8)
    text = """function (A[N, M, C]) -> (O) {
      E = index(A, 2); H = index(A, 1); X = (E - E / 2 * 2 == 0 ? H * 4 : index(A, 0) * 4); O = X - A;
    }"""
    row, column, channel = np.indices(corners.shape).astype("f4")
    boxes = np.where(channel % 2 == 0, column * 4, row * 4) - corners
    yield Conformance("polygon_boxes", text, {"A": corners}, {"O": boxes})
    data = halves("f4", 4, 4)
    text = "function (A[N, M]) -> (O) { O[n, 2 * m + k, 0 : N, 2 * M, 1] = =(A[n, m]), k < 2; }"
    yield Conformance("repeat_with_a_new_axis", text, {"A": data}, {"O": np.repeat(data, 2, axis=1)[..., None]})
    text = """function (I[B, C, N], D[B, C, N]) -> (O) { O[b, 3, n : B, C, N] = =(I[b, 3, N - 1 - n]) default D; }"""
    image, default = halves("f4", 2, 7, 3), halves("f4", 2, 7, 3, seed=1)
    mixed = default.copy()
    mixed[:, 3] = image[:, 3, ::-1]
    yield Conformance("use_default_on_one_channel", text, {"I": image, "D": default}, {"O": mixed})


LAYERS: tuple[Conformance, ...] = (
    *_convolutions(), *_special_convolutions(), *_pools(), *_normalisation(), *_sampling(),
)  # fmt: skip
