"""Softmax, and attention: with several heads, masks, causality, shared keys, and rotary positions.

The softmax subtracts the greatest element first, so that nothing overflows. The result does not depend on that element,
so its gradient is stopped. Scores, exponentials and their sums of f16 and bf16 are f32; results are rounded once.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Final

from tileir.core.nodes import attrs
from tileir.ops.arithmetic import reductions
from tileir.ops.arrays.joining import concatenate
from tileir.ops.arrays.padding import pad
from tileir.ops.arrays.shaping import swapaxes
from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Dim,
    Operand,
    Size,
    Tensor,
    aggregate,
    axes_of,
    call,
    chosen,
    dim_like,
    dims_of,
    finite,
    for_sums,
    index_of,
    mistaken,
    narrowed,
    rank_of,
    real,
    wide,
)
from tileir.ops.shared.layouts import Axis, joined, read, written
from tileir.ops.shared.windows import is_integer
from tileir.tile.building.recording import mistake

_NOTHING: Final = float("-inf")  # the score of a hidden key


def softmax(x: Tensor, axis: Axes = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` with the sum over one axis or several.

    Shape: that of ``x``. Dtype: that of ``x``; integers give f32 (f64 if they have 64 bits). If all elements are minus
    infinity, or one is infinity, the results are NaN, as in PyTorch.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, one is given twice.
    """
    return narrowed(_softmax(wide(x), axes_of(x, axis)), x)


def log_softmax(x: Tensor, axis: Axes = -1) -> Tensor:
    """Return ``x - log(sum(exp(x)))`` with the sum over one axis or several; all else as for :func:`softmax`."""
    over, wider = axes_of(x, axis), wide(x)
    shifted = wider - _greatest(wider, over)
    return narrowed(shifted - call("log", reductions.sum(call("exp", shifted), over, keepdims=True)), x)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    offset: Tensor | Size | None = None,
    lengths: Tensor | None = None,
    scale: Operand | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """Return attention: ``softmax(scale * Q K^T + bias) V``, where the softmax is over the visible keys of a query.

    Shapes: ``query`` is [..., H, S, D], ``key`` [..., K, T, D], ``value`` [..., K, T, E] and the result [..., H, S, E];
    all have equally many axes, two or more, and leading ones are equal. H is K or a multiple of it: then H / K
    neighbouring heads of queries share one of keys and values (grouped-query attention; multi-query for K = 1).

    ``mask`` and ``bias`` broadcast with [..., H, S, T]: a query sees the keys where a ``mask`` of bool or integers is
    not 0, and a mask of floats is added to the scores, as in PyTorch. So is ``bias``, which may be minus infinity. With
    ``causal``, query s sees keys 0 to s. ``window`` shows this many keys before and after s, with None all of them.
    There, s counts from ``offset``, a size or an integer for each element of the first axis. Keys from ``lengths`` on,
    an integer for each element of the first axis, are not seen. ``scale`` is by default ``1 / sqrt(D)``. ``softcap``
    above 0 first turns scores x into ``softcap * tanh(x / softcap)``. A query that sees no key gives zeros, and has
    zero gradients. Values have to be finite, because hidden ones may be read.

    Sources: Vaswani et al., "Attention is all you need", 2017; Ainslie et al., "GQA", 2023; ONNX' ``Attention``.

    Raises:
        TileError: TIL305, a rank is wrong; TIL217, a window is no pair of non-negative numbers; when compiling, TIL312
            if sizes do not agree.
    """
    heads = _heads_of(query, key, value)
    for name, option in (("mask", mask), ("bias", bias), ("scale", scale)):
        if option is not None and rank_of(option) > rank_of(query):
            raise mistake("TIL305", f"{name} broadcasts with the scores, which have {rank_of(query)} axes")
    seen = _Seen(causal, _window(window), offset, lengths)
    return _attended(heads, seen, mask, bias, scale, softcap)[0]


SCORES: Final = ("products", "capped", "masked", "weights", "sums")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    lengths: Tensor | None = None,
    scale: Operand | None = None,
    softcap: float = 0.0,
    heads: int | None = None,
    key_heads: int | None = None,
    scores: str | None = None,
) -> tuple[Tensor, ...]:
    """Return attention with a cache: the result of :func:`scaled_dot_product_attention`, and all keys and values.

    Shapes: as there, with four axes, [B, H, S, D]; or three, [B, S, H * D], with the numbers of ``heads`` and
    ``key_heads``. Keys and values follow ``past_key`` and ``past_value``, [B, K, P, D], and queries count from P on; if
    ``lengths`` gives the number of keys of each example, its queries are the last of them. A ``mask`` may have fewer
    keys than there are: the others are not seen.

    ``scores`` asks for a fourth result in the dtype of ``query``, [B, H, S, T]: the "products" times their scale, these
    "capped", with hidden keys "masked" by minus infinity, or the "weights"; or, in f32 or f64, for the logarithms of
    the "sums" of exponentials, [B, H, S].

    Raises:
        TileError: TIL305, a rank is wrong; TIL217, the past has a key but no value, or a length as well, or numbers of
            heads are missing or invalid.

    Source: ONNX' ``Attention``.
    """
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise mistaken("a past has keys and values, and no lengths")
    flat = rank_of(query) == _FLAT
    if flat:
        if heads is None or key_heads is None or not is_integer(heads, 1) or not is_integer(key_heads, 1):
            raise mistaken("tensors of three axes need heads and key_heads, integers from 1 on")
        query, key, value = by_head(query, heads), by_head(key, key_heads), by_head(value, key_heads)
    elif rank_of(query) != _FLAT + 1:
        raise mistake("TIL305", f"queries have three or four axes, not {rank_of(query)}")
    offset: Tensor | Size | None = None
    if past_key is not None and past_value is not None:
        offset = dims_of(past_key)[2]
        key, value = concatenate([past_key, key], 2), concatenate([past_value, value], 2)
    elif lengths is not None:
        offset = lengths - dims_of(query)[2]
    seen = _Seen(causal, _window(window), offset, lengths, None if mask is None else dims_of(mask)[-1])
    if mask is not None:
        missing = (dims_of(key)[2] - dims_of(mask)[-1]).max(0)
        mask = pad(mask, [*[(0, 0)] * (rank_of(mask) - 1), (0, missing)])
    result, stages = _attended(_heads_of(query, key, value), seen, mask, None, scale, softcap)
    if flat:
        batch, own, rows, size = dims_of(result)
        result = call("reshape", swapaxes(result, 1, 2), batch, rows, own * size)
    if scores is None:
        return result, key, value
    return result, key, value, _shown(stages, chosen(scores, SCORES, "scores"), query, key)


_FLAT: Final = 3


def _shown(stages: dict[str, Tensor], stage: str, query: Tensor, key: Tensor) -> Tensor:
    """Return scores of a stage with one axis of heads; sums keep their wide dtype."""
    sizes = dims_of(query)[:3]
    if stage == "sums":
        return call("reshape", stages[stage], *sizes)
    return narrowed(call("reshape", stages[stage], *sizes, dims_of(key)[2]), query)


def by_head(x: Tensor, heads: int) -> Tensor:
    """Return [B, S, H * D] as [B, H, S, D]."""
    if rank_of(x) != _FLAT:
        raise mistake("TIL305", f"where numbers of heads are given tensors have {_FLAT} axes, not {rank_of(x)}")
    batch, rows, features = dims_of(x)
    return swapaxes(call("reshape", x, batch, rows, heads, features / heads), 1, 2)


@attrs.frozen(repr=False)
class _Seen:
    """The keys that queries see by their positions alone.

    Attributes:
        causal: Whether keys after a query are hidden.
        window: The numbers of visible keys before and after a query.
        offset: The position of the first query, or that of each example.
        lengths: The number of keys of each example.
        masked: The number of keys of a mask.
    """

    causal: bool
    window: tuple[int | None, int | None]
    offset: Tensor | Size | None = None
    lengths: Tensor | None = None
    masked: Size | None = None

    @property
    def some(self) -> bool:
        """Tell whether any are hidden."""
        return self.causal or self.window != (None, None) or self.lengths is not None or self.masked is not None

    @property
    def may_be_none(self) -> bool:
        """Tell whether a query may see no key."""
        return self.window != (None, None) or self.lengths is not None or self.offset is not None

    def hidden(self, scores: Tensor) -> Tensor:
        """Return scores with minus infinity where a key is not seen."""
        last = rank_of(scores) - 1
        place, query = call("index", scores, last), call("index", scores, last - 1)
        if self.offset is not None:
            query = query + (_by_example(self.offset, scores) if isinstance(self.offset, Tensor) else self.offset)
        before, behind = self.window
        tests = []
        if self.causal:
            tests.append(place <= query)
        if before is not None:
            tests.append(query - place <= before)
        if behind is not None:
            tests.append(place - query <= behind)
        if self.lengths is not None:
            tests.append(place < _by_example(self.lengths, scores))
        if self.masked is not None:
            tests.append(place < self.masked)
        for test in tests:
            scores = call("cond", test, scores, _NOTHING)
        return scores


def _by_example(numbers: Tensor, scores: Tensor) -> Tensor:
    """Return integers for each element of the first axis in a shape that broadcasts with scores."""
    if rank_of(numbers) != 1:
        raise mistake("TIL305", f"offsets and lengths have one axis, not {rank_of(numbers)}")
    return call("reshape", numbers, *dims_of(numbers), *[1] * (rank_of(scores) - 1))


def _window(window: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    bounds = (None, None) if window is None else tuple(window)
    if len(bounds) != 2 or not all(bound is None or is_integer(bound, 0) for bound in bounds):
        raise mistaken(f"a window is two numbers from 0 on, or None, before and behind a query; it was {window!r}")
    return bounds[0], bounds[1]


def _attended(
    heads: _Heads, seen: _Seen, mask: Tensor | None, bias: Tensor | None, scale: Operand | None, softcap: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return attention, and its scores at each stage, with a separate axis for heads that share keys."""
    query, key, value = heads.query, heads.key, heads.value
    if not softcap >= 0:
        raise mistaken(f"softcap is 0 or above; it was {softcap!r}")
    masked = seen.some or mask is not None or bias is not None
    scores = heads.scores(masked=masked)
    products = scores = scores * (1.0 / call("sqrt", real(dims_of(query)[-1])) if scale is None else scale)
    if softcap:
        scores = call("tanh", scores / softcap) * softcap
    capped = scores
    if bias is not None:
        scores = scores + heads.divided(bias)
    if seen.some:
        scores = seen.hidden(scores)
    if mask is not None:
        scores = _masked(scores, heads.divided(mask))
    if mask is None and bias is None and not seen.may_be_none:
        weights, sums = _softmax_and_sums(scores, (rank_of(scores) - 1,))
    else:
        weights, sums = _softmax_or_zeros(scores)
    stages = dict(zip(SCORES, (products, capped, scores, weights, sums), strict=True))
    return heads.weighted(weights, (query, key, value, bias, scale), masked=masked), stages


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Add a mask of floats to scores, or hide them where another mask is 0; its dtype decides when compiling."""
    is_float = call("as_like", 0.5, mask) == 0.5
    return call("cond", is_float, scores + mask, call("cond", mask, scores, _NOTHING))


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    heads: int,
    *,
    biases: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    key_heads: int | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: Operand | None = None,
) -> Tensor:
    """Return attention between ``heads`` projections of queries, keys and values, projected once more.

    Shapes: ``query`` is [..., S, E], ``key`` [..., T, E'], ``value`` [..., T, E''], the result [..., S, O]. ``weights``
    of queries, keys, values and the result are [out, in], as in PyTorch: [H * D, E], [K * D, E'], [K * D', E''] and [O,
    H * D'], where H is ``heads`` and K ``key_heads``, by default H. ``biases`` are vectors of these outs. Other options
    are those of :func:`scaled_dot_product_attention`. Source: Vaswani et al., "Attention is all you need", 2017.

    Raises:
        TileError: TIL305, a rank is wrong; TIL217, a number of heads is no positive integer; when compiling, TIL312 if
            sizes do not agree.
    """
    shared = heads if key_heads is None else key_heads
    if not is_integer(heads, 1) or not is_integer(shared, 1):
        raise mistaken("the number of heads is an integer from 1 on")
    vectors = (None, None, None, None) if biases is None else biases
    parts = [
        _projected(x, weights[position], vectors[position], heads if position == 0 else shared)
        for position, x in enumerate((query, key, value))
    ]
    found = scaled_dot_product_attention(parts[0], parts[1], parts[2], mask=mask, bias=bias, causal=causal, scale=scale)
    return _merged(found, weights[3], vectors[3])


def rotary_embedding(
    x: Tensor, positions: Tensor | None = None, *, base: float = 10000.0, pairs: str = "halves"
) -> Tensor:
    """Return ``x`` with each pair of features rotated by an angle proportional to the position.

    ``(a, b)`` becomes ``(a * cos(t) - b * sin(t), a * sin(t) + b * cos(t))`` with ``t = position * base**(-2 * k / D)``
    for pair k. A pair is (k, k + D / 2) if ``pairs`` is "halves" (as in LLaMA), (2 * k, 2 * k + 1) if it is
    "neighbours" (as published).

    Shapes: ``x`` is [..., S, D], D even; ``positions`` broadcasts with [..., S] and is by default 0, 1, …. Dtypes:
    floats; angles are computed in f32, in f64 for f64. Source: Su et al., "RoFormer: Enhanced transformer with rotary
    position embedding", 2021.

    Raises:
        TileError: TIL305, ``x`` has fewer than two axes; TIL217, there are no such pairs, or ``base`` is not above 0;
            when compiling, TIL312 if D is odd.
    """
    kind = chosen(pairs, ("halves", "neighbours"), "pairs")
    if not 0 < base < math.inf:
        raise mistaken(f"base is a finite number above 0; it was {base!r}")
    if rank_of(x) < 2:
        raise mistake("TIL305", "an embedding that is turned has two axes or more: positions and features")
    *leading, features = dims_of(x)
    half = features // 2
    outer = tuple(index_of(x, f"i{axis}") for axis in range(len(leading)))
    pair, side = index_of(x, "k"), index_of(x, "side")
    parts = ((side, pair), (dim_like(x, 2), half)) if kind == "halves" else ((pair, side), (half, dim_like(x, 2)))
    rest = [Axis((place,), (size,)) for place, size in zip(outer, leading, strict=True)]
    whole = read(for_sums(x), [*rest, Axis(*parts)])
    first, second = (
        wide(aggregate(Aggregation.ASSIGN, whole.given(side - number < 1), (*outer, pair), (*leading, half)))
        for number in (0, 1)
    )
    cosine, sine = _turns(first, positions, features, base)
    place = pair if kind == "halves" else pair * 2
    turned = narrowed(first * sine + second * cosine, x)
    result = aggregate(
        Aggregation.ASSIGN,
        turned[(*outer, pair)],
        (*outer, place + half if kind == "halves" else place + 1),
        (*leading, features),
    )
    kept = narrowed(first * cosine - second * sine, x)
    kept = aggregate(Aggregation.ASSIGN, kept[(*outer, pair)], (*outer, place), (*leading, features), default=result)
    return call("as_like", kept, x)


@attrs.frozen(repr=False)
class _Heads:
    """Queries, keys and values, and the sharing of key heads by query heads.

    Attributes:
        batch: The axes before those of heads.
        heads: The axis of query heads, split into key heads and their sharers, or none.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    batch: tuple[Axis, ...]
    heads: tuple[Axis, ...]

    def scores(self, *, masked: bool) -> Tensor:
        """Return the wide products of queries and keys; heads that share keys have a separate axis.

        If they will be ``masked``, gradients that are 0 by the coordinates alone need not be visited.
        """
        rows, columns = _axis(self.query, -2, "s"), _axis(self.key, -2, "t")
        features = _axis(self.query, -1, "d")
        left = read(wide(self.query), (*self.batch, *self.heads, rows, features))
        right = read(self.key, (*self.batch, *self._shared, columns, features))
        with finite(self.query) if masked else nullcontext():
            return written(Aggregation.SUM, left * right, (*self.batch, *self._split, rows, columns))

    def weighted(self, weights: Tensor, operands: tuple[Operand | None, ...], *, masked: bool) -> Tensor:
        """Return the sums of the values by these weights, in the dtype of operands, with all heads on one axis again.

        If weights are ``masked``, values whose weights are 0 by the coordinates alone need not be visited.
        """
        rows, columns = _axis(self.query, -2, "s"), _axis(self.key, -2, "t")
        features = _axis(self.value, -1, "e")
        left = read(weights, (*self.batch, *self._split, rows, columns))
        right = read(self.value, (*self.batch, *self._shared, columns, features))
        with finite(weights) if masked else nullcontext():
            return written(Aggregation.SUM, left * right, (*self.batch, *self.heads, rows, features), like=operands)

    def divided(self, x: Tensor) -> Tensor:
        """Return a tensor that broadcasts with scores in their form, with a separate axis for heads that share keys."""
        sizes = dims_of(x)
        if len(self._split) < 2 or len(sizes) < 3:
            return x
        heads = self.heads[0].size
        shared = sizes[-3].min(self._split[0].size).min(sizes[-3].call("broadcast", heads).call("match", heads))
        return call("reshape", x, *sizes[:-3], shared, sizes[-3] // shared, *sizes[-2:])

    @property
    def _split(self) -> tuple[Axis, ...]:
        return tuple(part for axis in self.heads for part in axis.parts)

    @property
    def _shared(self) -> tuple[Axis, ...]:
        return self._split[:1]


def _heads_of(query: Tensor, key: Tensor, value: Tensor) -> _Heads:
    ranks = [rank_of(x) for x in (query, key, value)]
    if len(set(ranks)) > 1 or ranks[0] < 2:
        raise mistake("TIL305", f"query, key and value have the same number of axes, two or more; they have {ranks}")
    batch = tuple(_axis(query, axis, f"i{axis}") for axis in range(ranks[0] - 3))
    if ranks[0] == 2:
        return _Heads(query, key, value, (), ())
    queries, keys = dims_of(query)[-3], dims_of(key)[-3]
    head, sharer = index_of(query, "h"), index_of(query, "g")
    if queries == keys:
        return _Heads(query, key, value, batch, (Axis((head,), (queries,)),))
    return _Heads(query, key, value, batch, (Axis((head, sharer), (keys, queries // keys)),))


def _axis(x: Tensor, axis: int, name: str) -> Axis:
    return Axis((index_of(x, name),), (dims_of(x)[axis],))


def _softmax(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return _softmax_and_sums(x, axes)[0]


def _softmax_and_sums(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the softmax over axes, and the logarithm of the sum of exponentials, in which these axes have size 1."""
    greatest = _greatest(x, axes)
    exponentials = call("exp", x - greatest)
    total = reductions.sum(exponentials, axes, keepdims=True)
    return exponentials / total, call("log", total) + greatest


def _softmax_or_zeros(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax over the last axis, zeros if all scores are minus infinity, and the logarithm of the sum."""
    last = (rank_of(scores) - 1,)
    greatest = _greatest(scores, last)
    exponentials = call("exp", scores - call("cond", greatest == _NOTHING, 0.0, greatest))
    total = reductions.sum(exponentials, last, keepdims=True)
    return exponentials / call("cond", total == 0.0, 1.0, total), call("log", total) + greatest


def _greatest(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the greatest elements over axes, which keep size 1, as constants to gradients."""
    return call("stop_gradient", reductions.max(x, axes, keepdims=True))


def _projected(x: Tensor, weight: Tensor, vector: Tensor | None, heads: int) -> Tensor:
    """Return [..., S, E] times [H * D, E] as [..., H, S, D]."""
    if rank_of(x) < 2 or rank_of(weight) != 2:
        raise mistake("TIL305", "queries, keys and values have two axes or more, and weights have two")
    count, outputs = dim_like(x, heads), dims_of(weight)[0]
    *batch, row, _ = (_axis(x, axis, f"i{axis}") for axis in range(rank_of(x)))
    joint = Axis((index_of(x, "h"), index_of(x, "d")), (count, outputs // count))
    head, part = joint.parts
    feature = _axis(weight, 1, "e")
    value = read(x, (*batch, row, feature)) * read(weight, (joint, feature))
    result = written(Aggregation.SUM, value, (*batch, head, row, part))
    return result if vector is None else result + call("reshape", vector, count, 1, outputs // count)


def _merged(x: Tensor, weight: Tensor, vector: Tensor | None) -> Tensor:
    """Return [..., H, S, D] times [O, H * D] as [..., S, O]."""
    if rank_of(weight) != 2:
        raise mistake("TIL305", "weights have two axes")
    *batch, head, row, part = (_axis(x, axis, f"i{axis}") for axis in range(rank_of(x)))
    joint = joined(head, part)
    output = _axis(weight, 0, "o")
    value = read(x, (*batch, head, row, part)) * read(weight, (output, joint))
    result = written(Aggregation.SUM, value, (*batch, row, output))
    return result if vector is None else result + vector


def _turns(x: Tensor, positions: Tensor | None, features: Dim, base: float) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of angles for [..., S, D / 2], in the dtype of ``x``, which is f32 or f64."""
    row, pair = index_of(x, "s"), index_of(x, "k")
    corner = aggregate(Aggregation.ASSIGN, x[(*(0,) * (rank_of(x) - 2), row, pair)], (row, pair), dims_of(x)[-2:])
    exponent = call("as_like", call("index", corner, 1), corner) * (-2.0 * math.log(base)) / real(features)
    if positions is None:
        place = call("as_like", call("index", corner, 0), corner)
    else:
        place = call("reshape", call("as_like", positions, corner), *dims_of(positions), 1)
    angle = place * call("exp", exponent)
    return call("cos", angle), call("sin", angle)
