"""Rows of what networks do along sequences: gates, attention, positions, recurrent layers, alignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.pointwise import sigmoid
from fuzz.wide.row import Arguments, Array, Draw, Row


def _halved(draw: Draw) -> Arguments:
    shape = list(draw.full())
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] *= 2
    return [draw.tensor(shape)], {"axis": axis}


def _gated(x: Array, axis: int) -> Array:
    one, other = np.split(x, 2, axis)
    return one * sigmoid(other)


def _heads(draw: Draw) -> Arguments:
    batch = draw.full(0, 1)
    keys, share = draw.integer(1, 2), draw.integer(1, 2)
    queries, count, depth, width = draw.full(4, 4)
    if draw.dtype in ("f16", "bf16") and draw.integer(0, 19) == 19:
        count = 66_000
    kind = draw.pick(("any", "normal"))
    arguments = [
        draw.tensor((*batch, keys * share, queries, depth), kind),
        draw.tensor((*batch, keys, count, depth), kind),
        draw.tensor((*batch, keys, count, width), "normal"),
    ]
    options: dict[str, Any] = {"causal": draw.integer(0, 2) == 2, "scale": draw.pick((None, 0.5))}
    if draw.flag() and count < 99:
        options["mask"] = draw.tensor((queries, count), "zeros", "bool")
    if draw.integer(0, 2) == 2:
        options["window"] = {"tuple": [draw.pick((None, 0, 2)), draw.pick((None, 1))]}
        options["softcap"] = draw.pick((0.0, 2.0))
        options["offset"] = draw.integer(0, 3)
        if batch:
            options["lengths"] = draw.tensor(batch, "count", "i32", below=count + 1)
    return arguments, options


def _cached(draw: Draw) -> Arguments:
    batch, keys, share, queries, count, past, depth, width = draw.full(8, 8)
    sizes = ((keys * share, queries, depth), (keys, count, depth), (keys, count, width))
    arguments = [draw.tensor((batch, *size), "normal") for size in sizes]
    options: dict[str, Any] = {
        "past_key": draw.tensor((batch, keys, past, depth), "normal"),
        "past_value": draw.tensor((batch, keys, past, width), "normal"),
        "causal": draw.flag(),
        "scores": draw.pick(("products", "capped", "weights")),
        "softcap": 1.5,
    }
    if draw.flag():
        options["mask"] = draw.tensor((queries, draw.integer(1, past + count)), "zeros", "bool")
    return arguments, options


def _with_cache(
    q: Array,
    k: Array,
    v: Array,
    past_key: Array,
    past_value: Array,
    causal: bool,
    scores: str,
    softcap: float,
    **mask: Any,
) -> tuple[Array, ...]:
    keys, values = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    if mask:
        missing = keys.shape[2] - mask["mask"].shape[-1]
        mask["mask"] = np.pad(mask["mask"], ((0, 0), (0, missing)))
    share = q.shape[1] // keys.shape[1]
    products = (q @ np.swapaxes(np.repeat(keys, share, 1), 2, 3)) / np.sqrt(np.longdouble(q.shape[-1]))
    result = _attended(q, keys, values, causal, None, softcap=softcap, offset=past_key.shape[2], **mask)
    capped = np.tanh(products / softcap) * softcap
    ones = np.broadcast_to(np.eye(keys.shape[2], dtype=q.dtype), (*keys.shape[:3], keys.shape[2]))
    weights = _attended(q, keys, ones, causal, None, softcap=softcap, offset=past_key.shape[2], **mask)
    return result, keys, values, {"products": products, "capped": capped, "weights": weights}[scores]


def _cache_terms(q: Array, k: Array, v: Array, *_: Any, **options: Any) -> Array:
    size = np.max(abs(q)) * max(np.max(abs(k)), np.max(abs(options["past_key"]))) * q.shape[-1]
    return np.asarray(4 * max(np.max(abs(v)), np.max(abs(options["past_value"])), 1) * (1 + size))


def _attended(
    q: Array,
    k: Array,
    v: Array,
    causal: bool,
    scale: float | None,
    mask: Array | None = None,
    window: tuple[int | None, int | None] = (None, None),
    softcap: float = 0.0,
    offset: int = 0,
    lengths: Array | None = None,
) -> Array:
    share = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
    factor = 1 / np.sqrt(np.longdouble(q.shape[-1])) if scale is None else scale
    scores = (q @ np.swapaxes(k, -1, -2)) * factor
    scores = np.tanh(scores / softcap) * softcap if softcap else scores
    seen = np.ones(scores.shape[-2:], bool) if mask is None else mask
    ahead = np.arange(scores.shape[-1]) - np.arange(scores.shape[-2])[:, None] - offset
    before, behind = (bound if bound is not None else 10**6 for bound in window)
    seen = seen & (ahead <= (0 if causal else 10**6)) & (-before <= ahead) & (ahead <= behind)
    if lengths is not None:
        seen = seen & (np.arange(scores.shape[-1]) < lengths.reshape(-1, *[1] * (scores.ndim - 1)))
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = powers.sum(-1, keepdims=True)
    return (powers / np.where(total == 0, 1, total)) @ v


def _attention_terms(q: Array, k: Array, v: Array, *_: Any, **__: Any) -> Array:
    size = np.max(abs(q), initial=0) * np.max(abs(k), initial=0) * q.shape[-1]
    return np.asarray(4 * np.max(abs(v), initial=0) * (1 + size))


def _projected(draw: Draw) -> Arguments:
    heads, depth, width, wide = draw.full(4, 4)
    queries, keys = draw.full(2, 2)
    q, k, v = (draw.tensor((n, wide), "normal") for n in (queries, keys, keys))
    sizes = ((heads * depth, wide), (heads * depth, wide), (heads * width, wide), (draw.integer(1, 4), heads * width))
    weights = {"tuple": [draw.tensor(size, "normal") for size in sizes]}
    return [q, k, v, weights, heads], {"causal": draw.flag()}


def _many(q: Array, k: Array, v: Array, weights: Any, heads: int, causal: bool) -> Array:
    parts = [np.swapaxes((x @ w.T).reshape(len(x), heads, -1), 0, 1) for x, w in zip((q, k, v), weights, strict=False)]
    query, key, value = parts
    found = _attended(query, key, value, causal, None)
    return np.swapaxes(found, 0, 1).reshape(len(q), -1) @ weights[3].T


def _many_terms(q: Array, k: Array, v: Array, weights: Any, *_: Any, **__: Any) -> Array:
    sizes = [np.abs(each).sum() + 1 for each in (q, k, v, *weights)]
    return np.asarray(np.prod(sizes[:2] + sizes[3:5]) * sizes[2] * sizes[5] * sizes[6])


def _rotary(draw: Draw) -> Arguments:
    shape = (*draw.full(1, 2), 2 * draw.integer(1, 4))
    positions = [draw.tensor((shape[-2],), "index", "i32", below=draw.pick((9, 5000)))] if draw.flag() else []
    return [draw.tensor(shape), *positions], {"pairs": draw.pick(("halves", "neighbours"))}


def _turned(x: Array, positions: Array | None = None, pairs: str = "halves") -> Array:
    half = x.shape[-1] // 2
    places = np.arange(x.shape[-2]) if positions is None else positions
    angle = places[:, None] * np.longdouble(10000) ** (-np.arange(half).astype(np.longdouble) / half)
    a, b = (x[..., :half], x[..., half:]) if pairs == "halves" else (x[..., ::2], x[..., 1::2])
    found = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    return np.concatenate(found, -1) if pairs == "halves" else np.stack(found, -1).reshape(x.shape)


def _turned_terms(x: Array, positions: Array | None = None, pairs: str = "halves") -> Array:
    far = x.shape[-2] if positions is None else np.max(positions, initial=0)
    return np.asarray(np.max(abs(x), initial=0) * (4 + far))


def rnn(
    x: Array, states: list[Array], w: Array, u: Array, p: Any = 0, q: Any = 0, nonlinearity: str = "tanh"
) -> list[Array]:
    """Return the next state of a simple network."""
    found = x @ w.T + p + states[0] @ u.T + q
    return [np.tanh(found) if nonlinearity == "tanh" else np.maximum(found, 0)]


def lstm(
    x: Array, states: list[Array], w: Array, u: Array, p: Any = 0, q: Any = 0, eyes: Any = None, coupled: bool = False
) -> list[Array]:
    """Return the next states of long short-term memory."""
    i, f, g, o = np.split(x @ w.T + p + states[0] @ u.T + q, 4, -1)
    see_i, see_f, see_o = (0, 0, 0) if eyes is None else np.split(eyes, 3)
    puts = sigmoid(i + see_i * states[1])
    c = (1 - puts if coupled else sigmoid(f + see_f * states[1])) * states[1] + puts * np.tanh(g)
    return [sigmoid(o + see_o * c) * np.tanh(c), c]


def gru(
    x: Array, states: list[Array], w: Array, u: Array, p: Any = 0, q: Any = 0, reset_after: bool = True
) -> list[Array]:
    """Return the next state of a gated recurrent unit."""
    (a, b, c), (d, e, f) = np.split(x @ w.T + p, 3, -1), np.split(states[0] @ u.T + q, 3, -1)
    r, z = sigmoid(a + d), sigmoid(b + e)
    if not reset_after:
        f = np.split((r * states[0]) @ u.T + q, 3, -1)[2]
        r = 1
    return [(1 - z) * np.tanh(c + r * f) + z * states[0]]


_OPTIONS: Final[dict[int, tuple[str, tuple[Any, Any]]]] = {
    1: ("nonlinearity", ("tanh", "relu")),
    3: ("reset_after", (True, False)),
    4: ("coupled", (False, True)),
}
"""An option of each cell, by its number of gates."""


def _cell(gates: int, states: int) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        batch, inputs, hidden = (draw.integer(1, 4) for _ in range(3))
        arguments: list[Any] = [draw.tensor((batch, inputs), "normal")]
        arguments += [draw.tensor((batch, hidden), "normal") for _ in range(states)]
        arguments.append(_weights(draw, gates, inputs, hidden))
        name, values = _OPTIONS[gates]
        return arguments, {name: draw.pick(values)}

    return draw


def _weights(draw: Draw, gates: int, inputs: int, hidden: int) -> dict[str, Any]:
    sizes = [(gates * hidden, inputs), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,), (3 * hidden,)]
    return {"weights": [draw.tensor(size, "inside") for size in sizes[: draw.pick((4, 2, 5 if gates == 4 else 4))]]}


def _once(cell: Callable[..., list[Array]], states: int) -> Callable[..., Any]:
    def apply(x: Array, *rest: Any, **options: Any) -> tuple[Array, ...]:
        return tuple(cell(x, list(rest[:states]), *rest[states], **options))

    return apply


def _layers(gates: int) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        time, batch, inputs, hidden = (draw.integer(1, 4) for _ in range(4))
        x = draw.tensor((time, batch, inputs), "normal")
        layers, both = draw.integer(1, 2), draw.flag()
        weights = []
        for layer in range(layers):
            width = inputs if layer == 0 else hidden * (1 + both)
            weights += [_weights(draw, gates, width, hidden) for _ in range(1 + both)]
        name, values = _OPTIONS[gates]
        options: dict[str, Any] = {name: draw.pick(values), "bidirectional" if both else "reverse": draw.flag() or both}
        if draw.flag():
            options["lengths"] = draw.tensor((batch,), "count", "i32", below=time + 1)
        return [x, weights], options

    return draw


def _over_time(cell: Callable[..., list[Array]], states: int) -> Callable[..., Any]:
    def apply(
        x: Array,
        weights: list[Any],
        bidirectional: bool = False,
        reverse: bool = False,
        lengths: Array | None = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        ends: list[list[Array]] = [[] for _ in range(states)]
        ways = (1, -1) if bidirectional else (-1,) if reverse else (1,)
        runs = np.arange(len(x))[:, None, None] < (len(x) if lengths is None else lengths[:, None])
        for layer in range(len(weights) // len(ways)):
            outputs = []
            for number, way in enumerate(ways):
                own = weights[layer * len(ways) + number]
                now = [np.zeros((x.shape[1], own[1].shape[1]), np.longdouble)] * states
                steps = []
                for moment, run in zip(x[::way], np.broadcast_to(runs, (*x.shape[:2], 1))[::way], strict=True):
                    then = cell(moment, now, *own, **options)
                    now = [np.where(run, new, old) for new, old in zip(then, now, strict=True)]
                    steps.append(np.where(run, now[0], 0))
                outputs.append(np.stack(steps)[::way])
                for place, state in enumerate(now):
                    ends[place].append(state)
            x = np.concatenate(outputs, -1)
        return (x, *(np.stack(each) for each in ends))

    return apply


def _recurrent_terms(*arguments: Any, **_: Any) -> Array:
    return np.asarray(np.longdouble(64) * (1 + np.max(abs(arguments[0]), initial=0)) ** 3)


def _alignment(draw: Draw) -> Arguments:
    time, batch, classes = draw.integer(2, 5), draw.integer(1, 3), draw.integer(2, 4)
    target = draw.tensor((batch, draw.integer(1, 3)), "count", "i32", below=classes)
    options = {"reduction": draw.pick(("mean", "sum", "none")), "zero_infinity": draw.flag()}
    return [draw.tensor((time, batch, classes), "normal"), target], options


def _aligned(likelihood: Array, target: Array, reduction: str, zero_infinity: bool) -> Array:
    losses = []
    for number, row in enumerate(target):
        labels = [0, *(part for label in row for part in (int(label), 0))]
        ways = np.zeros(len(labels), np.longdouble)
        ways[0] = 1
        for time in range(len(likelihood)):
            before = np.concatenate([[0, 0], ways])
            skips = [j > 1 and label and label != labels[j - 2] for j, label in enumerate(labels)]
            sums = before[2:] + before[1:-1] + np.where(skips, before[:-2], 0)
            ways = np.exp(likelihood[time, number, labels]) * sums
        loss = -np.log(ways[-2:].sum())
        losses.append(np.longdouble(0) if np.isinf(loss) and zero_infinity else loss)
    found = np.array(losses)
    return (
        found
        if reduction == "none"
        else np.asarray(found.sum() if reduction == "sum" else (found / target.shape[1]).mean())
    )


_NETWORK: Final[dict[str, Any]] = {"flavours": CALM, "units": 256, "terms": _recurrent_terms, "shared": True}
_FULL: Final = ("f32", "f64")
ROWS_SEQUENCES: Final = (
    Row("glu", _halved, _gated, flavours=CALM, units=16),
    Row(
        "scaled_dot_product_attention", _heads, _attended, flavours=(*CALM, "normal"), terms=_attention_terms, units=64
    ),
    Row("attention", _cached, _with_cache, flavours=CALM, terms=_cache_terms, units=64),
    Row("multi_head_attention", _projected, _many, _FULL, flavours=CALM, terms=_many_terms, units=64, shared=True),
    Row("rotary_embedding", _rotary, _turned, flavours=CALM, terms=_turned_terms),
    Row("rnn_cell", _cell(1, 1), _once(rnn, 1), _FULL, **_NETWORK),
    Row("lstm_cell", _cell(4, 2), _once(lstm, 2), _FULL, **_NETWORK),
    Row("gru_cell", _cell(3, 1), _once(gru, 1), _FULL, **_NETWORK),
    Row("rnn", _layers(1), _over_time(rnn, 1), _FULL, **_NETWORK),
    Row("lstm", _layers(4), _over_time(lstm, 2), _FULL, **_NETWORK),
    Row("gru", _layers(3), _over_time(gru, 1), _FULL, **_NETWORK),
    Row("ctc_loss", _alignment, _aligned, _FULL, units=256, terms=lambda z, t, **_: 64 * (1 + np.abs(z).sum())),
)
