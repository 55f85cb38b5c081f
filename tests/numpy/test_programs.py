"""Small programs of statistics, losses, layers, physics and signals in plain NumPy, with arrays and as programs."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.opencl_device import device

X = np.linspace(-2.0, 3.0, 20, dtype="f4").reshape(4, 5)
Y = np.cos(np.arange(20, dtype="f4")).reshape(4, 5)
W = np.sin(np.arange(15, dtype="f4")).reshape(5, 3)
P = np.abs(Y) + np.float32(0.1)
S = np.sin(np.arange(16, dtype="f4") * 0.7) + np.float32(0.2)
I = np.array([[3, -7, 0, 5], [2, 2, -1, 9], [-4, 6, 8, 1]], "i4")  # noqa: E741  a matrix of integers
L = np.array([0, 2, 1, 2], "i4")

PROGRAMS = """
x.mean(axis=0)
(x - x.mean(axis=0)) / x.std(axis=0)
np.sqrt(((x - y) ** 2).mean())
np.abs(x - y).mean(axis=1)
x.var(axis=1, ddof=1)
((x - x.mean()) ** 3).mean() / x.std() ** 3
((x - x.mean()) ** 4).mean() / x.var() ** 2 - 3
(x.max(axis=0) - x.min(axis=0)) / 2
(x - x.min()) / (x.max() - x.min())
np.median(x, axis=1)
np.quantile(x, 0.25, axis=0)
np.percentile(x, 90, axis=1)
np.exp(np.log(p).mean(axis=1))
1 / (1 / p).mean(axis=1)
np.average(x, axis=1, weights=p)
(x * p).sum(axis=1) / p.sum(axis=1)
np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)
np.cov(x)
np.corrcoef(y)
(x.T @ x) / x.shape[0]
((x - x.mean(0)).T @ (x - x.mean(0))) / (x.shape[0] - 1)
np.sort(x, axis=1)[:, ::-1]
np.argsort(y, axis=1)
np.sort(y, axis=1)[:, 1:-1].mean(axis=1)
np.clip(x, np.quantile(x, 0.1), np.quantile(x, 0.9))
np.abs(x - np.median(x, axis=1, keepdims=True)).mean(axis=1)
(x > 0).mean(axis=0)
np.count_nonzero(x > 0.5, axis=1)
np.where(x > 0, x, 0).sum() / (x > 0).sum()
np.log(p / p.sum(axis=1, keepdims=True))
-(p / p.sum() * np.log(p / p.sum())).sum()
np.sqrt((x * x).sum(axis=1))
np.linalg.norm(x, axis=1)
x / np.linalg.norm(x, axis=1, keepdims=True)
np.linalg.norm(x)
np.linalg.norm(x, ord=1, axis=0)
np.linalg.norm(x, ord=np.inf, axis=1)
np.abs(x).max()
((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1)
np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)).min(axis=1)
np.argmin(((x[:, None] - y[None]) ** 2).sum(-1), axis=1)
(x @ y.T) / (np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1))
np.diff(x, axis=0) / np.diff(x, axis=0).max()
np.ptp(x, axis=1)
(x * y).sum() / np.sqrt((x ** 2).sum() * (y ** 2).sum())
np.exp(-((x - 1) ** 2) / 2) / np.sqrt(2 * np.pi)
-0.5 * np.log(2 * np.pi) - 0.5 * x ** 2
np.exp(x).cumsum(axis=1) / np.exp(x).sum(axis=1, keepdims=True)
np.maximum.reduce(x, axis=0)
np.add.reduce(x, axis=1)
((x - y) ** 2).mean()
np.abs(x - y).sum()
np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5).mean()
np.log(np.cosh(x - y)).mean()
np.maximum(0, 1 - np.sign(y) * x).mean()
np.maximum(0, 1 - np.sign(y) * x).sum(axis=1) ** 2
-(y * np.log(1 / (1 + np.exp(-x))) + (1 - y) * np.log(1 - 1 / (1 + np.exp(-x)))).mean()
(np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))).mean()
-(np.exp(y) / np.exp(y).sum(1, keepdims=True) * (x - np.log(np.exp(x).sum(1, keepdims=True)))).sum(1)
-(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))[np.arange(4), l].mean()
np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
(p * np.log(p / (p + 0.5))).sum(axis=1)
0.5 * ((p - 0.2) * np.log(p / 0.2)).sum()
np.maximum(x - y, 0.9 * (y - x)).mean()
np.where(x > y, 0.3 * (x - y), 0.7 * (y - x)).mean(axis=0)
(np.exp(x) - y * x).mean()
(1 - (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))).mean()
np.maximum(0, ((x - y) ** 2).sum(1) - ((x - p) ** 2).sum(1) + 0.2).mean()
1 - 2 * (p * p).sum() / (p.sum() + p.sum())
1 - np.minimum(p, y).sum() / np.maximum(p, y).sum()
-((1 - 1 / (1 + np.exp(-x))) ** 2 * np.log(1 / (1 + np.exp(-x)))).mean()
((x - y) ** 2).mean() + 0.01 * (w ** 2).sum()
((x - y) ** 2).mean() + 0.1 * np.abs(w).sum()
np.mean(np.argmax(x, axis=1) == l)
(x.argmax(axis=1) == y.argmax(axis=1)).sum()
1 - ((x - y) ** 2).sum() / ((x - x.mean()) ** 2).sum()
100 * np.abs((x - p) / p).mean()
np.sqrt(((np.log1p(p) - np.log1p(p * 2)) ** 2).mean())
(np.arange(3) == l[:, None]) * 1.0
-np.log(p[np.arange(4), l]).sum()
x @ w
np.maximum(x @ w, 0)
np.tanh(x @ w + w[0])
1 / (1 + np.exp(-x))
x / (1 + np.exp(-x))
np.where(x > 0, x, np.exp(x) - 1)
np.where(x >= 0, x, 0.01 * x)
np.log1p(np.exp(x))
x * np.tanh(np.log1p(np.exp(x)))
0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
np.clip(x + 3, 0, 6) / 6
x * np.clip(x + 3, 0, 6) / 6
x / (1 + np.abs(x))
np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
x / np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + 1e-6)
(x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * y[0] + y[1]
np.maximum(np.maximum(x @ w, 0) @ w.T, 0)
x + np.tanh(x @ w) @ w.T
(x @ w) * (1 / (1 + np.exp(-(x @ w))))
np.einsum("ij,kj->ik", x, y)
np.einsum("ij,jk->ki", x, w)
np.einsum("ij,ij->i", x, y)
np.exp(x @ y.T / x.shape[1] ** 0.5) / np.exp(x @ y.T / x.shape[1] ** 0.5).sum(-1, keepdims=True) @ y
np.tril(x @ y.T)
np.where(np.tril(np.ones((4, 4))) > 0, x @ y.T, -1e9).max(axis=1)
np.concatenate([x, y], axis=1) @ np.concatenate([w, w])
np.stack([x, y]).mean(axis=0)
w[l]
w[l].sum(axis=0)
np.pad(x, ((1, 1), (1, 1)))
np.pad(x, 1, mode="edge")[1:-1, 2:] - np.pad(x, 1, mode="edge")[1:-1, :-2]
x.reshape(2, 2, 5).mean(axis=1)
x[:, :4].reshape(2, 2, 2, 2).max(axis=(1, 3))
np.split(x[:, :4], 2, axis=1)[0] * np.split(x[:, :4], 2, axis=1)[1]
x[:, ::2] * np.tanh(x[:, ::2])
np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)
np.moveaxis(x[None], 0, -1)
x.T.reshape(-1)
np.outer(x[0], x[1])
x.swapaxes(0, 1) @ y
np.minimum(np.maximum(x, -1), 1) @ w
np.sign(x) * np.sqrt(np.abs(x))
x * (y > 0)
0.5 * p * x ** 2
0.5 * (x ** 2).sum(axis=1) + 9.81 * y[:, 0]
-1 / np.sqrt((x ** 2).sum(axis=1) + 0.01)
x / ((x ** 2).sum(axis=1, keepdims=True) + 0.1) ** 1.5
x + 0.1 * y - 0.5 * 9.81 * 0.1 ** 2
np.exp(-p * 2) * np.cos(3 * x)
np.cross(x[:, :3], y[:, :3])
(x[:, :3] * np.cross(y[:, :3], p[:, :3])).sum(axis=1)
np.arctan2(y, x)
np.hypot(x, y)
np.stack([np.hypot(x, y), np.arctan2(y, x)], axis=-1)
p * np.cos(x), p * np.sin(x)
np.roll(x, 1, axis=0) + np.roll(x, -1, axis=0) - 2 * x
np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x
x[1:-1, 1:-1] + 0.1 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1])
x - 0.2 * (x - np.roll(x, 1, axis=1))
np.gradient(x, 0.5, axis=1)
np.gradient(s)
np.trapezoid(x, dx=0.1, axis=1)
np.trapezoid(p, axis=0)
np.cumsum(p, axis=1) * 0.1
1 / (np.exp(p) - 1)
p ** 3 / np.expm1(p)
np.sqrt(p) * np.exp(-p)
4 * ((1 / p) ** 2 - 1 / p)
np.where(p < 1, p, 1 / p)
np.deg2rad(x * 10)
np.rad2deg(np.arcsin(np.clip(y, -1, 1)))
np.floor(x * 4) / 4
x % 1.0
(x + np.pi) % (2 * np.pi) - np.pi
x // 0.75
np.fmod(x, 0.75)
np.trunc(x) + np.rint(y)
np.heaviside(x, 0.5)
np.sinc(x)
np.sum(x[:, None] * y[None, :], axis=(0, 2))
np.prod(p, axis=1)
np.kron(x[:2, :2], y[:2, :2])
np.trace(x @ y.T)
np.diag(x[:, :4])
np.diag(x[0])
np.vdot(x, y)
np.inner(x, y)
np.tensordot(x, y, axes=([1], [1]))
s - s.mean()
np.convolve(s, np.ones(3, np.float32) / 3, mode="valid")
np.convolve(s, s[:3], mode="same")
np.convolve(s, s[:3])
np.correlate(s, s[:4])
np.cumsum(s) / np.arange(1, len(s) + 1)
(s[1:] - s[:-1]) / 0.1
s[2:] - 2 * s[1:-1] + s[:-2]
s[::-1] * s
s * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(len(s)) / (len(s) - 1)))
np.sqrt(np.mean(s ** 2))
20 * np.log10(np.abs(s) + 1e-3)
(np.sign(s[1:]) != np.sign(s[:-1])).sum()
np.clip(s, -0.5, 0.5)
np.sign(s) * np.log1p(255 * np.abs(s)) / np.log(256)
np.round(s * 8) / 8
np.interp(np.linspace(0, 15, 7, dtype=np.float32), np.arange(16, dtype=np.float32), s)
s[::2] + s[1::2], s[::2] - s[1::2]
s.reshape(4, 4).mean(axis=1)
np.repeat(s, 2)
np.tile(s, 2)
np.pad(s, 2, mode="reflect")
np.cos(2 * np.pi * np.outer(np.arange(16), np.arange(16)) / 16).astype(np.float32) @ s
np.abs(np.cos(np.outer(np.arange(8), np.arange(16)) * 0.4) @ s)
np.array([[1, 0], [0, -1]], np.float32) @ s.reshape(2, 8)
np.maximum.accumulate(s)
np.minimum.accumulate(x, axis=1)
np.argmax(s), s.max()
np.where(np.abs(s) > 0.5, s, 0)
sum(0.5 ** k * s[k:len(s) - 4 + k] for k in range(4))
np.stack([s[k:len(s) - 3 + k] for k in range(4)]).mean(axis=0)
s[-(len(s) // 4):]
s[np.array([3, 1, 2])]
np.take(s, l) + s[l - 4]
np.digitize(s, np.array([-0.5, 0.0, 0.5], np.float32))
np.searchsorted(np.array([-0.5, 0.0, 0.5], np.float32), s)
np.isclose(s, s + 1e-9).all()
np.logaddexp(x, y).sum(axis=0)
i // 3, i % 3
-i // 4, -i % 4
i % -5, i // -5
(i & 3) | (i << 2)
(i ^ (i >> 1)) & 7
np.abs(i).sum(axis=1)
i.max(axis=0) - i.min(axis=0)
i / 2
i * 0.5 + i
(i > 0) & (i < 5)
~(i > 0) | (i == 2)
np.where(i % 2 == 0, i // 2, 3 * i + 1)
i @ i.T
i.cumsum(axis=1)
np.sort(i, axis=None)
i.astype(np.float32).mean(axis=0)
"""
NAMES = {"x": X, "y": Y, "w": W, "p": P, "s": S, "i": I, "l": L}
EXPRESSIONS = [line for line in PROGRAMS.splitlines() if line]


def program(expression: str) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """Return an expression as a function, and its arguments."""
    read = {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}
    names = [name for name in NAMES if name in read]
    return eval(f"lambda {', '.join(names)}: ({expression})", {"np": np}), [NAMES[name] for name in names]


def agree(found: Any, expected: Any) -> None:
    several = isinstance(expected, tuple)
    for given, wanted in zip(found if several else [found], expected if several else [expected], strict=True):
        assert np.shape(given) == np.shape(wanted)
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(28)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_programs_agree_with_numpy(expression: str) -> None:
    function, arrays = program(expression)
    agree(tileir.evaluate(function, arrays), function(*arrays))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_compiled_programs_agree_with_numpy(expression: str) -> None:
    function, arrays = program(expression)
    agree(tileir.jit(function)(*arrays), function(*arrays))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_programs_agree_with_numpy_on_opencl(expression: str) -> None:
    function, arrays = program(expression)
    agree(tileir.jit(function, device())(*arrays), function(*arrays))
