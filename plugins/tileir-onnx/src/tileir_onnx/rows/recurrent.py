"""Recurrent layers in one direction or both; each direction is a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_Function: TypeAlias = Callable[..., Tensor]

_ACTIVATIONS: Final[Mapping[str, tuple[_Function, tuple[float, ...]]]] = MappingProxyType(
    {
        "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
        "elu": (lambda x, a: ops.elu(x, alpha=a), (1.0,)),
        "hardsigmoid": (lambda x, a, b: ops.clip(a * x + b, 0, 1), (0.2, 0.5)),
        "leakyrelu": (lambda x, a: ops.leaky_relu(x, negative_slope=a), (0.01,)),
        "relu": (ops.relu, ()),
        "scaledtanh": (lambda x, a, b: a * ops.tanh(b * x), (1.0, 1.0)),
        "sigmoid": (ops.sigmoid, ()),
        "softplus": (ops.softplus, ()),
        "softsign": (ops.softsign, ()),
        "tanh": (ops.tanh, ()),
        "thresholdedrelu": (lambda x, a: ops.where(x >= a, x, 0), (1.0,)),
    }
)
"""Functions, with their default alpha and beta."""


def _activations(
    call: Call, names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> Iterator[_Function]:
    """Yield activations; those with an alpha or beta take the next given one."""
    alpha, beta = iter(alphas or ()), iter(betas or ())
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise call.fault(f"tileir has no activation {name!r} in recurrent layers")
        function, defaults = _ACTIVATIONS[name.lower()]
        given = [next(each, default) for each, default in zip((alpha, beta), defaults, strict=False)]
        yield lambda x, function=function, given=given: function(x, *given)


def _ordered(x: Tensor, order: Sequence[int], axis: int = 0) -> Tensor:
    """Return the gates in another order."""
    parts = ops.split(x, len(order), axis)
    return ops.concatenate([parts[at] for at in order], axis) if len(order) > 1 else x


def _weights(
    w: Tensor, r: Tensor, bias: Tensor | None, peepholes: Tensor | None, order: Sequence[int], number: int
) -> ops.RecurrentWeights:
    """Return the weights of a direction, whose gates have another order in ONNX."""
    b_x = b_h = None
    if bias is not None:
        b_x, b_h = (_ordered(part, order) for part in ops.split(ops.select(bias, 0, number), 2))
    seen = None if peepholes is None else _ordered(ops.select(peepholes, 0, number), (0, 2, 1))
    w_x, w_h = (_ordered(ops.select(each, 0, number), order) for each in (w, r))
    return ops.RecurrentWeights(w_x, w_h, b_x, b_h, seen)


def _run(
    layer: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    weights: Callable[[int], ops.RecurrentWeights],
    states: Sequence[Tensor | None],
    activations: Sequence[_Function],
    direction: str,
    layout: int,
    options: Mapping[str, Any],
) -> tuple[Tensor, ...]:
    """Return the outputs of both directions, concatenated, and their last states."""
    directions = ["forward", "reverse"] if direction == "bidirectional" else [direction]
    count = len(activations) // len(directions)
    found = []
    for number, each in enumerate(directions):
        axis = 1 if layout else 0
        own = [None if s is None else ops.expand_dims(ops.select(s, axis, number), 0) for s in states]
        part = list(activations[number * count : (number + 1) * count])
        found.append(
            layer(x, [weights(number)], *own, part, reverse=each == "reverse", batch_first=bool(layout), **options)
        )
    y, *last = zip(*found, strict=True)
    merged = [ops.concatenate(list(kind), 0) for kind in last]
    if layout:
        return (ops.stack(list(y), 2), *(ops.swapaxes(each, 0, 1) for each in merged))
    return (ops.stack(list(y), 1), *merged)


@row("RNN")
def rnn(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    def layer(x: Tensor, weights: Any, h: Any, functions: Sequence[Any], **options: Any) -> tuple[Tensor, ...]:
        return ops.rnn(x, weights, h, nonlinearity=functions[0], **options)

    names = activations if direction == "bidirectional" else activations[:1]
    functions = list(_activations(call, names, activation_alpha, activation_beta))
    return _run(
        layer, x, lambda n: _weights(w, r, bias, None, (0,), n), [h], functions, direction, layout,
        {"clip": clip, "lengths": lengths},
    )  # fmt: skip


@row("LSTM")
def lstm(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Sigmoid", "Tanh", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    def layer(x: Tensor, weights: Any, h: Any, c: Any, functions: Sequence[Any], **options: Any) -> tuple[Tensor, ...]:
        return ops.lstm(x, weights, h, c, activations=functions, **options)

    names = activations if direction == "bidirectional" else activations[:3]
    functions = list(_activations(call, names, activation_alpha, activation_beta))
    return _run(
        layer, x, lambda n: _weights(w, r, bias, peepholes, (0, 2, 3, 1), n), [h, c], functions, direction, layout,
        {"clip": clip, "lengths": lengths, "coupled": bool(input_forget)},
    )  # fmt: skip


@row("GRU")
def gru(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Sigmoid", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    def layer(x: Tensor, weights: Any, h: Any, functions: Sequence[Any], **options: Any) -> tuple[Tensor, ...]:
        return ops.gru(x, weights, h, activations=functions, **options)

    names = activations if direction == "bidirectional" else activations[:2]
    functions = list(_activations(call, names, activation_alpha, activation_beta))
    return _run(
        layer, x, lambda n: _weights(w, r, bias, None, (1, 0, 2), n), [h], functions, direction, layout,
        {"clip": clip, "lengths": lengths, "reset_after": bool(linear_before_reset)},
    )  # fmt: skip
