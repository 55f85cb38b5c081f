"""Several steps of each optimiser beside PyTorch's, from the same gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import torch

import tileir
from strategies.operations import Array, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

STEPS: Final = 6
OPTIMISERS: Final[dict[str, tuple[Callable[..., Any], list[str], Callable[..., Any]]]] = {
    "sgd": (
        lambda w, g, _: (ops.sgd(w, g, lr=0.1, weight_decay=0.2),),
        [],
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2),
    ),
    "momentum": (
        lambda w, g, _, m: ops.momentum(w, g, m, lr=0.1),
        ["M"],
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ),
    "nesterov": (
        lambda w, g, _, m: ops.momentum(w, g, m, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1),
        ["M"],
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1),
    ),
    "adagrad": (
        lambda w, g, _, s: ops.adagrad(w, g, s, lr=0.1, weight_decay=0.1),
        ["V"],
        lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.1),
    ),
    "rmsprop": (
        lambda w, g, _, s: ops.rmsprop(w, g, s, weight_decay=0.1),
        ["V"],
        lambda p: torch.optim.RMSprop(p, weight_decay=0.1),
    ),
    "rmsprop_centred": (
        lambda w, g, _, s, mean, m: ops.rmsprop(w, g, s, mean=mean, m=m, momentum=0.7),
        ["V", "E", "M"],
        lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.7),
    ),
    "adam": (
        lambda w, g, step, m, v: ops.adam(w, g, m, v, step, lr=0.01, weight_decay=0.1),
        ["M", "V"],
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    ),
    "adamw": (
        lambda w, g, step, m, v: ops.adamw(w, g, m, v, step, lr=0.01, beta1=0.8, weight_decay=0.3),
        ["M", "V"],
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.999), weight_decay=0.3),
    ),
}


def stepper(build: Callable[..., tuple[Tensor, ...]], state: list[str], dtype: type) -> tileir.Stepper:
    """Return the optimiser as a function that keeps the parameter and its state."""
    f = tileir.FunctionBuilder()
    w, g, step = f.input("W", "A", "B"), f.input("G", "A", "B"), f.scalar("Step")
    results = build(w, g, step, *(f.input(name, "A", "B") for name in state))
    names = ["W", *state]
    function = f.build(**{f"New{name}": result for name, result in zip(names, results, strict=True)})
    start: dict[str, Array] = {"W": sample(4, 3).astype(dtype), **{name: np.zeros((4, 3), dtype) for name in state}}
    return tileir.stepper(function, {name: f"New{name}" for name in names}, start, "llvm")


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 2e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps(name: str, dtype: type, bound: float) -> None:
    build, state, peer = OPTIMISERS[name]
    step = stepper(build, state, dtype)
    parameter = torch.nn.Parameter(torch.from_numpy(step.state["W"]))
    optimiser = peer([parameter])
    for number in range(1, STEPS + 1):
        gradient: Array = sample(4, 3, seed=number).astype(dtype)
        step(gradient, np.int32(number))
        parameter.grad = torch.from_numpy(gradient.copy())
        optimiser.step()
        np.testing.assert_allclose(step.state["W"], parameter.detach().numpy(), rtol=bound, atol=bound)


def test_global_norm() -> None:
    arrays = [sample(3, 2).astype(np.float32), sample(4, seed=1).astype(np.float32)]
    f = tileir.FunctionBuilder()
    clipped, norm = ops.clip_by_global_norm([f.input("A", "I", "J"), f.input("B", "K")], 0.5)
    found = tileir.evaluate(f.build(*clipped, Norm=norm), arrays)
    parameters = [torch.nn.Parameter(torch.zeros(array.shape)) for array in arrays]
    for parameter, array in zip(parameters, arrays, strict=True):
        parameter.grad = torch.from_numpy(array.copy())
    wanted = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
    np.testing.assert_allclose(found[2], wanted.numpy(), rtol=1e-6)
    for result, parameter in zip(found, parameters, strict=False):
        np.testing.assert_allclose(result, parameter.grad.numpy(), rtol=1e-5)
