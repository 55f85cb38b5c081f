"""The pipeline `gpu` on random programs: kernels run by the interpreter, which watches for races between threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, typed_program
from strategies.passes import arrays_for, assert_same_meaning, programs
from strategies.pipelines import gpu
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import DeclareArray, KernelFunction, Region
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir.typed.interpreter import interpret as interpret_typed


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Devices with groups of 1 to 64 threads, and between no and much local memory."""
    return Target(
        vector_bytes=draw(st.sampled_from([4, 8, 16])),
        threads=draw(st.sampled_from([1, 2, 64])),
        local_bytes=draw(st.sampled_from([0, 64, 256, 4096, 48 * 1024])),
        group_threads=draw(st.sampled_from([1, 2, 7, 16, 64])),
        group_width=draw(st.sampled_from([1, 4, 32])),
        max_lanes=draw(st.sampled_from([0, 2, 16])),
        index_dtype=draw(st.sampled_from([DType.I32, DType.I64])),
    )


def fits(kernel: KernelFunction, target: Target) -> bool:
    """Return whether a kernel keeps to what a device offers."""
    declared = [s for s in statements(kernel.body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL]
    lanes = [e.type.lanes for s in statements(kernel.body) for root in expressions(s) for e in walk(root)]
    return (
        kernel.group[0] <= target.group_threads
        and sum(array.size * array.dtype.itemsize for array in declared) <= target.local_bytes
        and max(lanes, default=1) <= (target.max_lanes or target.vector_bytes)
    )


@given(program=programs(), target=targets())
@examples(150)
def test_the_meaning_stays(program: Program, target: Target) -> None:
    scheduled = run(gpu(target), program)
    arrays = arrays_for(program)
    assert_same_meaning(program, scheduled, arrays)
    kernels = lower(scheduled, target)
    verify_program(kernels)
    assert all(fits(kernel, target) for kernel in kernels.kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 8, 64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_all_shapes(name: str, threads: int) -> None:
    function, values = typed_program(name), inputs(name)
    target = Target(vector_bytes=16, group_threads=threads, local_bytes=2048, threads=4, index_dtype=DType.I32)
    kernels = lower(run(gpu(target), lower_to_stripe(function)), target)
    verify_program(kernels)
    found = run_program(kernels, values, ALL_CHECKS)
    for output, expected in interpret_typed(function, values).items():
        np.testing.assert_array_equal(found[output], expected)
