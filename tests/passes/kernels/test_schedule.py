"""Schedules of whole programs keep their meaning, in Stripe and as kernels, for several kinds of targets."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.kernels import PROGRAMS, inputs, stripe_program, typed_program
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.base import Pass, run
from tileir.passes.regions.separate import Separate
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.group_elementwise import GroupElementwise
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.passes.schedules.vectors.stream_reduction import StreamReduction
from tileir.passes.schedules.vectors.thread import Thread
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.passes.schedules.vectors.vectorise_reduction import VectoriseReduction
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Device
from tileir.typed.interpreter import interpret as interpret_typed

SCHEDULES: dict[str, tuple[Pass, ...]] = {
    "plain": (Accumulate(),),
    "threads": (Accumulate(), Thread(groups=4)),
    "lanes": (Accumulate(), VectoriseReduction(vector_bytes=16, unroll=2), Vectorise(vector_bytes=16, chunk=16)),
    "registers": (
        Accumulate(),
        RegisterTile(vector_bytes=16, registers=16, cache_bytes=64, reads=4, threads=4, operations=0),
    ),
    "all": (
        Accumulate(),
        RegisterTile(vector_bytes=32, registers=32, cache_bytes=128, reads=4, threads=2),
        VectoriseReduction(vector_bytes=32),
        Vectorise(vector_bytes=32, chunk=32),
        Thread(),
    ),
    "inside": (
        Accumulate(),
        Separate(least=1, share=0, operations=0),
        RegisterTile(vector_bytes=16, registers=16, cache_bytes=64, reads=4, threads=4, operations=0),
        Thread(),
    ),
    "split": (SplitReduction(parts=4, operations=1), Accumulate(), VectoriseReduction(vector_bytes=16), Thread()),
    "streams": (Accumulate(), StreamReduction(vector_bytes=16, stretch_bytes=32, unroll=3), Thread()),
    "groups": (Accumulate(), GroupElementwise(threads=8, vector_bytes=8, vectors=2), Distribute(threads=8)),
    "groups of all sizes": (Accumulate(), GroupElementwise(threads=48, vector_bytes=16), Distribute(threads=5)),
    "fixed tile": (Accumulate(), RegisterTile(vector_bytes=16, rows=3, columns=2), Thread()),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_keep_the_meaning(name: str, schedule: str) -> None:
    function, values = typed_program(name), inputs(name)
    expected = interpret_typed(function, values)
    scheduled = run(SCHEDULES[schedule], stripe_program(name))
    found = interpret(scheduled, values)
    kernels = lower(scheduled, Target(vector_bytes=16))
    verify_program(kernels)
    by_kernels = run_program(kernels, values, ALL_CHECKS)
    for output in function.outputs:
        np.testing.assert_array_equal(found[output], expected[output])
        np.testing.assert_array_equal(by_kernels[output], expected[output])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [DType.I8, DType.U16, DType.I64, DType.F64, DType.F16, DType.BF16])
@pytest.mark.parametrize("name", ["matmul", "sum over columns", "greatest of all", "padded convolution"])
def test_schedules_keep_the_meaning_for_other_dtypes(name: str, dtype: DType) -> None:
    values = {n: np.abs(a) for n, a in inputs(name, dtype).items()}
    function = typed_program(name, dtype)
    expected = interpret_typed(function, values)
    scheduled = run(SCHEDULES["all"], stripe_program(name, dtype))
    found = run_program(lower(scheduled, Target(vector_bytes=32)), values)
    for output in function.outputs:
        np.testing.assert_array_equal(found[output], expected[output])


def test_a_matrix_product_is_packed_tiled_and_vectorised() -> None:
    scheduled = run(SCHEDULES["all"], stripe_program("matmul"))
    tags = {tag for kernel in scheduled.main.blocks for tag in _tags(kernel)}
    locations = {device.name for kernel in scheduled.main.blocks for device in _locations(kernel)}
    assert {"vector", "unroll"} <= tags
    assert {"REGISTER", "SCRATCH"} <= locations


def _tags(block: Block) -> set[str]:
    own = {tag for index in block.indices for tag, _ in index.words.items}
    return own.union(*(_tags(inner) for inner in block.blocks))


def _locations(block: Block) -> set[Device]:
    own = {device for r in block.refinements for device in r.location}
    return own.union(*(_locations(inner) for inner in block.blocks))
