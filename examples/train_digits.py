"""Train a convolutional network to read handwritten digits.

One Tile program is the whole step of training: the network, its loss, the gradients, and Adam. With --compare torch,
PyTorch trains the same network, from the same weights and on the same batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tileir
from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import gradient

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Batch: TypeAlias = tuple[Array, Array]

SHAPES = {
    "Kernel1": (3, 3, 1, 32),
    "Bias1": (32,),
    "Kernel2": (3, 3, 32, 64),
    "Bias2": (64,),
    "Dense": (4 * 4 * 64, 10),
    "Bias3": (10,),
}
BATCH = 64
RATE = 4e-3
GOAL = 0.98


def network(images: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Return a score of each image [N, 8, 8, 1] for each digit: [N, 10]."""
    x = ops.relu(convolution(images, weights["Kernel1"], weights["Bias1"]))
    x = ops.relu(convolution(x, weights["Kernel2"], weights["Bias2"]))
    x = ops.flatten(ops.max_pool(x, 2, layout="nxc"), first=1)
    return ops.matmul(x, weights["Dense"]) + weights["Bias3"]


def convolution(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return the convolution of as many rows and columns as ``x`` has; channels come last, where vectors are made."""
    return ops.conv(x, kernel, bias, padding=1, layout="nxc", kernel_layout="xck")


def inputs(f: tileir.FunctionBuilder, suffix: str = "") -> dict[str, Tensor]:
    """Declare an input of the shape of each weight."""
    return {name: f.input(name + suffix, *(f"{name}{axis}" for axis in range(len(SHAPES[name])))) for name in SHAPES}


def training(weights: Mapping[str, Array], steps: int, device: str | None) -> tileir.Stepper:
    """Return a callable that takes a batch, returns its loss, and keeps the weights and the state of Adam."""
    f = tileir.FunctionBuilder()
    images, labels, step = f.input("Images", "N", "H", "W", "C"), f.input("Labels", "N"), f.scalar("Step")
    old, first, second = inputs(f), inputs(f, "First"), inputs(f, "Second")
    loss = ops.cross_entropy(network(images, old), labels)
    rate = ops.cosine_decay(step - 1, lr=RATE, steps=steps)
    results = {"Loss": loss, "NewStep": step + 1}
    for name, slope in zip(old, gradient(loss, *old.values()), strict=True):
        new = ops.adam(old[name], slope, first[name], second[name], step, lr=rate)
        results |= zip((f"New{name}", f"New{name}First", f"New{name}Second"), new, strict=True)
    state = {"Step": np.int32(1), **weights}
    for name, weight in weights.items():
        state |= {f"{name}First": np.zeros_like(weight), f"{name}Second": np.zeros_like(weight)}
    return tileir.stepper(f.build(**results), {name: f"New{name}" for name in state}, state, device)


def reading(device: str | None) -> tileir.Jit:
    """Return the function from images and weights to digits."""
    f = tileir.FunctionBuilder()
    images = f.input("Images", "N", "H", "W", "C")
    return tileir.jit(f.build(Digits=ops.argmax(network(images, inputs(f)), axis=1)), device)


def initial(generator: np.random.Generator) -> dict[str, Array]:
    """Return random weights (He et al., 2015), and biases of zero."""
    weights = {}
    for name, shape in SHAPES.items():
        spread = 0.0 if len(shape) == 1 else np.sqrt(2 / np.prod(shape[:-1]))
        weights[name] = (spread * generator.standard_normal(shape)).astype(np.float32)
    return weights


def batches(images: Array, labels: Array, generator: np.random.Generator) -> Iterator[Batch]:
    """Yield the data in random order, in batches of equal size, each moved by up to one pixel."""
    order = generator.permutation(len(images))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield np.roll(images[chosen], generator.integers(-1, 2, 2), axis=(1, 2)), labels[chosen]


def train(
    name: str,
    step: Callable[[Array, Array], Any],
    accuracy: Callable[[], float],
    epochs: int,
    data: Batch,
    console: Console,
) -> tuple[list[float], float]:
    """Train, show progress, and return the loss of each batch and the final accuracy."""
    losses: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=epochs * (len(data[0]) // BATCH))
        generator = np.random.default_rng(1)
        for _ in range(epochs):
            for batch in batches(*data, generator):
                losses.append(float(step(*batch)))
                progress.advance(task)
            score = accuracy()
            progress.update(task, description=f"{name}: loss {np.mean(losses[-20:]):.4f}, accuracy {score:.1%}")
    return losses, score


def in_torch(
    weights: Mapping[str, Array], steps: int, test: Batch
) -> tuple[Callable[[Array, Array], float], Callable[[], float]]:
    """Return the same step of training, and the accuracy, in PyTorch."""
    import torch
    from torch.nn import functional

    p = {name: torch.tensor(weight, requires_grad=True) for name, weight in weights.items()}
    adam = torch.optim.Adam(p.values(), lr=RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)

    def scores(images: Array) -> Any:
        x = torch.from_numpy(images).permute(0, 3, 1, 2)
        for layer in ("1", "2"):
            x = functional.conv2d(x, p[f"Kernel{layer}"].permute(3, 2, 0, 1), p[f"Bias{layer}"], padding=1).relu()
        x = functional.max_pool2d(x, 2).permute(0, 2, 3, 1)
        return x.flatten(1) @ p["Dense"] + p["Bias3"]

    def step(images: Array, labels: Array) -> float:
        adam.zero_grad()
        loss = functional.cross_entropy(scores(images), torch.from_numpy(labels).long())
        loss.backward()
        adam.step()
        decay.step()
        return float(loss.detach())

    return step, lambda: float((scores(test[0]).argmax(1).numpy() == test[1]).mean())


def plot(curves: Mapping[str, list[float]], path: Path) -> None:
    """Draw the losses."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, losses in curves.items():
        axes.semilogy(losses, label=name, alpha=0.7)
    axes.set(xlabel="step", ylabel="cross entropy", title="Reading digits")
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train, tell the accuracy on digits that training has not seen, and draw the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=25, help="how often to see each digit (default: 25)")
    parser.add_argument("--quick", action="store_true", help="stop after 3 epochs")
    parser.add_argument("--compare", choices=("torch",), help="train in PyTorch, too")
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="the picture (default: digits.png)")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    if options.compare and find_spec(options.compare) is None:
        parser.error("--compare torch needs PyTorch: pip install torch")
    digits = load_digits()
    images, labels = (digits.images[..., None] / 16).astype(np.float32), digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    data, test = (split[0], split[2]), (split[1], split[3])
    epochs = 3 if options.quick else options.epochs
    console = Console()

    weights = initial(np.random.default_rng(0))
    steps = epochs * (len(data[0]) // BATCH)
    step, read = training(weights, steps, options.device), reading(options.device)

    def accuracy() -> float:
        state = step.state
        return float((read(test[0], *(state[name] for name in SHAPES)) == test[1]).mean())

    curves = {}
    curves["tileir"], score = train("tileir", step, accuracy, epochs, data, console)
    if options.compare:
        curves["PyTorch"], _ = train("PyTorch", *in_torch(weights, steps, test), epochs, data, console)
        gap = np.abs(np.subtract(curves["tileir"], curves["PyTorch"]))
        console.print(f"losses differ by {gap[:20].max():.1e} in the first 20 steps, by {gap.mean():.1e} in the mean")
    plot(curves, options.output)
    console.print(f"{score:.1%} of {len(test[1])} digits are read right; losses are in {options.output}")
    if not options.quick and score < GOAL:
        raise SystemExit(f"less than {GOAL:.0%}")


if __name__ == "__main__":
    main()
