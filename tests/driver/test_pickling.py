"""Pickling of everything that compiles or calls, for pools of processes."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import tileir

SOURCE = "function (W, X) -> (W2, O) { W2 = W + X; O = W * 2; }"
A = np.arange(4, dtype=np.float32)


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("device", [each.id for each in tileir.devices()])
@pytest.mark.parametrize("options", [tileir.Options(), tileir.Options(threads=1, quick=True)])
def test_functions_come_back(device: str, options: tileir.Options) -> None:
    jitted = again(tileir.jit(SOURCE, device, options=options))
    assert (jitted.device, jitted.options) == (device, options)
    executable = again(tileir.compile(SOURCE, [(4,), (4,)], device=device, options=options))
    assert executable.device.id == device
    for function in (jitted, executable, again(again(executable))):
        np.testing.assert_array_equal(function(A, A)[0], A + A)


def test_programs_of_every_stage_come_back() -> None:
    made = tileir.compile(SOURCE, [(4,), (4,)], device="llvm")
    for program in (made.typed, made.stripe, made.scheduled, made.sem):
        np.testing.assert_array_equal(again(tileir.compile(program, device="llvm"))(A, A)[0], A + A)


@pytest.mark.parametrize("device", [each.id for each in tileir.devices()])
def test_programs_of_every_stage_with_large_constants_come_back(device: str) -> None:
    weights = np.arange(300_000, dtype=np.float32)
    f = tileir.FunctionBuilder()
    function = f.build(O=f.input("X", "N") * f.constant(weights))
    made = tileir.compile(function, [(300_000,)], device=device)
    expected = weights * weights
    np.testing.assert_array_equal(again(made)(weights), expected)
    for program in (made.typed, made.stripe, made.scheduled, made.sem):
        np.testing.assert_array_equal(tileir.compile(again(program), device=device)(weights), expected)


def test_passes_and_targets_come_back() -> None:
    for chosen in ({"passes": "fusion,accumulate"}, {"passes": ()}, {"target": "quick"}):
        made: Any = tileir.compile(SOURCE, [(4,), (4,)], device="llvm", **chosen)
        found = again(made)
        assert found.sem == made.sem
        np.testing.assert_array_equal(found(A, A)[1], A * 2)


def test_contexts_stay_behind_with_what_they_choose() -> None:
    with tileir.Context(device_id="llvm", options=tileir.Options(fast_math=True)) as context:
        found = again(tileir.jit(SOURCE, context=context))
    assert (found.device, found.options) == ("llvm", tileir.Options(fast_math=True))


@pytest.mark.parametrize("device", [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")])
@pytest.mark.parametrize("resident", [False, True])
def test_steppers_come_back_with_their_state(device: str, resident: bool) -> None:
    start = tileir.to_device(A, device) if resident else A
    step = tileir.stepper(SOURCE, {"W": "W2"}, {"W": start}, device)
    step(A)
    found = again(step)
    step(A)
    np.testing.assert_array_equal(np.array(found(A), copy=True), A * 4)
    np.testing.assert_array_equal(np.array(found.state["W"], copy=True), np.array(step.state["W"], copy=True))
    assert (found.inputs, found.outputs, found.updates) == (step.inputs, step.outputs, step.updates)


def test_processes_share_the_work() -> None:
    double = tileir.jit("function (A) -> (O) { O = A * 2; }", "llvm")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(double, [A, A + 1]))
    np.testing.assert_array_equal(results, [A * 2, A * 2 + 2])
