"""Sequences with a state: what is refused, and parts one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.causal_conv(x, ops.sum(x, 0)), "TIL305", "signals and kernels have 3 axes, not 3 and 2"),
        (lambda x: ops.causal_conv(x, x, activation="relu"), "TIL217", "activation is one of 'none', 'silu'"),
        (lambda x: ops.linear_attention(x, x, x), "TIL305", "without numbers of heads tensors have four axes"),
        (lambda x: ops.linear_attention(x, x, x, heads=2), "TIL217", "heads and key_heads go together"),
        (lambda x: ops.linear_attention(x, x, x, heads=0, key_heads=1), "TIL217", "the numbers of heads are integers"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "C", "T")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_parts_of_a_sequence_give_what_the_whole_gives() -> None:
    x, w = sample(2, 3, 7), sample(3, 1, 4, seed=1)
    whole, last = run(ops.causal_conv, x, w)
    first, state = run(ops.causal_conv, x[..., :2], w)
    second, end = run(lambda x, w, s: ops.causal_conv(x, w, state=s), x[..., 2:], w, state)
    np.testing.assert_allclose(np.concatenate([first, second], 2), whole, atol=1e-12)
    np.testing.assert_array_equal(end, last)
    q, k, v = (sample(1, 2, 5, 3, low=-1, high=1, seed=seed) for seed in range(3))
    whole, last = run(ops.linear_attention, q, k, v)
    first, state = run(ops.linear_attention, *(part[:, :, :2] for part in (q, k, v)))
    second, end = run(ops.linear_attention, *(part[:, :, 2:] for part in (q, k, v)), state)
    np.testing.assert_allclose(np.concatenate([first, second], 2), whole, atol=1e-12)
    np.testing.assert_allclose(end, last, atol=1e-12)
