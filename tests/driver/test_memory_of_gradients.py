"""The memory of gradients of chains is what their rule needs, and no more than a little besides."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.runtime.plans.placement import place
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder, Tensor
from tileir.typed.ir import TensorType

ROWS, WIDTH = 16, 32


def peak(layers: int, every: int, *, dense: bool) -> float:
    """Return what the temporaries take, in tensors of one layer, for the gradients by all weights."""
    f = FunctionBuilder()
    x = f.input("X", "B", "N")
    b, n, k = f.indices("b n k")
    sizes: dict[str, tuple[int, ...]] = {"X": (ROWS, WIDTH)}
    weights: list[Tensor] = []
    for layer in range(1, layers + 1):
        weight, bias = f.input(f"W{layer}", "N" if dense else "B", "N"), f.input(f"C{layer}", "N")
        sizes |= {f"W{layer}": (WIDTH if dense else ROWS, WIDTH), f"C{layer}": (WIDTH,)}
        if dense:
            z = f.tensor(f"Z{layer}", *x.dims)
            z[b, n] += x[b, k] * weight[k, n]
        else:
            z = x * weight
        x = tf.tanh(z + bias)
        x = tf.checkpoint(x) if every and layer % every == 0 else x
        weights += [weight, bias]
    gradients = tf.gradient(x, *weights)
    assert isinstance(gradients, tuple)
    function = f.build(**{f"D{number}": gradient for number, gradient in enumerate(gradients)})
    types = {name: TensorType(DType.F32, shape) for name, shape in sizes.items()}
    program = compile_stages(function, types, Target()).sem
    return place(program).peak_bytes / (4 * ROWS * WIDTH)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(("layers", "every"), [(12, 0), (12, 3)])
def test_gradients_of_chains_take_little_more_than_they_must(layers: int, every: int, *, dense: bool) -> None:
    """The backward pass needs its two cotangents, and what is kept or was computed again and has still to be read."""
    marked = (layers - 1) // every if every else 0
    least = max(layers - marked * every + marked + 1, marked + every)
    assert peak(layers, every, dense=dense) <= 1.2 * least
