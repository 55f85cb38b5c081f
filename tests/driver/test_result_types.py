"""Static types of results, from annotations; ``mypy --strict`` over the tests checks these."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, TypeAlias, assert_type

import numpy as np

import tileir

Array: TypeAlias = np.ndarray[Any, Any]

BOTH = "function (A, B) -> (S, D) { S = A + B; D = A - B; }"
A = np.arange(3, dtype=np.float32)


def test_results_are_of_the_type_that_a_program_is_annotated_with() -> None:
    twice: tileir.Jit[Array] = tileir.jit("function (A) -> (B) { B = A + A; }")
    assert_type(twice(A), Array)
    assert_type(twice.specialise(A), tileir.Executable[Array])
    both: tileir.Executable[tuple[Array, Array]] = tileir.compile(BOTH, [(3,), (3,)])
    total, difference = assert_type(both(A, A), tuple[Array, Array])
    np.testing.assert_array_equal(total, twice(A))
    assert not difference.any()
    step: tileir.Stepper[None] = tileir.stepper("function (W, R) -> (V) { V = W + R; }", {"W": "V"}, {"W": A})
    step(1.0)
    np.testing.assert_array_equal(step.state["W"], A + 1)


def test_submitted_calls_have_the_type_of_calls() -> None:
    there: tileir.Executable[tileir.DeviceArray] = tileir.compile("function (A) -> (B) { B = A + A; }", [(3,)])
    call = assert_type(there.submit(tileir.to_device(A)), tileir.PendingCall[tileir.DeviceArray])
    assert_type(call.result(), tileir.DeviceArray)
    assert_type(call.pending_results, tileir.DeviceArray)

    async def awaited() -> tileir.DeviceArray:
        return assert_type(await there.submit(tileir.to_device(A)), tileir.DeviceArray)

    assert isinstance(asyncio.run(awaited()), tileir.DeviceArray)


def test_without_an_annotation_results_are_of_any_type() -> None:
    twice = tileir.jit("function (A) -> (B) { B = A + A; }")
    assert_type(twice, tileir.Jit)
    assert_type(twice(A), Any)
    again: tileir.Jit[Array] = pickle.loads(pickle.dumps(twice))
    np.testing.assert_array_equal(again(A), A + A)
