"""Commands in the queue, and errors where the driver refuses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyopencl as cl
import pytest
from pyopencl._cl import _ErrorRecord

from strategies.opencl_device import device
from tileir.core.errors import BackendError
from tileir.runtime.events import PendingEvent
from tileir_opencl.device.devices import device_of
from tileir_opencl.run.commands import BATCH, Commands
from tileir_opencl.run.process import context_of

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE


@pytest.fixture
def commands() -> Commands:
    found = device_of(device()).found
    return Commands.of(context_of(found), found.device)


def failing(commands: Commands, code: int, times: int) -> Callable[[list[cl.Event] | None], cl.Event]:
    """Return what fails so often before it puts a marker into the queue."""
    left = [times]

    def enqueue(wait_for: list[cl.Event] | None) -> cl.Event:
        if left[0]:
            left[0] -= 1
            raise cl.RuntimeError(_ErrorRecord("", code, "clEnqueue"))
        return cl.enqueue_marker(commands.native, wait_for)

    return enqueue


def test_memory_is_given_back_before_a_command_is_refused(commands: Commands) -> None:
    released: list[bool] = []
    commands.release_memory = lambda: released.append(True)
    commands.submit(failing(commands, MEMORY, 1), None, (), "a marker").wait()
    assert released == [True]
    with pytest.raises(BackendError, match="a marker: there is not enough memory") as caught:
        commands.submit(failing(commands, MEMORY, 2), None, (), "a marker")
    assert [d.code for d in caught.value.diagnostics] == ["TIL708"]


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (cl.status_code.OUT_OF_RESOURCES, "TIL804", "more than the device has"),
        (cl.status_code.INVALID_WORK_GROUP_SIZE, "TIL804", "INVALID_WORK_GROUP_SIZE"),
        (cl.status_code.INVALID_COMMAND_QUEUE, "TIL808", "the driver refused it"),
        (-9999, "TIL808", "an unknown status, -9999"),
    ],
)
def test_refusals_say_what_was_refused(commands: Commands, status: int, code: str, words: str) -> None:
    with pytest.raises(BackendError, match=words) as caught:
        commands.submit(failing(commands, status, 1), None, (), "a marker")
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert "a marker: " in str(caught.value)


def test_a_refusal_after_waiting_reaches_whoever_waits(commands: Commands) -> None:
    gate = PendingEvent()
    refused = failing(commands, cl.status_code.INVALID_VALUE, 1)
    event = commands.submit(refused, None, [gate], "a marker")
    gate.complete()
    with pytest.raises(BackendError, match="INVALID_VALUE"):
        event.wait()


def test_commands_wait_for_those_of_another_queue(commands: Commands) -> None:
    another = Commands(commands.context, cl.CommandQueue(commands.context))
    gate = cl.UserEvent(commands.context)
    first = another.submit(lambda _: cl.enqueue_marker(another.native, [gate]), None, (), "a marker")
    second = commands.submit(failing(commands, 0, 0), None, [first], "a marker")
    assert not second.done
    gate.set_status(cl.command_execution_status.COMPLETE)
    second.wait()
    assert first.done


def test_the_device_begins_though_nobody_looks(commands: Commands) -> None:
    for _ in range(3 * BATCH):
        commands.submit(failing(commands, 0, 0), None, (), "a marker")
    commands.finish()


def test_a_command_that_is_refused_for_what_it_waits_for_fails_with_that(commands: Commands) -> None:
    native = cl.UserEvent(commands.context)
    first = commands.submit(lambda _: cl.enqueue_marker(commands.native, [native]), None, (), "a marker")

    def refuse(wait_for: list[cl.Event] | None) -> cl.Event:
        assert wait_for
        native.set_status(cl.status_code.OUT_OF_RESOURCES)
        raise cl.RuntimeError(_ErrorRecord("", cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "clEnqueue"))

    event = commands.submit(refuse, None, [first], "another marker")
    with pytest.raises(BackendError, match="failed while it worked") as caught:
        event.wait()
    with pytest.raises(BackendError) as original:
        first.wait()
    assert caught.value is original.value
