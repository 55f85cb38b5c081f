"""Attention beside NumPy in f64: heads that share keys, caches, masks, windows, and scores that are asked for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rows import EPSILON, check, floats, model_of, run

Array = np.ndarray[Any, Any]


def attended(
    q: Array, k: Array, v: Array, mask: Array | None, options: dict[str, Any], offset: Array, lengths: Array
) -> tuple[Array, list[Array]]:
    """Return the result and the four stages of scores."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (each.astype(np.float64) for each in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    scores = [q @ k.swapaxes(-1, -2) * options.get("scale", q.shape[-1] ** -0.5)]
    cap = options.get("softcap", 0.0)
    scores.append(cap * np.tanh(scores[0] / cap) if cap else scores[0])
    place, key = np.arange(q.shape[2])[:, None] + offset.reshape(-1, 1, 1, 1), np.arange(k.shape[2])
    seen = key < lengths.reshape(-1, 1, 1, 1)
    seen = seen & ((key <= place) if options.get("is_causal") else True)
    left, right = options.get("left_window_size", -1), options.get("right_window_size", -1)
    seen = seen & ((place - key <= left) if left >= 0 else True) & ((key - place <= right) if right >= 0 else True)
    masked = np.where(seen, scores[1], -np.inf)
    if mask is not None:
        masked = np.where(mask, masked, -np.inf) if mask.dtype == bool else masked + mask
    scores.append(masked)
    top = masked.max(-1, keepdims=True)
    weights = np.exp(masked - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    scores.append(weights / np.where(total == 0, 1, total))
    return scores[3] @ v, scores


def attention(inputs: dict[str, Array], *, dtype: Any = np.float32, flat: bool = False, **options: Any) -> None:
    """Compare a node with NumPy, all of its outputs."""
    q, k, v = (inputs[name].astype(dtype) for name in "qkv")
    past = [inputs[name].astype(dtype) if name in inputs else None for name in ("past_k", "past_v")]
    keys, values = (
        own if each is None else np.concatenate([each, own], 2) for each, own in zip(past, (k, v), strict=True)
    )
    lengths = inputs.get("lengths", np.full(q.shape[0], keys.shape[2]))
    offset = np.zeros(q.shape[0], int)
    if past[0] is not None:
        offset += past[0].shape[2]
    if "lengths" in inputs:
        offset = lengths - q.shape[2]
    mask = inputs.get("mask")
    mask = mask.astype(dtype) if mask is not None and mask.dtype != bool else mask
    y, scores = attended(q, keys, values, mask, options, offset, lengths)
    arrays: list[Any] = [q, k, v, mask, *past, inputs.get("lengths")]
    attributes: dict[str, Any] = dict(options)
    if flat:
        attributes |= {"q_num_heads": q.shape[1], "kv_num_heads": k.shape[1]}
        arrays[:3] = [each.swapaxes(1, 2).reshape(each.shape[0], each.shape[2], -1) for each in (q, k, v)]
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    while arrays[-1] is None:
        arrays.pop()
    feeds = [each for each in arrays if each is not None]
    for mode in (0, 1, 2, 3) if dtype is np.float32 else (0,):
        model = model_of("Attention", arrays, {**attributes, "qk_matmul_output_mode": mode}, outputs=4)
        results = run(model, feeds)
        error = 2e-5 if dtype is np.float32 else 16 * EPSILON[np.dtype(dtype)]
        expected: list[Array] = [y, keys, values, scores[mode]]
        for result, wanted in zip(results, expected, strict=True):
            assert result.dtype == dtype
            np.testing.assert_allclose(result.astype(np.float64), wanted.astype(np.float64), rtol=error, atol=error)


def tensors(heads: int = 4, shared: int = 4, rows: int = 3, keys: int = 5) -> dict[str, Array]:
    return {"q": floats(2, heads, rows, 8), "k": floats(2, shared, keys, 8), "v": floats(2, shared, keys, 6)}


@pytest.mark.sampled(0)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("shared", [4, 2, 1])
def test_heads_that_share_keys(shared: int, flat: bool) -> None:
    attention(tensors(shared=shared), flat=flat)
    attention(tensors(shared=shared, keys=3), flat=flat, is_causal=1, scale=0.3)


@pytest.mark.sampled(0)
def test_caches() -> None:
    past = {"past_k": floats(2, 2, 4, 8, seed=1), "past_v": floats(2, 2, 4, 6, seed=1)}
    attention(tensors(shared=2) | past)
    attention(tensors(shared=2, keys=3) | past, is_causal=1, softcap=2.0)
    attention(tensors(shared=2, keys=3) | past | {"mask": floats(3, 7) > 0})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(3, 5), (1, 1, 3, 5), (2, 1, 3, 5), (2, 4, 3, 5)])
def test_masks(shape: tuple[int, ...]) -> None:
    attention(tensors() | {"mask": floats(*shape, seed=2)})
    seen = floats(*shape, seed=3) > 0
    attention(tensors() | {"mask": seen | (np.arange(5) == 1)}, softcap=1.5)
    seen[..., 0, :] = False  # a query that sees nothing gives zeros
    attention(tensors(shared=2) | {"mask": seen})


@pytest.mark.sampled(0)
def test_lengths_and_windows() -> None:
    lengths = {"lengths": np.array([5, 3])}
    attention(tensors(shared=2) | lengths)
    attention(tensors(shared=2) | lengths, is_causal=1)
    attention(tensors(keys=6, rows=6), left_window_size=1)
    attention(tensors(keys=6, rows=6), left_window_size=0, right_window_size=2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats(dtype: Any) -> None:
    attention(tensors(shared=2) | {"mask": floats(3, 5)}, dtype=dtype)


def test_open_batches() -> None:
    q, k = floats(2, 4, 3, 8), floats(2, 2, 5, 8)
    y, _ = attended(q, k, k, None, {}, np.zeros(2, int), np.full(2, 5))
    model = model_of("Attention", [q, k, k], batch="N")
    np.testing.assert_allclose(run(model, [q, k, k])[0], y, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [0, 4])
def test_rotations(part: int, interleaved: int) -> None:
    x, table = floats(2, 3, 4, 8), floats(10, (part or 8) // 2)
    positions = np.array([[3, 1, 4, 1], [5, 9, 2, 6]])
    options = {"interleaved": interleaved, "rotary_embedding_dim": part, **({"num_heads": 3} if part else {})}
    check("RotaryEmbedding", [x, np.cos(table), np.sin(table), positions], options)
    flat = x.swapaxes(1, 2).reshape(2, 4, 24)
    cached = np.cos(table)[positions], np.sin(table)[positions]
    check("RotaryEmbedding", [flat, *cached], {**options, "num_heads": 3}, opened=False)
