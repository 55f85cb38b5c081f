"""Recurrent layers beside NumPy in f64: directions, activations, lengths, layouts, states, peepholes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from rows import check, floats, model_of, run

Array = np.ndarray[Any, Any]

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a: np.where(x >= 0, x, a * x),
    "Relu": lambda x: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
    "ThresholdedRelu": lambda x, a: np.where(x >= a, x, 0),
}
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
DEFAULTS = {"RNN": ["Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


def ran(
    op: str,
    inputs: dict[str, Array],
    functions: list[Callable[..., Array]],
    options: dict[str, Any],
    reverse: bool,
    number: int,
) -> tuple[Array, ...]:
    """Return the outputs, [T, B, H], and the last states of one direction."""
    x, w, r = (inputs[name].astype(np.float64) for name in ("x", "w", "r"))
    w, r = w[number], r[number]
    time, batch, hidden = x.shape[0], x.shape[1], r.shape[1]
    bias = inputs.get("b", np.zeros((2, 2 * GATES[op] * hidden)))[number].astype(np.float64)
    w_b, r_b = np.split(bias, 2)
    h = inputs.get("h", np.zeros((2, batch, hidden)))[number].astype(np.float64)
    c = inputs.get("c", np.zeros((2, batch, hidden)))[number].astype(np.float64)
    p_i, p_o, p_f = np.split(inputs.get("p", np.zeros((2, 3 * hidden)))[number].astype(np.float64), 3)
    lengths = inputs.get("lengths", np.full(batch, time))
    clip = options.get("clip", np.inf)
    clipped: list[Callable[..., Array]] = [lambda v, own=own: own(np.clip(v, -clip, clip)) for own in functions]
    f, *rest = clipped
    y = np.zeros((time, batch, hidden))
    for step in range(time):
        place = np.where(step < lengths, lengths - 1 - step if reverse else step, 0)
        now = x[place, np.arange(batch)]
        parts = np.split(now @ w.T + w_b, GATES[op], -1)
        after = np.split(h @ r.T + r_b, GATES[op], -1)
        cell = c
        if op == "RNN":
            new = f(parts[0] + after[0])
        elif op == "LSTM":
            i, o, forget, g = (a + b for a, b in zip(parts, after, strict=True))
            i = f(i + p_i * c)
            forget = 1 - i if options.get("input_forget") else f(forget + p_f * c)
            cell = forget * c + i * rest[0](g)
            new = f(o + p_o * cell) * rest[1](cell)
        else:
            z, reset = (f(a + b) for a, b in zip(parts[:2], after[:2], strict=True))
            last = (
                reset * after[2]
                if options.get("linear_before_reset")
                else (reset * h) @ np.split(r, 3)[2].T + r_b[-hidden:]
            )
            new = (1 - z) * rest[0](parts[2] + last) + z * h
        alive = (step < lengths)[:, None]
        h, c = np.where(alive, new, h), np.where(alive, cell, c)
        y[np.where(step < lengths, place, time - 1), np.arange(batch)] = np.where(
            alive, new, y[np.where(step < lengths, place, time - 1), np.arange(batch)]
        )
    return (y, h, c) if op == "LSTM" else (y, h)


def layer(
    op: str,
    direction: str = "forward",
    given: tuple[str, ...] = (),
    names: list[str] | None = None,
    arguments: list[tuple[float, ...]] | None = None,
    lengths: list[int] | None = None,
    **options: Any,
) -> None:
    """Compare a layer with NumPy."""
    count, hidden, time, batch, size = 2 if direction == "bidirectional" else 1, 4, 5, 3, 2
    shapes = {
        "x": (time, batch, size),
        "w": (count, GATES[op] * hidden, size),
        "r": (count, GATES[op] * hidden, hidden),
        "b": (count, 2 * GATES[op] * hidden),
        "h": (count, batch, hidden),
        "c": (count, batch, hidden),
        "p": (count, 3 * hidden),
    }
    inputs = {
        n: floats(*shape, seed=at) for at, (n, shape) in enumerate(shapes.items()) if n in ("x", "w", "r", *given)
    }
    if lengths is not None:
        inputs["lengths"] = np.array(lengths, np.int32)
    chosen = names or DEFAULTS[op] * count
    values = arguments or [()] * len(chosen)
    functions: list[Callable[..., Array]] = [
        lambda v, name=name, own=own: FUNCTIONS[name](v, *own) for name, own in zip(chosen, values, strict=True)
    ]
    each = len(chosen) // count
    found = [
        ran(op, inputs, functions[n * each : (n + 1) * each], options, direction == "reverse" or n == 1, n)
        for n in range(count)
    ]
    y, *states = zip(*found, strict=True)
    wanted = [np.stack(y, 1), *(np.stack(kind) for kind in states)]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, **options}
    if names:
        attributes["activations"] = names
    if arguments:
        attributes["activation_alpha"] = [own[0] for own in arguments if own]
        betas = [own[1] for own in arguments if len(own) > 1]
        attributes |= {"activation_beta": betas} if betas else {}
    if options.get("layout"):
        for name in ("x", "h", "c"):
            if name in inputs:
                inputs[name] = inputs[name].swapaxes(0, 1)
        wanted = [wanted[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in wanted[1:])]
    order = ("x", "w", "r", "b", "lengths", "h", *(("c", "p") if op == "LSTM" else ()))
    arrays = [inputs.get(name) for name in order]
    while arrays[-1] is None:
        arrays.pop()
    check(op, arrays, attributes, outputs=len(wanted), version=22, wanted=[each.astype(np.float32) for each in wanted],
          opened=False)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_directions(op: str, direction: str) -> None:
    layer(op, direction)
    layer(op, direction, ("b", "h", "c"), clip=0.5)
    layer(op, direction, ("b", "h", "c"), lengths=[5, 2, 3])
    layer(op, direction, ("b", "h", "c"), lengths=[1, 5, 0], layout=1)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_variants_of_cells(direction: str) -> None:
    layer("LSTM", direction, ("b", "h", "c", "p"))
    layer("LSTM", direction, ("b", "p"), input_forget=1, clip=1.0)
    layer("GRU", direction, ("b", "h"), linear_before_reset=1)


@pytest.mark.sampled(0)
def test_activations_with_numbers() -> None:
    names = ["LeakyRelu", "Relu", "HardSigmoid", "Affine", "Softsign", "ScaledTanh"]
    layer("LSTM", "bidirectional", ("b",), names, [(0.1,), (), (0.3, 0.4), (0.5, 0.1), (), (0.7, 0.8)])
    layer("GRU", "forward", ("b",), ["Softplus", "ThresholdedRelu"], [(), (0.2,)], clip=2.0)
    layer("RNN", "reverse", ("b",), ["Elu"], [(0.6,)])


def test_defaults_of_numbers() -> None:
    x, w, r = floats(3, 2, 2), floats(1, 4, 2), floats(1, 4, 4)
    named = run(model_of("RNN", [x, w, r], {"hidden_size": 4, "activations": ["HardSigmoid"]}, version=22), [x, w, r])
    numbers = {"activation_alpha": [0.2], "activation_beta": [0.5]}
    attributes = {"hidden_size": 4, "activations": ["HardSigmoid"], **numbers}
    np.testing.assert_array_equal(named[0], run(model_of("RNN", [x, w, r], attributes, version=22), [x, w, r])[0])


def test_open_batches() -> None:
    x, w, r = floats(3, 2, 2), floats(1, 16, 2), floats(1, 16, 4)
    check("LSTM", [x, w, r], {"hidden_size": 4}, version=14)
    check("LSTM", [x, w, r], {"hidden_size": 4}, version=7)


def test_products_behind_a_layer() -> None:
    x, w, r, head = floats(3, 2, 2), floats(1, 16, 2), floats(1, 16, 4), floats(4, 5)
    model = model_of("LSTM", [x, w, r], {"hidden_size": 4})
    product = model_of("MatMul", [x, head]).graph
    product.node[0].input[0], product.node[0].output[0] = "y0", "z"
    product.node[0].input[1] = "head"
    model.graph.node.append(product.node[0])
    model.graph.initializer.append(numpy_helper.from_array(head, "head"))
    model.graph.output[0].name = "z"
    (y,) = run(model_of("LSTM", [x, w, r], {"hidden_size": 4}), [x, w, r])
    np.testing.assert_allclose(run(model, [x, w, r])[0], y @ head, rtol=1e-5, atol=1e-6)
