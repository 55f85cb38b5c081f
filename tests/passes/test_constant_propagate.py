from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, programs
from tileir.core.dtype import DType
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.base import run
from tileir.passes.rewrites.constant_propagate import ConstantPropagate
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

TABLE = """function (X[B, S, D]) -> (O) {{
    P[s, d : S, D] = =(X[0, s, d]);
    T = {table};
    O = X + T;
}}"""


def program_of(table: str, shape: tuple[int, ...] = (3, 6, 8)) -> Program:
    return lower(infer(parse(TABLE.format(table=table)), {"X": TensorType(DType.F32, shape)}))


def arrays(program: Program) -> dict[str, Any]:
    shapes = {name: program.entry.refinement(name).shape.sizes for name in program.inputs}
    return {n: np.random.default_rng(4).standard_normal(s).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_kernels_keep_their_meaning(name: str) -> None:
    program = stripe_program(name)
    assert_same_meaning(program, run((ConstantPropagate(),), program), inputs(name))


@examples(60)
@given(program=programs(8), operations=st.sampled_from((0, 20, 1 << 18)), cheap=st.booleans())
def test_generated_programs_keep_their_meaning(program: Program, operations: int, *, cheap: bool) -> None:
    assert_same_meaning(program, run((ConstantPropagate(max_operations=operations, cheap=cheap),), program))


def test_a_table_of_positions_becomes_a_constant() -> None:
    program = program_of("sin(index(P, 0) * 0.1 + index(P, 1))")
    after = run((ConstantPropagate(cheap=False),), program)
    assert_same_meaning(program, after, arrays(program))
    (buffer,) = after.buffers
    assert len(buffer.data) == 4 * 6 * 8
    assert after.entry.refinement(buffer.name).constant
    assert len(after.main.blocks) == 2  # the copy that gave the table its shape, and the sum


def test_contractions_of_constants_are_run() -> None:
    text = "function (X[N]) -> (O) { I = index(X, 0); S[] = +(I[n]); O = X * S; }"
    program = lower(infer(parse(text), {"X": TensorType(DType.F32, (9,))}))
    after = run((ConstantPropagate(),), program)
    assert_same_meaning(program, after, arrays(program))
    assert [buffer.data for buffer in after.buffers] == [np.float32(36).tobytes()]


@pytest.mark.parametrize(
    "options",
    [
        ConstantPropagate(max_operations=40),
        ConstantPropagate(max_bytes=100),
        ConstantPropagate(reqs=("other",)),
    ],
)
def test_what_is_too_much_is_left_to_the_program(options: ConstantPropagate) -> None:
    program = program_of("sin(index(P, 0) * 0.1)")
    assert run((options,), program) is program


def test_dependences_on_kernels_that_went_go_too() -> None:
    program = run((ComputeDeps(),), program_of("sin(index(P, 0) * 0.1 + index(P, 1))"))
    assert any(kernel.deps for kernel in program.main.statements)
    after = run((ConstantPropagate(cheap=False),), program)
    assert len(after.main.statements) < len(program.main.statements)
    assert not any(kernel.deps for kernel in after.main.statements)  # they are numbers of statements


def test_cheap_elements_are_left_to_those_who_read_them() -> None:
    program = program_of("index(P, 0) + 1.0")
    assert run((ConstantPropagate(cheap=False),), program) is program
    assert run((ConstantPropagate(),), program).buffers


def test_results_are_computed_by_the_program() -> None:
    program = lower(infer(parse("function (X[N]) -> (O) { O = index(X, 0); }"), {"X": TensorType(DType.F32, (4,))}))
    assert not run((ConstantPropagate(),), program).buffers


def test_compiled_programs_read_constants() -> None:
    text = TABLE.format(table="sin(index(P, 0) * 0.1 + index(P, 1))")
    executable = tileir.compile(text, {"X": TensorType(DType.F32, (3, 6, 8))})
    given = np.ones((3, 6, 8), np.float32)
    place = np.indices((6, 8))
    wanted = given + np.sin(place[0] * 0.1 + place[1])
    np.testing.assert_allclose(executable(X=given), wanted, rtol=1e-5)
    assert len(executable.sem.kernels) == 1
