"""Losses: what is refused, and values and gradients at the ends of what numbers hold."""

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
        (lambda x, t: ops.mse_loss(x, t, reduction="most"), "TIL217", "reduction is one of 'none', 'mean', 'sum', not"),
        (
            lambda x, t: ops.kl_divergence(x, t, reduction="most"),
            "TIL217",
            "reduction is one of 'none'",
        ),
        (lambda x, t: ops.smooth_l1_loss(x, t, beta=-1), "TIL217", "beta is 0 or above; it was -1"),
        (lambda x, t: ops.huber_loss(x, t, delta=0), "TIL217", "delta is above 0; it was 0"),
        (lambda x, t: ops.cross_entropy(x, t, label_smoothing=2), "TIL217", "label_smoothing is from 0 to 1; it was 2"),
        (lambda x, t: ops.cross_entropy(x, t, axis=2), "TIL314", "the axis is 2"),
        (lambda x, t: ops.cross_entropy(x, t, weight=x), "TIL305", "weights of classes have one axis, not 2"),
        (lambda x, _: ops.nll_loss(x, x), "TIL305", "classes have an axis less than the 2 of what is given for each"),
        (lambda x, t: ops.cosine_similarity(x, t, axis=3), "TIL314", "the axis is 3"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, t = f.input("X", "N", "C"), f.input("T", "N")
    found, text = fault_of(lambda: attempt(x, t), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_logits_keep_small_losses() -> None:
    z, t = np.array([40.0, -40.0, 800.0, -800.0], np.float32), np.array([1, 0, 0, 1], np.float32)
    found = run(lambda x, y: ops.binary_crossentropy_with_logits(x, y, reduction="none"), z, t)
    np.testing.assert_allclose(found, [np.exp(-40), np.exp(-40), 800, 800], rtol=1e-6)


def test_certain_probabilities_have_finite_gradients() -> None:
    f = tileir.FunctionBuilder()
    function = f.build(O=ops.binary_crossentropy(f.input("P", "N"), f.input("T", "N"), reduction="sum"))
    arrays = {"P": np.array([0.0, 1.0, 0.0, 1.0]), "T": np.array([0.0, 1.0, 1.0, 0.0])}
    gradient = tileir.vjp(function, arrays, {"O": np.ones(())}, wrt=["P"])["P"]
    np.testing.assert_array_equal(np.asarray(gradient), [1, -1, 0, 0])


def test_logits_at_zero_have_the_gradient_of_both_sides() -> None:
    f = tileir.FunctionBuilder()
    loss = ops.binary_crossentropy_with_logits(f.input("Z", "N"), f.input("T", "N"), reduction="sum")
    arrays = {"Z": np.zeros(3), "T": np.array([0.0, 0.25, 1.0])}
    gradient = tileir.vjp(f.build(O=loss), arrays, {"O": np.ones(())}, wrt=["Z"])["Z"]
    np.testing.assert_array_equal(np.asarray(gradient), [0.5, 0.25, -0.5])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [ops.cross_entropy, ops.nll_loss])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_over_no_class_is_nan_and_its_gradient_zero(loss: Callable[..., Tensor], weighted: bool) -> None:
    f = tileir.FunctionBuilder()
    weight = f.input("W", "C") if weighted else None
    function = f.build(O=loss(f.input("X", "N", "C"), f.input("T", "N"), weight=weight))
    arrays = {"X": np.ones((3, 2), np.float32), "T": np.full(3, -100), "W": np.ones(2, np.float32)}
    given = {name: array for name, array in arrays.items() if weighted or name != "W"}
    assert np.isnan(np.asarray(tileir.evaluate(function, given)))
    gradient = tileir.vjp(function, given, {"O": np.ones((), np.float32)}, wrt=["X"])["X"]
    np.testing.assert_array_equal(np.asarray(gradient), np.zeros((3, 2)))
