"""Losses of class likelihoods."""

from __future__ import annotations

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_NONE = -100
"""Ignored class if none is given: no example has it."""


@row("NegativeLogLikelihoodLoss", since=12)
def nll_loss(
    call: Call,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    left_out = _NONE if ignore_index is None else ignore_index
    return ops.nll_loss(x, target, weight=weight, ignore_index=left_out, reduction=reduction)


@row("SoftmaxCrossEntropyLoss", since=12)
def cross_entropy(
    call: Call,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, ...]:
    left_out = _NONE if ignore_index is None else ignore_index
    loss = ops.cross_entropy(x, target, weight=weight, ignore_index=left_out, reduction=reduction)
    return (loss, ops.log_softmax(x, 1)) if len(call.outputs) > 1 else (loss,)
