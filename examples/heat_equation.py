"""Find out how well each piece of a rod conducts heat, from temperatures measured before and after.

The heat equation u' = (k u_x)_x goes forward in time by a loop over a stencil. The gradient of the error goes back
through that loop to the conductivity k, and Adam improves it: one Tile program for all of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from rich.progress import track

import tileir
from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import gradient, scan

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

POINTS, RUNS, STEPS = 64, 8, 100
TIME_STEP = 0.4  # on a grid of width 1 stable for all conductivities up to 1
RATE = 0.05
GOAL = 0.01


def differences(x: Tensor) -> Tensor:
    """Return the differences of neighbours along the last axis."""
    inside = x.dims[-1] - 1
    return ops.narrow(x, -1, 1, inside) - ops.narrow(x, -1, 0, inside)


def later(temperature: Tensor, conductivity: Tensor) -> Tensor:
    """Return the temperatures [R, N] one step later; no heat passes through the ends."""
    flux = conductivity * differences(temperature)
    return temperature + TIME_STEP * differences(ops.pad(flux, ((0, 0), (1, 1))))


def simulated(start: Tensor, conductivity: Tensor) -> Tensor:
    """Return the temperatures after all steps; ``conductivity`` [N - 1] is that between neighbours."""
    (end,) = scan(later, [start], constants=[conductivity], count=STEPS)
    return end


def experiment(device: str | None) -> tileir.Jit:
    """Return the simulation as a function of arrays."""
    f = tileir.FunctionBuilder()
    return tileir.jit(f.build(End=simulated(f.input("Start", "R", "N"), f.input("Conductivity", "M"))), device)


def fitting(device: str | None) -> tileir.Stepper:
    """Return a callable that improves the conductivity, and returns the error before."""
    f = tileir.FunctionBuilder()
    start, measured, step = f.input("Start", "R", "N"), f.input("Measured", "R", "N"), f.scalar("Step")
    logit, first, second = f.input("Logit", "M"), f.input("First", "M"), f.input("Second", "M")
    error = ops.mse_loss(simulated(start, ops.sigmoid(logit)), measured)  # from 0 to 1, whatever the logit
    new = ops.adam(logit, gradient(error, logit), first, second, step, lr=RATE)
    function = f.build(Error=error, NewStep=step + 1, NewLogit=new[0], NewFirst=new[1], NewSecond=new[2])
    state = {name: np.zeros(POINTS - 1, np.float32) for name in ("Logit", "First", "Second")}
    return tileir.stepper(
        function, {name: f"New{name}" for name in (*state, "Step")}, {**state, "Step": np.int32(1)}, device
    )


def rod() -> Array:
    """Return a conductivity that changes slowly, but for one piece that hardly conducts."""
    place = np.arange(POINTS - 1)
    smooth = 0.5 + 0.3 * np.sin(place / 7)
    return np.where(abs(place - 40) < 5, 0.1, smooth).astype(np.float32)


def plot(truth: Array, found: Array, measured: Array, path: Path) -> None:
    """Draw the conductivity that was found beside the true one, and what was measured."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(truth, "k", label="true", linewidth=3, alpha=0.3)
    left.plot(found, label="found")
    left.set(xlabel="place", title="conductivity")
    left.legend()
    right.plot(measured.T)
    right.set(xlabel="place", title="measured temperature of each run")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Simulate measurements, find the conductivity from them, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="of Adam (default: 600)")
    parser.add_argument("--quick", action="store_true", help="stop after 100 steps")
    parser.add_argument("--output", type=Path, default=Path("heat.png"), help="the picture (default: heat.png)")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    truth = rod()
    warm = np.linspace(0, POINTS, RUNS)[:, None]  # each run starts with heat at another place
    start = np.exp(-((np.arange(POINTS) - warm) ** 2) / 20).astype(np.float32)
    measured = experiment(options.device)(start, truth)

    fit = fitting(options.device)
    for _ in track(range(100 if options.quick else options.steps), "fitting"):
        error = fit(start, measured)
    found = 1 / (1 + np.exp(-fit.state["Logit"]))
    plot(truth, found, measured, options.output)
    off = abs(found - truth).max()
    print(f"squared error of temperatures {error:.1e}, largest error of the conductivity {off:.4f}: {options.output}")
    if not options.quick and off > GOAL:
        raise SystemExit(f"more than {GOAL}")


if __name__ == "__main__":
    main()
