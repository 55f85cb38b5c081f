"""Sequences with a state of fixed size: causal convolutions, and linear attention.

Source: ONNX' ``CausalConvWithState`` and ``LinearAttention``.
"""

from __future__ import annotations

from typing import Final

from tileir.ops.arithmetic.reductions import sum as summed
from tileir.ops.arrays.joining import concatenate
from tileir.ops.arrays.shaping import moveaxis, swapaxes
from tileir.ops.arrays.slicing import narrow
from tileir.ops.networks.activations import silu
from tileir.ops.networks.attention import by_head
from tileir.ops.shared.foundation import (
    Aggregation,
    Tensor,
    aggregate,
    chosen,
    dims_of,
    full,
    index_of,
    indices_of,
    mistake,
    mistaken,
    narrowed,
    promoted,
    rank_of,
    real,
    wide,
)
from tileir.ops.shared.windows import is_integer
from tileir.tile import builder_functions as tf

_RANK: Final = 3


def causal_conv(
    x: Tensor, w: Tensor, bias: Tensor | None = None, state: Tensor | None = None, *, activation: str = "none"
) -> tuple[Tensor, Tensor]:
    """Return a convolution of each channel with earlier elements, and the state to continue it.

    ``O[n, c, t] = bias[c] + sum(X[n, c, t + i - (k - 1)] * W[c, 0, i])`` over i, with the ``state`` before the first
    element, zeros by default; then "silu" of that, if it is the ``activation``.

    Shapes: ``x`` is [N, C, T], ``w`` [C, 1, k], the state, which is the last k - 1 elements, [N, C, k - 1]. Dtypes
    promote.

    Raises:
        TileError: TIL305, a rank differs; TIL217, there is no such activation; TIL312 when compiling, sizes do not
            agree.
    """
    if rank_of(x) != _RANK or rank_of(w) != _RANK:
        raise mistake("TIL305", f"signals and kernels have {_RANK} axes, not {rank_of(x)} and {rank_of(w)}")
    chosen(activation, ("none", "silu"), "activation")
    batch, channels, time = dims_of(x)
    before = dims_of(w)[2] - 1
    start = tf.as_like(full(x, [batch, channels, before], 0), x) if state is None else state
    longer = concatenate([start, x], 2)
    kernels = tf.reshape(w, channels.call("match", dims_of(w)[0]), dims_of(w)[2])
    n, c, t = indices_of(x)
    i = index_of(x, "k")
    product = wide(longer)[n, c, t + i] * kernels[c, i]
    result = aggregate(Aggregation.SUM, product.given(i < before + 1), [n, c, t], [batch, channels, time])
    if bias is not None:
        result = result + tf.reshape(bias, channels, 1)
    result = promoted(silu(result) if activation == "silu" else result, x, w, *(() if bias is None else (bias,)))
    return result, narrow(longer, 2, time, before)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor | None = None,
    *,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return attention without a softmax, over a state that sums up keys times values, and the state after it.

    At each time t the state S is first multiplied by ``exp(decay_t)``, along keys, if given. With ``beta``, the delta
    rule corrects it: ``v_t`` becomes ``beta_t * (v_t - S^T k_t)``. Then ``k_t v_t^T`` is added, and the result is
    ``scale * S^T q_t``; the scale is by default ``1 / sqrt(D)``.

    Shapes: ``query`` is [B, H, T, D], ``key`` [B, K, T, D], ``value`` [B, K, T, E], the result [B, H, T, E], the state
    [B, K, D, E], zeros by default; H is K or a multiple of it. ``decay`` is [B, K, T, 1] or [B, K, T, D] and ``beta``
    [B, K or 1, T, 1]. With the numbers of ``heads`` and ``key_heads`` all but the state have three axes, [B, T, H * D].
    Time is a loop; the state is f32 in it. Dtypes: results have that of ``query``, the state its own.

    Raises:
        TileError: TIL305, a rank is wrong; TIL217, a number of heads is missing; TIL312 when compiling, sizes do not
            agree.

    Sources: Katharopoulos et al., "Transformers are RNNs", 2020; Yang et al., "Gated delta networks", 2024.
    """
    if (heads is None) != (key_heads is None):
        raise mistaken("heads and key_heads go together")
    parts = [query, key, value]
    if heads is not None and key_heads is not None:
        if not is_integer(heads, 1) or not is_integer(key_heads, 1):
            raise mistaken("the numbers of heads are integers from 1 on")
        parts = [by_head(x, count) for x, count in zip(parts, (heads, key_heads, key_heads), strict=True)]
        decay = None if decay is None else by_head(decay, key_heads)
        beta = None if beta is None else moveaxis(tf.reshape(beta, *dims_of(beta), 1), 2, 1)
    if any(rank_of(part) != _RANK + 1 for part in parts):
        raise mistake("TIL305", f"without numbers of heads tensors have four axes, not {[*map(rank_of, parts)]}")
    batch, own, time, features = dims_of(parts[0])
    shared, width = dims_of(parts[1])[1], dims_of(parts[2])[3]
    factor = 1.0 / tf.sqrt(real(features)) if scale is None else scale
    grouped = tf.reshape(parts[0], batch, shared, own / shared, time, features)
    zeros = full(query, [batch, shared, features, width], 0.0)
    first = narrowed(zeros, *map(wide, parts)) if state is None else wide(state)
    sequences = [moveaxis(wide(part), -2, 0) for part in (grouped, parts[1], parts[2])]
    sequences += [moveaxis(wide(part), -2, 0) for part in (decay, beta) if part is not None]

    def step(before: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        given = iter(rest)
        now = before if decay is None else before * _column(tf.exp(next(given)))
        return _written(now, q, k, v, None if beta is None else next(given))

    last, found = tf.scan(step, [first], sequences)
    result = tf.reshape(moveaxis(found, 0, 3), batch, own, time, width) * factor
    if heads is not None:
        result = tf.reshape(swapaxes(result, 1, 2), batch, time, own * width)
    return narrowed(result, query), narrowed(last, query if state is None else state)


def _written(state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return a state with one more key and value, and the result for a query."""
    if beta is not None:
        v = beta * (v - summed(state * _column(k), -2))
    now = tf.as_like(state + _column(k) * tf.reshape(v, *dims_of(v)[:-1], 1, dims_of(v)[-1]), state)
    n, h, g, d = indices_of(q)
    e = index_of(q, "e")
    sizes = [*dims_of(q)[:-1], dims_of(v)[-1]]
    return now, aggregate(Aggregation.SUM, q[n, h, g, d] * now[n, h, d, e], [n, h, g, e], sizes)


def _column(x: Tensor) -> Tensor:
    return tf.reshape(x, *dims_of(x), 1)
