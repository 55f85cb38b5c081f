"""Scaled dot-product attention as a whole, and its gradients."""

from __future__ import annotations

from math import sqrt
from operator import getitem
from typing import Any

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import widened
from tileir_torch.rows.table import row


def _attended(
    call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    if min(q.rank, k.rank, v.rank) < 2 or len({q.rank, k.rank, v.rank}) > 1:
        raise call.refuse("its operands have other numbers of axes")
    bias = None
    if mask is not None and not mask.dtype.is_bool:
        mask, bias = None, mask
    named: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
    return ops.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias, causal=is_causal, **named)


@row("scaled_dot_product_attention.default")
def attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p:
        raise call.refuse("its dropout is random")
    return _attended(call, q, k, v, attn_mask, is_causal, scale)


def _uses(call: Call, position: int) -> bool:
    return any(user.target is not getitem or user.args[1] == position for user in call.node.users)


def _scores(
    call: Call, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, float]:
    factor = 1 / sqrt(int(q.shape[-1])) if scale is None else float(scale)
    scores = ops.matmul(widened(q), ops.swapaxes(widened(k), -1, -2)) * factor
    least = call.number(float("-inf"), scores.dtype)
    if is_causal:
        seen = np.tril(np.ones((int(q.shape[-2]), int(k.shape[-2])), bool))
        scores = ops.where(call.tensor(seen), scores, least)
    if mask is not None:
        scores = ops.where(mask, scores, least) if mask.dtype.is_bool else scores + ops.cast(mask, scores.dtype)
    return scores, factor


@row("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor | None]:
    if dropout_p:
        raise call.refuse("its dropout is random")
    found = _attended(call, q, k, v, attn_mask, is_causal, scale)
    if not _uses(call, 1):
        return found, None
    scores, _ = _scores(call, q, k, attn_mask, is_causal, scale)
    return found, ops.logsumexp(scores, [scores.rank - 1])


@row("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    call: Call,
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    if dropout_p:
        raise call.refuse("its dropout is random")
    scores, factor = _scores(call, q, k, attn_mask, is_causal, scale)
    g, q, k, v, out = (widened(each) for each in (g, q, k, v, out))
    weights = ops.exp(scores - ops.expand_dims(ops.cast(logsumexp, scores.dtype), logsumexp.rank))
    by_v = ops.matmul(ops.swapaxes(weights, -1, -2), g)
    by_weights = ops.matmul(g, ops.swapaxes(v, -1, -2))
    drawn = ops.sum(g * out, [out.rank - 1], keepdims=True)
    by_scores = weights * (by_weights - drawn) * factor
    return ops.matmul(by_scores, k), ops.matmul(ops.swapaxes(by_scores, -1, -2), q), by_v
