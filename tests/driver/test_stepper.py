from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError, TileError
from tileir.runtime.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

DECAY = "function (X[N], W[N], Rate) -> (NewW, Total) { NewW = W - Rate * (W - X); Total[] = +(NewW[i]); }"
FIBONACCI = "function (A, B) -> (B1, Sum) { Sum = A + B; B1 = ident(B); }"
RANDOM = "function (S[K]) -> (X, Next) { T = prng_step(S, 3); X = prng_value(T); Next = prng_state(T); }"


def decay(**options: Any) -> tileir.Stepper:
    return tileir.stepper(DECAY, {"W": "NewW"}, {"W": np.zeros(3, np.float32)}, **options)


def codes(error: TileError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_state_is_carried_from_call_to_call() -> None:
    step = decay()
    x = np.array([2, 4, 8], np.float32)
    assert (step.inputs, step.outputs) == (("X", "Rate"), ("Total",))
    assert step(x, 0.5) == 7
    assert step(Rate=np.float32(0.5), X=x) == 10.5
    np.testing.assert_array_equal(step.state["W"], x * 0.75)


def test_two_updates_take_what_both_were_before() -> None:
    step = tileir.stepper(FIBONACCI, {"A": "B1", "B": "Sum"}, {"A": np.int64(0), "B": np.int64(1)})
    assert [step() for _ in range(10)] == [None] * 10
    assert {name: int(value) for name, value in step.state.items()} == {"A": 55, "B": 89}


def test_random_numbers_go_on() -> None:
    state = np.arange(4, dtype=np.uint32)
    step = tileir.stepper(RANDOM, {"S": "Next"}, {"S": state})
    first, second = step(), step()
    assert (first != second).all()
    step.load({"S": state})
    np.testing.assert_array_equal(step(), first)


def test_state_that_is_also_a_result_stays_what_it_is() -> None:
    step = tileir.stepper("function (W, X) -> (W, Y) { Y = W * X; }", {"W": "W"}, {"W": np.array([2.0])})
    assert [float(step(np.array([x]))[0]) for x in (1.0, 3.0)] == [2.0, 6.0]
    assert step.state["W"].tolist() == [2.0]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_step_that_fails_in_the_middle_leaves_the_state(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = decay()
    x = np.array([2, 4, 8], np.float32)
    step(x, 0.5)
    before = step.state["W"]

    def failing(_: Plan, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for array in outputs:
            array[...] = 77
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "run", failing)
        with pytest.raises(error):
            step(x, 0.5)
    np.testing.assert_array_equal(step.state["W"], before)
    assert step(x, 0.5) == 10.5


def test_inputs_may_change_their_shapes() -> None:
    text = "function (X[B, N], W[N]) -> (NewW) { S[i : N] = +(X[b, i]); NewW = W + S; }"
    step = tileir.stepper(text, {"W": "NewW"}, {"W": np.zeros(2, np.float32)})
    for rows in (3, 4, 3):
        step(np.ones((rows, 2), np.float32))
    np.testing.assert_array_equal(step.state["W"], 10)


def test_neither_given_nor_shown_arrays_are_changed() -> None:
    given = np.ones((4, 3), np.float32)[:, 0]
    step = tileir.stepper("function (W) -> (V) { V = W + 1; }", {"W": "V"}, {"W": given})
    shown = [step.state["W"] for _ in range(4) if step() is None]
    np.testing.assert_array_equal(given, 1)
    assert [array[0] for array in shown] == [2, 3, 4, 5]


def test_a_call_that_fails_changes_nothing() -> None:
    step = decay()
    step(np.ones(3, np.float32), 0.5)
    before = step.state["W"]
    for wrong in ((np.ones(4, np.float32), 0.5), (np.ones(3, np.float64), 0.5), (np.ones(3, np.float32),), ("a", 0.5)):
        with pytest.raises(TileError):
            step(*wrong)
        np.testing.assert_array_equal(step.state["W"], before)


def test_results_must_fit_what_they_update() -> None:
    step = decay()
    with pytest.raises(ArgumentError) as caught:
        step(np.ones(3), 0.5)
    assert codes(caught.value) == ["TIL709"]
    message = "result 'NewW' is f64[3], but input 'W', which it updates, is f32[3]"
    assert caught.value.diagnostics[0].message == message


@pytest.mark.parametrize(
    ("updates", "state", "expected"),
    [
        ({"w": "NewW"}, {"w": 0}, ["TIL709"]),
        ({"W": "Neww", "Q": "Total"}, {}, ["TIL709", "TIL709"]),
        ({"W": "NewW", "X": "NewW"}, {}, ["TIL709"]),
        ({"W": "NewW"}, {}, ["TIL705"]),
        ({"W": ["NewW"], "X": None}, {}, ["TIL709", "TIL709"]),
        ({"W": "NewW"}, {"X": 1, "V": 2}, ["TIL705", "TIL705", "TIL705"]),
        ({"W": "NewW"}, {"W": "text"}, ["TIL702"]),
        (["W"], {}, ["TIL707"]),
        ({"W": "NewW"}, [1], ["TIL707"]),
    ],
)
def test_faults_are_told_at_once(updates: Any, state: Any, expected: list[str]) -> None:
    with pytest.raises(ArgumentError) as caught:
        tileir.stepper(DECAY, updates, state)
    assert codes(caught.value) == expected


def test_what_is_loaded_must_fit() -> None:
    step = decay()
    for wrong, code in (({"V": 1}, "TIL705"), ({"W": np.ones(2, np.float32)}, "TIL701"), ({"W": "a"}, "TIL702")):
        with pytest.raises(ArgumentError) as caught:
            step.load(wrong)
        assert codes(caught.value) == [code]
    np.testing.assert_array_equal(step.state["W"], 0)


def test_threads_take_turns() -> None:
    step = tileir.stepper("function (W) -> (V) { V = W + 1; }", {"W": "V"}, {"W": np.zeros(5, np.int32)})

    def work() -> None:
        for _ in range(50):
            step()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(step.state["W"], 200)


def test_submitted_calls_come_first() -> None:
    with tileir.Context() as context:
        fill = tileir.compile("function (A) -> (B) { B = A * 2; }", [(3,)], context=context)
        pending = fill.submit(np.ones(3, np.float32))
        assert decay(context=context)(pending.pending_results, 1.0) == 6
