"""The workloads of the backward benchmark: Tile texts whose gradients are taken, and their inputs.

Nothing in them is a schedule, and no gradient is written by hand: ``vjp`` is Tile's own.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np

MATMUL: Final = """function (A[M, K], B[K, N], DC[M, N]) -> (DA, DB) {
    C[m, n : M, N] = +(A[m, k] * B[k, n]);
    G = vjp(C, DC, A, B);
    DA = element(G, 0);
    DB = element(G, 1);
}"""
CONVOLUTION: Final = """function (X[N, H, W, C], K[I, J, C, D], DO[N, H, W, D]) -> (DX, DK) {
    O[n, y, x, d : N, H, W, D] = +(X[n, y + i - 1, x + j - 1, c] * K[i, j, c, d]);
    G = vjp(O, DO, X, K);
    DX = element(G, 0);
    DK = element(G, 1);
}"""
SOFTMAX: Final = """function (X[M, N], DO[M, N]) -> (DX) {
    P[m, 0 : M, 1] = >(X[m, n]);
    E = exp(X - stop_gradient(P));
    S[m, 0 : M, 1] = +(E[m, n]);
    O = E / S;
    DX = vjp(O, DO, X);
}"""
LAYER_NORM: Final = """function (X[M, N], G[N], B[N], DO[M, N]) -> (DX, DG, DB) {
    S[m, 0 : M, 1] = +(X[m, n]);
    D = X - S / N;
    Q = D * D;
    V[m, 0 : M, 1] = +(Q[m, n]);
    O = D * rsqrt(V / N + 0.00001) * G + B;
    T = vjp(O, DO, X, G, B);
    DX = element(T, 0);
    DG = element(T, 1);
    DB = element(T, 2);
}"""


@attrs.frozen
class Workload:
    """A Tile text and the shapes of its inputs, in order; the last input is the cotangent.

    Attributes:
        name: What to call it; the first word says what PyTorch has to do.
        text: Computes the gradients.
        shapes: Those of the inputs.
        forward: Whether the value that is differentiated is a result as well, before the gradients.

    """

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    forward: bool = False

    def with_value(self, value: str) -> Workload:
        """Return the workload that computes ``value`` as well."""
        text = self.text.replace("-> (", f"-> ({value}, ", 1)
        return attrs.evolve(self, name=f"{self.name}, both", text=text, forward=True)

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return the inputs, the same in every process."""
        random = np.random.default_rng(5)
        return [random.standard_normal(shape, dtype=np.float32) for shape in self.shapes]


_BACKWARD: Final = (
    Workload("matmul 512", MATMUL, ((512, 512), (512, 512), (512, 512))),
    Workload("matmul 1024", MATMUL, ((1024, 1024), (1024, 1024), (1024, 1024))),
    Workload("conv 3x3 1x56x56x64", CONVOLUTION, ((1, 56, 56, 64), (3, 3, 64, 64), (1, 56, 56, 64))),
    Workload("conv 3x3 8x28x28x128", CONVOLUTION, ((8, 28, 28, 128), (3, 3, 128, 128), (8, 28, 28, 128))),
    Workload("softmax 4096x1024", SOFTMAX, ((4096, 1024), (4096, 1024))),
    Workload("layer norm 4096x1024", LAYER_NORM, ((4096, 1024), (1024,), (1024,), (4096, 1024))),
)
WORKLOADS: Final = (*_BACKWARD, *(w.with_value("C" if w.text is MATMUL else "O") for w in _BACKWARD))
