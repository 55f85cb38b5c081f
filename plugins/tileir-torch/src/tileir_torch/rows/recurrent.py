"""Recurrent networks as a whole, which decompositions would write out step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir import ops
from tileir.ops import RecurrentWeights
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.table import row


def _weights(call: Call, params: Sequence[Tensor], has_biases: bool, count: int) -> list[RecurrentWeights]:
    """Return the weights of each layer and direction."""
    each = 4 if has_biases else 2
    if len(params) != each * count:
        raise call.refuse("it projects its states")
    return [RecurrentWeights(*params[at * each : (at + 1) * each]) for at in range(count)]


def _checked(call: Call, x: Tensor, dropout: float, train: bool, layers: int) -> None:
    if dropout and train and layers > 1:
        raise call.refuse("its dropout is random")


@row("lstm.input")
def lstm(
    call: Call,
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    _checked(call, x, dropout, train, num_layers)
    weights = _weights(call, params, has_biases, num_layers * (2 if bidirectional else 1))
    return ops.lstm(x, weights, *hx, bidirectional=bidirectional, batch_first=batch_first)


@row("gru.input")
def gru(call: Call, x: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, *options: Any) -> Any:
    num_layers, dropout, train, bidirectional, batch_first = options
    _checked(call, x, dropout, train, num_layers)
    weights = _weights(call, params, has_biases, num_layers * (2 if bidirectional else 1))
    return ops.gru(x, weights, hx, bidirectional=bidirectional, batch_first=batch_first)


@row("rnn_tanh.input", "rnn_relu.input")
def rnn(call: Call, x: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, *options: Any) -> Any:
    num_layers, dropout, train, bidirectional, batch_first = options
    _checked(call, x, dropout, train, num_layers)
    weights = _weights(call, params, has_biases, num_layers * (2 if bidirectional else 1))
    word = "relu" if "relu" in str(call.node.target) else "tanh"
    return ops.rnn(x, weights, hx, nonlinearity=word, bidirectional=bidirectional, batch_first=batch_first)
