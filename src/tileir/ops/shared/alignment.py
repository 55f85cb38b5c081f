"""Losses of sequences with unknown alignment: connectionist temporal classification."""

from __future__ import annotations

from typing import Final

from tileir.ops.arithmetic import reductions
from tileir.ops.arrays.indexing import take_along_axis
from tileir.ops.arrays.joining import concatenate, stack
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Tensor,
    aggregate,
    call,
    cast_to,
    chosen,
    dims_of,
    full,
    indices_of,
    integer_of,
    like,
    mistake,
    mistaken,
    rank_of,
    tensor_of,
    wide,
)
from tileir.tile import builder_functions as tf

_IMPOSSIBLE: Final = -1e30  # the logarithm of probability 0, chosen so that sums stay finite
_REDUCTIONS: Final = ("none", "mean", "sum")


def ctc_loss(
    likelihood: Tensor,
    target: Tensor,
    *,
    input_lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return ``-log`` of the probability of a target: the sum over all alignments, with blanks between classes.

    Shapes: ``likelihood`` is [T, N, C], logarithms of probabilities of C classes at T times; ``target`` is [N, S],
    integers but no blanks; the lengths are [N], by default T and S, and "none" gives [N]. Dtype: floats of 32 bits at
    least.

    With ``l`` the target with a blank before, between and after its classes, ``a[j]`` is the probability of all
    alignments that are at ``l[j]`` now: ``a'[j] = p[l[j]] * (a[j] + a[j - 1] + a[j - 2])``, the last if ``l[j]`` is
    neither a blank nor ``l[j - 2]``. Times are a loop of the program. "mean" divides each loss by the length of its
    target first. A target that is too long for its time has an infinite loss, or 0 with ``zero_infinity``, and no
    gradient.

    Raises:
        TileError: TIL305, a rank differs; TIL217, another reduction, or ``blank`` is below 0.

    Source: Graves, Fernández, Gomez and Schmidhuber, "Connectionist temporal classification", 2006; PyTorch's
    ``ctc_loss``.
    """
    chosen(reduction, _REDUCTIONS, "reduction")
    if rank_of(likelihood) != 3 or rank_of(target) != 2:
        raise mistake("TIL305", "likelihoods have the axes time, example and class, and targets example and place")
    if integer_of(blank, "blank") < 0:
        raise mistaken(f"blank is a class, from 0 on; it was {blank}")
    (times, batch, _), length = dims_of(likelihood), dims_of(target)[1]
    ends = _lengths(target, input_lengths, times, batch)
    places = _lengths(target, target_lengths, length, batch)
    labels = _with_blanks(cast_to(target, "i32"), blank)
    terms = tf.max(take_along_axis(wide(likelihood), tf.reshape(labels, 1, *dims_of(labels)), 2), _IMPOSSIBLE)
    moved = _shifted(labels, 2, tensor_of(labels, -1))
    skips = cast_to(tf.logical_and(labels != blank, labels != moved), "i32")
    clock = tf.index(full(likelihood, [times], 0), 0)
    start = call("as_like", tf.where(tf.index(labels, 1) == 0, 0.0, _IMPOSSIBLE), terms)

    def step(ways: Tensor, term: Tensor, now: Tensor, skips: Tensor, ends: Tensor) -> tuple[Tensor]:
        nothing = call("as_like", _IMPOSSIBLE, ways)
        skipped = tf.where(skips > 0, _shifted(ways, 2, nothing), nothing)
        return (tf.where(now < ends, term + _log_sum(ways, _shifted(ways, 1, nothing), skipped), ways),)

    last = tf.scan(step, [start], [terms, clock], [skips, ends])[0]
    behind = 2 * places
    final = _log_sum(
        take_along_axis(last, behind, 1),
        tf.where(behind > 0, take_along_axis(last, behind - 1, 1), _IMPOSSIBLE),
    )
    loss = tf.reshape(tf.where(final < _IMPOSSIBLE / 2, 0.0 if zero_infinity else float("inf"), -final), batch)
    if reduction == "mean":
        return reductions.mean(loss / tf.reshape(tf.max(places, 1), batch))
    return loss if reduction == "none" else reductions.sum(loss)


def _lengths(x: Tensor, given: Tensor | None, whole: Dim, batch: Dim) -> Tensor:
    """Return lengths as a column of i32."""
    if given is None:
        return full(x, [batch, 1], whole, "i32")
    if rank_of(given) != 1:
        raise mistake("TIL305", f"lengths have one axis, not {rank_of(given)}")
    return cast_to(tf.reshape(given, batch, 1), "i32")


def _with_blanks(target: Tensor, blank: int) -> Tensor:
    """Return [N, S] as [N, 2 * S + 1], with a blank around each class."""
    batch, length = dims_of(target)
    pairs = tf.reshape(stack([like(target, blank), target], -1), batch, 2 * length)
    return concatenate([pairs, full(target, [batch, 1], blank)], 1)


def _shifted(x: Tensor, by: int, before: Tensor) -> Tensor:
    """Return ``x`` moved along its last axis, with a number before it."""
    n, j = indices_of(x)
    return aggregate(Aggregation.ASSIGN, x[n, j], [n, j + by], dims_of(x), default=full(x, dims_of(x), before))


def _log_sum(first: Tensor, *others: Tensor) -> Tensor:
    """Return the logarithm of a sum of exponentials, all of them finite."""
    greatest = first
    for other in others:
        greatest = tf.max(greatest, other)
    greatest = tf.stop_gradient(greatest)
    total = tf.exp(first - greatest)
    for other in others:
        total = total + tf.exp(other - greatest)
    return tf.log(total) + greatest
