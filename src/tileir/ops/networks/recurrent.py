"""Recurrent networks: cells, which make one step, and layers, which run a cell over time in a loop of the program.

The formulas, the order of gates and the shapes of weights are PyTorch's. Inputs are [B, I] and states [B, H], both
without ``B`` for a single input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Self, TypeAlias

from tileir.core.nodes import attrs
from tileir.ops.arrays.joining import concatenate, stack
from tileir.ops.arrays.shaping import swapaxes
from tileir.ops.arrays.slicing import select
from tileir.ops.networks import activations as activations_of
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
    mistake,
    mistaken,
    narrowed,
    rank_of,
    wide,
)
from tileir.tile import builder_functions as tf

Activation: TypeAlias = "str | Callable[[Tensor], Tensor]"


class RecurrentWeights(NamedTuple):
    """The weights of a cell with G gates: ``w_x`` is [G * H, I], ``w_h`` [G * H, H], and biases are [G * H] or None.

    ``peepholes``, [3 * H] or None, multiply the cell state in the gates i, f and o of :func:`lstm`.
    """

    w_x: Tensor
    w_h: Tensor
    b_x: Tensor | None = None
    b_h: Tensor | None = None
    peepholes: Tensor | None = None


def rnn_cell(
    x: Tensor, h: Tensor, weights: RecurrentWeights, *, nonlinearity: Activation = "tanh", clip: float | None = None
) -> Tensor:
    """Return the next state of a simple network: ``tanh(w_x x + b_x + w_h h + b_h)``, or another nonlinearity of that.

    A nonlinearity is "tanh", "sigmoid", "relu", "softplus", "softsign", "elu", "hard_sigmoid" or "leaky_relu", or a
    function of tensors. Its argument is first clipped to magnitudes of at most ``clip``, if given.

    Raises:
        TileError: TIL217, another nonlinearity, or ``clip`` is not above 0.

    Source: Elman, "Finding structure in time" (1990), as PyTorch's ``RNNCell``; ONNX' ``RNN`` for other functions.
    """
    return _once(_Rnn.of([nonlinearity], clip), x, (h,), weights)[0]


def lstm_cell(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: RecurrentWeights,
    *,
    activations: Sequence[Activation] = ("sigmoid", "tanh", "tanh"),
    clip: float | None = None,
    coupled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the next hidden and cell states of long short-term memory.

    With ``i, f, g, o`` the four parts of ``w_x x + b_x + w_h h + b_h``: ``c' = σ(f) c + σ(i) tanh(g)`` and ``h' = σ(o)
    tanh(c')``. The ``activations`` are those of the gates, of ``g`` and of ``c'``, as the nonlinearity and ``clip`` of
    :func:`rnn_cell`. With peepholes p, the gates i and f have ``p c`` added, and o has ``p c'``. ``coupled`` puts ``1 -
    σ(i)`` in place of ``σ(f)``.

    Raises:
        TileError: TIL217, there are not three activations, one is unknown, or ``clip`` is not above 0.

    Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997), as PyTorch's ``LSTMCell``; Gers and
    Schmidhuber, "Recurrent nets that time and count" (2000), for peepholes, as ONNX' ``LSTM``.
    """
    hidden, cell = _once(_Lstm.of(activations, clip, coupled), x, (h, c), weights)
    return hidden, cell


def gru_cell(
    x: Tensor,
    h: Tensor,
    weights: RecurrentWeights,
    *,
    activations: Sequence[Activation] = ("sigmoid", "tanh"),
    clip: float | None = None,
    reset_after: bool = True,
) -> Tensor:
    """Return the next state of a gated recurrent unit.

    With ``r, z, n`` the three parts of ``w_x x + b_x`` and ``r', z', n'`` those of ``w_h h + b_h``:
    ``R = σ(r + r')``, ``Z = σ(z + z')``, ``N = tanh(n + R n')``, and ``(1 - Z) N + Z h``. Without ``reset_after``
    (ONNX' ``linear_before_reset``) it is ``n'`` of ``R h`` in place of ``R n'``. The ``activations`` are those of the
    gates and of N, as the nonlinearity and ``clip`` of :func:`rnn_cell`.

    Raises:
        TileError: TIL217, there are not two activations, one is unknown, or ``clip`` is not above 0.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), as PyTorch's ``GRUCell``.
    """
    return _once(_Gru.of(activations, clip, reset_after), x, (h,), weights)[0]


def rnn(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    *,
    nonlinearity: Activation = "tanh",
    clip: float | None = None,
    bidirectional: bool = False,
    reverse: bool = False,
    batch_first: bool = False,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of layers of :func:`rnn_cell` over time, and their last states.

    ``x`` is [T, B, I], or [B, T, I] with ``batch_first``. There are weights for each layer, with ``bidirectional`` for
    both directions of each in turn; a layer reads the outputs of the previous one, [T, B, D * H] for D directions,
    which is also the form of the result. With ``reverse`` the only direction is from the end. States are [L * D, B, H],
    zeros by default. ``lengths``, [B], gives the number of steps of each example: after these its outputs are 0, and
    its state stays. Time is a loop that is not unrolled; the inputs of all times are multiplied by ``w_x`` at once
    before it.

    Raises:
        TileError: TIL217, there are no weights, or not two for each layer of two directions, there is another
            nonlinearity, or an option is invalid; TIL209, ``x`` has not three axes; TIL305, lengths have not one.

    Source: PyTorch's ``RNN``.
    """
    time = _Time(bidirectional, reverse, batch_first, lengths)
    outputs, states = _layers(_Rnn.of([nonlinearity], clip), x, weights, (h,), time)
    return outputs, states[0]


def lstm(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    c: Tensor | None = None,
    *,
    activations: Sequence[Activation] = ("sigmoid", "tanh", "tanh"),
    clip: float | None = None,
    coupled: bool = False,
    bidirectional: bool = False,
    reverse: bool = False,
    batch_first: bool = False,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of layers of :func:`lstm_cell` over time, and their last states, hidden and cell.

    Shapes, options and errors are those of :func:`rnn`.

    Source: PyTorch's ``LSTM``.
    """
    time = _Time(bidirectional, reverse, batch_first, lengths)
    outputs, (hidden, cell) = _layers(_Lstm.of(activations, clip, coupled), x, weights, (h, c), time)
    return outputs, hidden, cell


def gru(
    x: Tensor,
    weights: Sequence[RecurrentWeights],
    h: Tensor | None = None,
    *,
    activations: Sequence[Activation] = ("sigmoid", "tanh"),
    clip: float | None = None,
    reset_after: bool = True,
    bidirectional: bool = False,
    reverse: bool = False,
    batch_first: bool = False,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of layers of :func:`gru_cell` over time, and their last states.

    Shapes, options and errors are those of :func:`rnn`.

    Source: PyTorch's ``GRU``.
    """
    time = _Time(bidirectional, reverse, batch_first, lengths)
    outputs, states = _layers(_Gru.of(activations, clip, reset_after), x, weights, (h,), time)
    return outputs, states[0]


@attrs.frozen(repr=False)
class _Terms:
    """The terms of a step: a part of its input for each gate, and products of states with parts of weights.

    Attributes:
        from_x: The parts of the input, side by side.
        w_h: The weights of states.
        b_h: Their biases.
        peepholes: The peepholes of long short-term memory.
        size: H.
        turned: Whether the weights are [H, G * H] in place of [G * H, H].
    """

    from_x: Tensor
    w_h: Tensor
    b_h: Tensor | None
    peepholes: Tensor | None
    size: Dim
    turned: bool

    def of_x(self, number: int) -> Tensor:
        """Return the contribution of the input to a gate."""
        return _part(self.from_x, number, self.size)

    def of_h(self, h: Tensor, first: int = 0, count: int | None = None) -> Tensor:
        """Return the contribution of a state to ``count`` gates from ``first`` on, by default to all of them."""
        if count is None:
            return _linear(h, self.w_h, self.b_h, turned=self.turned)
        bias = None if self.b_h is None else _part(self.b_h, first, self.size, count)
        weights = swapaxes(_part(self.w_h if self.turned else swapaxes(self.w_h, 0, 1), first, self.size, count), 0, 1)
        return _linear(h, weights, bias)

    def seen(self, gate: Tensor, c: Tensor, number: int) -> Tensor:
        """Return a gate with the contribution of a cell state through its peephole, if it has one."""
        return gate if self.peepholes is None else gate + _part(wide(self.peepholes), number, self.size) * c


@attrs.frozen(repr=False)
class _Cell(ABC):
    """A kind of cells: the function from their terms and states to the next states.

    Attributes:
        functions: The activations.
        option: The variant of a kind of cell.
    """

    functions: tuple[Callable[[Tensor], Tensor], ...]
    option: bool

    COUNT: ClassVar[int] = 1

    @classmethod
    def of(cls, activations: Sequence[Activation], clip: float | None, option: bool = False) -> Self:
        """Look up activations, and let them clip their arguments."""
        if len(activations) != cls.COUNT:
            raise mistaken(f"this cell has {cls.COUNT} activations, not {len(activations)}")
        if clip is not None and not clip > 0:
            raise mistaken(f"clip is above 0; it was {clip!r}")
        return cls(tuple(_activation(each, clip) for each in activations), option)

    @abstractmethod
    def after(self, terms: _Terms, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the next states."""


class _Rnn(_Cell):
    def after(self, terms: _Terms, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (self.functions[0](terms.from_x + terms.of_h(state[0])),)


class _Lstm(_Cell):
    COUNT = 3

    def after(self, terms: _Terms, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        gate, inner, outer = self.functions
        gates = terms.from_x + terms.of_h(state[0])
        i, f, g, o = (_part(gates, number, terms.size) for number in range(4))
        puts = gate(terms.seen(i, state[1], 0))
        keeps = 1 - puts if self.option else gate(terms.seen(f, state[1], 1))
        c = keeps * state[1] + puts * inner(g)
        return gate(terms.seen(o, c, 2)) * outer(c), c


class _Gru(_Cell):
    COUNT = 2

    def after(self, terms: _Terms, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        (h,) = state
        gate, inner = self.functions
        from_h = terms.of_h(h) if self.option else terms.of_h(h, 0, 2)
        r, z = (gate(terms.of_x(number) + _part(from_h, number, terms.size)) for number in range(2))
        reset = r * _part(from_h, 2, terms.size) if self.option else terms.of_h(r * h, 2, 1)
        n = inner(terms.of_x(2) + reset)
        return (n + z * (h - n),)


_ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = MappingProxyType(
    {
        "tanh": tf.tanh,
        "sigmoid": tf.sigmoid,
        "relu": tf.relu,
        "softplus": activations_of.softplus,
        "softsign": activations_of.softsign,
        "elu": activations_of.elu,
        "hard_sigmoid": activations_of.hard_sigmoid,
        "leaky_relu": activations_of.leaky_relu,
    }
)


def _activation(given: Activation, clip: float | None) -> Callable[[Tensor], Tensor]:
    function = _ACTIVATIONS[chosen(given, tuple(_ACTIVATIONS), "an activation")] if isinstance(given, str) else given
    return function if clip is None else lambda x: function(tf.min(tf.max(x, -clip), clip))


def _once(cell: _Cell, x: Tensor, state: Sequence[Tensor], weights: RecurrentWeights) -> tuple[Tensor, ...]:
    ranks = [rank_of(part) for part in (x, *state)]
    if min(ranks) < 1:
        raise mistaken(f"inputs and states of a cell have one axis or more; these have {ranks}")
    from_x = _linear(x, weights.w_x, weights.b_x)
    terms = _Terms(from_x, weights.w_h, weights.b_h, weights.peepholes, dims_of(weights.w_h)[1], turned=False)
    after = cell.after(terms, tuple(map(wide, state)))
    return tuple(narrowed(each, x, *state, *weights) for each in after)


@attrs.frozen(repr=False)
class _Time:
    """Directions of time, the position of its axis, and the number of steps of each example."""

    bidirectional: bool
    reverse: bool
    batch_first: bool
    lengths: Tensor | None


def _layers(
    cell: _Cell, x: Tensor, weights: Sequence[RecurrentWeights], states: Sequence[Tensor | None], time: _Time
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs of all layers, and each kind of state of all of them, stacked."""
    if rank_of(x) != _RANK:
        raise mistaken(f"the inputs of a layer have {_RANK} axes, not {rank_of(x)}")
    if time.bidirectional and time.reverse:
        raise mistaken("of both directions none is the reverse one; leave reverse out")
    if time.lengths is not None and rank_of(time.lengths) != 1:
        raise mistake("TIL305", f"lengths have one axis, not {rank_of(time.lengths)}")
    directions = 2 if time.bidirectional else 1
    if not weights or len(weights) % directions:
        raise mistaken(f"there are {directions} weights for each layer, not {len(weights)} for all")
    current = swapaxes(x, 0, 1) if time.batch_first else x
    last: list[tuple[Tensor, ...]] = []
    for layer in range(0, len(weights), directions):
        outputs = []
        for number in range(layer, layer + directions):
            given = tuple(None if state is None else select(state, 0, number) for state in states)
            backwards = time.reverse or number > layer
            after, output = _over_time(cell, current, weights[number], given, time.lengths, reverse=backwards)
            last.append(after)
            outputs.append(output)
        current = concatenate(outputs, -1) if time.bidirectional else outputs[0]
    stacked = [stack(list(kind), 0) for kind in zip(*last, strict=True)]
    return (swapaxes(current, 0, 1) if time.batch_first else current), stacked


def _over_time(
    cell: _Cell,
    x: Tensor,
    weights: RecurrentWeights,
    given: Sequence[Tensor | None],
    lengths: Tensor | None,
    *,
    reverse: bool,
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the states after the last step, and the hidden states of all."""
    from_x = _linear(x, weights.w_x, weights.b_x)
    times, batch = dims_of(x)[:2]
    sizes = [batch, dims_of(weights.w_h)[1]]
    states = [narrowed(full(x, sizes, 0), x, *weights) if state is None else state for state in given]
    turned = swapaxes(weights.w_h, 0, 1)  # once, so that the products of each step run over neighbours
    optional = (weights.b_h, weights.peepholes, None if lengths is None else tf.reshape(lengths, batch, 1))
    constants = [turned, *(each for each in optional if each is not None)]
    sequences = [from_x] if lengths is None else [from_x, tf.index(full(x, [times], 0), 0)]

    def step(*passed: Tensor) -> tuple[Tensor, ...]:
        before, rest = passed[: len(states)], iter(passed[len(states) :])
        now = [next(rest) for _ in sequences]
        w = next(rest)
        bias, peepholes, ends = (None if each is None else next(rest) for each in optional)
        found = cell.after(_Terms(now[0], w, bias, peepholes, dims_of(w)[0], turned=True), tuple(map(wide, before)))
        after = tuple(tf.as_like(each, old) for each, old in zip(found, before, strict=True))
        if ends is None:
            return *after, after[0]
        runs = now[1] < ends
        kept = tuple(tf.where(runs, each, old) for each, old in zip(after, before, strict=True))
        return *kept, tf.where(runs, after[0], 0)

    results = tf.scan(step, states, sequences, constants, reverse=reverse)
    return results[:-1], results[-1]


def _linear(x: Tensor, w: Tensor, b: Tensor | None, *, turned: bool = False) -> Tensor:
    """Return ``w x + b`` over the last axis of ``x``, wide; ``turned`` weights are transposed."""
    x = wide(x)
    *kept, i = indices_of(x)
    k = index_of(x, "k")
    sizes = [*dims_of(x)[:-1], dims_of(w)[1 if turned else 0]]
    product = aggregate(Aggregation.SUM, x[(*kept, i)] * (w[i, k] if turned else w[k, i]), [*kept, k], sizes)
    return product if b is None else product + b


def _part(gates: Tensor, number: int, size: Dim, count: int = 1) -> Tensor:
    """Return ``count`` gates from this number on, side by side along the last axis."""
    *kept, h = indices_of(gates)
    element = gates[(*kept, h + size * number)]
    return aggregate(Aggregation.ASSIGN, element, [*kept, h], [*dims_of(gates)[:-1], size * count])


_RANK: Final = 3
