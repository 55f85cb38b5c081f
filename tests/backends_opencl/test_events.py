"""Events of the driver: failures, chains, and waiting without threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
import pyopencl as cl
import pytest

from strategies.opencl_device import device
from tileir.core.errors import BackendError
from tileir.runtime.events import PendingEvent, all_ended
from tileir_opencl.device.devices import device_of
from tileir_opencl.run.commands import Commands
from tileir_opencl.run.events import OpenCLEvent, sorted_out
from tileir_opencl.run.process import context_of

if TYPE_CHECKING:
    from collections.abc import Callable

OUT_OF_RESOURCES = -5


@attrs.define(eq=False)
class OthersEvent:
    """An event of another back end, without ``then``."""

    happened: threading.Event = attrs.field(factory=threading.Event)

    @property
    def done(self) -> bool:
        return self.happened.is_set()

    def wait(self) -> None:
        self.happened.wait()

    @property
    def duration(self) -> float | None:
        return None


@pytest.fixture
def commands() -> Commands:
    found = device_of(device()).found
    return Commands.of(context_of(found), found.device)


def by_user(commands: Commands) -> tuple[cl.UserEvent, OpenCLEvent]:
    """Return a handle to set the status of a command, and the command."""
    native = cl.UserEvent(commands.context)
    return native, OpenCLEvent(native, commands, (), None)


def marker(commands: Commands, *after: OpenCLEvent) -> OpenCLEvent:
    event = commands.submit(lambda wait_for: cl.enqueue_marker(commands.native, wait_for), None, after, "a marker")
    assert isinstance(event, OpenCLEvent)
    return event


def test_a_failure_of_the_device_reaches_all_that_waits(commands: Commands) -> None:
    native, root = by_user(commands)
    left, right = marker(commands, root), marker(commands, root)
    last = marker(commands, left, right)
    assert not last.done
    native.set_status(OUT_OF_RESOURCES)
    errors = []
    for event in (last, right, root, left):
        with pytest.raises(BackendError) as caught:
            event.wait()
        errors.append(caught.value)
        assert event.done
        assert event.duration is None
    assert {id(error) for error in errors} == {id(errors[0])}
    assert [d.code for d in errors[0].diagnostics] == ["TIL808"]
    assert "OUT_OF_RESOURCES, -5" in str(errors[0])


def test_what_is_submitted_after_a_failure_fails_alike(commands: Commands) -> None:
    native, root = by_user(commands)
    native.set_status(OUT_OF_RESOURCES)
    later = commands.submit(lambda wait_for: cl.enqueue_marker(commands.native, wait_for), None, [root], "a marker")
    with pytest.raises(BackendError) as first:
        root.wait()
    with pytest.raises(BackendError) as second:
        later.wait()
    assert first.value is second.value


@pytest.mark.sampled(0)
def test_a_long_chain_that_fails_needs_no_recursion(commands: Commands) -> None:
    native, event = by_user(commands)
    for _ in range(1200):
        event = marker(commands, event)
    native.set_status(OUT_OF_RESOURCES)
    with pytest.raises(BackendError, match="OUT_OF_RESOURCES"):
        event.wait()


def test_events_that_completed_are_left_out(commands: Commands) -> None:
    complete, failed, others = marker(commands), PendingEvent(), PendingEvent()
    complete.wait()
    native, waiting = by_user(commands)
    assert sorted_out([complete, waiting, others], commands.context) == ([waiting], [others], None)
    failed.fail(ValueError("no"))
    own, foreign, failure = sorted_out([waiting, failed], commands.context)
    assert (own, foreign) == ([], [])
    assert failure is not None
    assert str(failure.error) == "no"
    native.set_status(cl.command_execution_status.COMPLETE)


def test_callbacks_come_after_the_last_event(commands: Commands) -> None:
    native, own = by_user(commands)
    pending, others = PendingEvent(), OthersEvent()
    happened = threading.Event()
    all_ended([own, pending, others]).then(happened.set)
    completions: list[Callable[[], object]] = [
        lambda: native.set_status(cl.command_execution_status.COMPLETE),
        pending.complete,
        others.happened.set,
    ]
    for complete in completions:
        assert not happened.is_set()
        complete()
    assert happened.wait(60)
    all_ended([own, pending, others]).then(happened.clear)
    assert not happened.is_set()


def test_commands_wait_for_events_of_other_back_ends(commands: Commands) -> None:
    others = OthersEvent()
    event = commands.submit(lambda wait_for: cl.enqueue_marker(commands.native, wait_for), None, [others], "a marker")
    assert not event.done
    others.happened.set()
    event.wait()
