"""Functions that compare calls under ``torch.compile`` with eager execution."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

import tileir_torch


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=tileir_torch.backend, **options)


def tensor(*shape: int, seed: int = 0, grad: bool = False) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def alike(found: Any, wanted: Any, **tolerance: float) -> None:
    torch.testing.assert_close(found, wanted, **(tolerance or {"rtol": 1e-5, "atol": 1e-5}))


def same(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Compare two calls with eager execution, and return the compiled function."""
    made = compiled(function, **options)
    for _ in range(2):
        mine, others = copy.deepcopy(arguments), copy.deepcopy(arguments)
        alike(made(*mine), function(*others))
        for left, right in zip(mine, others, strict=True):
            if isinstance(left, torch.Tensor):
                alike(left, right)
    return made
