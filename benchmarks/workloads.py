"""What is measured: a Tile text, its inputs, and the same by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Workload:
    """One row of the table; ``operations`` are floating-point ones, ``nbytes`` compulsory traffic."""

    name: str
    text: str
    inputs: Callable[[], dict[str, Array]]
    numpy: Callable[[dict[str, Array], Array], None]
    shape: tuple[int, ...]
    operations: float
    nbytes: float
    bound: str  # "fma" or "memory": the peak that the last column refers to
    floor: float  # the ratio to NumPy's speed that the project wants at least
    tolerance: float = 1e-4
    plaidml: str | None = None


def _random(*shapes: tuple[int, ...]) -> Callable[[], dict[str, Array]]:
    def make() -> dict[str, Array]:
        generator = np.random.default_rng(1)
        return {name: generator.standard_normal(s, np.float32) for name, s in zip("ABCD", shapes, strict=False)}

    return make


def _matmul(size: int) -> Workload:
    text = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    return Workload(
        f"matmul {size}",
        text,
        _random((size, size), (size, size)),
        _product,
        (size, size),
        2.0 * size**3,
        12.0 * size**2,
        "fma",
        0.8,
        plaidml=text,
    )


def _product(inputs: dict[str, Array], out: Array) -> None:
    np.matmul(inputs["A"], inputs["B"], out=out)


def _chain(inputs: dict[str, Array], out: Array) -> None:
    a, b, c, d = inputs.values()
    np.tanh(a * b + c, out=out)
    np.multiply(out, 1 / (1 + np.exp(-d)), out=out)


def _sum(axis: int) -> Workload:
    access = "O[n : N]" if axis == 0 else "O[m : M]"
    text = f"function (A[M, N]) -> (O) {{ {access} = +(A[m, n]); }}"
    return Workload(
        f"sum axis {axis} of 4096 x 4096",
        text,
        _random((4096, 4096)),
        lambda x, out: _reduce(x, axis, out),
        (4096,),
        4096.0**2,
        4 * 4096.0**2,
        "memory",
        1.0,
        plaidml=text,
    )


def _reduce(inputs: dict[str, Array], axis: int, out: Array) -> None:
    np.sum(inputs["A"], axis=axis, out=out)


_COUNT = 1 << 24
WORKLOADS = (
    *(_matmul(size) for size in (512, 1024, 2048)),
    Workload(
        "tanh(a*b+c)*sigmoid(d) over 2^24",
        "function (A, B, C, D) -> (O) { O = tanh(A * B + C) * sigmoid(D); }",
        _random(*[(_COUNT,)] * 4),
        _chain,
        (_COUNT,),
        4.0 * _COUNT,
        20.0 * _COUNT,
        "memory",
        3.0,
        plaidml="function (A[N], B[N], C[N], D[N]) -> (O) { O = tanh(A * B + C) * sigmoid(D); }",
    ),
    _sum(0),
    _sum(1),
)
