"""The kernels that programs become, without races, accesses out of bounds and undefined values."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyopencl as cl
import pytest

from tileir.core.dtype import DType
from tileir.driver.compiler import compile_stages
from tileir.runtime.interface import Options
from tileir.runtime.plans.plan import Plan
from tileir.semtree.ir import Barrier
from tileir.semtree.launches import runs
from tileir.semtree.rewrite import rewrite_stmts, with_body
from tileir_opencl import BACKEND
from tileir_opencl.device.devices import device_of
from tileir_opencl.run.process import context_of
from tileir_testing.programs.catalog import CASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strategies.oclgrind import Reports
    from tileir.core.targets.target import Target
    from tileir.driver.compiler import Stages
    from tileir.runtime.interface import DeviceInfo
    from tileir.runtime.plans.resources import Resources
    from tileir.semtree.ir import KernelFunction
    from tileir_testing.programs.case import Conformance


MOST_OPERATIONS = 200_000
"""Programs with more are left out: the simulator computes some 100,000 operations in a second."""

UNTRACKED = ("first_of_order_i1", "first_of_many_u1")
"""Comparisons of 16 bytes that become as many numbers of 32 bits: the simulator takes what it loaded for undefined."""

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_pipeline = pytest.mark.parametrize("pipeline", ["cpu", "gpu"])


def cooperative(target: Target) -> Target:
    """Return a target as of a graphics processor, with groups that are small enough for small programs."""
    return attrs.evolve(
        target, threads=4, group_threads=64, group_width=8, local_bytes=16 * 1024, index_dtype=DType.I32, scratch=False
    )


def compiled(case: Conformance, target: Target, pipeline: str) -> Stages:
    wanted = cooperative(target) if pipeline == "gpu" else target
    return compile_stages(case.text, case.types, wanted, passes=pipeline)


def results(
    stages: Stages, resources: Resources, device: DeviceInfo, inputs: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    library = BACKEND.compiler(device, Options()).build(stages.sem.kernels)
    plan = Plan.of(stages.sem, library, resources)
    outputs = [np.empty(tensor.shape, tensor.dtype.numpy) for tensor in plan.outputs]
    plan.run([np.ascontiguousarray(inputs[tensor.name]) for tensor in plan.inputs], outputs)
    return outputs


@pytest.mark.sampled(40)
@each_pipeline
@each_case
def test_programs_run_without_a_report(
    case: Conformance, pipeline: str, simulator: DeviceInfo, resources: Resources, reports: Reports
) -> None:
    stages = compiled(case, simulator.target, pipeline)
    if sum(map(operator.mul, runs(stages.sem), (kernel.operations for kernel in stages.sem.kernels))) > MOST_OPERATIONS:
        pytest.skip("too large for a simulator")
    found = results(stages, resources, simulator, case.inputs)
    said = {line for line in reports.take().splitlines() if line and not line[0].isspace()}
    untracked = case.name in UNTRACKED and pipeline == "cpu"
    assert said <= ({"Controlflow depends on uninitialized value"} if untracked else set())
    case.check(dict(zip(case.expected, found, strict=True)))


def test_a_missing_barrier_is_reported(simulator: DeviceInfo, resources: Resources, reports: Reports) -> None:
    case = next(case for case in CASES if case.name == "matmul_5x5x5")
    stages = compiled(case, simulator.target, "gpu")
    racing = attrs.evolve(stages.sem, kernels=tuple(map(without_barriers, stages.sem.kernels)))
    assert racing != stages.sem
    results(attrs.evolve(stages, sem=racing), resources, simulator, case.inputs)
    assert "data race" in reports.take()


def without_barriers(kernel: KernelFunction) -> KernelFunction:
    return with_body(kernel, rewrite_stmts(lambda stmt: () if isinstance(stmt, Barrier) else (stmt,), kernel.body))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("room[i] = from[i]; to[i] = room[15 - i];", "data race"),
        ("to[i + 1] = from[i];", "Invalid write"),
        ("to[i] = from[i + 1];", "Invalid read"),
        ("if (i < 8) room[i] = from[i]; barrier(CLK_LOCAL_MEM_FENCE); to[i] = room[i];", "Uninitialized"),
    ],
)
def test_the_simulator_sees_what_it_should(body: str, words: str, simulator: DeviceInfo, reports: Reports) -> None:
    text = reported(f"__local float room[16]; {body}", simulator, reports)
    assert words in text


def test_a_correct_kernel_gives_no_report(simulator: DeviceInfo, reports: Reports) -> None:
    body = "__local float room[16]; room[i] = from[i]; barrier(CLK_LOCAL_MEM_FENCE); to[i] = room[15 - i];"
    assert reported(body, simulator, reports) == ""


def reported(body: str, simulator: DeviceInfo, reports: Reports) -> str:
    """Run a kernel of one group of 16 threads, and return what the simulator says about it."""
    found = device_of(simulator).found
    context = context_of(found)
    source = f"__kernel void k(__global const float *from, __global float *to) {{ int i = get_local_id(0); {body} }}"
    program = cl.Program(context, source).build(options=["-cl-opt-disable"])
    queue = cl.CommandQueue(context, found.device)
    flags = cl.mem_flags
    numbers = np.arange(16, dtype=np.float32)
    buffers = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=numbers) for _ in range(2)]
    cl.Kernel(program, "k")(queue, (16,), (16,), *buffers)
    queue.finish()
    return reports.take()
