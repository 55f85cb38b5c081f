"""Attention of onnxruntime's own domain beside its formulas in f64, with which onnxruntime 1.31.1 agrees."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tileir
import tileir_onnx
from nodes import Array, check, model_of, run as run_node

RNG = np.random.default_rng(0)
run = partial(run_node, domain="com.microsoft", opset=17)
FILL = -10000.0


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def f32(x: Any) -> Array:
    return np.asarray(x, np.float32)


def heads(x: Array, count: int) -> Array:
    return x.astype(np.float64).reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def flat(x: Array) -> Array:
    return f32(x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def attended(
    q: Array, k: Array, v: Array, *, added: Any = 0, seen: Any = True, scale: float = 0, softcap: float = 0
) -> Array:
    """Return attention of [B, H, S, D] with what is added to scores, and the keys that are seen."""
    k, v = (np.repeat(each, q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    return np.asarray(softmax(np.where(seen, scores + added, -np.inf)) @ v)


def before(queries: int, keys: int, past: int = 0) -> Array:
    return np.asarray(np.arange(keys) <= np.arange(queries)[:, None] + past)


RAW = np.array([[1, 1, 0, 1], [2, 1, 0, -1]], np.int32)
CUBE = np.stack([np.tril(np.ones((4, 4))), np.eye(4)]).astype(np.int32)
MASKS: dict[str, tuple[Array | None, Array]] = {
    "none": (None, np.ones((1, 1, 1, 1), bool)),
    "keys": (RAW, (RAW > 0)[:, None, None]),
    "pairs": (CUBE, (CUBE > 0)[:, None]),
    "ends": (np.array([4, 2], np.int32), np.arange(4) < np.array([4, 2]).reshape(2, 1, 1, 1)),
    "ends and begins": (
        np.array([4, 3, 0, 1], np.int32),
        np.array([[1, 1, 1, 1], [0, 1, 1, 0]], bool)[:, None, None],
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
def test_masks(kind: str, causal: int) -> None:
    mask, shown = MASKS[kind]
    added, seen = np.where(shown, 0, FILL), before(4, 4) if causal else True
    x, weights, bias = normal(2, 4, 16) / 4, normal(16, 40) / 4, normal(40)
    options: dict[str, Any] = {"num_heads": 2, "unidirectional": causal}
    projected = x.astype(np.float64) @ weights + bias
    q, k, v = (heads(each, 2) for each in np.split(projected, [16, 32], -1))
    found = run("Attention", x, weights, bias, mask, qkv_hidden_sizes=[16, 16, 8], **options)
    check(found, flat(attended(q, k, v, added=added, seen=seen)), atol=1e-5)
    if kind != "ends and begins":
        q, k, v = (normal(2, 4, size) for size in (16, 16, 8))
        more = normal(1, 2, 4, 4)
        wanted = attended(heads(q, 2), heads(k, 2), heads(v, 2), added=added + more, seen=seen, scale=0.3)
        found = run("MultiHeadAttention", q, k, v, None, mask, more, scale=0.3, **options)
        check(found, flat(wanted), atol=1e-5)


def test_another_number_for_hidden_keys() -> None:
    q, mask = normal(2, 4, 16), np.array([[1, 0, 0, 1], [0, 0, 0, 0]], np.int32)
    x = heads(q, 2)
    wanted = attended(x, x, x, added=np.where(mask, 0, -3.0)[:, None, None])
    found = run("MultiHeadAttention", q, q, q, None, mask, num_heads=2, mask_filter_value=-3.0)
    check(found, flat(wanted), atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("causal", [0, 1])
def test_a_past(causal: int) -> None:
    x, weights, past = normal(2, 4, 16), normal(16, 48) / 4, normal(2, 2, 2, 3, 8)
    q, k, v = (heads(each, 2) for each in np.split(x.astype(np.float64) @ weights, 3, -1))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    options: dict[str, Any] = {"num_heads": 2, "unidirectional": causal}
    seen = before(4, 7, 3) if causal else True
    found = run("Attention", x, weights, None, None, past, outputs=2, **options)
    check(found, (flat(attended(q, k, v, seen=seen)), f32([k, v])), atol=1e-5)
    mask, bias = np.array([[1, 1, 0, 1, 1, 1, 1]] * 2, np.int32), normal(48)
    q, k, v = (heads(x + each, 2) for each in np.split(bias, 3))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    wanted = attended(q, k, v, added=np.where(mask, 0, FILL)[:, None, None], seen=seen)
    found = run("MultiHeadAttention", x, x, x, bias, mask, None, past[0], past[1], outputs=3, **options)
    check(found, (flat(wanted), f32(k), f32(v)), atol=1e-5)


def test_forms_of_keys_and_values() -> None:
    q, k, v = (normal(2, 4, 16) for _ in range(3))
    wanted = flat(attended(heads(q, 2), heads(k, 2), heads(v, 2)))
    parts = [each.reshape(2, 4, 2, 8) for each in (q, k, v)]
    run_heads = partial(run, "MultiHeadAttention", num_heads=2)
    check(run_heads(q, k, v), wanted, atol=1e-5)
    check(run_heads(np.stack(parts, 3)), wanted, atol=1e-5)
    check(run_heads(q, np.stack(parts[1:], 3)), wanted, atol=1e-5)
    bias = normal(48)
    crossed = run_heads(q, f32(heads(k, 2)), f32(heads(v, 2)), bias)
    check(crossed, flat(attended(heads(q + bias[:16], 2), heads(k, 2), heads(v, 2))), atol=1e-5)


def turned(x: Array, cosine: Array, sine: Array, places: Array, interleaved: int) -> Array:
    """Return [B, H, S, D] with pairs of its first features turned."""
    size = cosine.shape[1] * 2
    cos, sin = (each.astype(np.float64)[places][:, None] for each in (cosine, sine))
    y = x.astype(np.float64).copy()
    one, two = (slice(0, size, 2), slice(1, size, 2)) if interleaved else (slice(0, size // 2), slice(size // 2, size))
    y[..., one] = x[..., one] * cos - x[..., two] * sin
    y[..., two] = x[..., one] * sin + x[..., two] * cos
    return y


@pytest.mark.sampled(1)
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("size", [8, 4])
def test_rotary_embedding(interleaved: int, size: int) -> None:
    x, cosine, sine = normal(2, 3, 16), normal(10, size // 2), normal(10, size // 2)
    places = RNG.integers(0, 10, (2, 3))
    rotate = partial(run, "RotaryEmbedding", interleaved=interleaved)
    options = {"num_heads": 2, "rotary_embedding_dim": size} if size < 8 else {}
    wanted = turned(heads(x, 2), cosine, sine, places, interleaved)
    check(rotate(x, places, cosine, sine, **options), flat(wanted), atol=1e-5)
    wanted = turned(heads(x, 2), cosine, sine, np.tile(np.arange(5, 8), (2, 1)), interleaved)
    check(rotate(x, np.array([5]), cosine, sine, **options), flat(wanted), atol=1e-5)
    check(rotate(f32(heads(x, 2)), np.array([5]), cosine, sine, **options), f32(wanted), atol=1e-5)


CASES: dict[str, dict[str, Any]] = {
    "prompt": {},
    "padded prompt": {"lengths": (4, 2)},
    "prompt into a cache": {"lengths": (4, 2), "capacity": 6},
    "token": {"queries": 1, "lengths": (5, 3), "capacity": 6},
    "several tokens": {"queries": 2, "lengths": (5, 3), "capacity": 6},
    "packed": {"queries": 1, "lengths": (5, 3), "capacity": 6, "packed": True, "do_rotary": 1},
    "turned prompt": {"lengths": (4, 2), "capacity": 6, "do_rotary": 1},
    "turned neighbours": {"queries": 2, "lengths": (5, 3), "capacity": 6, "do_rotary": 1, "rotary_interleaved": 1},
    "window": {"local_window_size": 2},
    "window of one": {"local_window_size": 1},
    "window in a cache": {"queries": 1, "lengths": (6, 3), "capacity": 8, "local_window_size": 3},
    "cap": {"softcap": 1.5, "scale": 0.4},
    "cap and bias": {"softcap": 1.5, "biased": True},
    "bias in a cache": {"queries": 1, "lengths": (5, 3), "capacity": 6, "biased": True},
    "both ways": {"lengths": (4, 3), "causal": 0},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_group_query_attention(name: str) -> None:
    _grouped(**CASES[name])


def _grouped(
    queries: int = 4,
    lengths: tuple[int, int] = (4, 4),
    capacity: int = 0,
    packed: bool = False,
    biased: bool = False,
    **options: Any,
) -> None:
    total, size = max(lengths), 16
    q, k, v = normal(2, queries, 4 * size), normal(2, queries, 2 * size), normal(2, queries, 2 * size)
    cosine, sine, bias = normal(9, size // 2), normal(9, size // 2), normal(2, 1, queries, total)
    past = [normal(2, 2, capacity, size) for _ in range(2)] if capacity else [None, None]
    given = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    ends, last = np.array(lengths, np.int32) - 1, np.array(total, np.int32)
    turns = [cosine, sine] if options.get("do_rotary") else [None, None]
    more = [None, bias] if biased else []
    found = run(
        "GroupQueryAttention",
        *(*given, *past, ends, last, *turns, *more),
        outputs=3,
        num_heads=4,
        kv_num_heads=2,
        **options,
    )
    assert found[1].shape == (2, 2, capacity or queries, size)
    for example, length in enumerate(lengths):
        begin = max(length - queries, 0)
        one, new, values = (heads(x[example : example + 1], n) for x, n in ((q, 4), (k, 2), (v, 2)))
        if options.get("do_rotary"):
            places = begin + np.arange(queries)[None]
            one, new = (turned(x, cosine, sine, places, options.get("rotary_interleaved", 0)) for x in (one, new))
        keys, values = (
            x if old is None else np.concatenate([old[example : example + 1, :, :begin], x], 2)
            for old, x in zip(past, (new, values), strict=True)
        )
        rows = min(queries, length)
        place, query = np.arange(length), begin + np.arange(rows)[:, None]
        seen = (place <= query) | (not options.get("causal", 1))
        seen &= query - place < (options.get("local_window_size") or length)
        wanted = attended(
            one[:, :, :rows],
            keys[:, :, :length],
            values[:, :, :length],
            seen=seen,
            added=bias[example, :, :rows, :length] if biased else 0,
            scale=options.get("scale", 0),
            softcap=options.get("softcap", 0),
        )
        check(found[0][example : example + 1, :rows], flat(wanted), atol=1e-5)
        check(found[1][example : example + 1, :, :length], f32(keys[:, :, :length]), atol=1e-5)
        check(found[2][example : example + 1, :, :length], f32(values[:, :, :length]))


def test_positions_and_norms_of_queries_and_keys() -> None:
    q, k, weights = normal(1, 2, 16), normal(1, 2, 16), (normal(16), normal(16))
    cosine, sine, places = normal(9, 4), normal(9, 4), np.array([[3, 4]])
    ends, total = np.array([1], np.int32), np.array(2, np.int32)
    inputs = (q, k, k, None, None, ends, total, cosine, sine, places, None, None, None, None, *weights)
    sides = []
    for x, weight in zip((q, k), weights, strict=True):
        y = heads(x, 1)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6) * weight
        sides.append(turned(y, cosine, sine, places, 0))
    wanted = attended(sides[0], sides[1], heads(k, 1), seen=before(2, 2))
    found = run("GroupQueryAttention", *inputs, outputs=3, num_heads=1, kv_num_heads=1, do_rotary=1)
    check(found, (flat(wanted), f32(sides[1]), f32(heads(k, 1))), atol=1e-5)


def test_a_cache_that_grows() -> None:
    q, past = normal(1, 1, 16), normal(1, 1, 6, 16)
    ends, total = np.array([6], np.int32), np.array(7, np.int32)
    keys = np.concatenate([past, heads(q, 1)], 2)
    found = run("GroupQueryAttention", q, q, q, past, past, ends, total, outputs=3, num_heads=1, kv_num_heads=1)
    check(found, (flat(attended(heads(q, 1), keys, keys)), f32(keys), f32(keys)), atol=1e-5)


def test_a_cache_of_fixed_capacity(tmp_path: Path) -> None:
    q, past = normal(1, 1, 16), normal(1, 1, 6, 16)
    inputs = (q, q, q, past, past, np.array([2], np.int32), np.array(3, np.int32))
    model = model_of("GroupQueryAttention", inputs, {"num_heads": 1, "kv_num_heads": 1}, 17, 3, "com.microsoft")
    onnx.save(model, tmp_path / "m.onnx")
    function = tileir.jit(tileir_onnx.load(tmp_path / "m.onnx").specialised(values={"x6": np.array(6, np.int32)}))
    for length in (3, 5):
        keys = np.concatenate([past[:, :, : length - 1], heads(q, 1)], 2)
        found = tuple(function(q, q, q, past, past, np.array([length - 1], np.int32)))
        check(np.asarray(found[0]), flat(attended(heads(q, 1), keys, keys)), atol=1e-5)
        check(np.asarray(found[1])[:, :, :length], f32(keys))


X = np.zeros((2, 4, 16), np.float32)
C = np.zeros((8, 4), np.float32)
LAST = (np.full(2, 3, np.int32), np.array(4, np.int32))
WHOLE = (X, X, X, None, None, *LAST)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "sentence"),
    [
        ("Attention", (X, C[:1].repeat(16, 0).repeat(12, 1)), {"do_rotary": 1}, "do_rotary is not served"),
        ("Attention", (X, C), {"past_present_share_buffer": 1}, "past_present_share_buffer is not served"),
        ("Attention", (X, normal(16, 48), None, np.zeros(8, np.int32)), {}, "one or two numbers for each example"),
        ("Attention", (X, normal(16, 48), None, np.zeros((2, 1, 8, 8), np.int32)), {}, "one, two or three axes"),
        ("MultiHeadAttention", (X,), {}, "keys and values are missing"),
        ("MultiHeadAttention", (X, X[:, :3], X[:, :3]), {"unidirectional": 1}, "queries and keys are as many"),
        ("MultiHeadAttention", (X, X, X, *[None] * 5, LAST[1]), {}, "past_sequence_length is not served"),
        ("GroupQueryAttention", (*WHOLE, *[None] * 4, C[0, :2]), {}, "head_sink is not served"),
        ("GroupQueryAttention", WHOLE, {"smooth_softmax": 1}, "smooth_softmax is not served"),
        ("GroupQueryAttention", WHOLE, {"k_quant_type": "PER_TENSOR"}, "k_quant_type is not served"),
        ("GroupQueryAttention", WHOLE, {"kv_cache_bit_width": 8}, "kv_cache_bit_width is not served"),
        ("GroupQueryAttention", WHOLE, {"sliding_window_cache": 1}, "sliding_window_cache is not served"),
        ("GroupQueryAttention", WHOLE, {"qk_output": 1}, "qk_output is not served"),
        ("GroupQueryAttention", WHOLE, {"do_rotary": 1}, "there are no cos_cache and sin_cache"),
        ("RotaryEmbedding", (X, np.array([0]), C, C), {"scale": 2.0}, "scale is not served"),
    ],
)
def test_what_is_not_served(
    op: str, inputs: tuple[Array | None, ...], attributes: dict[str, Any], sentence: str
) -> None:
    counts: dict[str, Any] = {} if op == "RotaryEmbedding" else {"num_heads": 2}
    counts |= {"kv_num_heads": 2} if op.startswith("Group") else {}
    with pytest.raises(tileir.TileError, match=rf"TIL605.*{sentence}"):
        run(op, *inputs, **counts, **attributes)
    if op == "MultiHeadAttention":
        with pytest.raises(tileir.TileError, match=r"TIL605.*the output qk is not served"):
            run(op, X, X, X, outputs=4, num_heads=2)
