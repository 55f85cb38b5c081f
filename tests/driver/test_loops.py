"""Loops from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.devices import compiler, executor
from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.resources import Resources
from tileir.semtree.lower import lowering as to_semtree
from tileir.stripe.lower import lowering as to_stripe
from tileir.typed.interpreter import interpret

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from tileir.typed.ir import Function


@examples(12)
@given(functions())
def test_processors_compute_what_loops_mean(function: Function) -> None:
    target: Target = compiler().device.target
    program = to_semtree.lower(run(pipeline_for(target), to_stripe.lower(function)), target)
    plan = Plan.of(program, compiler().build(program.kernels), Resources(executor()))
    given, outputs = arguments(function), plan.fresh_outputs()
    for _ in range(2):
        plan.run([np.ascontiguousarray(given[buffer.name]) for buffer in plan.inputs], outputs)
        found = dict(zip((buffer.name for buffer in plan.outputs), outputs, strict=True))
        expected = interpret(function, given)
        assert_same({name: found[name] for name in expected}, expected)


RECURRENT = """function (Xs[T, B, I], H0[B, N], W[I, N], U[N, N]) -> (Ys, DW) {
  S = scan(H0; Xs; W, U) function (H[B, N], X[B, I], W[I, N], U[N, N]) -> (H2, Y) {
    P[b, n : B, N] = +(X[b, i] * W[i, n]);
    Q[b, n : B, N] = +(H[b, m] * U[m, n]);
    H2 = tanh(P + Q);
    Y = H2;
  };
  Ys = element(S, 1);
  DW = gradient(Ys, W);
}"""


def recurrent(steps: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    shapes = {"Xs": (steps, 2, 3), "H0": (2, 4), "W": (3, 4), "U": (4, 4)}
    return {name: rng.standard_normal(shape).astype(np.float32) / 2 for name, shape in shapes.items()}


def expected(arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    h, ys = arrays["H0"].astype(np.float64), []
    for x in arrays["Xs"]:
        h = np.tanh(x @ arrays["W"] + h @ arrays["U"])
        ys.append(h)
    return np.array(ys)


def test_the_cache_on_disk_has_loops(tmp_path: Path) -> None:
    arrays = recurrent(7)
    for _ in range(2):
        with tileir.Context(disk_cache=tileir.DiskCache(tmp_path / "cache")) as context:
            ys, _ = tileir.compile(RECURRENT, arrays, context=context)(**arrays)
            np.testing.assert_allclose(ys, expected(arrays), rtol=1e-5)


@pytest.mark.sampled(0)
def test_loops_are_explained() -> None:
    arrays = recurrent(64)
    costs = tileir.explain(RECURRENT, arrays)
    assert {kernel.runs for kernel in costs.kernels} == {1, 64}
    assert "runs 64 times" in str(costs)
    short = tileir.explain(RECURRENT, recurrent(8))
    assert costs.seconds > 4 * short.seconds
    with pytest.raises(tileir.TileError, match="TIL902"):
        tileir.explain(RECURRENT, arrays, measure=True)


@pytest.mark.sampled(0)
def test_the_size_of_a_program_does_not_depend_on_the_number_of_steps() -> None:
    few, many = (tileir.compile(RECURRENT, recurrent(steps)) for steps in (10, 1000))
    assert len(few.sem.kernels) == len(many.sem.kernels)
    ys, _ = many(**recurrent(1000))
    np.testing.assert_allclose(ys, expected(recurrent(1000)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_steps_are_shared_out(threads: int) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "A": np.full((300, 300), 1 / 300, np.float32),
        "W": np.eye(300, dtype=np.float32),
    }
    text = """function (A[N, N], W[N, N]) -> (B) {
      B = scan(A; ; W) 5 times function (A[N, N], W[N, N]) -> (B) { B[i, j : N, N] = +(A[i, k] * W[k, j]); };
    }"""
    with tileir.Context(disk_cache=None) as context:
        run_it = tileir.compile(text, arrays, context=context, options=tileir.Options(threads=threads))
        np.testing.assert_allclose(run_it(**arrays), arrays["A"], rtol=1e-5)
