from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from strategies.means import PASSES
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.loops import between_loops
from tileir.passes.pipelines.resolution import resolve_pipeline
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Launch
from tileir.stripe.lower.lowering import lower
from tileir.stripe.works import loops, uses_of
from tileir.tile.text.parser import parse
from tileir.typed import interpreter
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program
    from tileir.typed.ir import Function


@pytest.mark.parametrize("pipeline", ["cpu", "gpu"])
@examples(8)
@given(function=functions())
def test_pipelines_keep_what_loops_mean(pipeline: str, function: Function) -> None:
    program, given = lower(function), arguments(function)
    scheduled = run(resolve_pipeline(pipeline, Target()), program)
    assert_same(interpret(scheduled, given), interpreter.interpret(function, given))


@examples(20)
@given(data=st.data(), function=functions(depth=1, steps=3))
def test_passes_in_any_order_keep_what_loops_mean(data: st.DataObject, function: Function) -> None:
    steps = [step for steps in map(PASSES.__getitem__, sorted(PASSES)) for step in steps(Target())]
    chosen = data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=3))
    given = arguments(function)
    scheduled = run(chosen, lower(function))
    assert_same(interpret(scheduled, given), interpreter.interpret(function, given))


TEXT = """function (A[N], Xs[T, N]) -> (R, Ys) {
  B = A * 2;
  S = scan(B; Xs) function (H[N], X[N]) -> (H2, Y) {
    C[n : 5] = +(H[n]);
    I = index(C, 0);
    J[n : 5] = +(I[m]), n + m < 5;
    H2 = tanh(H) + C * 0.5 + X * J;
    Y = H2 * 3;
  };
  H = element(S, 0);
  R = H - B;
  Ys = element(S, 1);
}"""


def program() -> Program:
    types = {"A": TensorType(DType.F32, (5,)), "Xs": TensorType(DType.F32, (4, 5))}
    return lower(infer(parse(TEXT), types))


def test_a_pass_sees_kernels_only() -> None:
    seen: list[list[str]] = []

    def look(given: Program) -> Program:
        assert all(isinstance(work, Launch) for work in given.works)
        seen.append([given.entry.name, *given.inputs, "->", *given.outputs])
        return given

    whole = program()
    assert between_loops(look, whole) is whole
    before, step, after = seen
    assert before[:3] == ["program", "A", "->"]
    assert {"A", "S_0", "Xs", "step"} <= {"A", *step[: step.index("->")]}
    assert {"H2", "next_step"} <= set(step[step.index("->") :])
    assert "R" in after[after.index("->") :]


def test_a_step_is_fused_and_its_constants_are_those_of_the_program() -> None:
    scheduled = run(resolve_pipeline("cpu", Target()), program())
    (loop,) = loops(scheduled.works)
    assert len(loop.works) <= 3
    given = {"A": np.linspace(-1, 1, 5, dtype=np.float32), "Xs": np.ones((4, 5), np.float32)}
    found, expected = interpret(scheduled, given), interpret(program(), given)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5)
    assert {buffer.name for buffer in scheduled.buffers} <= uses_of(scheduled.kernels, (loop,)).names


def test_what_a_loop_reads_is_not_dead() -> None:
    whole = program()
    assert run((DeadCode(),), whole).main.statements == whole.main.statements
