"""Programs of launches, loops and branches: conditions are looked up when it is their turn, and endless loops stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tileir.core import BackendError, CancelledError, cancelled_if
from tileir.runtime import Library, PendingEvent
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.resources import Resources
from tileir.semtree.ir import Program
from tileir.semtree.text.parser import parse_program
from tileir_testing.generated.choices import Seeded
from tileir_testing.generated.works import kernels, works_case
from tileir_testing.subject import BoomError, Subject

Array = np.ndarray[Any, np.dtype[Any]]

PROGRAMS = 40

LOOP = """
program {
  input i32 x[1];
  input bool doubled[1];
  temporary i32 n[1];
  temporary bool go[1];
  output i32 y[1];
  kernel copy(out i32 b[1], in i32 a[1]) grid(1) index($index) { b[0] = a[0]; }
  kernel below(out bool c[1], in i32 a[1]) grid(1) index($index) { c[0] = a[0] < i32(100); }
  kernel bump(inout i32 b[1]) grid(1) index($index) { b[0] = b[0] + i32(1); }
  kernel double(inout i32 b[1]) grid(1) index($index) { b[0] = b[0] * i32(2); }
  launch 0(n, x);
  launch 1(go, n);
  while (go) {
    if (doubled) { launch 3(n); } else { repeat 3 { launch 2(n); } }
    launch 1(go, n);
  }
  launch 0(y, n);
}
"""


@pytest.fixture(scope="module")
def library(subject: Subject) -> Library:
    found: Library = subject.compiler.build(kernels(subject.device.target.index_dtype))
    return found


def plan_of(subject: Subject, program: Program, library: Library | None = None) -> Plan:
    built = subject.compiler.build(program.kernels) if library is None else library
    return Plan.of(program, built, subject.context.resources(subject.device))


def loop(subject: Subject, text: str = LOOP) -> Plan:
    return plan_of(subject, parse_program(text.replace("$index", subject.device.target.index_dtype.value)))


def run(plan: Plan, inputs: Mapping[str, Array], *, submits: bool = False) -> dict[str, Array]:
    outputs = plan.fresh_outputs()
    arrays = [inputs[buffer.name] for buffer in plan.inputs]
    if submits:
        plan.submit(arrays, outputs).wait()
    else:
        plan.run(arrays, outputs)
    return {buffer.name: array for buffer, array in zip(plan.outputs, outputs, strict=True)}


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_generated_programs(subject: Subject, library: Library, number: int) -> None:
    case = works_case(Seeded(f"works {number}"), subject.device.target.index_dtype)
    plan = plan_of(subject, case.program, library)
    for submits in (False, True, False):
        case.check(run(plan, case.inputs, submits=submits))


@pytest.mark.parametrize(("start", "doubled", "end"), [(3, False, 102), (3, True, 192), (100, True, 100)])
def test_a_loop_runs_while_its_condition_holds(subject: Subject, start: int, doubled: bool, end: int) -> None:
    plan = loop(subject)
    inputs = {"x": np.array([start], np.int32), "doubled": np.array([doubled])}
    for submits in (False, True, False):
        assert run(plan, inputs, submits=submits)["y"] == end


def test_a_program_waits_for_what_it_comes_after(subject: Subject) -> None:
    plan, gate = loop(subject), PendingEvent()
    x, doubled, (y,) = np.zeros(1, np.int32), np.array([True]), plan.fresh_outputs()
    event = plan.submit([x, doubled], [y], [gate])
    x[0] = 7
    gate.complete()
    event.wait()
    assert y == 112


def test_a_program_fails_with_what_it_comes_after(subject: Subject) -> None:
    plan, gate, error = loop(subject), PendingEvent(), BoomError("the original")
    event = plan.submit([np.zeros(1, np.int32), np.array([True])], plan.fresh_outputs(), [gate])
    gate.fail(error)
    with pytest.raises(BoomError) as caught:
        event.wait()
    assert caught.value is error


def test_an_endless_loop_stops_when_it_is_given_up(subject: Subject) -> None:
    plan, asked = loop(subject), 0
    endless = {"x": np.zeros(1, np.int32), "doubled": np.array([True])}  # 0 doubled stays 0

    def given_up() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    with cancelled_if(given_up), pytest.raises(CancelledError):
        run(plan, endless)
    assert run(plan, endless | {"doubled": np.array([False])})["y"] == 102


def test_closing_stops_loops_that_might_never_end(subject: Subject) -> None:
    program = parse_program(LOOP.replace("$index", subject.device.target.index_dtype.value))
    resources = Resources(subject.context.executor(subject.device))
    plan = Plan.of(program, subject.compiler.build(program.kernels), resources)
    endless = [np.zeros(1, np.int32), np.array([True])]
    events = [plan.submit(endless, plan.fresh_outputs()) for _ in range(3)]  # one thread: two of them wait for it
    resources.close()
    for event in events:
        with pytest.raises(BackendError, match=r"TIL807.*wait for the call before closing"):
            event.wait()
