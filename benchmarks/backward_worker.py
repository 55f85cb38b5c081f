"""One side of the backward benchmark: builds workloads when asked, and times them when it is its turn.

Usage: python backward_worker.py tileir|torch THREADS FOLDER, with one JSON request for each line of standard input:
{"build": NAME} saves the gradients in FOLDER and prints the seconds that it took; {"time": SECONDS} prints the times of
calls. It is an own process, so that neither side's threads are awake while the other one is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import training_step
from backward_texts import WORKLOADS, Workload
from workers import serve, timed

Call = Callable[[], Sequence[Any]]
"""Computes all gradients; what it returns is valid until the next call."""


def tileir_call(workload: Workload) -> Call:
    """Compile the text, and reuse the arrays of its results."""
    import tileir

    arrays = workload.arrays()
    executable = tileir.compile(workload.text, arrays)
    found = executable(*arrays)
    out = list(found) if isinstance(found, tuple) else found

    def call() -> Sequence[Any]:
        executable(*arrays, out=out)
        return out if isinstance(out, list) else [out]

    return call


def torch_call(workload: Workload) -> Call:
    """Time both passes where the workload asks for the value, else the backward pass, with what the other one kept."""
    import torch

    arrays = [torch.from_numpy(array) for array in workload.arrays()]
    inputs = [array.requires_grad_() for array in arrays[:-1]]
    kind = workload.name.split()[0]
    functional = torch.nn.functional

    def value() -> torch.Tensor:
        if kind == "matmul":
            return inputs[0] @ inputs[1]
        if kind == "conv":
            # The memory order of both tensors is the one that PyTorch calls channels last.
            images, weights = inputs[0].permute(0, 3, 1, 2), inputs[1].permute(3, 2, 0, 1)
            return functional.conv2d(images, weights, padding=1).permute(0, 2, 3, 1)
        if kind == "softmax":
            return torch.softmax(inputs[0], -1)
        return functional.layer_norm(inputs[0], inputs[0].shape[-1:], inputs[1], inputs[2])

    def both() -> Sequence[Any]:
        result = value()
        return result.detach(), *torch.autograd.grad(result, inputs, arrays[-1])

    kept = value()
    return both if workload.forward else lambda: torch.autograd.grad(kept, inputs, arrays[-1], retain_graph=True)


def main() -> None:
    """Answer requests until standard input ends."""
    side, threads, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    step = {"tileir": training_step.tileir_step, "torch": training_step.torch_step}[side]
    backward = {"tileir": tileir_call, "torch": torch_call}[side]

    def make(name: str) -> Call:
        workload = next((w for w in WORKLOADS if w.name == name), None)
        return step() if workload is None else backward(workload)

    if side == "torch":
        import torch

        torch.set_num_threads(threads)
    call: Call | None = None

    def answer(request: dict[str, Any]) -> object:
        nonlocal call
        if "build" in request:
            start = time.perf_counter()
            call = make(request["build"])
            seconds = time.perf_counter() - start
            np.savez(folder / f"{side}.npz", *(np.asarray(result) for result in call()))
            return seconds
        assert call is not None, "build comes first"
        return timed(call, request["time"])

    serve(answer)


if __name__ == "__main__":
    main()
