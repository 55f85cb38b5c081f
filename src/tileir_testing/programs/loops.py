"""Scans: recurrences over sequences, in both directions, inside one another, with one step and with none.

Reductions to states of several scalars: each combine, along each axis and all, around the sizes of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tileir.core.combines import Combine
from tileir_testing.programs.case import Conformance, halves, integers


def _recurrences() -> Iterator[Conformance]:
    """Yield a linear recurrence of two carries with all lengths that take turns in another way."""
    text = """function (A[B, N], C[B, N], Xs[T, B, N], W[N, N]) -> (H, K, Ys) {{
      S = scan(A, C; Xs; W) {direction}function (P[B, N], Q[B, N], X[B, N], W[N, N]) -> (P2, Q2, Y) {{
        Z[b, n : B, N] = +(P[b, m] * W[m, n]);
        P2 = Q - X;
        Q2 = Z * 0.25 + X;
        Y = P + Q2;
      }};
      H = element(S, 0);
      K = element(S, 1);
      Ys = element(S, 2);
    }}"""
    for steps, direction in ((0, ""), (1, "reverse "), (2, ""), (3, "reverse "), (6, "")):
        a, c, w = halves("f4", 2, 3), halves("f4", 2, 3, seed=1), halves("f4", 3, 3, seed=2)
        xs = halves("f4", steps, 2, 3, seed=3)
        p, q, ys = a, c, np.zeros((steps, 2, 3), np.float32)
        for t in reversed(range(steps)) if direction else range(steps):
            before = p
            p, q = q - xs[t], (p @ w) * np.float32(0.25) + xs[t]
            ys[t] = before + q
        yield Conformance(
            f"scan_of_{steps}_steps{'_in_reverse' if direction else ''}",
            text.format(direction=direction),
            {"A": a, "C": c, "Xs": xs, "W": w},
            {"H": p, "K": q, "Ys": ys},
            1e-5,
        )


def _nested() -> Conformance:
    """Return a scan in the step of a scan, both of integers."""
    text = """function (A[N], Xs[T, U, N]) -> (H, Ys) {
      S = scan(A; Xs) function (A[N], X[U, N]) -> (A3, Y) {
        R = scan(A; X) reverse function (A[N], X[N]) -> (A2, Y) { A2 = A * 3 - X; Y = A ^ X; };
        A3 = element(R, 0);
        Z = element(R, 1);
        Y[n : N] = +(Z[u, n]);
      };
      H = element(S, 0);
      Ys = element(S, 1);
    }"""
    a, xs = integers("i4", 5), integers("i4", 3, 4, 5, seed=1)
    h, ys = a.copy(), np.zeros((3, 5), np.int32)
    for t in range(3):
        for u in reversed(range(4)):
            ys[t] += h ^ xs[t, u]
            h = h * 3 - xs[t, u]
    return Conformance("scan_in_a_scan", text, {"A": a, "Xs": xs}, {"H": h, "Ys": ys})


def _counted() -> Conformance:
    """Return a scan without sequences: Newton's method for square roots."""
    text = """function (A[N]) -> (R) {
      One = 1.0;
      Ones = One + A * 0.0;
      R = scan(Ones; ; A) 6 times function (X[N], A[N]) -> (Y) { Y = (X + A / X) * 0.5; };
    }"""
    a = np.linspace(0.5, 8, 70, dtype=np.float32)
    return Conformance("scan_without_sequences", text, {"A": a}, {"R": np.sqrt(a)}, 1e-6)


def _gradient() -> Conformance:
    """Return the gradients of a scan: linear in the weights at every step, so that they are products of sums."""
    text = """function (A[N], Xs[T, N], W[N]) -> (DA, DX, DW) {
      H = scan(A; Xs; W) function (H[N], X[N], W[N]) -> (H2) { H2 = H * W + X; };
      G = gradient(H, A, Xs, W);
      DA = element(G, 0);
      DX = element(G, 1);
      DW = element(G, 2);
    }"""
    a, xs, w = halves("f4", 4), halves("f4", 5, 4, seed=1), halves("f4", 4, seed=2)
    hs, h = [], a.astype(np.float64)
    for x in xs:
        hs.append(h)
        h = h * w + x
    dx, dw, d = np.zeros((5, 4)), np.zeros(4), np.ones(4)
    for t in reversed(range(5)):
        dx[t], dw, d = d, dw + d * hs[t], d * w
    expected = {name: np.asarray(value, np.float32) for name, value in (("DA", d), ("DX", dx), ("DW", dw))}
    return Conformance("gradient_of_a_scan", text, {"A": a, "Xs": xs, "W": w}, expected, 1e-5)


LOOPS = (*_recurrences(), _nested(), _counted(), _gradient())


Array = np.ndarray[Any, np.dtype[Any]]

_SIZES: Final = (1, 2, 7, 8, 17, 130)
_DTYPES: Final = ("f2", "f4", "f8", "i1", "i4", "u1", "i8", "?")
_AXES: Final = ((), (0,), (1,), (0, 1))
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 4.0, -4.0)


def _elements(dtype: str, *shape: int) -> Array:
    """Return elements with many ties, and among floats a few infinities and NaN."""
    rng = np.random.default_rng(shape)
    few = rng.integers(0, 5, shape)
    if np.dtype(dtype).kind == "f":
        return np.where(rng.integers(0, 40, shape) == 0, rng.choice(_SPECIAL, shape), few - 2.5).astype(dtype)
    return (few > 3 if dtype == "?" else few).astype(dtype)


def _expected(combine: Combine, elements: Array) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return the parts of the state of elements along the first axis."""
    if combine.is_extremum:
        last = combine in (Combine.LAST_ARGMAX, Combine.LAST_ARGMIN)
        find = np.argmax if combine in (Combine.ARGMAX, Combine.LAST_ARGMAX) else np.argmin
        place = len(elements) - 1 - find(elements[::-1], 0) if last else find(elements, 0)
        return np.take_along_axis(elements, place[None], 0)[0], place.astype(np.int32)
    wide = elements.astype(np.float64)
    if combine is Combine.MOMENTS:
        mean = wide.mean(0)
        parts = np.full(mean.shape, float(len(wide))), mean, ((wide - mean) ** 2).sum(0)
        return parts[0].astype(elements.dtype), mean.astype(elements.dtype), parts[2].astype(elements.dtype)
    most = wide.max(0)
    return most.astype(elements.dtype), np.exp(wide - most).sum(0).astype(elements.dtype)


def _case(name: str, combine: Combine, data: Array, axes: tuple[int, ...]) -> Conformance:
    reduced = axes or tuple(range(data.ndim))
    first = np.moveaxis(data, reduced, range(len(reduced)))
    expected = _expected(combine, first.reshape(-1, *first.shape[len(reduced) :]))
    outputs = [f"O{part}" for part in range(len(expected))]
    reads = " ".join(f"{output} = element(S, {part});" for part, output in enumerate(outputs))
    called = f"reduce_{combine.value}({', '.join(('X', *map(str, axes)))})"
    text = f"function (X[N, M]) -> ({', '.join(outputs)}) {{ S = {called}; {reads} }}"
    tolerance = 0.0 if combine.is_extremum else 1e-5
    return Conformance(name, text, {"X": data}, dict(zip(outputs, expected, strict=True)), tolerance)


def _states() -> Iterator[Conformance]:
    for combine in Combine:
        for number, size in enumerate(_SIZES):
            axes = _AXES[(number + 2) % len(_AXES)]
            name = f"{combine.value}_of_{size}"
            if combine.is_extremum:
                yield _case(name, combine, _elements("f4", 3, size), axes)
            else:
                yield _case(name, combine, halves("f4", 3, size, seed=number), axes)
    for dtype in _DTYPES:
        yield _case(f"first_greatest_{np.dtype(dtype).name}", Combine.ARGMAX, _elements(dtype, 5, 37), (1,))
        yield _case(f"last_least_{np.dtype(dtype).name}", Combine.LAST_ARGMIN, _elements(dtype, 37, 5), (0,))
    for combine in (Combine.MOMENTS, Combine.LOGSUMEXP):
        yield _case(f"{combine.value}_float64", combine, halves("f8", 5, 37), (1,))


STATES: Final = (*_states(),)
