from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

from strategies.asynchronous import DistantDevice, DistantKernel
from strategies.plans import branches, expected, operands, plan_of, program
from tileir.runtime.events import PendingEvent
from tileir.runtime.plans.submission import Submission
from tileir.runtime.plans.workspace import copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import Event


def test_launches_are_submitted_without_waiting() -> None:
    gate = PendingEvent()
    device = DistantDevice(gates=[gate])
    plan = plan_of(program(), device)
    x, y, out = operands()
    event = plan.submit([x, y], [out])
    assert len(device.submitted) == 3
    assert not any(launched.done for launched, _ in device.submitted)
    gate.complete()
    event.wait()
    np.testing.assert_array_equal(out, expected(x, y))


def test_a_launch_waits_for_what_it_depends_on_and_for_nothing_else() -> None:
    device = DistantDevice()
    x, y, out = operands()
    plan_of(branches(), device).run([x, y], [out])
    np.testing.assert_array_equal(out, (x + x) * (y + y))
    (left, before_left), (right, before_right), (_, before_last) = device.submitted
    assert len(before_left) == len(before_right) == 1  # the copies of one input each
    assert before_left != before_right
    assert before_last == (left, right)


def test_launches_are_bound_once() -> None:
    device = DistantDevice()
    plan = plan_of(program(), device)
    for seed in range(3):
        x, y, out = operands(seed)
        plan.run([x, y], [out])
        np.testing.assert_array_equal(out, expected(x, y))
    assert device.bound == ["add", "mul", "add"]


@attrs.define(eq=False)
class BatchingDevice(DistantDevice):
    batches: bool = True
    runs: list[int] = attrs.field(factory=list)

    def run_batch(self, inputs: Sequence[Any], launches: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.runs.append(len(launches))
        for array, memory in inputs:
            self.copy(array, memory).wait()
        for launch in launches:
            launch.launch()
        for memory, array in outputs:
            self.copy(memory, array).wait()


@pytest.mark.parametrize("batches", [True, False])
def test_later_runs_of_a_chain_are_one_call_of_a_device_that_offers_it(batches: bool) -> None:
    device = BatchingDevice(batches=batches)
    plan = plan_of(program(), device)
    for seed in range(4):
        x, y, out = operands(seed)
        plan.run([x, y], [out])
        np.testing.assert_array_equal(out, expected(x, y))
    assert device.runs == ([3, 3, 3] if batches else [])
    assert device.bound == ["add", "mul", "add"]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("there", [(True, True, True), (True, False, True), (False, False, True), (True, True, False)])
def test_memory_of_the_device_is_used_in_place(batches: bool, there: tuple[bool, bool, bool]) -> None:
    device = BatchingDevice(batches=batches)
    plan = plan_of(program(), device)
    for seed in range(4):
        arrays = operands(seed)
        if seed % 2:  # between runs of arrays of the host
            plan.run(arrays[:2], arrays[2:])
            np.testing.assert_array_equal(arrays[2], expected(*arrays[:2]))
            continue
        passed: list[Any] = [copied(device, each) if far else each for each, far in zip(arrays, there, strict=True)]
        plan.run(passed[:2], passed[2:])
        if there[2]:
            device.copy(passed[2], arrays[2]).wait()
        np.testing.assert_array_equal(arrays[2], expected(*arrays[:2]))
    assert device.runs == ([3, 3, 3] if batches else [])


def test_branches_are_never_run_as_a_batch() -> None:
    device = BatchingDevice()
    plan = plan_of(branches(), device)
    for seed in range(3):
        x, y, out = operands(seed)
        plan.run([x, y], [out])
        np.testing.assert_array_equal(out, (x + x) * (y + y))
    assert device.runs == []


def test_runs_at_one_time_have_memory_of_their_own() -> None:
    gate = PendingEvent()
    device = DistantDevice(gates=[gate])
    plan = plan_of(program(), device)
    runs = [operands(seed) for seed in range(4)]
    events = [plan.submit([x, y], [out]) for x, y, out in runs]
    gate.complete()
    for (x, y, out), event in zip(runs, events, strict=True):
        event.wait()
        np.testing.assert_array_equal(out, expected(x, y))
    assert len(device.bound) == 12


def test_the_time_of_a_run_is_what_the_device_was_busy() -> None:
    x, y, out = operands()
    event = plan_of(program(), DistantDevice()).submit([x, y], [out])
    event.wait()
    assert event.duration is not None
    assert event.duration > 0
    unmeasured = PendingEvent()
    unmeasured.complete()
    assert Submission([event, unmeasured], []).duration is None


def test_arrays_live_until_the_device_is_done_with_them() -> None:
    gate = PendingEvent()
    plan = plan_of(program(), DistantDevice(gates=[gate]))
    x, y, out = operands()
    alive = weakref.ref(out)
    event = plan.submit([x, y], [out])
    del x, y, out
    gc.collect()
    assert alive() is not None
    gate.complete()
    event.wait()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("submitted", [False, True])
def test_a_failure_is_told_when_nothing_runs_any_more(submitted: bool) -> None:
    left, right = PendingEvent(), PendingEvent()
    plan = plan_of(branches(), DistantDevice(gates_of={0: [left], 1: [right]}))
    x, y, out = operands()
    threading.Timer(0.02, left.fail, [ValueError("broken")]).start()
    threading.Timer(0.06, right.complete).start()

    def call() -> None:
        if submitted:
            plan.submit([x, y], [out]).wait()
        else:
            plan.run([x, y], [out])

    with pytest.raises(ValueError, match="broken"):
        call()
    assert right.done
    assert not out.any()


class BrokenKernel(DistantKernel):
    """A kernel whose second run is refused."""

    def run(self, buffers: Sequence[Any], after: Sequence[Event] = ()) -> Event:
        if self.kernel.kernel.name == "mul":
            raise ValueError("refused")
        return super().run(buffers, after)


@attrs.define(eq=False)
class BrokenDevice(DistantDevice):
    def prepare(self, library: Any, index: int) -> DistantKernel:
        whole = super().prepare(library, index)
        return BrokenKernel(whole.kernel, self)


def test_a_refused_launch_is_raised_when_the_device_is_done_with_the_others() -> None:
    device = BrokenDevice()
    plan = plan_of(program(), device)
    x, y, out = operands()
    with pytest.raises(ValueError, match="refused"):
        plan.run([x, y], [out])
    assert [event.done for event, _ in device.submitted] == [True]
    with pytest.raises(ValueError, match="refused"):  # and what failed was not kept
        plan.run([x, y], [out])
