"""Gradients of long chains of layers: what compiling them costs, and their memory against the least that is possible.

    python benchmarks/gradients_of_chains.py [--layers 25 50 100 200 400] [--batch 32] [--width 64]

Dense layers are ``x = tanh(x · W + b)``, those on elements ``x = tanh(x * w + b)``; each has weights of its own, and
the gradients of the sum of the last x by all of them are taken. Compiling is measured to kernels (``compile_stages``).
Memory is what the temporaries take, in tensors of one x.

The least memory follows from the rule of docs/tile.md. When the backward pass is at layer l, it needs dz, dx and all
x from before that it has yet to read: without checkpoints x_1 … x_{l-1}; with one after each layer k, 2k, … those of
them that are marked, and the others of the segment. Values that elements pass on within a kernel take no memory at all,
so chains on elements can be below that.
"""

from __future__ import annotations

import argparse
import math
import time

import attrs

import tileir
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.runtime.context import default_context
from tileir.runtime.plans.placement import place
from tileir.tile import builder_functions as tf
from tileir.tile.builder import Tensor
from tileir.tile.ir import Function


@attrs.frozen
class Chain:
    """A chain of layers of one kind, with a checkpoint after each ``every``-th, if that is not 0."""

    dense: bool
    layers: int
    every: int
    batch: int
    width: int

    def function(self) -> Function:
        """Return the program of its gradients."""
        f = tileir.FunctionBuilder()
        x = f.input("X", "B", "N")
        b, n, k = f.indices("b n k")
        weights: list[Tensor] = []
        for layer in range(1, self.layers + 1):
            shape = x.dims if not self.dense else (x.dims[1], x.dims[1])
            weight, bias = f.input(f"W{layer}", *shape), f.input(f"C{layer}", x.dims[1])
            if self.dense:
                z = f.tensor(f"Z{layer}", *x.dims)
                z[b, n] += x[b, k] * weight[k, n]
            else:
                z = x * weight
            x = tf.tanh(z + bias)
            if self.every and layer % self.every == 0:
                x = tf.checkpoint(x)
            weights += [weight, bias]
        gradients = tf.gradient(x, *weights)
        assert isinstance(gradients, tuple)
        return f.build(**{f"D{number}": gradient for number, gradient in enumerate(gradients)})

    def types(self) -> dict[str, tileir.TensorType]:
        """Return the types of its inputs."""
        sizes: dict[str, tuple[int, ...]] = {"X": (self.batch, self.width)}
        for layer in range(1, self.layers + 1):
            sizes[f"W{layer}"] = (self.width if self.dense else self.batch, self.width)
            sizes[f"C{layer}"] = (self.width,)
        return {name: tileir.TensorType(tileir.DType.F32, shape) for name, shape in sizes.items()}

    def least(self) -> int:
        """Return the least number of tensors that its rule needs at once."""
        if not self.every:
            return self.layers + 1
        marked = (self.layers - 1) // self.every  # one after the last layer marks nothing that is read
        rest = self.layers - marked * self.every
        return max(marked + rest + 1, marked + self.every)

    def measure(self, target: Target) -> tuple[float, float]:
        """Return the seconds of compiling, and the memory of temporaries in tensors of one layer."""
        function, types = self.function(), self.types()
        start = time.perf_counter()
        program = compile_stages(function, types, target).sem
        seconds = time.perf_counter() - start
        return seconds, place(program).peak_bytes / (4 * self.batch * self.width)


def main() -> None:
    """Print a row for each chain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[25, 50, 100, 200, 400])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    target = default_context().device(None).target
    Chain(True, 2, 0, options.batch, options.width).measure(target)  # loads what is loaded once
    print("| layers | kind | checkpoint each | compiled in | a layer | memory | least | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for dense in (True, False):
        for marked in (False, True):
            for layers in options.layers:
                every = round(math.sqrt(layers)) if marked else 0
                chain = Chain(dense, layers, every, options.batch, options.width)
                seconds, memory = chain.measure(target)
                kind, least = "dense" if dense else "elements", chain.least()
                costs = f"{seconds:.2f} s | {1000 * seconds / layers:.1f} ms | {memory:.0f} | {least}"
                print(f"| {layers} | {kind} | {every or 'none'} | {costs} | {memory / least:.2f} |", flush=True)


if __name__ == "__main__":
    main()
