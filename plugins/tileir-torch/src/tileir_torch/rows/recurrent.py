"""Whole recurrent networks, which decompositions would unroll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir import ops
from tileir.ops import RecurrentWeights
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.table import row


def _cells(
    call: Call,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[list[RecurrentWeights], dict[str, Any]]:
    """Return the weights of each layer and direction, and the common options of all kinds of networks."""
    if dropout and train and num_layers > 1:
        raise call.refuse("its dropout is random")
    each, count = 4 if has_biases else 2, num_layers * (2 if bidirectional else 1)
    if len(params) != each * count:
        raise call.refuse("it projects its states")
    weights = [RecurrentWeights(*params[at * each : (at + 1) * each]) for at in range(count)]
    return weights, {"bidirectional": bidirectional, "batch_first": batch_first}


@row("lstm.input")
def lstm(call: Call, x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *options: Any) -> tuple[Tensor, ...]:
    weights, how = _cells(call, params, *options)
    return ops.lstm(x, weights, *hx, **how)


@row("gru.input")
def gru(call: Call, x: Tensor, hx: Tensor, params: Sequence[Tensor], *options: Any) -> Any:
    weights, how = _cells(call, params, *options)
    return ops.gru(x, weights, hx, **how)


@row("rnn_tanh.input", "rnn_relu.input")
def rnn(call: Call, x: Tensor, hx: Tensor, params: Sequence[Tensor], *options: Any) -> Any:
    weights, how = _cells(call, params, *options)
    return ops.rnn(x, weights, hx, nonlinearity="relu" if "relu" in str(call.node.target) else "tanh", **how)
