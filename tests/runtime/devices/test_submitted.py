"""Submitted calls on arrays of devices: exported and passed on before they are done."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tileir
from strategies.shared_device import SharedDevice
from tileir.runtime.events import PendingEvent

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_results_that_are_not_written_are_exported_at_once(context: tileir.Context, card: SharedDevice) -> None:
    there = tileir.to_device(MATRIX, "shared.0", context=context)
    executable = tileir.compile("function (A) -> (B) { B = A + 1.0; }", [there], device="shared.0", context=context)
    gate = PendingEvent()
    card.gates.append(gate)
    call = executable.submit(there)
    result = call.pending_results
    assert result.__dlpack__(stream=5)
    assert not call.done
    ((launched, _),) = card.submitted
    assert card.awaited == [launched]  # the stream waits for the card itself, not for the host to hear of it
    gate.complete()
    np.testing.assert_array_equal(result.numpy(), MATRIX + 1)
    assert result.__dlpack__(stream=5)
    assert card.preceded == [(5, 1)]


def test_results_that_fail_are_not_exported(context: tileir.Context, card: SharedDevice) -> None:
    there = tileir.to_device(MATRIX, "shared.0", context=context)
    executable = tileir.compile("function (A) -> (B) { B = A + 1.0; }", [there], device="shared.0", context=context)
    gate = PendingEvent()
    gate.fail(ZeroDivisionError("spoilt"))
    call = executable.submit(there, after=[gate])
    assert isinstance(call.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError, match="spoilt"):
        call.pending_results.numpy()


def test_hosts_without_streams_wait_for_what_they_export(context: tileir.Context) -> None:
    there = tileir.to_device(MATRIX, "llvm", context=context)
    executable = tileir.compile("function (A) -> (B) { B = A + 1.0; }", [there], device="llvm", context=context)
    gate = PendingEvent()
    call = executable.submit(there, after=[gate])
    opener = threading.Timer(0.05, gate.complete)
    opener.start()
    np.testing.assert_array_equal(np.from_dlpack(call.pending_results), MATRIX + 1)
    assert call.done
    opener.join()


def test_submitted_calls_follow_each_other_on_the_device(context: tileir.Context, card: SharedDevice) -> None:
    there = tileir.to_device(MATRIX, "shared.0", context=context)
    executable = tileir.compile("function (A) -> (B) { B = A + 1.0; }", [there], context=context)
    gate = PendingEvent()
    card.gates.append(gate)
    first = executable.submit(there)
    second = executable.submit(first.pending_results)
    (launched, _), (_, after) = card.submitted
    assert launched in after  # not what a thread of the host completes when it has heard of that
    assert not second.done
    gate.complete()
    np.testing.assert_array_equal(second.result().numpy(), MATRIX + 2)
