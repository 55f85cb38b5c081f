"""Train a small transformer, letter by letter, on the story in lighthouse.txt, and let it tell how the story goes.

One Tile program is the whole step of training: the network, its loss, the gradients, and AdamW.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tileir
from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import gradient

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

STORY = Path(__file__).with_name("lighthouse.txt")
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 4, 64, 64, 16
RATE, WARMUP = 3e-3, 20


def shapes(letters: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights; vectors are factors of normalisations."""
    layer = {
        "Norm": (WIDTH,),
        "Into": (WIDTH, 3 * WIDTH),
        "Out": (WIDTH, WIDTH),
        "Scale": (WIDTH,),
        "Up": (WIDTH, 4 * WIDTH),
        "Down": (4 * WIDTH, WIDTH),
    }
    layers = {f"{name}{number}": shape for number in range(LAYERS) for name, shape in layer.items()}
    ends = {"Letters": (letters, WIDTH), "Places": (CONTEXT, WIDTH), "Last": (WIDTH,), "Scores": (WIDTH, letters)}
    return {**ends, **layers}


def network(text: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Return, for each place of ``text`` [B, T], a score for each letter that may follow: [B, T, letters]."""
    x = ops.embedding(weights["Letters"], text) + weights["Places"]
    for layer in range(LAYERS):
        x = x + attention(ops.rms_norm(x, weights[f"Norm{layer}"]), weights[f"Into{layer}"], weights[f"Out{layer}"])
        wide = ops.matmul(ops.rms_norm(x, weights[f"Scale{layer}"]), weights[f"Up{layer}"])
        x = x + ops.matmul(ops.gelu(wide), weights[f"Down{layer}"])
    return ops.matmul(ops.rms_norm(x, weights["Last"]), weights["Scores"])


def attention(x: Tensor, into: Tensor, out: Tensor) -> Tensor:
    """Let each place look at those before it, with several heads that see a part of the width each."""
    batch, time, width = x.dims
    parts = ops.reshape(ops.matmul(x, into), batch, time, 3, HEADS, WIDTH // HEADS)
    query, key, value = ops.unstack(ops.permute(parts, (2, 0, 3, 1, 4)), 3)
    mixed = ops.scaled_dot_product_attention(query, key, value, causal=True)
    return ops.matmul(ops.reshape(ops.permute(mixed, (0, 2, 1, 3)), batch, time, width), out)


def inputs(f: tileir.FunctionBuilder, letters: int, suffix: str = "") -> dict[str, Tensor]:
    """Declare an input of the shape of each weight."""
    ranks = {name: len(shape) for name, shape in shapes(letters).items()}
    return {name: f.input(name + suffix, *(f"{name}{axis}" for axis in range(rank))) for name, rank in ranks.items()}


def training(weights: Mapping[str, Array], letters: int, device: str | None) -> tileir.Stepper:
    """Return a callable that takes texts and the letters that follow, returns the loss, and keeps the weights."""
    f = tileir.FunctionBuilder()
    text, following, step = f.input("Text", "B", "T"), f.input("Following", "B", "T"), f.scalar("Step")
    old, first, second = (inputs(f, letters, suffix) for suffix in ("", "First", "Second"))
    loss = ops.cross_entropy(network(text, old), following, axis=-1)
    rate = ops.linear_warmup(step, RATE, steps=WARMUP)
    results = {"Loss": loss, "NewStep": step + 1}
    for name, slope in zip(old, gradient(loss, *old.values()), strict=True):
        new = ops.adamw(old[name], slope, first[name], second[name], step, lr=rate)
        results |= zip((f"New{name}", f"New{name}First", f"New{name}Second"), new, strict=True)
    state = {"Step": np.int32(1), **weights}
    for name, weight in weights.items():
        state |= {f"{name}First": np.zeros_like(weight), f"{name}Second": np.zeros_like(weight)}
    return tileir.stepper(f.build(**results), {name: f"New{name}" for name in state}, state, device)


def telling(letters: int, device: str | None) -> tileir.Jit:
    """Return the function from texts and weights to scores of the letter after each text."""
    f = tileir.FunctionBuilder()
    text = f.input("Text", "B", "T")
    scores = network(text, inputs(f, letters))
    return tileir.jit(f.build(Next=ops.select(scores, 1, -1)), device)


def told(tell: tileir.Jit, weights: Mapping[str, Array], begin: Array, length: int) -> Array:
    """Continue a text by letters that are drawn as often as the network expects them."""
    generator = np.random.default_rng(2)
    text = begin
    for _ in range(length):
        scores = tell(text[None, -CONTEXT:], **weights)[0].astype(np.float64) / 0.5
        chances = np.exp(scores - scores.max())
        text = np.append(text, np.int32(generator.choice(len(scores), p=chances / chances.sum())))
    return text[len(begin) :]


def main() -> None:
    """Train, and print a story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800, help="of training (default: 800)")
    parser.add_argument("--quick", action="store_true", help="stop after 20 steps")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    story = STORY.read_text(encoding="utf-8")
    alphabet = sorted(set(story))
    text = np.array([alphabet.index(letter) for letter in story], np.int32)
    generator = np.random.default_rng(0)
    weights = {
        name: np.ones(shape, np.float32) if len(shape) == 1 else generator.normal(0, 0.05, shape).astype(np.float32)
        for name, shape in shapes(len(alphabet)).items()
    }

    step = training(weights, len(alphabet), options.device)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    steps = 20 if options.quick else options.steps
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("reading", total=steps)
        for _ in range(steps):
            places = generator.integers(0, len(text) - CONTEXT, (BATCH, 1)) + np.arange(CONTEXT)
            loss = step(text[places], text[places + 1])
            progress.update(task, advance=1, description=f"reading, loss {loss:.3f}")
    state = step.state
    learnt = {name: state[name] for name in weights}
    letters = told(telling(len(alphabet), options.device), learnt, text[:CONTEXT], 40 if options.quick else 400)
    console.print(story[:CONTEXT], style="bold", end="", highlight=False, soft_wrap=True)
    console.print("".join(alphabet[letter] for letter in letters), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
