"""Scaled dot-product attention as a whole, and its gradients."""

from __future__ import annotations

from math import sqrt
from operator import getitem
from typing import Any, Final

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
    _refuse_dropout(call, dropout_p)
    return _attended(call, q, k, v, attn_mask, is_causal, scale)


def _uses(call: Call, position: int) -> bool:
    """Return whether a result is read; extracting it from the tuple is no read by itself."""
    return any(user.target is not getitem or (user.args[1] == position and user.users) for user in call.node.users)


def _grouped(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries and keys, or values, with an axis of the heads that share keys, if some do."""
    heads, shared = int(q.shape[-3]), int(k.shape[-3])
    if heads == shared:
        return q, k
    sizes = tuple(map(int, q.shape))
    return ops.reshape(q, *sizes[:-3], shared, heads // shared, *sizes[-2:]), ops.expand_dims(k, k.rank - 2)


def _scores(
    call: Call, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, float]:
    factor = 1 / sqrt(int(q.shape[-1])) if scale is None else float(scale)
    heads = tuple(int(size) for size in q.shape[:-1])
    q, k = _grouped(widened(q), widened(k))
    scores = ops.reshape(ops.matmul(q, ops.swapaxes(k, -1, -2)), *heads, int(k.shape[-2])) * factor
    least = call.number(float("-inf"), scores.dtype)
    if is_causal:
        seen = np.tril(np.ones((int(q.shape[-2]), int(k.shape[-2])), bool))
        scores = ops.where(call.tensor(seen), scores, least)
    if mask is not None:
        scores = ops.where(mask, scores, least) if mask.dtype.is_bool else scores + ops.cast(mask, scores.dtype)
    return scores, factor


def _with_sums(
    call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor | None]:
    """Return attention and, if used, the logarithm of the sum of each row's exponentials."""
    if not _uses(call, 1):
        return _attended(call, q, k, v, mask, is_causal, scale), None
    if q.rank == _WHOLE and (mask is None or int(mask.shape[-1]) == int(k.shape[-2])):
        named: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
        found, _, _, sums = ops.attention(q, k, v, mask=mask, causal=is_causal, scores="sums", **named)
    else:
        found = _attended(call, q, k, v, mask, is_causal, scale)
        scores, _ = _scores(call, q, k, mask, is_causal, scale)
        sums = ops.logsumexp(scores, [scores.rank - 1])
    sizes = call.importer.sizes(call.node.meta["val"][1])
    if len(sizes) > sums.rank:  # of cuDNN, with a further axis
        return found, ops.expand_dims(sums, sums.rank)
    behind = sizes[-1] - int(sums.shape[-1])  # efficient attention has rows of a multiple of elements
    return found, ops.pad(sums, [(0, 0)] * (sums.rank - 1) + [(0, behind)]) if behind else sums


def _gradients(
    call: Call,
    given: tuple[Tensor, Tensor, Tensor, Tensor],
    out: Tensor,
    sums: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values for that of the result, which comes first."""
    g, q, k, v = map(widened, given)
    scores, factor = _scores(call, q, k, mask, is_causal, scale)
    sums = ops.reshape(sums, *map(int, sums.shape[:-1])) if sums.rank == scores.rank else sums
    sums = ops.slice(sums, ..., slice(0, int(scores.shape[-2])))
    none, most = (call.number(value, scores.dtype) for value in (float("-inf"), float("inf")))
    sums = ops.cast(sums, scores.dtype)
    sums = ops.where(sums == none, most, sums)  # queries that see nothing have no weights
    weights = ops.exp(scores - ops.expand_dims(sums, sums.rank))
    narrow = given[1].dtype
    drawn = ops.sum(g * widened(out), [out.rank - 1], keepdims=True)
    rows = tuple(map(int, q.shape))
    (g, v), (q, k), (weights, _), (drawn, _) = _grouped(g, v), _grouped(q, k), _grouped(weights, k), _grouped(drawn, k)
    by_scores = weights * (ops.matmul(g, ops.swapaxes(v, -1, -2)) - drawn) * factor
    by_scores, weights = (widened(ops.cast(each, narrow)) for each in (by_scores, weights))  # for fast products
    by_q = ops.reshape(ops.matmul(by_scores, k), *rows)
    by_k, by_v = ops.matmul(ops.swapaxes(by_scores, -1, -2), q), ops.matmul(ops.swapaxes(weights, -1, -2), g)
    if q.rank > len(rows):
        by_k, by_v = (ops.sum(each, [each.rank - 3]) for each in (by_k, by_v))
    return by_q, by_k, by_v


@row("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(
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
    _refuse_dropout(call, dropout_p)
    return _with_sums(call, q, k, v, attn_mask, is_causal, scale)


@row("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_for_cpu_backward(
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
    _refuse_dropout(call, dropout_p)
    return _gradients(call, (g, q, k, v), out, logsumexp, attn_mask, is_causal, scale)


_WHOLE: Final = 4
"""Number of axes of queries: batches, heads, rows, features."""

_UNREAD: Final = 0
"""Fill value of random states, which are not read without dropout."""


@row("_scaled_dot_product_flash_attention.default")
def flash_attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    _refuse_dropout(call, dropout_p, return_debug_mask)
    return (*_with_sums(call, q, k, v, None, is_causal, scale), None, None, None, None, _UNREAD, _UNREAD, None)


@row("_scaled_dot_product_efficient_attention.default")
def efficient_attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    _refuse_dropout(call, dropout_p)
    return (*_with_sums(call, q, k, v, attn_bias, is_causal, scale), _UNREAD, _UNREAD)


@row("_scaled_dot_product_cudnn_attention.default")
def cudnn_attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    _refuse_dropout(call, dropout_p, return_debug_mask)
    return (*_with_sums(call, q, k, v, attn_bias, is_causal, scale), None, None, None, None, _UNREAD, _UNREAD, None)


@row("_scaled_dot_product_flash_attention_backward.default")
def flash_attention_backward(
    call: Call,
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    *others: Any,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    _, _, _, _, dropout_p, is_causal, *_ = others
    _refuse_dropout(call, dropout_p)
    return _gradients(call, (g, q, k, v), out, logsumexp, None, is_causal, scale)


@row("_scaled_dot_product_efficient_attention_backward.default")
def efficient_attention_backward(
    call: Call,
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Any,
    philox_offset: Any,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    _refuse_dropout(call, dropout_p)
    if grad_input_mask[3] and _uses(call, 3):
        raise call.refuse("it asks for the gradient of the bias")
    return (*_gradients(call, (g, q, k, v), out, logsumexp, attn_bias, is_causal, scale), None)


@row("_scaled_dot_product_cudnn_attention_backward.default")
def cudnn_attention_backward(
    call: Call,
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    *others: Any,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    _, _, attn_bias, _, _, _, _, dropout_p, is_causal = others
    _refuse_dropout(call, dropout_p)
    return _gradients(call, (g, q, k, v), out, logsumexp, attn_bias, is_causal, scale)


def _refuse_dropout(call: Call, dropout_p: float, mask_wanted: bool = False) -> None:
    if dropout_p or mask_wanted:
        raise call.refuse("its dropout is random")
