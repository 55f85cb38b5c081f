"""Linear equations, determinants and Cholesky factors of traced functions, beside NumPy's own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(3)
A = RNG.normal(size=(5, 5))
V = RNG.normal(size=5)
M = RNG.normal(size=(5, 3))
STACK = RNG.normal(size=(2, 3, 4, 4)).astype("f4")
RIGHT = RNG.normal(size=(3, 4, 2)).astype("f4")
PIVOT = np.array([[0, 1, 2], [1, 0, 3], [4, -3, 8]], "f4")
K = np.array([[3, -7, 0], [2, 2, -1], [-4, 6, 8]], "i4")
DEFINITE = A @ A.T + np.eye(5)

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = {
    "solve a vector": (np.linalg.solve, (A, V)),
    "solve a matrix": (np.linalg.solve, (A, M)),
    "solve stacks": (np.linalg.solve, (STACK, RIGHT)),
    "solve two dtypes": (np.linalg.solve, (A.astype("f4"), M)),
    "solve for one matrix": (np.linalg.solve, (STACK[0, 0], RIGHT)),
    "inv": (np.linalg.inv, (A,)),
    "inv of a stack": (np.linalg.inv, (STACK,)),
    "inv of integers": (np.linalg.inv, (K,)),
    "inv with a zero on the diagonal": (np.linalg.inv, (PIVOT,)),
    "det": (np.linalg.det, (A,)),
    "det of a stack": (np.linalg.det, (STACK,)),
    "det of a permutation": (np.linalg.det, (np.eye(4, dtype="f4")[[1, 2, 3, 0]],)),
    "det of a singular matrix": (np.linalg.det, (np.ones((3, 3), "f4"),)),
    "det of nothing": (np.linalg.det, (np.zeros((0, 0), "f4"),)),
    "slogdet": (lambda x: tuple(np.linalg.slogdet(x)), (STACK,)),
    "cholesky": (np.linalg.cholesky, (DEFINITE,)),
    "cholesky reads the lower triangle": (np.linalg.cholesky, (np.tril(DEFINITE),)),
    "negative power": (lambda x: np.linalg.matrix_power(x, -2), (A,)),
    "least squares": (lambda m, v: np.linalg.solve(m.T @ m, m.T @ v), (M, V)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("run", [tileir.evaluate, lambda function, arrays: tileir.jit(function)(*arrays)])
def test_decompositions_give_what_numpy_gives(name: str, run: Callable[..., Any]) -> None:
    function, arrays = CASES[name]
    wanted, found = function(*arrays), run(function, list(arrays))
    rough = any(each.dtype == np.float32 for each in arrays) or name.endswith("integers")
    for one, other in zip(*([each] if not isinstance(each, tuple) else each for each in (found, wanted)), strict=True):
        assert one.shape == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=2e-4 if rough else 1e-9, atol=2e-5 if rough else 1e-12)


@pytest.mark.sampled(0)
def test_derivatives_of_solutions_and_determinants() -> None:
    found = tileir.gradient(lambda a, b: np.linalg.solve(a, b).sum())(A, V)
    wanted = np.zeros_like(A)
    for place in itertools.product(range(5), range(5)):
        step = np.zeros_like(A)
        step[place] = 1e-6
        wanted[place] = (np.linalg.solve(A + step, V).sum() - np.linalg.solve(A - step, V).sum()) / 2e-6
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    inverse = np.linalg.inv(A).T
    logarithm: Any = tileir.gradient(lambda a: np.linalg.slogdet(a)[1])
    np.testing.assert_allclose(logarithm(A), inverse, rtol=1e-9)
    np.testing.assert_allclose(tileir.gradient(np.linalg.det)(A), np.linalg.det(A) * inverse, rtol=1e-9)


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky"])
def test_matrices_that_are_not_square_are_refused(name: str) -> None:
    with pytest.raises(tileir.TileError, match="both must match"):
        tileir.evaluate(lambda x: getattr(np.linalg, name)(x), [A[:3]])
    with pytest.raises(tileir.TileError, match="two axes"):
        tileir.evaluate(lambda x: getattr(np.linalg, name)(x), [V])
