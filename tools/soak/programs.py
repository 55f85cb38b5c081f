"""Small programs with their results by NumPy, for what is done to them on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tileir.core.nodes import attrs
from tileir.driver.jit import jit
from tileir.runtime.context import Context

Array = np.ndarray[Any, np.dtype[Any]]

MATRICES: Final = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
LAYER: Final = "function (A[M, K], B[K, N]) -> (C) { T[i, j : M, N] = +(A[i, k] * B[k, j]); C = max(T - 1, 0); }"
SUMS: Final = """\
function (A[M, K], B[K, N]) -> (C) {
  S[i : M] = +(A[i, k]); T[j : N] = +(B[k, j]); C[i, j : M, N] = =(S[i] * T[j]);
}
"""


@attrs.frozen(eq=False)
class Program:
    """A function of two matrices of small whole numbers, so that results are exact.

    Attributes:
        text: The function.
        shapes: Rows and columns of both.
        expected: What NumPy makes of them.

    """

    text: str
    shapes: tuple[tuple[int, int], tuple[int, int]]
    expected: Callable[[Array, Array], Array]

    def inputs(self, seed: int) -> tuple[Array, Array]:
        """Return matrices."""
        generator = np.random.default_rng(seed)
        left, right = (generator.integers(-3, 4, shape).astype(np.float32) for shape in self.shapes)
        return left, right

    def is_right(self, context: Context, seed: int) -> bool:
        """Compile where need be, run, and compare."""
        left, right = self.inputs(seed)
        return np.array_equal(jit(self.text, context=context)(left, right), self.expected(left, right))


def programs(count: int) -> tuple[Program, ...]:
    """Return programs of which no two have the same text and shapes."""
    kinds: tuple[tuple[str, Callable[[Array, Array], Array]], ...] = (
        (MATRICES, lambda left, right: left @ right),
        (LAYER, lambda left, right: np.maximum(left @ right - 1, 0)),
        (SUMS, lambda left, right: np.outer(left.sum(1), right.sum(0))),
    )
    made = []
    for number in range(count):
        text, expected = kinds[number % len(kinds)]
        inner = 5 + number % 11
        made.append(Program(text, ((3 + number, inner), (inner, 4 + number % 7)), expected))
    return tuple(made)
