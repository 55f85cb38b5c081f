"""Windows as sums of windows of rank one: within the tolerance, cheaper, and left alone where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir import bind, evaluate
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Constant, Function
from tileir_formula.running.low_rank import with_low_rank

Array = npt.NDArray[Any]

WINDOW = "function (I[H, W], K[M, N]) -> (O) { O[y, x : H - M + 1, W - N + 1] = +(I[y + i, x + j] * K[i, j]); }"
Y, X = np.mgrid[-7:8, -7:8]
DISC = (np.hypot(X, Y) < 5).astype(np.float32)


def bound(weights: Array, text: str = WINDOW) -> Function:
    return bind(text, K=weights)


@given(seed=st.integers(0, 99), rank=st.integers(1, 3), noise=st.sampled_from([0.0, 1e-4]), double=st.booleans())
@examples(30)
def test_results_are_as_near_as_they_say(seed: int, rank: int, noise: float, double: bool) -> None:
    rng = np.random.default_rng(seed)
    weights = sum(np.outer(rng.standard_normal(17), rng.standard_normal(21)) for _ in range(rank))
    weights = (weights + noise * rng.standard_normal((17, 21))).astype(np.float64 if double else np.float32)
    before = bound(weights)
    after, found = with_low_rank(before, 1e-2)
    verify(after)
    picture = rng.random((24, 26)).astype(weights.dtype)
    exact, near = evaluate(before, [picture]), evaluate(after, [picture])
    (approximation,) = found
    assert (approximation.statement, approximation.constant) == ("O", "K")
    assert approximation.rank == rank
    assert approximation.error <= 1e-2
    rounding = 1e-12 if double else 1e-5
    assert np.abs(exact - near).max() <= (approximation.error + rounding) * np.abs(weights).sum()


def test_the_tolerance_decides() -> None:
    assert with_low_rank(bound(DISC), 0)[1] == ()
    assert with_low_rank(bound(DISC), 1e-6)[1][0].rank == 3
    assert with_low_rank(bound(DISC), 0.15)[1][0].rank == 2
    noise = np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32)
    assert with_low_rank(bound(noise), 1e-3)[1] == ()


@pytest.mark.parametrize(
    "text",
    [
        WINDOW.replace("= +(", "= >("),
        WINDOW.replace("* K", "+ K"),
        WINDOW.replace("K[i, j]", "K[i, i]"),
        WINDOW.replace("K[i, j])", "K[2 * i, j]), i < M / 2"),
    ],
)
def test_other_sums_stay(text: str) -> None:
    function = bound(DISC, text)
    assert with_low_rank(function, 0.2) == (function, ())


@pytest.mark.parametrize(
    "weights", [DISC.astype(np.int32), DISC.astype(np.float16), DISC * 0, np.where(DISC > 0, np.float32(np.inf), DISC)]
)
def test_other_constants_stay(weights: Array) -> None:
    function = bound(weights)
    assert with_low_rank(function, 0.2) == (function, ())


def test_names_do_not_clash() -> None:
    text = WINDOW.replace("{ O", "{ K_0 = 2.0; O_0 = I * K_0; O").replace("+(I[", "+(O_0[")
    before = bound(DISC, text)
    after, _ = with_low_rank(before, 1e-3)
    verify(after)
    assert len([each for each in after.statements if isinstance(each, Constant)]) == 4
    picture = np.random.default_rng(0).random((20, 20)).astype(np.float32)
    np.testing.assert_allclose(evaluate(before, [picture]), evaluate(after, [picture]), rtol=1e-4, atol=1e-3)
