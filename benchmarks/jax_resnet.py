"""ResNet-18 in JAX as a peer: run by an interpreter that has it, in a fresh process for each cold compilation.

Usage: python jax_resnet.py [warm]
Prints one JSON object with seconds of processor and of the clock: of the import, of the first call, and of the second.
With ``warm``, another function has been compiled before, so that what JAX does once in a process is not counted.
"""

import json
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def shapes() -> Iterator[tuple[int, ...]]:
    """Yield the shapes of all weights, in the order in which the network takes them."""

    def convolution(channels: int, features: int, size: int) -> Iterator[tuple[int, ...]]:
        yield (features, channels, size, size)
        yield from [(features,)] * 4

    yield from convolution(3, 64, 7)
    channels = 64
    for features, first in STAGES:
        for _ in (first, 1):
            yield from convolution(channels, features, 3)
            yield from convolution(features, features, 3)
            if channels != features:
                yield from convolution(channels, features, 1)
            channels = features
    yield (512, 1000)
    yield (1000,)


def network(jax: Any, x: Any, weights: Any) -> Any:
    """Return the classes of pictures of shape (batch, 3, size, size); convolutions have normalisations of inference."""
    lax, remaining = jax.lax, iter(weights)

    def convolution(x: Any, size: int, stride: int) -> Any:
        w, mean, variance, scale, shift = (next(remaining) for _ in range(5))
        layout = ("NCHW", "OIHW", "NCHW")
        y = lax.conv_general_dilated(x, w, (stride,) * 2, ((size // 2,) * 2,) * 2, dimension_numbers=layout)
        m, v, s, b = (each.reshape(1, -1, 1, 1) for each in (mean, variance, scale, shift))
        return (y - m) * lax.rsqrt(v + 1e-5) * s + b

    x = jax.nn.relu(convolution(x, 7, 2))
    x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    channels = 64
    for features, first in STAGES:
        for stride in (first, 1):
            y = convolution(jax.nn.relu(convolution(x, 3, stride)), 3, 1)
            if channels != features:
                x = convolution(x, 1, stride)
            x, channels = jax.nn.relu(x + y), features
    return x.mean((2, 3)) @ next(remaining) + next(remaining)


def main() -> None:
    """Compile the network, run it twice, and report."""
    clocks = [(time.perf_counter(), time.process_time())]

    def mark() -> None:
        clocks.append((time.perf_counter(), time.process_time()))

    jax = import_module("jax")
    mark()
    random = np.random.default_rng(0)
    weights = [0.01 + 0.05 * random.random(shape, np.float32) for shape in shapes()]
    picture = random.random((1, 3, 224, 224), np.float32)
    if "warm" in sys.argv:
        jax.jit(lambda x: x + 1)(np.ones(4, np.float32)).block_until_ready()
    mark()
    compiled = jax.jit(lambda x, weights: network(jax, x, weights))
    compiled(picture, weights).block_until_ready()
    mark()
    compiled(picture, weights).block_until_ready()
    mark()
    steps = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(clocks)]
    print(json.dumps({"import": steps[0], "first": steps[2], "second": steps[3]}))


main()
