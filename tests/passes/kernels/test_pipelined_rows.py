"""Structure of interleaved rows; test_vectorise_reduction.py checks the results."""

from __future__ import annotations

from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.vectors.pipelining import pipelined
from tileir.schedule.nest import Nest
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def softmax(rows: int) -> Nest:
    text = """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = exp(X - P); S[m, 0 : M, 1] = +(E[m, n]); O = E / S;
    }"""
    program = lower(infer(parse(text), {"X": TensorType(DType.F32, (rows, 64))}))
    joined = (Accumulate(), Fuse(), Fusion(rows=True), Fuse(parent_reqs=("fused",)), Localise(), Scalarise())
    (kernel,) = run(joined, program).main.blocks
    nest = reduction_nest(kernel)
    assert isinstance(nest, Nest)
    return nest


def test_each_row_is_one_loop_behind_the_one_before() -> None:
    nest = softmax(8)
    loops = [segment for segment in nest.segments if segment.loops]
    beside = pipelined(nest, 2)
    counts = [len(segment.statements) for segment in beside.segments if segment.loops]
    first, second, third = (len(segment.statements) for segment in loops)
    assert counts == [first, second + first, third + second, third]
    assert [index.range for index in beside.indices] == [4]
    assert len(beside.allocations) == 2 * len(nest.allocations)


def test_rows_that_no_pair_can_be_made_of_stay_as_they_are() -> None:
    nest = softmax(7)
    assert pipelined(nest, 2) is nest
    assert pipelined(nest, 1) is nest
