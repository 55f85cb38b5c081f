"""Cases of softmax and attention: masks, shared heads, positions by rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case, sample
from tileir import ops

if TYPE_CHECKING:
    from strategies.operations import Array

_X: Final = sample(2, 3, 5)
_HEADS: Final = {"Q": sample(2, 3, 4, 5), "K": sample(2, 3, 6, 5, seed=1), "V": sample(2, 3, 6, 2, seed=2)}
_SHARED: Final = {"Q": sample(2, 4, 3, 5), "K": sample(2, 2, 6, 5, seed=1), "V": sample(2, 2, 6, 3, seed=2)}
_SEEN: Final = sample(2, 1, 3, 6, seed=3) > -0.5
_BLIND: Final = _SEEN & (np.arange(3) != 1)[:, None]
"""A mask under which one query sees no key."""


def softmax(x: Array, axis: Any = -1) -> Array:
    """Return the definition; 0 where nothing is above minus infinity."""
    greatest = x.max(axis, keepdims=True)
    powers = np.exp(x - np.where(np.isinf(greatest), 0, greatest))
    total = powers.sum(axis, keepdims=True)
    result: Array = powers / np.where(total == 0, 1, total)
    return result


def attended(q: Array, k: Array, v: Array, *, seen: Array | None = None, bias: Any = 0.0, scale: Any = None) -> Array:
    """Return the definition, with the heads of keys repeated for those of queries."""
    if q.ndim > 2:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    result: Array = softmax(scores if seen is None else np.where(seen, scores, -np.inf)) @ v
    return result


def lower(rows: int, columns: int) -> Array:
    return np.tri(rows, columns, dtype=bool)


def heads_of(x: Array, weight: Array, vector: Array | float, heads: int) -> Array:
    flat = x @ weight.T + vector
    return np.swapaxes(flat.reshape(*flat.shape[:-1], heads, -1), -2, -3)


def turned(x: Array, positions: Array, *, halves: bool) -> Array:
    """Return pairs of features as complex numbers, turned."""
    half = x.shape[-1] // 2
    angle = positions[..., None] * 10000.0 ** (-np.arange(half) / half)
    first, second = (x[..., :half], x[..., half:]) if halves else (x[..., ::2], x[..., 1::2])
    pairs = (first + 1j * second) * np.exp(1j * angle)
    if halves:
        return np.concatenate([pairs.real, pairs.imag], -1)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def _attention(module: Any) -> Any:
    return module.nn.functional.scaled_dot_product_attention


_SOFTMAX: Final = (
    Case("softmax", ops.softmax, {"X": _X}, softmax, lambda t, x: t.softmax(x, -1)),
    Case(
        "softmax_of_the_middle",
        lambda x: ops.softmax(x, 1),
        {"X": _X},
        lambda x: softmax(x, 1),
        lambda t, x: t.softmax(x, 1),
    ),
    Case("softmax_of_two_axes", lambda x: ops.softmax(x, (0, 2)), {"X": _X}, lambda x: softmax(x, (0, 2))),
    Case(
        "softmax_of_large_values", ops.softmax, {"X": 1000 * _X}, softmax, lambda t, x: t.softmax(x, -1), tolerance=50
    ),
    Case(
        "log_softmax",
        ops.log_softmax,
        {"X": _X},
        lambda x: np.log(softmax(x)),
        lambda t, x: t.log_softmax(x, -1),
    ),
    Case(
        "log_softmax_of_large_values",
        lambda x: ops.log_softmax(x, 0),
        {"X": 100 * _X},
        lambda x: x - x.max(0) - np.log(np.exp(x - x.max(0)).sum(0)),
        lambda t, x: t.log_softmax(x, 0),
    ),
)

_ATTENTION: Final = (
    Case(
        "heads",
        ops.scaled_dot_product_attention,
        _HEADS,
        attended,
        lambda t, q, k, v: _attention(t)(q, k, v),
    ),
    Case(
        "one_head",
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, scale=0.25),
        {"Q": sample(4, 5), "K": sample(6, 5, seed=1), "V": sample(6, 2, seed=2)},
        lambda q, k, v: attended(q, k, v, scale=0.25),
        lambda t, q, k, v: _attention(t)(q, k, v, scale=0.25),
    ),
    Case(
        "heads_of_the_same_dimension",
        ops.scaled_dot_product_attention,
        _HEADS,
        attended,
        lambda t, q, k, v: _attention(t)(q, k, v),
        dims={"Q": "B H S D", "K": "B H T D", "V": "B H T E"},
    ),
    Case(
        "causal",
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=True),
        _HEADS,
        lambda q, k, v: attended(q, k, v, seen=lower(4, 6)),
        lambda t, q, k, v: _attention(t)(q, k, v, is_causal=True),
    ),
    Case(
        "shared_keys",
        ops.scaled_dot_product_attention,
        _SHARED,
        attended,
        lambda t, q, k, v: _attention(t)(q, k, v, enable_gqa=True),
    ),
    Case(
        "masked",
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, mask=m),
        _SHARED | {"M": _SEEN},
        lambda q, k, v, m: attended(q, k, v, seen=m),
        lambda t, q, k, v, m: _attention(t)(q, k, v, m, enable_gqa=True),
    ),
    Case(
        "masked_whole_rows",
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, mask=m, causal=True),
        _SHARED | {"M": _BLIND},
        lambda q, k, v, m: attended(q, k, v, seen=m & lower(3, 6)),
    ),
    Case(
        "biased",
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, bias=m),
        _SHARED | {"M": sample(4, 3, 6, seed=3)},
        lambda q, k, v, m: attended(q, k, v, bias=m),
        lambda t, q, k, v, m: _attention(t)(q, k, v, m, enable_gqa=True),
    ),
    Case(
        "biased_by_infinity",
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, bias=m),
        _HEADS | {"M": np.where(lower(4, 6)[::-1, :] & (np.arange(6) > 0), 0.0, -np.inf)},
        lambda q, k, v, m: attended(q, k, v, bias=m),
        wrt=("Q", "K", "V"),
    ),
)

_PROJECTED: Final = (
    Case(
        "projected",
        lambda x, q, k, v, o, a, b, c, d: ops.multi_head_attention(x, x, x, (q, k, v, o), 2, biases=(a, b, c, d)),
        {"X": sample(2, 3, 4)}
        | {name: sample(4, 4, low=-1, high=1, seed=seed) for seed, name in enumerate("QKVO")}
        | {name: sample(4, seed=seed) for seed, name in enumerate("ABCD")},
        lambda x, q, k, v, o, a, b, c, d: (
            np.swapaxes(attended(heads_of(x, q, a, 2), heads_of(x, k, b, 2), heads_of(x, v, c, 2)), 1, 2).reshape(
                2, 3, 4
            )
            @ o.T
            + d
        ),
        lambda t, x, q, k, v, o, a, b, c, d: t.nn.functional.multi_head_attention_forward(
            x.transpose(0, 1),
            x.transpose(0, 1),
            x.transpose(0, 1),
            4,
            2,
            None,
            t.cat([a, b, c]),
            None,
            None,
            False,
            0.0,
            o,
            d,
            use_separate_proj_weight=True,
            q_proj_weight=q,
            k_proj_weight=k,
            v_proj_weight=v,
            need_weights=False,
        )[0].transpose(0, 1),
        wrt=("X", "Q", "V", "O", "C", "D"),
        tolerance=4,
    ),
    Case(
        "projected_with_shared_keys",
        lambda x, y, q, k, v, o: ops.multi_head_attention(x, y, y, (q, k, v, o), 4, key_heads=2),
        {
            "X": sample(3, 4),
            "Y": sample(5, 6, seed=1),
            "Q": sample(8, 4, low=-1, high=1),
            "K": sample(4, 6, seed=2),
            "V": sample(6, 6, low=-1, high=1, seed=3),
            "O": sample(5, 12, low=-1, high=1, seed=4),
        },
        lambda x, y, q, k, v, o: (
            np.swapaxes(attended(heads_of(x, q, 0.0, 4), heads_of(y, k, 0.0, 2), heads_of(y, v, 0.0, 2)), 0, 1).reshape(
                3, 12
            )
            @ o.T
        ),
        tolerance=4,
    ),
)

_ROTARY: Final = (
    Case(
        "rotary",
        ops.rotary_embedding,
        {"X": sample(2, 3, 4, 6)},
        lambda x: turned(x, np.arange(4), halves=True),
    ),
    Case(
        "rotary_neighbours_at_positions",
        lambda x, p: ops.rotary_embedding(x, p, pairs="neighbours"),
        {"X": sample(2, 4, 6), "P": np.array([[0, 3, 1, 7], [2, 2, 100, 5]], np.int32)},
        lambda x, p: turned(x, p, halves=False),
    ),
)

_CACHED: Final = {**_SHARED, "PK": sample(2, 2, 3, 5, seed=4), "PV": sample(2, 2, 3, 3, seed=5)}
_PLACES: Final = np.arange(9) - np.arange(3)[:, None] - 3


def _with_cache(q: Array, k: Array, v: Array, past_key: Array, past_value: Array) -> tuple[Array, ...]:
    keys, values = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    return attended(q, keys, values, seen=_PLACES <= 0), keys, values


def _by_head(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


_CACHES: Final = (
    Case(
        "attention_with_a_past",
        lambda q, k, v, pk, pv: ops.attention(q, k, v, past_key=pk, past_value=pv, causal=True),
        _CACHED,
        _with_cache,
    ),
    Case(
        "attention_in_a_window",
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, window=(1, None), offset=3, softcap=0.7),
        _SHARED,
        lambda q, k, v: (
            softmax(
                np.where(
                    np.arange(6) - np.arange(3)[:, None] - 3 >= -1,
                    np.tanh(q @ np.repeat(k, 2, 1).swapaxes(2, 3) / 5**0.5 / 0.7) * 0.7,
                    -np.inf,
                )
            )
            @ np.repeat(v, 2, 1)
        ),
    ),
    Case(
        "attention_of_lengths",
        lambda q, k, v, n: ops.attention(q, k, v, lengths=n, causal=True, scores="weights"),
        {**_SHARED, "N": np.array([6, 2])},
        lambda q, k, v, n: (
            attended(q, k, v, seen=_last(n)),
            k,
            v,
            attended(q, k, np.broadcast_to(np.eye(6), (2, 2, 6, 6)), seen=_last(n)),
        ),
    ),
    Case(
        "attention_of_rows",
        lambda q, k, v: ops.attention(q, k, v, heads=4, key_heads=2)[0],
        {"Q": sample(2, 3, 20), "K": sample(2, 6, 10, seed=1), "V": sample(2, 6, 6, seed=2)},
        lambda q, k, v: attended(_by_head(q, 4), _by_head(k, 2), _by_head(v, 2)).swapaxes(1, 2).reshape(2, 3, 12),
    ),
)


def _last(lengths: Array) -> Array:
    """Return which of 6 keys 3 queries see that are the last ones of so many."""
    ends = lengths[:, None, None, None]
    place = np.arange(6)
    result: Array = (place < ends) & (place <= np.arange(3)[:, None] + ends - 3)
    return result


CASES: Final = (*_CACHES, *_SOFTMAX, *_ATTENTION, *_PROJECTED, *_ROTARY)
