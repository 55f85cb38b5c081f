"""Recurrent networks: cells, which make one step, and layers, which run a cell over time in a loop of the program.

The formulas, the order of gates and the shapes of weights are PyTorch's. Inputs are [B, I] and states [B, H], both
without ``B`` for a single input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tileir.ops.arrays.joining import concatenate, stack
from tileir.ops.arrays.shaping import swapaxes
from tileir.ops.arrays.slicing import select
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Tensor,
    aggregate,
    chosen,
    dims_of,
    full,
    index_of,
    indices_of,
    mistaken,
    narrowed,
    rank_of,
    wide,
)
from tileir.tile import builder_functions as tf

Cell = Callable[[Tensor, Tensor, Sequence[Tensor], Dim], tuple[Tensor, ...]]


class RecurrentWeights(NamedTuple):
    """The weights of a cell with G gates: ``w_x`` is [G * H, I], ``w_h`` [G * H, H], and biases are [G * H] or None."""

    w_x: Tensor
    w_h: Tensor
    b_x: Tensor | None = None
    b_h: Tensor | None = None


def rnn_cell(x: Tensor, h: Tensor, weights: RecurrentWeights, *, nonlinearity: str = "tanh") -> Tensor:
    """Return the next state of a simple network: ``tanh(w_x x + b_x + w_h h + b_h)``, or relu of that.

    Raises:
        TileError: TIL217, another nonlinearity.

    Source: Elman, "Finding structure in time" (1990), as PyTorch's ``RNNCell``.
    """
    return _once(_rnn(nonlinearity), x, (h,), weights)[0]


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, weights: RecurrentWeights) -> tuple[Tensor, Tensor]:
    """Return the next hidden and cell states of long short-term memory.

    With ``i, f, g, o`` the four parts of ``w_x x + b_x + w_h h + b_h``: ``c' = σ(f) c + σ(i) tanh(g)`` and
    ``h' = σ(o) tanh(c')``.

    Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997), as PyTorch's ``LSTMCell``.
    """
    hidden, cell = _once(_lstm, x, (h, c), weights)
    return hidden, cell


def gru_cell(x: Tensor, h: Tensor, weights: RecurrentWeights) -> Tensor:
    """Return the next state of a gated recurrent unit.

    With ``r, z, n`` the three parts of ``w_x x + b_x`` and ``r', z', n'`` those of ``w_h h + b_h``:
    ``R = σ(r + r')``, ``Z = σ(z + z')``, ``N = tanh(n + R n')``, and ``(1 - Z) N + Z h``.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), as PyTorch's ``GRUCell``.
    """
    return _once(_gru, x, (h,), weights)[0]


def rnn(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    *,
    nonlinearity: str = "tanh",
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of layers of :func:`rnn_cell` over time, and their last states.

    ``x`` is [T, B, I], or [B, T, I] with ``batch_first``. There are weights for each layer, with ``bidirectional`` for
    both directions of each in turn; a layer reads what the one before it gives, [T, B, D * H] for D directions, which
    is also the form of the outputs. States are [L * D, B, H], zeros by default. Time is a loop that is not unrolled;
    the inputs of all times are multiplied by ``w_x`` at once before it.

    Raises:
        TileError: TIL217, there are no weights, or not two for each layer of two directions, or another nonlinearity;
            TIL209, ``x`` has not three axes.

    Source: PyTorch's ``RNN``.
    """
    outputs, states = _layers(_rnn(nonlinearity), x, weights, (h,), bidirectional, batch_first)
    return outputs, states[0]


def lstm(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    c: Tensor | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of layers of :func:`lstm_cell` over time, and their last states, hidden and cell.

    Shapes, options and errors are those of :func:`rnn`.

    Source: PyTorch's ``LSTM``.
    """
    outputs, (hidden, cell) = _layers(_lstm, x, weights, (h, c), bidirectional, batch_first)
    return outputs, hidden, cell


def gru(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of layers of :func:`gru_cell` over time, and their last states.

    Shapes, options and errors are those of :func:`rnn`.

    Source: PyTorch's ``GRU``.
    """
    outputs, states = _layers(_gru, x, weights, (h,), bidirectional, batch_first)
    return outputs, states[0]


def _rnn(nonlinearity: str) -> Cell:
    chosen(nonlinearity, ("tanh", "relu"), "nonlinearity")
    function = tf.tanh if nonlinearity == "tanh" else tf.relu

    def cell(from_x: Tensor, from_h: Tensor, _: Sequence[Tensor], __: Dim) -> tuple[Tensor, ...]:
        return (function(from_x + from_h),)

    return cell


def _lstm(from_x: Tensor, from_h: Tensor, state: Sequence[Tensor], size: Dim) -> tuple[Tensor, ...]:
    gates = from_x + from_h
    i, f, g, o = (_part(gates, number, size) for number in range(4))
    c = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def _gru(from_x: Tensor, from_h: Tensor, state: Sequence[Tensor], size: Dim) -> tuple[Tensor, ...]:
    r, z = (tf.sigmoid(_part(from_x, number, size) + _part(from_h, number, size)) for number in range(2))
    n = tf.tanh(_part(from_x, 2, size) + r * _part(from_h, 2, size))
    return (n + z * (state[0] - n),)


def _once(cell: Cell, x: Tensor, state: Sequence[Tensor], weights: RecurrentWeights) -> tuple[Tensor, ...]:
    ranks = [rank_of(part) for part in (x, *state)]
    if min(ranks) < 1:
        raise mistaken(f"inputs and states of a cell have one axis or more; these have {ranks}")
    from_x, from_h = _linear(x, weights.w_x, weights.b_x), _linear(state[0], weights.w_h, weights.b_h)
    after = cell(from_x, from_h, tuple(map(wide, state)), dims_of(weights.w_h)[1])
    return tuple(narrowed(each, x, *state, *weights) for each in after)


def _layers(
    cell: Cell,
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    states: Sequence[Tensor | None],
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs of all layers, and each kind of state of all of them, stacked."""
    if rank_of(x) != _RANK:
        raise mistaken(f"the inputs of a layer have {_RANK} axes, not {rank_of(x)}")
    directions = 2 if bidirectional else 1
    if not weights or len(weights) % directions:
        raise mistaken(f"there are {directions} weights for each layer, not {len(weights)} for all")
    current = swapaxes(x, 0, 1) if batch_first else x
    last: list[tuple[Tensor, ...]] = []
    for layer in range(0, len(weights), directions):
        outputs = []
        for number in range(layer, layer + directions):
            given = tuple(None if state is None else select(state, 0, number) for state in states)
            after, output = _over_time(cell, current, weights[number], given, reverse=number > layer)
            last.append(after)
            outputs.append(output)
        current = concatenate(outputs, -1) if bidirectional else outputs[0]
    stacked = [stack(list(kind), 0) for kind in zip(*last, strict=True)]
    return (swapaxes(current, 0, 1) if batch_first else current), stacked


def _over_time(
    cell: Cell, x: Tensor, weights: RecurrentWeights, given: Sequence[Tensor | None], *, reverse: bool
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the states after the last step, and the hidden states of all."""
    from_x = _linear(x, weights.w_x, weights.b_x)
    sizes = [dims_of(x)[1], dims_of(weights.w_h)[1]]
    states = [narrowed(full(x, sizes, 0), x, *weights) if state is None else state for state in given]
    turned = swapaxes(weights.w_h, 0, 1)  # so that no step has to: its products run over neighbours
    constants = [turned] if weights.b_h is None else [turned, weights.b_h]

    def step(*passed: Tensor) -> tuple[Tensor, ...]:
        before, (terms, w, *bias) = passed[: len(states)], passed[len(states) :]
        from_h = _linear(before[0], w, bias[0] if bias else None, turned=True)
        found = cell(terms, from_h, tuple(map(wide, before)), dims_of(w)[0])
        after = tuple(tf.as_like(each, old) for each, old in zip(found, before, strict=True))
        return *after, after[0]

    results = tf.scan(step, states, [from_x], constants, reverse=reverse)
    return results[:-1], results[-1]


def _linear(x: Tensor, w: Tensor, b: Tensor | None, *, turned: bool = False) -> Tensor:
    """Return ``w x + b`` over the last axis of ``x``, wide; ``turned`` weights have their axes in the other order."""
    x = wide(x)
    *kept, i = indices_of(x)
    k = index_of(x, "k")
    sizes = [*dims_of(x)[:-1], dims_of(w)[1 if turned else 0]]
    product = aggregate(Aggregation.SUM, x[(*kept, i)] * (w[i, k] if turned else w[k, i]), [*kept, k], sizes)
    return product if b is None else product + b


def _part(gates: Tensor, number: int, size: Dim) -> Tensor:
    """Return the gate with this number."""
    *kept, h = indices_of(gates)
    element = gates[(*kept, h + size * number)]
    return aggregate(Aggregation.ASSIGN, element, [*kept, h], [*dims_of(gates)[:-1], size])


_RANK: Final = 3
