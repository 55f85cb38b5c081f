"""The workloads of the suite as Tile texts: nothing in them is a schedule."""

from __future__ import annotations

from typing import Final

MATMUL: Final = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }"
BATCHED: Final = "function (A[Z, M, K], B[Z, K, N]) -> (O) { O[z, m, n : Z, M, N] = +(A[z, m, k] * B[z, k, n]); }"
DEPTHWISE: Final = """function (X[N, IH, IW, C], W[KH, KW, C]) -> (O) {
    O[n, y, x, c : N, IH, IW, C] = +(X[n, y + i - 1, x + j - 1, c] * W[i, j, c]);
}"""
MAXIMUM_POOL: Final = """function (X[N, H, W, C]) -> (O) {
    O[n, y, x, c : N, H / 2, W / 2, C] = >(X[n, 2*y + i, 2*x + j, c]), i < 2, j < 2;
}"""
SOFTMAX: Final = """function (X[M, N]) -> (O) {
    P[m, 0 : M, 1] = >(X[m, n]);
    E = exp(X - P);
    S[m, 0 : M, 1] = +(E[m, n]);
    O = E / S;
}"""
LAYER_NORM: Final = """function (X[M, N], G[N], B[N]) -> (O) {
    S[m, 0 : M, 1] = +(X[m, n]);
    D = X - S / N;
    Q = D * D;
    V[m, 0 : M, 1] = +(Q[m, n]);
    O = D / sqrt(V / N + 0.00001) * G + B;
}"""
SUM_COLUMNS: Final = "function (X[M, N]) -> (O) { O[n : N] = +(X[m, n]); }"
SUM_ROWS: Final = "function (X[M, N]) -> (O) { O[m : M] = +(X[m, n]); }"
MAXIMUM: Final = "function (X[N]) -> (O) { O[] = >(X[n]); }"
PLACE_OF_MAXIMUM: Final = """function (X[M, N], U[]) -> (O) {
    P[m : M] = >(X[m, n]);
    T[n : N] = =(U[]);
    D = N - index(T, 0);
    R[m : M] = >(X[m, n] == P[m] ? D[n]);
    O = N - R;
}"""
RUNNING_SUM: Final = "function (X[N]) -> (O) { O[n : N] = +(X[n - k]), k < N; }"
RUNNING_SUM_OF_ROWS: Final = "function (X[M, N]) -> (O) { O[m, n : M, N] = +(X[m, n - k]), k < N; }"
CHAIN: Final = "function (A[N], B[N], C[N], D[N]) -> (O) { O = tanh(A * B + C) * sigmoid(D); }"
GELU: Final = """function (X[N]) -> (O) {
    O = 0.5 * X * (1.0 + tanh(0.7978845608028654 * (X + 0.044715 * X * X * X)));
}"""
STENCIL_3: Final = """function (X[M, N]) -> (O) {
    L[i, j : M, N - 2] = =(X[i, j]);
    C[i, j : M, N - 2] = =(X[i, j + 1]);
    R[i, j : M, N - 2] = =(X[i, j + 2]);
    O = 0.25 * L + 0.5 * C + 0.25 * R;
}"""
STENCIL_5: Final = """function (X[M, N]) -> (O) {
    C[i, j : M - 2, N - 2] = =(X[i + 1, j + 1]);
    T[i, j : M - 2, N - 2] = =(X[i, j + 1]);
    B[i, j : M - 2, N - 2] = =(X[i + 2, j + 1]);
    L[i, j : M - 2, N - 2] = =(X[i + 1, j]);
    R[i, j : M - 2, N - 2] = =(X[i + 1, j + 2]);
    O = 0.5 * C + 0.125 * (T + B + L + R);
}"""
TRANSPOSE: Final = "function (X[M, N]) -> (O) { O[n, m : N, M] = =(X[m, n]); }"
ATTENTION: Final = """function (Q[B, S, D], K[B, T, D], V[B, T, D]) -> (O) {
    A[b, i, j : B, S, T] = +(Q[b, i, d] * K[b, j, d]);
    C = A * 0.125;
    P[b, i, 0 : B, S, 1] = >(C[b, i, j]);
    E = exp(C - P);
    N[b, i, 0 : B, S, 1] = +(E[b, i, j]);
    W = E / N;
    O[b, i, d : B, S, D] = +(W[b, i, j] * V[b, j, d]);
}"""


def convolution(
    height: int, width: int, kernel: int, *, stride: int = 1, dilation: tuple[int, int] = (1, 1)
) -> tuple[str, tuple[int, int]]:
    """Return the text of a convolution that keeps the middle in the middle, and the height and width of its result."""
    rows, columns = dilation
    top, left = ((kernel - 1) * rows) // 2, ((kernel - 1) * columns) // 2
    result = (
        (height + 2 * top - rows * (kernel - 1) - 1) // stride + 1,
        (width + 2 * left - columns * (kernel - 1) - 1) // stride + 1,
    )
    text = f"""function (X[N, IH, IW, CI], W[KH, KW, CI, CO]) -> (O) {{
    O[n, y, x, co : N, {result[0]}, {result[1]}, CO] =
        +(X[n, {stride}*y + {rows}*i - {top}, {stride}*x + {columns}*j - {left}, ci] * W[i, j, ci, co]);
}}"""
    return text, result
