"""The operation library beside PyTorch: values, and what goes backward, in f32 and f64, on LLVM."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
import torch

import tileir
from strategies.operations import TOLERANCES, Case, all_cases

CASES: Final = {name: case for name, case in all_cases().items() if case.torch is not None}
TYPED: Final = [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes]
DIFFERENTIATED: Final = [(name, dtype) for name, dtype in TYPED if CASES[name].differentiated]


def results_of(case: Case, tensors: list[Any]) -> tuple[Any, ...]:
    """Return what PyTorch gives."""
    assert case.torch is not None
    results = case.torch(torch, *tensors)
    return tuple(results) if isinstance(results, list | tuple) else (results,)


@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_values(name: str, dtype: str) -> None:
    case = CASES[name]
    arrays = case.arrays(dtype)
    results = results_of(case, [torch.from_numpy(array.copy()) for array in arrays.values()])
    case.check(tileir.jit(case.function(), "llvm")(**arrays), tuple(result.numpy() for result in results), dtype)


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIATED)
def test_gradients(name: str, dtype: str) -> None:
    case = CASES[name]
    arrays, arriving = case.arrays(dtype), case.arriving(dtype)
    tensors = {n: torch.from_numpy(array.copy()) for n, array in arrays.items()}
    for wrt in case.differentiated:
        tensors[wrt].requires_grad_()
    results = results_of(case, list(tensors.values()))
    weighted = [(results[int(n[1:])] * torch.from_numpy(weight)).sum() for n, weight in arriving.items()]
    torch.stack(weighted).sum().backward()
    found = tileir.jit(case.backward(), "llvm")(**arrays, **arriving)
    bound = 5 * case.tolerance * TOLERANCES[dtype]
    for wrt, gradient in zip(case.differentiated, found if isinstance(found, tuple) else (found,), strict=True):
        wanted = tensors[wrt].grad.numpy()
        scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
        np.testing.assert_allclose(gradient, wanted, rtol=bound, atol=bound * scale)
