"""Losses of sequences that are not aligned: what is refused, and targets that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda _, t: ops.ctc_loss(t, t), "TIL305", "likelihoods have the axes time, example and class"),
        (lambda z, _: ops.ctc_loss(z, z), "TIL305", "likelihoods have the axes time, example and class"),
        (lambda z, t: ops.ctc_loss(z, t, input_lengths=t), "TIL305", "lengths have one axis, not 2"),
        (lambda z, t: ops.ctc_loss(z, t, blank=-1), "TIL217", "blank is a class, from 0 on; it was -1"),
        (lambda z, t: ops.ctc_loss(z, t, reduction="max"), "TIL217", "reduction is one of 'none', 'mean', 'sum'"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    z, t = f.input("Z", "T", "N", "C"), f.input("L", "N", "S")
    found, text = fault_of(lambda: attempt(z, t), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_targets_that_need_more_time_are_impossible() -> None:
    z, target = np.zeros((2, 1, 3)), np.array([[1, 1]])
    assert run(ops.ctc_loss, z, target) == np.inf
    assert run(lambda z, t: ops.ctc_loss(z, t, zero_infinity=True), z, target) == 0
