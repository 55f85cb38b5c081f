"""Every program of the conformance table, by every means there is of running it."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tileir
from strategies import means
from tileir.semtree.launches import runs
from tileir_testing.programs.case import Conformance
from tileir_testing.programs.catalog import CASES

INTERPRETED_POINTS = 100_000
"""Kernels with more operations are left to the device: their interpreter takes one at a time."""

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def by_name(case: Conformance, results: object) -> dict[str, means.Array]:
    values = results if isinstance(results, tuple) else (results,)
    return dict(zip(case.expected, map(np.asarray, values), strict=True))


@pytest.mark.sampled(4)
@each_case
def test_jit_agrees_with_numpy(case: Conformance) -> None:
    case.check(by_name(case, tileir.jit(case.text)(**case.inputs)))


@pytest.mark.sampled(43)
@each_case
def test_evaluate_agrees_with_numpy(case: Conformance) -> None:
    case.check(by_name(case, tileir.evaluate(case.text, case.inputs)))


@pytest.mark.sampled(8)
@each_case
def test_interpreters_of_kernels_and_stripe_agree_with_numpy(case: Conformance) -> None:
    compiled = means.stages(tileir.parse(case.text), case.inputs)
    case.check(means.by_stripe_interpreter(compiled, case.inputs, scheduled=False))
    case.check(means.by_stripe_interpreter(compiled, case.inputs, scheduled=True))
    work = sum(map(operator.mul, runs(compiled.sem), (kernel.operations for kernel in compiled.sem.kernels)))
    if work <= INTERPRETED_POINTS:
        case.check(means.by_kernel_interpreter(compiled, case.inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", means.PASSES)
@pytest.mark.parametrize("target", means.TARGETS)
def test_results_do_not_depend_on_the_schedule(target: str, passes: str) -> None:
    chosen = sorted(means.TARGETS).index(target) * len(means.PASSES) + list(means.PASSES).index(passes)
    for case in CASES[chosen :: len(means.TARGETS) * len(means.PASSES)]:
        compiled = means.stages(tileir.parse(case.text), case.inputs, target, passes)
        case.check(means.on_device(compiled, case.inputs))


@pytest.mark.sampled(2)
@each_case
def test_groups_of_threads_agree_with_numpy(case: Conformance) -> None:
    """Run the kernels that the passes for cards make, whose threads meet, on the host's processor."""
    compiled = means.stages(tileir.parse(case.text), case.inputs, "groups", "gpu")
    case.check(means.on_device(compiled, case.inputs))


ERRORS: dict[str, tuple[str, dict[str, tuple[int, ...]], list[tuple[str, str]]]] = {
    "broadcast": ("function (A, B) -> (O) { O = A + B; }", {"A": (2, 3), "B": (2, 4)}, [("TIL301", "A + B")]),
    "reassignment": ("function (A) -> (O) { O = A; O = -A; }", {"A": (2,)}, [("TIL202", "O")]),
    "undefined": ("function (A[N]) -> (O) { O[i : N] = +(C[i]); }", {"A": (2,)}, [("TIL201", "C")]),
    "sizes and indices": (
        "function (A[N, M]) -> (O) { O[i, j : N] = +(A[i, j]); }", {"A": (2, 3)}, [("TIL208", "O")],
    ),
    "rank": ("function (A[N, M]) -> (O) { O[i : N] = +(A[i]); }", {"A": (2, 3)}, [("TIL209", "A[i]")]),
    "not a square": ("function (A[N, N]) -> (O) { O = A; }", {"A": (2, 3)}, [("TIL304", "N")]),
    "two sizes of a dimension": (
        "function (A[M, N], B[N, L]) -> (O) { O[i, j : M, L] = +(A[i, k] * B[k, j]); }",
        {"A": (2, 3), "B": (4, 2)}, [("TIL304", "N")],
    ),
    "another rank": ("function (A[N, M]) -> (O) { O = A; }", {"A": (2,)}, [("TIL305", "A[N, M]")]),
    "unbounded index": (
        "function (A[N]) -> (O) { O[i : N] = +(A[i] * A[j - k]); }", {"A": (3,)}, [("TIL401", "k")],
    ),
    "index in constraints only": (
        "function (A[N]) -> (O) { O[i : N] = +(A[i]), i + j < 3; }", {"A": (3,)}, [("TIL403", "j")],
    ),
    "false constraint": (
        "function (A[N]) -> (O) { O[i : N] = +(A[i]), 5 < 3; }", {"A": (3,)}, [("TIL404", "5 < 3")],
    ),
    "not affine": (
        "function (A[N]) -> (O) { O[i : N] = +(A[i * j]); }", {"A": (3,)}, [("TIL402", "i * j")],
    ),
    "assignment of several values": (
        "function (A[N, L], B[L, M]) -> (O) { O[i, j : N, M] = =(A[i, k] * B[k, j]); }",
        {"A": (1, 5), "B": (5, 1)}, [("TIL406", "O[i, j : N, M] = =(A[i, k] * B[k, j])")],
    ),
    "size with a fraction": (
        "function (A[N]) -> (O) { O[i : N / 2.0] = +(A[2 * i]); }", {"A": (5,)}, [("TIL307", "N / 2.0")],
    ),
}  # fmt: skip
"""Programs that the reference refuses, with shapes, codes and underlined texts."""


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_programs_are_refused_alike(name: str) -> None:
    text, shapes, expected = ERRORS[name]
    arrays = {tensor: np.zeros(shape, np.float32) for tensor, shape in shapes.items()}
    for run in (tileir.compile, tileir.evaluate):
        with pytest.raises(tileir.TileError) as caught:
            run(text, arrays)
        assert [(d.code, d.underlined) for d in caught.value.diagnostics] == expected


def test_a_constraint_without_points_leaves_zeros() -> None:
    text = "function (A[N]) -> (O) { O[2 * i : N] = +(A[4 * i]), i - 100 < 50; }"
    np.testing.assert_array_equal(tileir.jit(text)(np.ones(8, np.float32)), np.zeros(8, np.float32))


def test_random_numbers_are_uniform_and_go_on() -> None:
    draw = tileir.jit("function (S) -> (V, T) { P = prng_step(S, 300, 200); V = prng_value(P); T = prng_state(P); }")
    first, state = draw(np.array([1, 2, 3, 0], np.uint32))
    second, after = draw(state)
    for values in (first, second):
        assert values.min() >= 0
        assert values.max() < 1
        assert abs(values.mean() - 0.5) < 0.005
        assert abs(values.std() - 1 / np.sqrt(12)) < 0.005
    assert (first != second).mean() > 0.99
    assert not np.array_equal(state, after)
