"""Cases of recurrent cells and layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

I, H, B, T = 3, 2, 2, 4  # noqa: E741  the names of the paper


def _weights(gates: int, inputs: int = I, name: str = "", seed: int = 0) -> dict[str, Array]:
    return {
        f"W{name}": sample(gates * H, inputs, low=-1, high=1, seed=seed),
        f"U{name}": sample(gates * H, H, low=-1, high=1, seed=seed + 1),
        f"P{name}": sample(gates * H, low=-1, high=1, seed=seed + 2),
        f"Q{name}": sample(gates * H, low=-1, high=1, seed=seed + 3),
    }


def _dims(inputs: dict[str, Array]) -> dict[str, str]:
    """Return dimensions of a single layer by the names of its inputs."""
    names = {"X": "T B I", "h": "L B H", "c": "L B H", "W": "G I", "U": "G H", "P": "G", "Q": "G"}
    return {name: names[name] for name in inputs}


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _rnn(x: Array, states: list[Array], w: Array, u: Array, p: Array, q: Array) -> list[Array]:
    return [np.tanh(x @ w.T + p + states[0] @ u.T + q)]


def _lstm(x: Array, states: list[Array], w: Array, u: Array, p: Array, q: Array) -> list[Array]:
    i, f, g, o = np.split(x @ w.T + p + states[0] @ u.T + q, 4, -1)
    c = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(c), c]


def _gru(x: Array, states: list[Array], w: Array, u: Array, p: Array, q: Array) -> list[Array]:
    (a, b, c), (d, e, f) = np.split(x @ w.T + p, 3, -1), np.split(states[0] @ u.T + q, 3, -1)
    r, z = _sigmoid(a + d), _sigmoid(b + e)
    return [(1 - z) * np.tanh(c + r * f) + z * states[0]]


def _run(cell: Callable[..., list[Array]], x: Array, states: list[Array], *weights: Array) -> tuple[Array, list[Array]]:
    """Return the outputs over time of one layer in one direction, and its last states."""
    outputs = []
    for moment in x:
        states = cell(moment, states, *weights)
        outputs.append(states[0])
    return np.stack(outputs), states


def _both_ways(x: Array, *weights: Array) -> tuple[Array, ...]:
    """Return what two layers of two directions give."""
    last = []
    for layer in range(2):
        outputs = []
        for way, number in ((1, 2 * layer), (-1, 2 * layer + 1)):
            zeros = [np.zeros((x.shape[1], H))]
            output, states = _run(_gru, x[::way], zeros, *weights[4 * number : 4 * number + 4])
            outputs.append(output[::way])
            last.append(states[0])
        x = np.concatenate(outputs, -1)
    return x, np.stack(last)


def _layer(operation: Callable[..., Any], states: int) -> Callable[..., Any]:
    def build(x: Any, *rest: Any) -> Any:
        return operation(x, [ops.RecurrentWeights(*rest[states:])], *rest[:states])

    return build


def _expected(cell: Callable[..., list[Array]], states: int) -> Callable[..., tuple[Array, ...]]:
    def compute(x: Array, *rest: Array) -> tuple[Array, ...]:
        outputs, last = _run(cell, x, [state[0] for state in rest[:states]], *rest[states:])
        return outputs, *(state[None] for state in last)

    return compute


def _torch(name: str, states: int) -> Callable[..., Any]:
    def compute(torch: Any, x: Any, *rest: Any) -> Any:
        given = rest[0] if states == 1 else rest[:states]
        options = (given, rest[states:], True, 1, 0.0, False, False, False)
        return getattr(torch, name)(x, *options)

    return compute


_X: Final = sample(T, B, I)
_STATE: Final = {"h": sample(1, B, H, low=-1, high=1, seed=7), "c": sample(1, B, H, low=-1, high=1, seed=8)}
_SIMPLE: Final = {"X": _X, "h": _STATE["h"], **_weights(1)}
_LONG: Final = {"X": _X, **_STATE, **_weights(4)}
_GATED: Final = {"X": _X, "h": _STATE["h"], **_weights(3)}
_CELL: Final = {"X": "B I", "h": "B H", "c": "B H", "W": "G I", "U": "G H", "P": "G", "Q": "G"}


def _cell(
    name: str, build: Callable[..., Any], expected: Callable[..., Any], torch: str, given: dict[str, Array]
) -> Case:
    """Return the case of one cell; ``given`` are the inputs of the layer."""
    inputs = {key: array[0] if key in ("X", "h", "c") else array for key, array in given.items()}

    def peer(module: Any, x: Any, *rest: Any) -> Any:
        states = len(rest) - 4
        return getattr(module, torch)(x, rest[0] if states == 1 else rest[:states], *rest[states:])

    return Case(name, build, inputs, expected, peer, dims={key: _CELL[key] for key in inputs})


_PEEPING: Final = {**_LONG, "E": sample(3 * H, low=-1, high=1, seed=12)}
_LENGTHS: Final = np.array([2, 0], np.int32)


def _peeping(x: Array, states: list[Array], w: Array, u: Array, p: Array, q: Array, e: Array) -> list[Array]:
    i, _, g, o = np.split(x @ w.T + p + states[0] @ u.T + q, 4, -1)
    see = np.split(e, 3)
    puts = 1 / (1 + np.exp(-np.clip(i + see[0] * states[1], -0.5, 0.5)))
    c = (1 - puts) * states[1] + puts * np.clip(g, -0.5, 0.5) / (1 + np.abs(np.clip(g, -0.5, 0.5)))
    return [1 / (1 + np.exp(-np.clip(o + see[2] * c, -0.5, 0.5))) * np.clip(c, -0.5, 0.5), c]


def _reset_before(x: Array, states: list[Array], w: Array, u: Array, p: Array, q: Array) -> list[Array]:
    (a, b, c), (d, e, _) = np.split(x @ w.T + p, 3, -1), np.split(states[0] @ u.T + q, 3, -1)
    r, z = _sigmoid(a + d), _sigmoid(b + e)
    return [(1 - z) * np.tanh(c + (r * states[0]) @ u[-H:].T + q[-H:]) + z * states[0]]


def _of_lengths(x: Array, h: Array, *weights: Array) -> tuple[Array, Array]:
    """Return what a gated layer makes of the first steps of each example, from their last one."""
    outputs, last = np.zeros((T, B, H)), np.zeros((1, B, H))
    for number, length in enumerate(_LENGTHS):
        state = [h[0, number]]
        for time in range(length)[::-1]:
            state = _gru(x[time, number], state, *weights)
            outputs[time, number] = state[0]
        last[0, number] = state[0]
    return outputs, last


# Every second case is tested on the device that compiles slowly.
CASES: Final = (
    _cell(
        "rnn_cell",
        lambda x, h, *w: ops.rnn_cell(x, h, ops.RecurrentWeights(*w)),
        lambda x, h, *w: _rnn(x, [h], *w)[0],
        "rnn_tanh_cell",
        _SIMPLE,
    ),
    _cell(
        "rnn_cell_of_relu",
        lambda x, h, *w: ops.rnn_cell(x, h, ops.RecurrentWeights(*w), nonlinearity="relu"),
        lambda x, h, w, u, p, q: np.maximum(x @ w.T + p + h @ u.T + q, 0),
        "rnn_relu_cell",
        _SIMPLE,
    ),
    _cell(
        "lstm_cell",
        lambda x, h, c, *w: ops.lstm_cell(x, h, c, ops.RecurrentWeights(*w)),
        lambda x, h, c, *w: tuple(_lstm(x, [h, c], *w)),
        "lstm_cell",
        _LONG,
    ),
    _cell(
        "gru_cell",
        lambda x, h, *w: ops.gru_cell(x, h, ops.RecurrentWeights(*w)),
        lambda x, h, *w: _gru(x, [h], *w)[0],
        "gru_cell",
        _GATED,
    ),
    Case(
        "lstm_cell_without_biases",
        lambda x, h, c, *w: ops.lstm_cell(x, h, c, ops.RecurrentWeights(*w)),
        {"X": _X[0, 0], "h": _STATE["h"][0, 0], "c": _STATE["c"][0, 0], "W": _LONG["W"], "U": _LONG["U"]},
        lambda x, h, c, w, u: tuple(_lstm(x, [h, c], w, u, np.zeros(4 * H), np.zeros(4 * H))),
        dims={"X": "I", "h": "H", "c": "H", "W": "G I", "U": "G H"},
    ),
    Case(
        "gru_cell_that_resets_before",
        lambda x, h, *w: ops.gru_cell(x, h, ops.RecurrentWeights(*w), reset_after=False),
        {key: array[0] if key in ("X", "h") else array for key, array in _GATED.items()},
        lambda x, h, *w: _reset_before(x, [h], *w)[0],
        dims={key: _CELL[key] for key in _GATED},
    ),
    Case(
        "lstm_with_peepholes",
        lambda x, h, c, *w: ops.lstm(
            x,
            [ops.RecurrentWeights(*w)],
            h,
            c,
            activations=("sigmoid", "softsign", lambda t: t),
            clip=0.5,
            coupled=True,
        ),
        _PEEPING,
        _expected(_peeping, 2),
        wrt=("E", "c"),
        dims={**_dims(_LONG), "E": "P3"},
    ),
    Case(
        "gru_of_lengths_in_reverse",
        lambda x, h, *w: ops.gru(
            x,
            [ops.RecurrentWeights(*w[:4])],
            h,
            reverse=True,
            lengths=w[4],
        ),
        {**_GATED, "E": _LENGTHS},
        lambda x, h, *w: _of_lengths(x, h, *w[:4]),
        wrt=("X", "h"),
        dims={**_dims(_GATED), "E": "B"},
    ),
    Case("rnn", _layer(ops.rnn, 1), _SIMPLE, _expected(_rnn, 1), _torch("rnn_tanh", 1), dims=_dims(_SIMPLE)),
    Case("lstm", _layer(ops.lstm, 2), _LONG, _expected(_lstm, 2), _torch("lstm", 2), ("c", "U"), _dims(_LONG)),
    Case("gru", _layer(ops.gru, 1), _GATED, _expected(_gru, 1), _torch("gru", 1), ("X", "Q"), _dims(_GATED)),
    Case(
        "lstm_with_the_batch_first",
        lambda x, *w: ops.lstm(x, [ops.RecurrentWeights(*w)], batch_first=True)[0],
        {"X": sample(B, T, I), **_weights(4)},
        lambda x, *w: _run(_lstm, x.swapaxes(0, 1), [np.zeros((B, H))] * 2, *w)[0].swapaxes(0, 1),
        dims={"X": "B T I", "W": "G I", "U": "G H", "P": "G", "Q": "G"},
        wrt=("X",),
    ),
    Case(
        "gru_both_ways",
        lambda x, *w: ops.gru(x, [ops.RecurrentWeights(*w[n : n + 4]) for n in (0, 4, 8, 12)], bidirectional=True),
        {
            "X": _X[:2, :1],
            **_weights(3, I, "a", 10),
            **_weights(3, I, "b", 20),
            **_weights(3, 2 * H, "c", 30),
            **_weights(3, 2 * H, "d", 40),
        },
        _both_ways,
        dims={
            "X": "T B I",
            **{f"{k}{n}": v for n in "ab" for k, v in {"W": "G I", "U": "G H", "P": "G", "Q": "G"}.items()},
            **{f"{k}{n}": v for n in "cd" for k, v in {"W": "G J", "U": "G H", "P": "G", "Q": "G"}.items()},
        },
        wrt=("X",),
        dtypes=("f64",),
    ),
)
