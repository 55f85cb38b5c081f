"""Train a network to read handwritten digits on several ranks, each of which sees a part of each batch.

python digits_in_parallel.py                 two threads
mpiexec -n 2 python digits_in_parallel.py    two processes

One Tile program is the whole step of training. Its images are shared out; the gradients of the weights are sums over
images, and so are the only things that ranks exchange, which the partitioned program shows. It needs tileir-mpi and
scikit-learn.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits

import tileir
from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import gradient

SHAPES = {"Kernel": (3, 3, 1, 16), "Bias": (16,), "Dense": (4 * 4 * 16, 10), "Offset": (10,)}
BATCH, RATE = 64, 5e-3


def network(images: Tensor, kernel: Tensor, bias: Tensor, dense: Tensor, offset: Tensor) -> Tensor:
    """Return a score of each image [N, 8, 8, 1] for each digit: [N, 10]."""
    x = ops.relu(ops.conv(images, kernel, bias, padding=1, layout="nxc", kernel_layout="xck"))
    return ops.matmul(ops.flatten(ops.max_pool(x, 2, layout="nxc"), first=1), dense) + offset


def training() -> tileir.Function:
    """Return the function from a batch, weights and the state of Adam to the loss, and what these are next."""
    f = tileir.FunctionBuilder()
    images, labels, step = f.input("Images", "N", "H", "W", "C"), f.input("Labels", "N"), f.scalar("Step")
    kinds = [
        {
            name: f.input(name + suffix, *(f"{name}{axis}" for axis in range(len(shape))))
            for name, shape in SHAPES.items()
        }
        for suffix in ("", "First", "Second")
    ]
    loss = ops.cross_entropy(network(images, *kinds[0].values()), labels)
    results = {"Loss": loss, "NewStep": step + 1}
    for (name, weight), slope in zip(kinds[0].items(), gradient(loss, *kinds[0].values()), strict=True):
        new = ops.adam(weight, slope, kinds[1][name], kinds[2][name], step, lr=RATE)
        results |= zip((f"New{name}", f"New{name}First", f"New{name}Second"), new, strict=True)
    return f.build(**results)


def main() -> None:
    """Train, and tell how many digits that training has not seen are read right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8, help="how often to see each digit (default: 8)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    parser.add_argument("--show", action="store_true", help="print what ranks exchange")
    options = parser.parse_args()
    ranks = MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    digits = load_digits()
    images, labels = (digits.images[..., None] / 16).astype(np.float32), digits.target.astype(np.int32)

    random = np.random.default_rng(0)
    state: dict[str, Any] = {"Step": np.int32(1)}
    for name, shape in SHAPES.items():
        spread = 0.0 if len(shape) == 1 else np.sqrt(2 / np.prod(shape[:-1]))
        state[name] = (spread * random.standard_normal(shape)).astype(np.float32)
        state |= {f"{name}{kind}": np.zeros(shape, np.float32) for kind in ("First", "Second")}
    program = tileir.partition(
        training(),
        {"x": ranks},
        {"Images": ("x", None, None, None), "Labels": ("x",)},
        outputs={f"New{name}": (None,) * np.ndim(value) for name, value in state.items()},
        arguments={"Images": (BATCH, 8, 8, 1), "Labels": ("i32", (BATCH,)), **state},
    )
    step = tileir.distribute(program, options.engine, device=options.device).stepper(
        {name: f"New{name}" for name in state}, state
    )
    speaks = 0 in step.state["Dense"].parts  # one rank does for all
    if options.show and speaks:
        print(*program.collectives, sep="\n")

    train, test = slice(360, None), slice(360)
    for epoch in range(options.epochs):
        order = random.permutation(np.arange(len(images))[train])
        losses = [
            float(step(images[chosen], labels[chosen]))
            for chosen in (order[at : at + BATCH] for at in range(0, len(order) - BATCH + 1, BATCH))
        ]
        if speaks:
            sys.stderr.write(f"epoch {epoch + 1} of {options.epochs}: loss {np.mean(losses):.4f}\n")
    f = tileir.FunctionBuilder()
    weights = [f.input(name, *(f"{name}{axis}" for axis in range(len(shape)))) for name, shape in SHAPES.items()]
    read = tileir.jit(f.build(Digits=ops.argmax(network(f.input("Images", "N", "H", "W", "C"), *weights), axis=1)))
    found = read(Images=images[test], **{name: step.state[name].numpy() for name in SHAPES})
    if speaks:
        print(f"{ranks} ranks: loss {losses[-1]:.6f}, {(found == labels[test]).mean():.1%} of digits are read right")


if __name__ == "__main__":
    main()
