"""Optimisers beside the reference of ONNX: steps of one parameter and of two, the first one and later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rows import check, floats, model_of, referred

KINDS = [
    ("Adagrad", 3, {"norm_coefficient": 0.1, "decay_factor": 0.2, "epsilon": 1e-4}),
    ("Momentum", 3, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.3, "mode": "standard"}),
    ("Momentum", 3, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.3, "mode": "nesterov"}),
    ("Adam", 4, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.05, "epsilon": 1e-3}),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("op", "kinds", "attributes"), KINDS)
@pytest.mark.parametrize("step", [0, 1, 5])
@pytest.mark.parametrize("count", [1, 2])
def test_steps(op: str, kinds: int, attributes: dict[str, Any], step: int, count: int) -> None:
    tensors = [floats(3, 2 + n, seed=kind) for kind in range(kinds) for n in range(count)]
    tensors[(kinds - 1) * count :] = [np.abs(each) for each in tensors[(kinds - 1) * count :]]
    arrays = [np.array(0.1, np.float32), np.array(step), *tensors]
    outputs = (kinds - 1) * count
    options: dict[str, Any] = {"domain": "ai.onnx.preview.training", "version": 1, "outputs": outputs}
    wanted = referred(model_of(op, arrays, attributes, **options), arrays)
    single = [each.astype(np.float32) for each in wanted]  # some of the reference's are f64
    check(op, arrays, attributes, wanted=single, opened=False, **options)
