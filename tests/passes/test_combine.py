"""The pass `combine` on tuple reductions of all shapes: lanes, columns, parts, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.tuple_reductions import TupleCase, assert_components, tuple_cases
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.combine import Combine
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

OPTIONS = st.builds(
    Combine,
    vector_bytes=st.sampled_from((0, 8, 16, 32)),
    max_lanes=st.sampled_from((0, 2)),
    unroll=st.integers(1, 4),
    stretch_bytes=st.sampled_from((16, 64, 4096)),
    outputs=st.sampled_from((1, 4, 100)),
    parts=st.integers(1, 5),
    part_terms=st.integers(1, 6),
    least=st.sampled_from((0, 20, None)),
)


@examples(200)
@given(case=tuple_cases(most=70), step=OPTIONS)
def test_any_grouping_has_the_same_meaning(case: TupleCase, step: Combine) -> None:
    program = lower(prepared(case.function))
    combined = run((step,), program)
    verify(combined)
    assert parse(to_text(combined)) == combined
    assert run((step,), combined) is combined
    assert_components(case, tuple(interpret(combined, {"X": case.data}, seed=2).values()))


@examples(60)
@given(case=tuple_cases(most=70), step=OPTIONS)
def test_kernels_compute_the_same(case: TupleCase, step: Combine) -> None:
    target = Target(vector_bytes=32)
    combined = run((step, *parse_pipeline("accumulate, thread{groups=3}")), lower(prepared(case.function)))
    found = run_program(lower_to_kernels(combined, target), {"X": case.data}, ALL_CHECKS)
    assert_components(case, tuple(found.values()))


def combined(shape: tuple[int, ...], axes: str, step: Combine, name: str = "argmax") -> Program:
    sizes = ", ".join(f"D{axis}" for axis in range(len(shape)))
    text = f"function (X[{sizes}]) -> (P) {{ P = element(reduce_{name}(X, {axes}), 1); }}"
    return run((step,), lower(prepared(infer(tileir.parse(text), {"X": TensorType(DType.F32, shape)}))))


def lanes_of(block: Block) -> set[int]:
    own = {index.range for index in block.indices if index.binding is Binding.LANE}
    return own.union(*(lanes_of(inner) for inner in block.blocks))


@pytest.mark.parametrize(
    ("shape", "axes", "step", "kernels", "lanes"),
    [
        ((3, 64), "1", Combine(), 1, set()),  # no vectors
        ((3, 64), "1", Combine(vector_bytes=16), 1, {2, 4}),
        ((3, 7), "1", Combine(vector_bytes=16), 1, set()),  # too few for two vectors
        ((64, 3), "0", Combine(vector_bytes=16), 1, set()),  # nothing is contiguous for long enough
        ((64, 16), "0", Combine(vector_bytes=16), 1, {4}),
        (
            (64, 22),
            "0",
            Combine(vector_bytes=16, stretch_bytes=64, outputs=1),
            3,
            {4},
        ),  # a stretch, a vector less, and the rest
        ((3, 64), "1", Combine(vector_bytes=16, parts=4, part_terms=8), 2, {2, 4}),
        ((3, 66), "1", Combine(vector_bytes=16, parts=4, part_terms=8), 3, {2, 4}),  # a last part of its own
        ((3, 64), "1", Combine(vector_bytes=16, least=65), 0, set()),  # two aggregations, and candidates
        ((64, 16), "0", Combine(vector_bytes=16, least=None), 0, set()),
        ((8, 64), "1", Combine(vector_bytes=16, parts=4, part_terms=8), 1, {2, 4}),  # enough results
    ],
)
def test_groupings(shape: tuple[int, ...], axes: str, step: Combine, kernels: int, lanes: set[int]) -> None:
    program = combined(shape, axes, step)
    reducing = [kernel for kernel in program.main.blocks if "reduce" in kernel.tags]
    assert len(reducing) == kernels
    assert set().union(*map(lanes_of, reducing)) == lanes
    data = np.random.default_rng(1).permutation(int(np.prod(shape))).astype(np.float32).reshape(shape)
    (found,) = interpret(program, {"X": data}).values()
    np.testing.assert_array_equal(found, data.argmax(int(axes)))


def test_other_kernels_stay() -> None:
    text = "function (X[N, M]) -> (S) { S[i : N] = +(X[i, j]); }"
    program = lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (4, 64))}))
    assert Combine(vector_bytes=16)(program) is program
