"""Attention of ``com.microsoft``: projections, masks of several kinds, and caches of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from tileir import DType, ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import sizes
from tileir_onnx.rows.attention import rotary_embedding as rotated
from tileir_onnx.rows.table import row

Size: TypeAlias = "Dim | int"

_own: Final = partial(row, domain="com.microsoft")


def _only(call: Call, given: Mapping[str, object], neutral: object, advice: str) -> None:
    """Raise TIL605 with its name if an attribute or an input is not neutral."""
    for name, value in given.items():
        if isinstance(value, Tensor) or (value is not None and value != neutral):
            raise call.fault(f"{name} is not served; {advice}")


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return [B, S, H * D] as [B, H, S, D]."""
    return ops.swapaxes(ops.reshape(x, *x.shape[:2], heads, -1), 1, 2)


def _flat(x: Tensor) -> Tensor:
    """Return [B, H, S, D] as [B, S, H * D]."""
    y = ops.swapaxes(x, 1, 2)
    return ops.reshape(y, *y.shape[:2], -1)


def _hidden(call: Call, mask: Tensor | None, like: Tensor, keys: Size, fill: float, bias: Tensor | None) -> Any:
    """Return the addends of scores, [B, H, S, T]: a bias, and a number where an integer mask hides keys.

    A mask is [B, T] or [B, S, T], and positive for visible keys; or [B] or [2 * B]: the end of the keys of each
    example, followed by their starts.
    """
    if mask is None:
        return bias
    if mask.rank == 1:
        batch = like.shape[0]
        place = ops.reshape(ops.arange(like, keys), 1, -1)
        if mask.shape[0] not in (batch, batch * 2):
            raise call.fault(
                "the mask has one or two numbers for each example; those of packed sequences are not served"
            )
        seen = place < ops.reshape(ops.narrow(mask, 0, 0, batch), -1, 1)
        if mask.shape[0] != batch:
            seen = seen & (place >= ops.reshape(ops.narrow(mask, 0, batch, batch), -1, 1))
    elif mask.rank in (2, 3):
        seen = mask > 0
    else:
        raise call.fault("the mask has one, two or three axes; masks of [B, 1, M, M] are not served")
    shape = (*seen.shape[:1], *[1] * (4 - seen.rank), *seen.shape[1:])
    added = ops.cast(ops.where(ops.reshape(seen, *shape), 0.0, fill), like.dtype)
    return added if bias is None else added + bias


@_own("Attention")
def attention(
    call: Call,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Project to queries, keys and values at once, and attend."""
    _only(call, {"do_rotary": do_rotary}, 0, "turn queries and keys by RotaryEmbedding")
    shared = {"past_present_share_buffer": past_present_share_buffer, "past_sequence_length": past_sequence_length}
    _only(call, shared, 0, "a past is concatenated with the new keys and values")
    projected = ops.matmul(x, weights) if bias is None else ops.matmul(x, weights) + bias
    widths: Sequence[Size] = qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    q, k, v = (_heads(each, num_heads) for each in ops.split(projected, widths, -1))
    past_key, past_value = (None, None) if past is None else (ops.select(past, 0, at) for at in (0, 1))
    keys = k.shape[2] if past is None else k.shape[2] + past.shape[3]
    y, key, value = ops.attention(
        q,
        k,
        v,
        past_key=past_key,
        past_value=past_value,
        mask=_hidden(call, mask, q, keys, mask_filter_value, attention_bias),
        causal=bool(unidirectional),
        scale=scale or None,
    )
    return (_flat(y), ops.stack([key, value], 0)) if len(call.outputs) > 1 else (_flat(y),)


@_own("MultiHeadAttention")
def multi_head_attention(
    call: Call,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Attend; queries, keys and values may be packed in one, [B, S, H, 3, D], or keys and values, [B, T, H, 2, D]."""
    searched = {"past_sequence_length": past_sequence_length, "cache_indirection": cache_indirection}
    _only(call, searched, None, "a past is concatenated with the new keys and values")
    if any(call.outputs[3:]):
        raise call.fault("the output qk is not served; compute the products of queries and keys by MatMul")
    packed = query if key is None else key
    if packed.rank == 5:
        taken = ops.unstack(packed, 3 if key is None else 2, 3)
        parts = [ops.reshape(each, *each.shape[:2], -1) for each in taken]
        query, key, value = parts if key is None else (query, *parts)
    if key is None or value is None:
        raise call.fault("keys and values are missing, and the queries are no [B, S, H, 3, D] that has them")
    parts = [query, key, value]
    if bias is not None:
        widths = [query.shape[2], query.shape[2], bias.shape[0] - query.shape[2] * 2]
        vectors = ops.split(bias, widths, 0)
        parts = [each + vector if each.rank == 3 else each for each, vector in zip(parts, vectors, strict=True)]
    q, k, v = (_heads(each, num_heads) if each.rank == 3 else each for each in parts)
    if unidirectional and past_key is None and q.shape[2] != k.shape[2]:
        raise call.fault("unidirectional is served where queries and keys are as many; pass the mask as attention_bias")
    keys = k.shape[2] if past_key is None else k.shape[2] + past_key.shape[2]
    y, all_keys, all_values = ops.attention(
        q,
        k,
        v,
        past_key=past_key,
        past_value=past_value,
        mask=_hidden(call, mask, q, keys, mask_filter_value, attention_bias),
        causal=bool(unidirectional),
        scale=scale or None,
    )
    return _flat(y), all_keys, all_values


@_own("GroupQueryAttention")
def group_query_attention(
    call: Call,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None,
    *,
    kv_num_heads: int,
    num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> tuple[Tensor, ...]:
    """Write new keys and values into a cache, and attend to its valid part for each example.

    The cache keeps its capacity, but grows if ``total_sequence_length`` is larger. Positions are taken as given;
    onnxruntime only reads the first one in a first prompt.
    """
    quantised = {"k_scale": k_scale, "v_scale": v_scale}
    _only(call, quantised | {"kv_cache_bit_width": kv_cache_bit_width or None}, None, "caches are of floats")
    _only(call, {"k_quant_type": k_quant_type, "v_quant_type": v_quant_type}, "NONE", "caches are of floats")
    _only(
        call, {"head_sink": head_sink, "smooth_softmax": smooth_softmax or None}, None, "a softmax is over keys alone"
    )
    _only(call, {"qk_output": qk_output}, 0, "compute the products of queries and keys by MatMul")
    _only(call, {"sliding_window_cache": sliding_window_cache}, 0, "a cache holds all keys, from the first one on")
    if key is None or value is None:
        q, k, v = ops.split(_heads(query, num_heads + 2 * kv_num_heads), [num_heads, kv_num_heads, kv_num_heads], 1)
    else:
        q, k, v = _heads(query, num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = ops.rms_norm(q, q_norm_weight, epsilon=qk_norm_epsilon)
        k = ops.rms_norm(k, k_norm_weight, epsilon=qk_norm_epsilon)
    count = k.shape[2]
    lengths = ops.reshape(seqlens_k, -1) + 1
    begins = ops.maximum(lengths - count, 0)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise call.fault("do_rotary is 1, but there are no cos_cache and sin_cache")
        places = ops.reshape(ops.arange(q, count), 1, -1) + ops.reshape(begins, -1, 1)
        options: dict[str, Any] = {"interleaved": rotary_interleaved, "rotary_embedding_dim": cos_cache.shape[1] * 2}
        places = places if position_ids is None else position_ids
        q, k = (rotated(call, each, cos_cache, sin_cache, places, **options) for each in (q, k))
    if past_key is not None and past_value is not None and past_key.shape[2] != 0:
        more = _growth(call, past_key.shape[2])
        caches = (ops.pad(each, [(0, 0), (0, 0), (0, more), (0, 0)]) for each in (past_key, past_value))
        k, v = (ops.update_cache(old, new, begins) for old, new in zip(caches, (k, v), strict=True))
    if attention_bias is not None:
        missing = k.shape[2] - attention_bias.shape[3]
        attention_bias = ops.pad(attention_bias, [(0, 0), (0, 0), (0, 0), (0, missing)])
    y = ops.scaled_dot_product_attention(
        q,
        k,
        v,
        bias=attention_bias,
        causal=bool(causal),
        window=(local_window_size - 1, None) if local_window_size > 0 else None,
        offset=begins,
        lengths=lengths,
        scale=scale or None,
        softcap=softcap,
    )
    return _flat(y), k, v


def _growth(call: Call, capacity: Size) -> Size:
    """Return the growth of a cache in keys; none if the total number depends on data."""
    total = call.value(6, call.importer.values[call.node.inputs[6]])
    if total is None:
        return 0
    (wanted,) = sizes(total)
    more = wanted - capacity
    return more.max(0) if isinstance(more, Dim) else max(more, 0)


@_own("RotaryEmbedding")
def rotary_embedding(
    call: Call,
    x: Tensor,
    positions: Tensor,
    cosine: Tensor,
    sine: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """Rotate pairs of features by cached angles; a single position is that of the first elements of sequences."""
    _only(call, {"scale": scale}, 1.0, "onnxruntime turns by the caches alone: scale these")
    q = x
    if x.rank == 3:
        q = (
            _heads(x, num_heads)
            if num_heads
            else ops.swapaxes(ops.reshape(x, *x.shape[:2], -1, cosine.shape[1] * 2), 1, 2)
        )
    if positions.rank == 1:
        first = ops.reshape(positions, 1, 1)
        places = ops.reshape(ops.cast(ops.arange(x, q.shape[2]), DType.I64), 1, -1) + first
        positions = ops.broadcast_to(places, x.shape[0], q.shape[2])
    y = rotated(call, q, cosine, sine, positions, interleaved=interleaved, rotary_embedding_dim=rotary_embedding_dim)
    return _flat(y) if x.rank == 3 else y
