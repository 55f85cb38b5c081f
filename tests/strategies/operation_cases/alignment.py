"""Cases of losses of sequences that are not aligned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case, sample
from tileir import ops

if TYPE_CHECKING:
    from strategies.operations import Array

_INPUTS: Final = {
    "Z": sample(6, 3, 4),
    "T": np.array([[1, 2, 2], [3, 3, 3], [2, 1, 0]], np.int32),
    "E": np.array([6, 6, 5], np.int64),
    "L": np.array([3, 3, 2], np.int64),
}
_IMPOSSIBLE: Final = _INPUTS | {"E": np.array([6, 3, 5], np.int64), "L": np.array([0, 3, 2], np.int64)}


def probabilities(likelihood: Array, target: Array, ends: Array, lengths: Array, blank: int) -> Array:
    """Return those of the targets: the sum over all ways, class by class."""
    result = []
    for n, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        labels = [blank, *(part for label in target[n, :length] for part in (int(label), blank))]
        ways = np.zeros(len(labels))
        ways[0] = 1
        for time in range(end):
            before = np.concatenate([[0, 0], ways])
            skips = [j > 1 and label != blank and label != labels[j - 2] for j, label in enumerate(labels)]
            sums = before[2:] + (before[1:-1]) + np.where(skips, before[:-2], 0)
            ways = np.exp(likelihood[time, n, labels]) * sums
        result.append(ways[-2:].sum())
    return np.array(result)


def _case(name: str, inputs: dict[str, Array], blank: int, reduction: str, zero_infinity: bool = False) -> Case:
    options = {"blank": blank, "reduction": reduction, "zero_infinity": zero_infinity}

    def numpy(z: Array, target: Array, ends: Array, lengths: Array) -> Any:
        likelihood = z - np.log(np.exp(z).sum(-1, keepdims=True))
        losses = -np.log(probabilities(likelihood, target, ends, lengths, blank))
        losses = np.where(np.isinf(losses) & zero_infinity, 0, losses)
        if reduction == "none":
            return losses
        return losses.sum() if reduction == "sum" else (losses / np.maximum(lengths, 1)).mean()

    def torch(module: Any, z: Any, target: Any, ends: Any, lengths: Any) -> Any:
        return module.nn.functional.ctc_loss(z.log_softmax(-1), target, ends, lengths, **options)

    def build(z: Any, target: Any, ends: Any, lengths: Any) -> Any:
        loss: Any = ops.ctc_loss
        return loss(ops.log_softmax(z), target, input_lengths=ends, target_lengths=lengths, **options)

    return Case(name, build, inputs, numpy, torch, tolerance=5)


CASES: Final = (
    _case("none", _INPUTS, 0, "none"),
    _case("mean", _INPUTS, 0, "mean"),
    _case("sum_without_infinities", _IMPOSSIBLE, 0, "sum", zero_infinity=True),
    Case(
        "whole",
        lambda z, target: ops.ctc_loss(ops.log_softmax(z), target, blank=3, reduction="sum"),
        {"Z": sample(4, 2, 4), "T": np.array([[0, 1], [2, 2]], np.int64)},
        lambda z, target: (
            -np.log(
                probabilities(
                    z - np.log(np.exp(z).sum(-1, keepdims=True)), target, np.array([4, 4]), np.array([2, 2]), 3
                )
            ).sum()
        ),
    ),
)
