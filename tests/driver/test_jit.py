from __future__ import annotations

import asyncio
from typing import Any

import attrs
import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError, BackendError
from tileir.driver.jit import evaluate, jit
from tileir.runtime.arrays import Array
from tileir.runtime.context import Context
from tileir.runtime.interface import Options

NEXT = "function (A[N]) -> (B) { B = A + 1; }"
PAIR = "function (A[N], B[N]) -> (S, D) { S = A + B; D = A - B; }"
SEVENTH = "function (A[N]) -> (B) { B = A / 7; }"


def test_one_executable_for_each_signature() -> None:
    with Context() as context:
        function = jit(NEXT, context=context)
        first = function.specialise(np.zeros(3, np.float32))
        assert function.specialise(np.ones(3, np.float32)) is first
        assert function.specialise(np.ones(4, np.float32)) is not first
        assert function.specialise(np.ones(3, np.int8)).typed.outputs == ("B",)
        assert len(context.programs) == 3


def test_options_and_device_of_the_context_are_part_of_the_key() -> None:
    numbers = np.arange(64, dtype=np.float32)
    with Context() as context:
        function = jit(SEVENTH, context=context)
        np.testing.assert_array_equal(function(numbers), numbers / np.float32(7))
        context.options = Options(fast_math=True)
        assert (function(numbers) != numbers / np.float32(7)).any()  # products with 1 / 7
        context.device_id = "nowhere"
        with pytest.raises(BackendError, match="no device 'nowhere'"):
            function(numbers)


def test_the_function_works_after_its_context_was_closed() -> None:
    with Context() as context:
        function = jit(NEXT, context=context)
        function(np.zeros(3, np.float32))
    np.testing.assert_array_equal(function(np.zeros(3, np.float32)), 1)


def test_a_device_can_be_given_as_it_is_listed() -> None:
    device = tileir.devices()[0]
    assert jit(NEXT, device).specialise(np.zeros(3)).device == device
    with pytest.raises(BackendError, match=r"no device 'llvm\.9'"):
        jit(NEXT, attrs.evolve(device, id="llvm.9"))(np.zeros(3))
    with pytest.raises(BackendError, match="named by its id, not by 5"):
        jit(NEXT, 5)(np.zeros(3))  # type: ignore[call-overload]


@pytest.mark.parametrize("source", [None, 3, ("text",)])
def test_what_is_no_function_is_refused(source: object) -> None:
    uses: list[Any] = [evaluate, tileir.compile, *([] if source is None else [jit])]
    for use in uses:
        with pytest.raises(ArgumentError, match="pass a function, a program") as caught:
            use(source)
        assert caught.value.diagnostics[0].code == "TIL707"


def test_evaluation_takes_arrays_in_each_form() -> None:
    a, b = np.arange(3), np.arange(3)[::-1]
    for results in (evaluate(PAIR, (a, b)), evaluate(PAIR, {"B": b, "A": a}), evaluate(PAIR, A=a, B=b)):
        np.testing.assert_array_equal(results, (a + b, a - b))


def test_a_lone_array_is_the_first_input() -> None:
    np.testing.assert_array_equal(evaluate(NEXT, np.zeros(1)), 1)
    np.testing.assert_array_equal(
        evaluate("function (A[M, N]) -> (B) { B = A + 1; }", np.zeros((1, 3))), np.ones((1, 3))
    )
    assert tileir.compile(NEXT, np.zeros(5)).typed.inputs[0].shape == (5,)


def test_faults_of_values_are_told_together() -> None:
    with pytest.raises(ArgumentError) as caught:
        evaluate(PAIR, [np.zeros(3)], Q=np.zeros(3))
    assert [fault.message for fault in caught.value.diagnostics] == [
        "there is no input 'Q'; they are A, B",
        "input 'B' is missing",
    ]


def test_a_closed_context_can_be_called_again() -> None:
    context = tileir.Context(device_id="llvm")
    add = tileir.jit("function (A, B) -> (S) { S = A + B; }", context=context)
    a = np.ones(4, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(add(a, a), [2] * 4)
        kept = add.specialise(a, a)
        context.close()
        assert kept.closed
        with pytest.raises(tileir.BackendError, match="closed"):
            kept(a, a)


def test_signatures_and_options_may_alternate() -> None:
    context = tileir.Context(device_id="llvm")
    add = tileir.jit("function (A, B) -> (S) { S = A + B; }", context=context)
    for _ in range(2):
        for values in (np.ones(4, np.float32), np.ones(4, np.float64), np.ones((2, 2), np.float32), 1.5, 2):
            result = add(values, values)
            np.testing.assert_array_equal(result, np.asarray(values) * 2)
    a = np.ones(4, np.float32)
    first = add.specialise(a, a)
    add(a, a)
    context.options = tileir.Options(threads=1)
    add(a, a)
    assert add.specialise(a, a) is not first
    assert len(context.programs) == 6
    context.close()


def test_calls_are_submitted_and_awaited() -> None:
    context = tileir.Context(device_id="llvm")
    add = tileir.jit("function (A, B) -> (S) { S = A + B; }", context=context)
    a, room = np.ones(4, np.float32), np.zeros(4, np.float32)

    async def awaited() -> list[object]:
        return list(await asyncio.gather(add.submit(a, a), add.submit(a[:2], B=a[:2]), add.submit(a, a, out=room)))

    first, second, third = asyncio.run(awaited())
    np.testing.assert_array_equal(first, np.full(4, 2, np.float32))
    np.testing.assert_array_equal(second, np.full(2, 2, np.float32))
    assert third is room
    assert (room == 2).all()
    for value in (a, a * 2, a[:2], np.ones(4)):
        np.testing.assert_array_equal(add.submit(value, value).result(), value * 2)
    assert len(context.programs) == 3
    context.options = tileir.Options(threads=1)
    np.testing.assert_array_equal(add.submit(a, a).result(), a * 2)
    assert len(context.programs) == 4
    followed = add.submit(add.submit(a, a).pending_results, a)
    np.testing.assert_array_equal(followed.result(), np.full(4, 3, np.float32))
    with pytest.raises(tileir.TileError, match=r"TIL30\d"):
        add.submit(a, a[:3])
    context.close()


class Lent:
    """An array that counts how often it hands out its memory."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.asked = 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_arrays_of_others_are_asked_for_their_memory_once() -> None:
    double = jit("function (X[N]) -> (Y) { Y = X * 2; }")
    lent = Lent(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(double(lent), [0, 2, 4])
    lent.asked = 0
    np.testing.assert_array_equal(double(lent), [0, 2, 4])
    assert lent.asked == 1
