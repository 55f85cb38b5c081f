from __future__ import annotations

import mmap
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.asynchronous import DistantDevice
from strategies.devices import compiler
from strategies.effort import examples
from strategies.executors import DEVICES, PlainDevice
from strategies.plans import SIZE, binary, branches, buffer, expected, operands, plan_of, program
from tileir.core.errors import BackendError
from tileir.core.ops import Op
from tileir.runtime.events import PendingEvent
from tileir.runtime.plans.plan import MemoryUse, Plan
from tileir.runtime.plans.resources import Resources, spare_bytes
from tileir.semtree.ir import BufferRole, Launch, Loop, Program

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("device", DEVICES)
def test_launches_share_memory_in_order(device: Callable[[], Any]) -> None:
    plan = plan_of(program(), device())
    for seed in range(3):
        x, y, out = operands(seed)
        plan.run([x, y], [out])
        np.testing.assert_array_equal(out, expected(x, y))
    assert [buffer.name for buffer in (*plan.inputs, *plan.outputs)] == ["x", "y", "out"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", DEVICES)
def test_several_threads_run_one_plan(device: Callable[[], Any]) -> None:
    plan = plan_of(program(), device())
    failures: list[int] = []

    def work(seed: int) -> None:
        x, y, out = operands(seed)
        for _ in range(30):
            plan.run([x, y], [out])
            if not np.array_equal(out, expected(x, y)):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_less_alignment_than_kernels_need_are_copied(device: Callable[[], Any]) -> None:
    plan = plan_of(program(alignment=64), device())
    room = np.zeros(4 * SIZE, np.float32)
    start = 1 if room.ctypes.data % 64 == 0 else 0
    x, y, out = (room[start + part * SIZE :][:SIZE] for part in range(3))
    x[:], y[:] = 2, 3
    plan.run([x, y], [out])
    np.testing.assert_array_equal(out, expected(x, y))


def test_arrays_without_any_alignment_are_copied() -> None:
    plan = plan_of(program())
    room = np.zeros(12 * SIZE + 1, np.uint8)
    x, y, out = (room[1 + 4 * SIZE * part :][: 4 * SIZE].view(np.float32) for part in range(3))
    x[:], y[:] = 2, 3
    plan.run([x, y], [out])
    np.testing.assert_array_equal(out, expected(x, y))


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_can_be_submitted(device: Callable[[], Any]) -> None:
    plan, gate = plan_of(program(), device()), PendingEvent()
    x, y, out = operands()
    event = plan.submit([x, y], [out], [gate])
    assert not event.done
    assert not out.any()
    gate.complete()
    event.wait()
    np.testing.assert_array_equal(out, expected(x, y))


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_fails_with_what_it_waits_for(device: Callable[[], Any]) -> None:
    plan, gate, error = plan_of(program(), device()), PendingEvent(), ValueError("broken")
    x, y, out = operands()
    event = plan.submit([x, y], [out], [gate])
    gate.fail(error)
    with pytest.raises(ValueError, match="broken") as caught:
        event.wait()
    assert caught.value is error
    assert not out.any()


def test_temporaries_share_memory_in_order_and_not_where_branches_overlap() -> None:
    assert (plan_of(program()).temporary_bytes, plan_of(program()).peak_bytes) == (8000, 4096 + 4000)
    assert plan_of(program()).memory == MemoryUse(8000, 4000, 4000, 8000, 8096)
    in_order, overlapping = plan_of(branches()), plan_of(branches(), DistantDevice())
    assert in_order.after == ((), (0,), (1,))
    assert overlapping.after == ((), (), (0, 1))


STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4), st.booleans()), max_size=12)


@examples(60)
@given(steps=STEPS, device=st.sampled_from(DEVICES))
def test_any_program_gives_what_its_launches_do_in_order(
    steps: list[tuple[int, int, int, bool]], device: Callable[[], Any]
) -> None:
    kernels = tuple(binary(op) for op in (Op.ADD, Op.SUB))
    values = {"x": operands()[0]}
    launches = []
    for left, right, target, subtracts in [*steps, (0, 1, 5, False)]:
        known = list(values)
        a, b = known[left % len(known)], known[right % len(known)]
        name = "out" if target == 5 else f"t{target}"
        if name in (a, b):
            continue
        values[name] = values[a] - values[b] if subtracts else values[a] + values[b]
        launches.append(Launch(int(subtracts), (a, b, name)))
    roles = {"x": BufferRole.INPUT, "out": BufferRole.OUTPUT}
    buffers = tuple(buffer(name, roles.get(name, BufferRole.TEMPORARY)) for name in values)
    plan, out = plan_of(Program(kernels, buffers, tuple(launches)), device()), operands()[2]
    plan.run([values["x"]], [out])
    np.testing.assert_array_equal(out, values["out"])


LOOP = (
    Launch(0, ("x", "x", "a")),
    Loop(3, (Launch(0, ("a", "x", "b")), Loop(2, (Launch(1, ("b", "x", "a")), Launch(0, ("a", "a", "b")))))),
    Launch(1, ("b", "x", "out")),
)


@pytest.mark.parametrize("device", DEVICES)
def test_repeated_launches_run_one_time_after_the_other(device: Callable[[], Any]) -> None:
    roles = {"x": BufferRole.INPUT, "out": BufferRole.OUTPUT}
    names = [buffer(name, roles.get(name, BufferRole.TEMPORARY)) for name in ("x", "a", "b", "out")]
    plan = plan_of(Program((binary(Op.ADD), binary(Op.SUB)), tuple(names), LOOP), device())
    assert plan.after == ((), (0,), (1,))
    x, _, out = operands()
    a = x + x
    for _ in range(3):
        b = a + x
        for _ in range(2):
            a = b - x
            b = a + a
    for _ in range(3):
        plan.run([x], [out])
        np.testing.assert_array_equal(out, b - x)
    plan.submit([x], [out]).wait()
    np.testing.assert_array_equal(out, b - x)


def test_what_is_repeated_is_handed_over_in_order() -> None:
    device = DistantDevice()
    roles = {"x": BufferRole.INPUT, "out": BufferRole.OUTPUT}
    names = [buffer(name, roles.get(name, BufferRole.TEMPORARY)) for name in ("x", "a", "b", "out")]
    plan = plan_of(Program((binary(Op.ADD), binary(Op.SUB)), tuple(names), LOOP), device)
    x, _, out = operands()
    plan.run([x], [out])
    events = [event for event, _ in device.submitted]
    assert len(events) == 2 + 3 * 5
    for number, (_, after) in enumerate(device.submitted[1:]):
        assert events[number] in after
    plan.run([x], [out])
    assert len(device.bound) == 5  # each launch once, however often it runs


def test_what_a_repetition_uses_lives_throughout_it() -> None:
    names = [buffer(name, BufferRole.TEMPORARY) for name in "abc"] + [buffer("x", BufferRole.INPUT)]
    loop = Loop(2, (Launch(0, ("x", "x", "a")), Launch(0, ("a", "a", "b")), Launch(0, ("b", "b", "c"))))
    plan = plan_of(Program((binary(Op.ADD),), tuple(names), (loop,)))
    assert plan.peak_bytes == 2 * 4096 + 4000


def test_memory_of_plans_is_bounded_and_given_back() -> None:
    device = PlainDevice()
    resources = Resources(device, spare_bytes=50_000)  # type: ignore[arg-type]
    library = compiler().build(program().kernels)
    plans = [Plan.of(program(), library, resources) for _ in range(20)]
    constants = device.living_bytes
    x, y, out = operands()
    for plan in plans:
        plan.run([x, y], [out])
        assert device.living_bytes <= constants + 51_000
    assert device.living_bytes > constants
    resources.close()
    assert device.living_bytes == constants
    plans.clear()
    del plan
    assert device.living_bytes == 0


def test_plans_keep_a_share_of_a_large_memory() -> None:
    assert spare_bytes(None) == spare_bytes(2**30) == 256 * 2**20
    assert spare_bytes(64 * 2**30) == 4 * 2**30


def with_pages(whole: Program) -> Program:
    """Return a program whose constants have pages of their own, as large ones have."""
    made = []
    for each in whole.buffers:
        if each.role is BufferRole.CONSTANT:
            memory = mmap.mmap(-1, len(each.data))
            memory[:] = bytes(each.data)
            each = attrs.evolve(each, data=memoryview(memory).toreadonly())
        made.append(each)
    return attrs.evolve(whole, buffers=tuple(made))


@pytest.mark.parametrize("device", DEVICES)
def test_constants_with_pages_give_what_others_do(device: Callable[[], Any]) -> None:
    plan = plan_of(with_pages(program()), device())
    x, y, out = operands()
    plan.run([x, y], [out])
    np.testing.assert_array_equal(out, expected(x, y))


def test_constants_with_pages_are_read_in_place() -> None:
    plain, device = PlainDevice(), PlainDevice()
    plans = [plan_of(program(), plain), plan_of(with_pages(program()), device)]
    assert plain.living_bytes > 0
    assert device.living_bytes == 0
    assert len(plans) == 2


def test_a_plan_that_dies_gives_its_memory_back() -> None:
    device = PlainDevice()
    plan = plan_of(program(), device)
    x, y, out = operands()
    plan.run([x, y], [out])
    assert device.living_bytes > 0
    del plan
    assert device.living_bytes == 0


@pytest.mark.parametrize("device", [PlainDevice, DistantDevice])
def test_a_closed_device_runs_nothing_more(device: Callable[[], Any]) -> None:
    resources = Resources(device())
    plan = Plan.of(program(), compiler().build(program().kernels), resources)
    resources.close()
    x, y, out = operands()
    with pytest.raises(BackendError) as caught:
        plan.submit([x, y], [out])
    assert caught.value.diagnostics[0].code == "TIL807"
