"""The public comparison of gradients with finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.core.errors import ArgumentError, TileError
from tileir_testing.gradients import check_gradients

X = np.array([0.5, -1.5, 2.0, 0.25])


def test_right_gradients_pass() -> None:
    text = "function (A[M, K], B[K, N]) -> (L) { C[i, j : M, N] = +(A[i, k] * B[k, j]); L = tanh(C); }"
    rng = np.random.default_rng(1)
    check_gradients(text, {"A": rng.normal(size=(2, 3)).astype(np.float32), "B": rng.normal(size=(3, 2))}, order=2)


def test_the_worst_element_is_named() -> None:
    text = (
        "function (X) -> (Y) { Z = X * X; Y = override_gradient(Z, X, upstream(Z) * (index(X, 0) < 2 ? 2 * X : X)); }"
    )
    with pytest.raises(AssertionError, match=r"the gradient by X\[2\] is .*, but differences give .*; 2 of 4 .* wrong"):
        check_gradients(text, X)
    with pytest.raises(AssertionError, match=r"by X is "):
        check_gradients("function (X) -> (Y) { Y = override_gradient(X, X, 3 * upstream(X)); }", np.array(2.0))


def test_gradients_that_are_not_numbers_are_wrong() -> None:
    text = "function (X) -> (Y) { Y = override_gradient(X * X, X, X / (X - X)); }"
    with pytest.raises(AssertionError, match=r"is (nan|-?inf)"):
        check_gradients(text, X)


def test_second_order_is_looked_at_when_asked_for() -> None:
    text = "function (X) -> (Y) { Z = X * X; Y = override_gradient(Z, X, upstream(Z) * 2 * stop_gradient(X)); }"
    check_gradients(text, X)
    with pytest.raises(AssertionError, match="of order 2"):
        check_gradients(text, X, order=2)


def test_elements_at_kinks_are_left_out() -> None:
    check_gradients("function (X) -> (Y) { Y = sqrt(X); }", np.array([0.0, 1.0, 2.0]))
    with pytest.raises(AssertionError, match="2 of 2 elements are at kinks"):
        check_gradients("function (X) -> (Y) { Y = sqrt(X); }", np.zeros(2))


def test_large_inputs_are_sampled() -> None:
    wrong = "function (X) -> (Y) { Y = override_gradient(X, X, 3 * upstream(X)); }"
    with pytest.raises(AssertionError, match="7 of 7"):
        check_gradients(wrong, np.ones(1000), elements=7)


def test_what_is_compared_can_be_chosen() -> None:
    text = "function (X, I, Y) -> (A, B) { A = gather(X, I) * Y; B = stop_gradient(X) * Y; }"
    inputs = {"X": X, "I": np.array([0, 3], np.int32), "Y": np.array(0.5)}
    check_gradients(text, inputs, of="A")
    check_gradients(text, inputs, wrt="Y")
    with pytest.raises(AssertionError, match="by X"):
        check_gradients(text, inputs)
    with pytest.raises(ArgumentError) as caught:
        check_gradients(text, inputs, wrt="Z")
    assert [d.code for d in caught.value.diagnostics] == ["TIL710"]
    with pytest.raises(TileError) as integer:
        check_gradients(text, inputs, wrt="I")
    assert [d.code for d in integer.value.diagnostics] == ["TIL321"]


def test_outputs_that_are_inputs_are_checked_too() -> None:
    check_gradients("function (X, Z) -> (X, Y) { Y = X * X * Z; }", (X, X), order=2)


@pytest.mark.parametrize(
    "options", [{"order": 0}, {"order": "2"}, {"elements": 0}, {"tolerance": -1}, {"ties": "odd"}, {"wrt": 3}]
)
def test_options_that_leave_nothing_to_check_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_gradients("function (X) -> (Y) { Y = X; }", X, **options)
    assert [d.code for d in caught.value.diagnostics] == ["TIL707"]


def test_devices_can_be_checked() -> None:
    check_gradients("function (X) -> (Y) { Y = exp(X) * X; }", X, device="llvm", order=2)


def test_narrow_floats_in_between_make_it_less_sharp() -> None:
    check_gradients(
        "function (X, N) -> (Y, Z) { Y = as_f32(X * X); Z = sqrt(N) * as_f32(X); }", (X, np.array([4, 9, 2, 1]))
    )
    check_gradients("function (X) -> (Y) { Y = as_f16(X) * as_f16(X); }", X)


def test_infinities_are_no_crash() -> None:
    with pytest.raises(AssertionError, match="kinks"):
        check_gradients("function (X) -> (Y) { Y = exp(exp(exp(X + 7.0))) - exp(exp(exp(X + 7.0))); }", X)
