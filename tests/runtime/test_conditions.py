"""Plans of programs with conditions: loops that run while something holds, and branches."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.asynchronous import DistantDevice
from strategies.effort import examples
from strategies.executors import DEVICES
from strategies.plans import plan_of
from strategies.tile import Drawn
from tileir.core.errors import BackendError
from tileir.core.process.cancellation import CancelledError, cancelled_if
from tileir.runtime.context import Context
from tileir.runtime.interface import Options
from tileir.runtime.plans.dependencies import dependencies
from tileir.runtime.plans.placement import place
from tileir.runtime.plans.plan import Plan
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.ir import Branch, Launch, Loop, Program, While
from tileir.semtree.text.parser import parse_program
from tileir.semtree.transform.in_place import reuse_in_place
from tileir_testing.conformance.test_works import LOOP
from tileir_testing.generated.works import WorksCase, works_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileir.semtree.ir import Work

COUNTING = parse_program(LOOP.replace("$index", "i64"))
ENDLESS = [np.zeros(1, np.int32), np.array([True])]
"""A number below 100 that is doubled until it is not."""


@st.composite
def cases(draw: st.DrawFn) -> WorksCase:
    return works_case(Drawn(draw))


@examples(150)
@given(case=cases(), device=st.sampled_from(DEVICES), in_place=st.booleans())
def test_any_program_gives_what_the_interpreter_does(
    case: WorksCase, device: Callable[[], Any], in_place: bool
) -> None:
    program = reuse_in_place(case.program) if in_place else case.program
    plan = plan_of(program, device())
    inputs = [case.inputs[buffer.name] for buffer in plan.inputs]
    for submits in (False, True):
        outputs = plan.fresh_outputs()
        if submits:
            plan.submit(inputs, outputs).wait()
        else:
            plan.run(inputs, outputs)
        case.check({buffer.name: array for buffer, array in zip(plan.outputs, outputs, strict=True)})


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Give what raises in the main thread after some seconds.

    The garbage collector is off, as a handler that is called in one of its callbacks, as Hypothesis has them, cannot
    raise.
    """

    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    def start(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, ring)
    gc.disable()
    yield start
    gc.enable()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("device", DEVICES)
def test_a_signal_stops_an_endless_loop(device: Callable[[], Any], alarm: Callable[[float], None]) -> None:
    plan = plan_of(COUNTING, device())
    (y,) = plan.fresh_outputs()
    alarm(0.2)
    with pytest.raises(KeyboardInterrupt):
        plan.run(ENDLESS, [y])
    plan.run([np.ones(1, np.int32), np.array([True])], [y])
    assert y == 128


@pytest.mark.parametrize("device", DEVICES)
def test_an_endless_loop_stops_when_it_is_given_up(device: Callable[[], Any]) -> None:
    plan, asked = plan_of(COUNTING, device()), iter(range(10))
    with cancelled_if(lambda: next(asked) > 5), pytest.raises(CancelledError):
        plan.run(ENDLESS, plan.fresh_outputs())


@pytest.mark.sampled(0)
@pytest.mark.parametrize("device", ["executor", "DistantDevice"])
def test_a_process_ends_although_it_has_submitted_an_endless_loop(device: str) -> None:
    script = f"""
import time
from runtime.test_conditions import COUNTING, ENDLESS, DistantDevice, plan_of
from strategies.devices import executor
plan = plan_of(COUNTING, {device}())
event = plan.submit(ENDLESS, plan.fresh_outputs())
time.sleep(0.3)
print(event.done)
"""
    paths = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_a_loop_of_many_turns_keeps_no_events() -> None:
    """Of a run, only what may still be under way is held: a loop may have any number of turns."""
    held: list[int] = []

    @attrs.define(eq=False)
    class Counting(DistantDevice):
        def copy(self, source: Any, destination: Any, after: Any = ()) -> Any:
            held.append(sum(not event.done for event, _ in self.submitted))
            self.submitted.clear()
            return super().copy(source, destination, after)

    plan = plan_of(COUNTING, Counting())
    plan.run([np.zeros(1, np.int32), np.array([False])], plan.fresh_outputs())
    assert max(held) <= 4


IF = Launch(2, ("n",))


def changed(*works: Work) -> Program:
    return attrs.evolve(COUNTING, works=works)


def test_works_wait_for_what_their_conditions_read_and_for_what_may_stay() -> None:
    copy, test = Launch(0, ("n", "x")), Launch(1, ("go", "n"))
    branch = Branch("go", (IF,))
    program = changed(copy, test, branch, Launch(0, ("y", "n")))
    assert dependencies(program) == ((), (0,), (1,), (2,))
    apart = changed(copy, Launch(1, ("go", "x")), Branch("go", (IF,)), Launch(0, ("y", "n")), test)
    assert dependencies(apart) == ((), (), (0, 1), (2,), (2,))


@pytest.mark.parametrize("work", [Branch("go", (IF,)), Loop(2, (Branch("go", (), (IF,)),))])
def test_a_condition_lives_until_it_is_looked_up(work: Work) -> None:
    further = attrs.evolve(COUNTING.buffers[2], name="m")
    works = (Launch(1, ("go", "x")), Launch(0, ("m", "x")), Launch(0, ("n", "m")), work, Launch(0, ("y", "n")))
    program = attrs.evolve(COUNTING, works=works, buffers=(*COUNTING.buffers, further))
    verify_program(program)
    places = place(program).places
    assert len({places[name].offset for name in ("go", "m", "n")}) == 3
    blocks = place(program, parts=False).places
    assert len({blocks[name].block for name in ("go", "m", "n")}) == 3


def test_plans_say_that_conditions_decide() -> None:
    """Such a program is no batch, and no list of launches."""
    loop = Loop(While("go"), (IF, Launch(1, ("go", "n"))))
    plan = plan_of(changed(Launch(0, ("n", "x")), Launch(1, ("go", "n")), Loop(2, (loop,)), Launch(0, ("y", "n"))))
    (y,) = plan.fresh_outputs()
    plan.run([np.zeros(1, np.int32), np.array([True])], [y])
    assert y == 100


def test_closing_stops_an_endless_loop_and_what_waits_for_it() -> None:
    context = Context(device_id="llvm", disk_cache=None)
    device = context.device()
    options = [Options(threads=1), Options(threads=2)]
    built = context.compiler(device).build(COUNTING.kernels)
    endless, after = (Plan.of(COUNTING, built, context.resources(device, each)) for each in options)
    first = endless.submit(ENDLESS, endless.fresh_outputs())
    second = after.submit([np.zeros(1, np.int32), np.array([False])], after.fresh_outputs(), [first])
    context.close()
    for event in (second, first):
        with pytest.raises(BackendError, match=r"TIL807.*a loop on a condition"):
            event.wait()


@pytest.mark.parametrize("device", DEVICES)
def test_closing_stops_an_endless_call_of_another_thread(device: Callable[[], Any]) -> None:
    plan = plan_of(COUNTING, device())
    found: list[BaseException] = []
    runs = threading.Event()

    def call() -> None:
        runs.set()
        try:
            plan.run(ENDLESS, plan.fresh_outputs())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    runs.wait()
    plan.resources.close()
    thread.join()
    assert [type(error) for error in found] == [BackendError]


def test_closing_waits_for_counted_loops() -> None:
    counted = parse_program(
        "program { input i32 x[1]; output i32 y[1];"
        " kernel copy(out i32 b[1], in i32 a[1]) grid(1) index(i64) { b[0] = a[0]; }"
        " kernel bump(inout i32 b[1]) grid(1) index(i64) { b[0] = b[0] + i32(1); }"
        " launch 0(y, x); repeat 100000 { launch 1(y); } }"
    )
    plan = plan_of(counted)
    (y,) = plan.fresh_outputs()
    event = plan.submit([np.zeros(1, np.int32)], [y])
    plan.resources.close()
    event.wait()
    assert y == 100_000


LEFT = """
import os, sys
import numpy as np
from tileir.runtime.context import Context
from tileir.runtime.plans.plan import Plan
from tileir.semtree.text.parser import parse_program
from tileir_testing.conformance.test_works import LOOP

context = Context(device_id=sys.argv[1], disk_cache=None)
device = context.device()
program = parse_program(LOOP.replace("$index", device.target.index_dtype.value))
plan = Plan.of(program, context.compiler(device).build(program.kernels), context.resources(device))
endless = [np.zeros(1, np.int32), np.array([True])]
first = plan.submit(endless, plan.fresh_outputs())
others = [plan.submit(endless, plan.fresh_outputs(), [first]) for _ in range(3)]
if sys.argv[2] == "forks" and (child := os.fork()):
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("device", "way"), [("llvm", "ends"), ("opencl", "ends"), ("llvm", "forks")])
def test_python_ends_while_a_loop_runs(device: str, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT, device, way],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n" if way == "forks" else ""), done.stderr
