"""Sums on the host's processor: as accurate as NumPy's, and the same bits however many threads share the work."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = np.ndarray[Any, np.dtype[Any]]
Shapes = dict[str, tuple[int, ...]]

ALL = "function (A[N]) -> (O) { O[] = +(A[i]); }"
COLUMNS = "function (A[N, M]) -> (O) { O[j : M] = +(A[i, j]); }"
ROWS = "function (A[N, M]) -> (O) { O[i : N] = +(A[i, j]); }"
SQUARES = "function (A[N]) -> (O) { O[] = +(A[i] * A[i]); }"
MEAN = "function (A[N, M]) -> (O) { S[i : N] = +(A[i, j]); O = S / M; }"
VARIANCE = """function (A[N, M]) -> (O) {
    S[i : N] = +(A[i, j]);
    D = A - reshape(S, N, 1) / M;
    V[i : N] = +(D[i, j] * D[i, j]);
    O = V / M;
}"""
LOG_SUM_EXP = """function (A[N, M]) -> (O) {
    G[i : N] = >(A[i, j]);
    E = exp(A - reshape(G, N, 1));
    S[i : N] = +(E[i, j]);
    O = log(S) + G;
}"""
SOFTMAX = """function (A[N, M]) -> (O) {
    G[i : N] = >(A[i, j]);
    E = exp(A - reshape(G, N, 1));
    S[i : N] = +(E[i, j]);
    O = E / reshape(S, N, 1);
}"""
MASKED = "function (A[N, M]) -> (O) { O[i : N] = +(A[i, j]), j - i < M; }"
SPACE = "function (A[N, H, W, C]) -> (O) { O[c : C] = +(A[n, h, w, c]); }"
DOT = "function (A[K], B[K]) -> (O) { O[] = +(A[k] * B[k]); }"
PRODUCT = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
PRODUCT_OF_ROWS = "function (A[M, K], B[N, K]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[j, k]); }"
PREFIX = "function (A[N]) -> (O) { O[i : N] = +(A[k]), i - k < N; }"
STEPS = """function (A[T, N], Z[]) -> (O) {
    O = scan(Z; A;) function (S[], B[N]) -> (R) { P[] = +(B[i]); R = S + P; };
}"""

REDUCED: dict[str, tuple[str, Shapes, Callable[[Array, Any], Array]]] = {
    "all": (ALL, {"A": (1 << 26,)}, lambda a, d: np.sum(a, dtype=d)),
    "all, ragged": (ALL, {"A": (1_000_003,)}, lambda a, d: np.sum(a, dtype=d)),
    "all, short": (ALL, {"A": (4096,)}, lambda a, d: np.sum(a, dtype=d)),
    "columns": (COLUMNS, {"A": (1 << 20, 64)}, lambda a, d: a.sum(0, dtype=d)),
    "columns, ragged": (COLUMNS, {"A": (100_003, 7)}, lambda a, d: a.sum(0, dtype=d)),
    "rows": (ROWS, {"A": (64, 1 << 20)}, lambda a, d: a.sum(1, dtype=d)),
    "rows, ragged": (ROWS, {"A": (37, 10_007)}, lambda a, d: a.sum(1, dtype=d)),
    "squares": (SQUARES, {"A": (1 << 22,)}, lambda a, d: np.square(a, dtype=d).sum()),
    "mean": (MEAN, {"A": (50, 30_000)}, lambda a, d: a.mean(1, dtype=d)),
    "space": (SPACE, {"A": (16, 60, 60, 24)}, lambda a, d: a.sum((0, 1, 2), dtype=d)),
    "masked": (MASKED, {"A": (9, 30_000)}, lambda a, d: np.array([row[i:].sum(dtype=d) for i, row in enumerate(a)])),
}
MULTIPLIED: dict[str, tuple[str, Shapes]] = {
    "dot": (DOT, {"A": (1 << 20,), "B": (1 << 20,)}),
    "one row": (PRODUCT, {"A": (1, 1 << 18), "B": (1 << 18, 24)}),
    "one column": (PRODUCT, {"A": (24, 1 << 18), "B": (1 << 18, 1)}),
    "deep": (PRODUCT, {"A": (16, 1 << 20), "B": (1 << 20, 16)}),
    "wide": (PRODUCT, {"A": (120, 20_001), "B": (20_001, 130)}),
}
NUMPYS = 4
"""Our errors may be so many times NumPy's, or those of rounding the result and one more term."""


def constant(shape: tuple[int, ...]) -> Array:
    return np.full(shape, 0.1, np.float32)


def uniform(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).random(shape, np.float32)


def error(actual: Array, exact: Array) -> float:
    """Return the greatest error relative to the exact values, which are sums of positive terms."""
    return float(np.max(np.abs(actual.astype(np.float64) - exact) / exact))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("values", [constant, uniform])
@pytest.mark.parametrize("name", REDUCED)
def test_sums_are_as_accurate_as_numpys(name: str, values: Callable[[tuple[int, ...]], Array]) -> None:
    text, shapes, function = REDUCED[name]
    array = values(shapes["A"])
    exact = np.asarray(function(array, np.float64))
    allowed = max(NUMPYS * error(np.asarray(function(array, np.float32)), exact), 2**-23)
    assert error(tileir.jit(text)(array), exact) <= allowed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("values", [constant, uniform])
@pytest.mark.parametrize("name", MULTIPLIED)
def test_contractions_are_as_accurate_as_numpys(name: str, values: Callable[[tuple[int, ...]], Array]) -> None:
    text, shapes = MULTIPLIED[name]
    a, b = (values(shape) for shape in shapes.values())
    exact = np.asarray(a.astype(np.float64) @ b.astype(np.float64))
    allowed = max(NUMPYS * error(np.asarray(a @ b), exact), 2**-23)
    assert error(tileir.jit(text)(a, b), exact) <= allowed


@pytest.mark.parametrize("text", [ALL, SQUARES])
def test_sums_of_f64_are_as_accurate_as_numpys(text: str) -> None:
    array = np.full(1 << 22, 0.1)
    terms = array if text is ALL else array * array
    exact = np.asarray(terms.astype(np.longdouble).sum(dtype=np.longdouble), np.float64)
    allowed = max(NUMPYS * error(terms.sum(), exact), 2**-50)  # NumPy's may have the luck of no error at all
    assert error(tileir.jit(text)(array), exact) <= allowed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bits_are_rounded_once(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    array = np.full(100_000, 0.1).astype(kind)
    exact = array.astype(np.float64).sum()
    assert tileir.jit(ALL)(array) == np.asarray(exact).astype(kind)


def test_sums_of_gradients_are_as_accurate_as_numpys() -> None:
    """The gradient of a bias is a sum over batch and space."""
    bias = tileir.gradient(
        "function (A[N, H, W, C], B[C]) -> (O) { R = A * (A + B); O[] = +(R[n, h, w, c]); }", wrt=("B",)
    )
    array = constant((16, 60, 60, 24))
    (found,) = _results(tileir.jit(bias)(array, np.zeros(24, np.float32)))
    exact = array.astype(np.float64).sum((0, 1, 2))
    assert error(found, exact) <= max(NUMPYS * error(array.sum((0, 1, 2)), exact), 2**-23)


PROGRAMS: dict[str, tuple[str, Shapes]] = {
    "all": (ALL, {"A": (300_007,)}),
    "columns": (COLUMNS, {"A": (30_000, 64)}),
    "wide columns": (COLUMNS, {"A": (512, 4096)}),
    "few rows": (ROWS, {"A": (5, 70_001)}),
    "rows": (ROWS, {"A": (20, 20_001)}),
    "variance": (VARIANCE, {"A": (9, 30_000)}),
    "log sum exp": (LOG_SUM_EXP, {"A": (12, 5000)}),
    "softmax of few rows": (SOFTMAX, {"A": (6, 40_000)}),
    "softmax": (SOFTMAX, {"A": (100, 777)}),
    "dot": (DOT, {"A": (1 << 18,), "B": (1 << 18,)}),
    "product": (PRODUCT, {"A": (70, 3000), "B": (3000, 90)}),
    "product of few": (PRODUCT, {"A": (2, 300_000), "B": (300_000, 2)}),
    "product of rows": (PRODUCT_OF_ROWS, {"A": (300, 1000), "B": (200, 1000)}),
    "running sums": (PREFIX, {"A": (300_000,)}),
    "sums in a scan": (STEPS, {"A": (5, 30_001), "Z": ()}),
}


def digest(name: str, options: tileir.Options | None = None, threads: int | None = None) -> str:
    """Return what tells the bits of a program's results apart; ``threads`` is what its schedule is made for."""
    text, shapes = PROGRAMS[name]
    arrays = {
        key: np.asarray(np.random.default_rng(number).standard_normal(shape, np.float32))
        for number, (key, shape) in enumerate(shapes.items())
    }
    device = tileir.default_context().device("llvm")
    target = None if threads is None else attrs.evolve(device.target, threads=threads)
    executable = tileir.compile(text, arrays, device=device, target=target, options=options)
    found = hashlib.sha256()
    for result in _results(executable(**arrays)):
        found.update(result.tobytes())
    return found.hexdigest()


def _results(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    bounded = {digest(name, tileir.Options(threads=threads)) for threads in (1, 2, 3, 5)}
    assert bounded | {digest(name, threads=threads) for threads in (1, 2, 3, 5, 12, 16, 64)} == {digest(name)}


@pytest.mark.sampled(0)
def test_bits_do_not_depend_on_the_processors_that_a_process_may_use() -> None:
    assert _digests_on({min(os.sched_getaffinity(0))}) == {name: digest(name) for name in PROGRAMS}


def _digests_on(processors: set[int]) -> Mapping[str, str]:
    """Return the digests that a process computes which may use these processors only."""
    code = (
        f"import os; os.sched_setaffinity(0, {processors})\n"
        "from differential.test_sums import PROGRAMS, digest\n"
        "for name in PROGRAMS: print(name, digest(name), sep='\\t')"
    )
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return dict(line.split("\t") for line in ended.stdout.splitlines())
