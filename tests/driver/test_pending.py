"""Calls that may not be done yet: waited for by threads, by coroutines, and by callbacks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.runtime.events import PendingEvent

A = np.arange(4, dtype=np.float32)


def submitted(*, gate: PendingEvent | None = None) -> tileir.PendingCall[Any]:
    add = tileir.compile("function (A, B) -> (S, D) { S = A + B; D = A - B; }", [(4,), (4,)], device="llvm")
    return add.submit(A, A, after=() if gate is None else (gate,))


def test_coroutines_await_calls() -> None:
    async def several() -> list[Any]:
        gate = PendingEvent()
        calls = [submitted(gate=gate), submitted(gate=gate), submitted()]
        asyncio.get_running_loop().call_later(0.01, gate.complete)

        async def one(call: tileir.PendingCall[Any]) -> Any:
            return await call

        return await asyncio.gather(*map(one, calls))

    for total, difference in asyncio.run(several()):
        np.testing.assert_array_equal(total, A + A)
        np.testing.assert_array_equal(difference, A - A)


def test_failures_reach_who_awaits() -> None:
    async def failing() -> None:
        gate = PendingEvent()
        asyncio.get_running_loop().call_later(0.01, gate.fail, ValueError("no data"))
        await submitted(gate=gate)

    with pytest.raises(ValueError, match="no data"):
        asyncio.run(failing())


def test_who_awaits_may_be_cancelled_and_the_loop_closed() -> None:
    gate = PendingEvent()

    async def impatient() -> None:
        await asyncio.wait_for(submitted(gate=gate), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    gate.complete()


def test_callbacks_are_called_once_with_the_call(caplog: pytest.LogCaptureFixture) -> None:
    gate = PendingEvent()
    call = submitted(gate=gate)
    seen: list[tileir.PendingCall[Any]] = []
    call.add_done_callback(seen.append)
    call.add_done_callback(lambda _: 1 // 0)
    assert seen == []
    with caplog.at_level(logging.ERROR):
        gate.complete()
        call.wait()
        call.add_done_callback(seen.append)
    assert seen == [call, call]
    assert call.exception() is None


def test_errors_can_be_looked_at() -> None:
    gate = PendingEvent()
    call = submitted(gate=gate)
    gate.fail(ValueError("no data"))
    assert isinstance(call.exception(), ValueError)
    with pytest.raises(ValueError, match="no data"):
        call.result()


@pytest.mark.parametrize("size", [4, 1 << 18])
def test_submitted_calls_of_every_size_are_right(size: int) -> None:
    a = np.arange(size, dtype=np.float32)
    double = tileir.compile("function (A) -> (O) { O = A * 2; }", [(size,)], device="llvm")
    calls = [double.submit(a)]
    for _ in range(3):
        calls.append(double.submit(calls[-1].pending_results))
    np.testing.assert_array_equal(calls[-1].result(), a * 16)


def test_short_calls_fail_with_what_they_follow() -> None:
    gate = PendingEvent()
    gate.fail(ValueError("no data"))
    call = submitted(gate=gate)
    assert call.done
    with pytest.raises(ValueError, match="no data"):
        call.result()


@pytest.mark.parametrize("device", [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")])
@pytest.mark.parametrize("resident", [False, True])
def test_short_calls_are_done_when_they_are_submitted(device: str, resident: bool) -> None:
    text = "function (A, B) -> (S, D) { S = A + B; D = A - B; }"
    both = tileir.compile(text, [(4,), (4,)], device=device)
    a = tileir.to_device(A, device, copy=True) if resident else A
    call = both.submit(a, a)
    assert call.done
    assert call.duration is not None
    total, difference = call.result()
    assert type(total) is (tileir.DeviceArray if resident else np.ndarray)
    np.testing.assert_array_equal(np.asarray(total), A + A)
    np.testing.assert_array_equal(np.asarray(difference), A - A)
    gate = PendingEvent()
    late = both.submit(a, a, after=[gate])
    behind = both.submit(late.pending_results[0], a)
    assert not behind.done
    gate.complete()
    np.testing.assert_array_equal(np.asarray(behind.result()[0]), A * 3)
