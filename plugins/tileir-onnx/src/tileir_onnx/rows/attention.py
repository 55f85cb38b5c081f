"""Attention: softmax over keys with a cache, rotary positions, and linear attention."""

from __future__ import annotations

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_SCORES = ("products", "capped", "masked", "weights")


@row("Attention", since=23)
def attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, ...]:
    before, behind = (None if size < 0 else size for size in (left_window_size, right_window_size))
    return ops.attention(
        q,
        k,
        v,
        past_key=past_key,
        past_value=past_value,
        mask=mask,
        causal=bool(is_causal),
        window=(before, behind),
        lengths=lengths,
        scale=scale,
        softcap=softcap,
        heads=q_num_heads,
        key_heads=kv_num_heads,
        scores=_SCORES[qk_matmul_output_mode] if len(call.outputs) > 3 else None,
    )


@row("RotaryEmbedding", since=23)
def rotary_embedding(
    call: Call,
    x: Tensor,
    cosine: Tensor,
    sine: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    flat = x.rank == 3
    heads = ops.reshape(x, *x.shape[:2], num_heads, -1) if flat else ops.swapaxes(x, 1, 2)
    if positions is not None:
        cosine, sine = ops.take(cosine, positions, 0), ops.take(sine, positions, 0)
    cosine, sine = ops.expand_dims(cosine, 2), ops.expand_dims(sine, 2)
    size = rotary_embedding_dim or heads.shape[3]
    turned, rest = ops.split(heads, [size, heads.shape[3] - size], 3)
    pairs = ops.reshape(turned, *turned.shape[:3], *((-1, 2) if interleaved else (2, -1)))
    a, b = (ops.select(pairs, 4 if interleaved else 3, side) for side in (0, 1))
    sides = [a * cosine - b * sine, a * sine + b * cosine]
    y = ops.reshape(ops.stack(sides, 4 if interleaved else 3), *turned.shape)
    y = ops.concatenate([y, rest], 3) if rotary_embedding_dim else y
    return ops.reshape(y, *x.shape) if flat else ops.swapaxes(y, 1, 2)


@row("CausalConvWithState", since=27)
def causal_conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    state: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, ...]:
    y, state = ops.causal_conv(x, w, bias, state, activation="silu" if activation == "swish" else activation)
    return y, state


@row("LinearAttention", since=27)
def linear_attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, ...]:
    gated, delta = "gated" in update_rule, "delta" in update_rule
    if gated != (decay is not None) or delta != (beta is not None):
        raise call.fault(
            f"the rule {update_rule!r} has {'a' if gated else 'no'} decay and {'a' if delta else 'no'} beta"
        )
    y, last = ops.linear_attention(
        q, k, v, state, decay=decay, beta=beta, scale=scale or None, heads=q_num_heads, key_heads=kv_num_heads
    )
    return y, last
