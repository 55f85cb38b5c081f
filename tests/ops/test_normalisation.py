"""Normalisation: what is refused, and where two passes matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, _: ops.layer_norm(x, axes=3), "TIL314", "the axis is 3, but the tensor has axes 0 to 2"),
        (lambda x, _: ops.layer_norm(x, axes=(1, -2)), "TIL217", "an axis stands twice"),
        (lambda x, _: ops.layer_norm(x, x), "TIL305", "what is given for 1 axes has as many axes, not 3"),
        (lambda x, v: ops.layer_norm(x, v, axes=(1, 2)), "TIL305", "what is given for 2 axes has as many axes, not 1"),
        (lambda x, _: ops.batch_norm(x, axis=5), "TIL314", "the axis is 5"),
        (lambda x, v: ops.batch_norm_inference(x, v, x), "TIL305", "what is given for 1 axes has as many axes, not 3"),
        (lambda x, _: ops.group_norm(x, 0), "TIL217", "groups is an integer from 1 on"),
        (lambda x, _: ops.group_norm(x, 2, axis=0), "TIL217", "groups is an integer from 1 on, and axis is not"),
        (lambda x, _: ops.instance_norm(x, axis=0), "TIL217", "axis is that of the channels"),
        (lambda x, _: ops.local_response_norm(x, OTHER), "TIL217", "local_response_norm: size has to be an integer"),
        (lambda x, _: ops.mean_variance_norm(x, epsilon_mode="on"), "TIL217", "epsilon_mode is one of 'inside', "),
        (lambda x, _: ops.l2_normalise(x, epsilon_mode="on"), "TIL217", "epsilon_mode is one of 'max', 'add'"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, v = f.input("X", "N", "C", "H"), f.input("V", "C")
    found, text = fault_of(lambda: attempt(x, v), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_groups_divide_the_channels() -> None:
    assert fault_of(lambda: run(lambda x: ops.group_norm(x, 2), np.zeros((1, 3, 2))), __file__)[0] == "TIL310"


def test_variance_of_large_values_does_not_cancel() -> None:
    x = (1e4 + np.arange(8)).astype(np.float32)[None]
    centred = np.arange(8) - 3.5
    expected = centred / np.sqrt((centred**2).mean() + 1e-5)
    np.testing.assert_allclose(run(ops.layer_norm, x)[0], expected, rtol=1e-5)
