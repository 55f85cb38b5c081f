"""Losses beside the reference of ONNX: weights, classes that are left out, reductions, axes behind the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rows import check, floats

Array = np.ndarray[Any, Any]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("sizes", [(), (4,), (3, 2)])
def test_losses(op: str, reduction: str, sizes: tuple[int, ...]) -> None:
    x, weight = floats(3, 5, *sizes), np.abs(floats(5))
    target = np.random.default_rng(0).integers(0, 5, (3, *sizes))
    outputs = 2 if op.startswith("Softmax") else 1
    for left_out in (None, 2, -1):
        attributes = {"reduction": reduction, **({} if left_out is None else {"ignore_index": left_out})}
        labels = target.copy()
        labels.flat[0] = target.flat[0] if left_out is None else left_out
        for arrays in ([x, labels], [x, labels, weight]):
            check(op, arrays, attributes, outputs=outputs, wanted=wanted(op, arrays, left_out, reduction))


def wanted(op: str, arrays: list[Array], left_out: int | None, reduction: str) -> list[Array]:
    """Return the loss, and the logarithms of probabilities where they are an output."""
    x, target = arrays[0].astype(np.float64), arrays[1]
    if op.startswith("Softmax"):
        x = x - np.log(np.exp(x).sum(1, keepdims=True))
    counted = target != left_out if left_out is not None else np.ones(target.shape, bool)
    inside = np.where(counted, target, 0)
    weights = np.where(counted, arrays[2][inside] if len(arrays) > 2 else 1.0, 0)
    loss = -np.take_along_axis(x, np.expand_dims(inside, 1), 1)[:, 0] * weights
    if reduction != "none":
        loss = loss.sum() / (weights.sum() if reduction == "mean" else 1)
    results = [np.asarray(loss).astype(np.float32)]
    return [*results, x.astype(np.float32)] if op.startswith("Softmax") else results


def test_other_dtypes() -> None:
    x, target = floats(3, 5, dtype=np.float16), np.array([1, 4, 0], np.int32)
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        check(op, [x, target], wanted=[each.astype(np.float16) for each in wanted(op, [x, target], None, "mean")[:1]])
