from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import run
from tileir.passes.pipelines.resolution import resolve_pipeline
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import BufferRole, Launch, Loop
from tileir.semtree.lower.lowering import lower
from tileir.stripe.lower import lowering
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType

TEXT = "function (A[N], Xs[T, N]) -> (H) { H = scan(A; Xs) function (A[N], X[N]) -> (B) { B = A + X; }; }"


@examples(10)
@given(functions())
def test_kernels_compute_what_loops_mean(function: Function) -> None:
    given = arguments(function)
    program = lower(run(resolve_pipeline("cpu", Target()), lowering.lower(function)), Target())
    verify_program(program)
    assert_same(run_program(program, given), interpret(function, given))


@pytest.mark.parametrize("steps", range(6))
def test_two_steps_take_turns(steps: int) -> None:
    types = {"A": TensorType(DType.F32, (2,)), "Xs": TensorType(DType.F32, (steps, 2))}
    program = compile_stages(TEXT, types, Target()).sem
    assert [work.times for work in program.works if isinstance(work, Loop)] == ([steps // 2] if steps > 1 else [])
    x = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)
    result = run_program(program, {"A": np.ones(2, np.float32), "Xs": x})["H"]
    np.testing.assert_array_equal(result, 1 + x.sum(axis=0))


def test_memory_that_takes_turns_with_that_of_the_caller_asks_for_no_more_alignment() -> None:
    types = {"A": TensorType(DType.F32, (2,)), "Xs": TensorType(DType.F32, (4, 2))}
    program = compile_stages(TEXT, types, Target()).sem
    roles = {buffer.name: buffer.role for buffer in program.buffers}
    (loop,) = (work for work in program.works if isinstance(work, Loop))
    for launch in loop.works:
        assert isinstance(launch, Launch)
        for param, name in zip(program.kernels[launch.kernel].params, launch.arguments, strict=True):
            if roles[name] is BufferRole.OUTPUT:
                assert param.alignment == 4


def test_a_kernel_of_the_step_counts_the_steps() -> None:
    types = {"A": TensorType(DType.F32, (2,)), "Xs": TensorType(DType.F32, (4, 2))}
    program = compile_stages(TEXT, types, Target()).sem
    (loop,) = (work for work in program.works if isinstance(work, Loop))
    assert len(loop.works) == 2
    assert len(program.kernels) == 3  # two that give first values, and one for both steps
