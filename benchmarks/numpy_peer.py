"""Every workload of the suite as a NumPy user writes it: in place where NumPy can, no other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Inputs: TypeAlias = dict[str, Array]


def product(inputs: Inputs, out: Array) -> None:
    """Multiply two matrices, or two batches of them."""
    first, second = inputs.values()
    np.matmul(first, second, out=out)


def convolution(stride: int, dilation: tuple[int, int]) -> Callable[[Inputs, Array], None]:
    """Return a convolution by one matrix product over gathered windows."""

    def run(inputs: Inputs, out: Array) -> None:
        x, weights = inputs["X"], inputs["W"]
        kernel, _, channels, features = weights.shape
        _, height, width, _ = out.shape
        above, left = (((kernel - 1) * step) // 2 for step in dilation)
        padded = np.pad(x, ((0, 0), (above, above), (left, left), (0, 0)))
        windows = np.empty((*out.shape[:3], kernel, kernel, channels), x.dtype)
        for i in range(kernel):
            for j in range(kernel):
                top, first = i * dilation[0], j * dilation[1]
                rows = slice(top, top + (height - 1) * stride + 1, stride)
                columns = slice(first, first + (width - 1) * stride + 1, stride)
                windows[:, :, :, i, j] = padded[:, rows, columns]
        matrix = weights.reshape(-1, features)
        np.matmul(windows.reshape(-1, matrix.shape[0]), matrix, out=out.reshape(-1, features))

    return run


def depthwise(inputs: Inputs, out: Array) -> None:
    """Convolve each channel with its own 3 x 3 window."""
    x, weights = inputs["X"], inputs["W"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out[...] = 0
    for i in range(3):
        for j in range(3):
            out += padded[:, i : i + x.shape[1], j : j + x.shape[2]] * weights[i, j]


def maximum_pool(inputs: Inputs, out: Array) -> None:
    """Take the maximum of 2 x 2 windows."""
    x = inputs["X"]
    np.maximum(x[:, ::2, ::2], x[:, ::2, 1::2], out=out)
    np.maximum(out, np.maximum(x[:, 1::2, ::2], x[:, 1::2, 1::2]), out=out)


def softmax(inputs: Inputs, out: Array) -> None:
    """Normalise the exponentials of each row."""
    x = inputs["X"]
    np.subtract(x, x.max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(-1, keepdims=True)


def layer_norm(inputs: Inputs, out: Array) -> None:
    """Give each row mean 0 and variance 1, then scale and shift its columns."""
    x = inputs["X"]
    np.subtract(x, x.mean(1, keepdims=True), out=out)
    out /= np.sqrt((out * out).mean(1, keepdims=True) + np.float32(1e-5))
    out *= inputs["G"]
    out += inputs["B"]


def total(axis: int) -> Callable[[Inputs, Array], None]:
    """Return the sum along an axis."""

    def run(inputs: Inputs, out: Array) -> None:
        np.sum(inputs["X"], axis=axis, out=out)

    return run


def maximum(inputs: Inputs, out: Array) -> None:
    """Take the maximum of all elements."""
    np.max(inputs["X"], out=out)


def place_of_maximum(inputs: Inputs, out: Array) -> None:
    """Find the first place of each row's maximum."""
    out[...] = inputs["X"].argmax(1)


def running_sum(inputs: Inputs, out: Array) -> None:
    """Sum up along the last axis."""
    np.cumsum(inputs["X"], axis=-1, out=out)


def chain(inputs: Inputs, out: Array) -> None:
    """Compute tanh(a * b + c) * sigmoid(d)."""
    a, b, c, d = inputs.values()
    np.multiply(a, b, out=out)
    np.add(out, c, out=out)
    np.tanh(out, out=out)
    out /= 1 + np.exp(-d)


def gelu(inputs: Inputs, out: Array) -> None:
    """Compute the approximation of GELU by tanh."""
    x = inputs["X"]
    np.multiply(x, x, out=out)
    out *= np.float32(0.044715)
    out += 1
    out *= x
    out *= np.float32(0.7978845608028654)
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= np.float32(0.5)


def stencil_3(inputs: Inputs, out: Array) -> None:
    """Weigh three neighbours of a row."""
    x = inputs["X"]
    np.add(x[:, :-2], x[:, 2:], out=out)
    out *= np.float32(0.25)
    out += np.float32(0.5) * x[:, 1:-1]


def stencil_5(inputs: Inputs, out: Array) -> None:
    """Weigh an element and its four neighbours."""
    x = inputs["X"]
    np.add(x[:-2, 1:-1], x[2:, 1:-1], out=out)
    out += x[1:-1, :-2]
    out += x[1:-1, 2:]
    out *= np.float32(0.125)
    out += np.float32(0.5) * x[1:-1, 1:-1]


def transpose(inputs: Inputs, out: Array) -> None:
    """Swap rows and columns."""
    np.copyto(out, inputs["X"].T)


def attention(inputs: Inputs, out: Array) -> None:
    """Weigh values by the softmax of queries times keys."""
    scores = np.matmul(inputs["Q"], inputs["K"].transpose(0, 2, 1))
    scores *= np.float32(0.125)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    np.matmul(scores, inputs["V"], out=out)
