from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.core.errors import TileError
from tileir.core.numbers.arithmetic import dtype_of
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.compare import Comparison, reduced
from tileir_testing.generated.bounds import differences
from tileir_testing.generated.case import Case, fault_of, program
from tileir_testing.generated.exact import sums_exactly
from tileir_testing.subject import Subject

REFERENCE = "tileir_reference:BACKEND"


def compare(*names: str, **changes: int) -> tuple[bool, list[str]]:
    said: list[str] = []
    options = {"seed": 0, "start": 0, "programs": 24, "batch": 8, **changes}
    subjects = tuple(Subject.of(name) for name in names)
    return Comparison(subjects, **options, say=said.append).run(), said


@pytest.mark.sampled(0)
def test_those_who_agree() -> None:
    agree, said = compare(REFERENCE, "llvm")
    assert agree
    assert said[0].startswith("24 programs agree")
    assert said[1].startswith("reference.0: floats at most")
    assert said[2].startswith("llvm.0: floats at most")


@pytest.mark.sampled(0)
def test_the_first_disagreement_is_shown_with_a_small_program() -> None:
    agree, said = compare(REFERENCE, "broken_backends:MAX", programs=400)
    assert not agree
    assert "disagree: R" in said[0]
    assert "max" in said[1] or ">" in said[1]
    number = int(said[0].split()[1])
    assert said[2] == f"again: --seed 0 --start {number} --programs 1"
    again, repeated = compare(REFERENCE, "broken_backends:MAX", start=number, programs=1)
    assert not again
    assert repeated[0] == said[0]


def test_a_device_that_fails_disagrees() -> None:
    agree, said = compare(REFERENCE, "broken_backends:CARELESS", programs=8)
    assert not agree
    assert "reference.0" in said[0]


def test_programs_are_reduced_to_what_fails() -> None:
    text = "function (A) -> (O, P) { B = A + 1; C = B * 2; O = C; P = max(B, 3); Q = C - 1; }"
    case = Case(parse(text), {"A": np.arange(3)}, text)

    def fails(smaller: Case) -> bool:
        infer(smaller.function, smaller.types)
        if "P" not in [output.name for output in smaller.function.outputs]:
            raise TileError(())
        return "max" in smaller.text

    small = reduced(case, fails)
    assert [output.name for output in small.function.outputs] == ["P"]
    assert "C =" not in small.text
    assert "P = max(B, 3)" in small.text


def bounds(text: str, **inputs: Any) -> dict[str, Any]:
    function = infer(parse(text), {n: TensorType(dtype_of(a), a.shape) for n, a in inputs.items()})
    return differences(function, inputs)


UNIT = 2.0**-24
X = np.linspace(0.1, 2.0, 8, dtype=np.float32).reshape(2, 4)


def test_exact_programs_have_no_bound() -> None:
    found = bounds("function (A) -> (O, P) { O = A * A + 1; P[] = +(A[i, j]); }", A=X)
    assert all(np.all(bound == 0) for bound in found.values())


def test_errors_grow_along_the_way() -> None:
    text = """function (A[N, M]) -> (E, S, T, R) {
      E = exp(A); S = E + E; T[i : N] = +(E[i, j] * A[i, j]); R = tanh(S);
    }"""
    found = bounds(text, A=X)
    value = np.exp(X.astype(np.float64))
    assert np.all(found["E"] > 2 * UNIT * value)
    assert np.all(found["E"] < 40 * UNIT * value)
    assert np.all(found["S"] > 2 * found["E"])
    carried = (found["E"] * X).sum(axis=1)
    assert np.all(found["T"] > carried)
    assert np.all(found["T"] < 2 * carried + 40 * UNIT * (value * X).sum(axis=1))
    assert np.all(found["R"] > found["S"])


def test_casts_moves_and_choices_carry_errors() -> None:
    text = """function (A[N, M], I) -> (H, R, G, W, X, D) {
      E = exp(A); H = as_f16(E); R = reshape(E, M, N); G = gather(E, I); W = A > 1 ? E : A;
      X[j : M] = >(E[i, j]); D[0, 0 : N, M] = =(A[0, 0]) default E;
    }"""
    found = bounds(text, A=X, I=np.array([1, 1, 0]))
    error = bounds("function (A) -> (E) { E = exp(A); }", A=X)["E"]
    assert np.all(found["H"] >= 2 * 2.0**-12 * np.exp(X))
    np.testing.assert_array_equal(found["R"], error.reshape(4, 2))
    np.testing.assert_array_equal(found["G"], error[[1, 1, 0]])
    np.testing.assert_array_equal(found["W"], np.where(X > 1, error, 0))
    assert np.all(found["X"] >= error.max(axis=0))
    assert np.all(found["D"].reshape(-1)[1:] >= error.reshape(-1)[1:])


def test_scattered_errors_add_up() -> None:
    text = "function (A, I, L) -> (O) { E = sqrt(A) * 0 + exp(A); O = scatter(E, I, L); }"
    given = np.ones(6, np.float32)
    found = bounds(text, A=given, I=np.array([0, 0, 0, 1, 1, 2]), L=np.zeros(3, np.float32))
    one = bounds("function (A) -> (E) { E = exp(A); }", A=given)["E"][0]
    assert np.all(found["O"] >= one * np.array([3, 2, 1]))


def test_nothing_is_said_where_infinities_meet_errors() -> None:
    given = np.array([np.inf, 1.0], np.float32)
    found = bounds("function (A) -> (O) { E = sin(A * 0 + 1); O = E * A; }", A=given)
    assert np.isinf(found["O"][0]) or np.isnan(found["O"][0])
    assert np.isfinite(found["O"][1])


@pytest.mark.parametrize(
    ("left", "right", "fault"),
    [
        (np.array([1, 2]), np.array([1, 2]), None),
        (np.array([1, 2]), np.array([1, 3]), r"[1] is 2, not 3; 0.5 apart is allowed"),
        (np.array([1.0, np.nan]), np.array([1.4, np.nan]), None),
        (np.array([1.0]), np.array([1.6]), r"[0] is 1.0, not 1.6; 0.5 apart is allowed"),
        (np.array([1.0]), np.array([1]), r" is float64 of shape (1,), not int64 of shape (1,)"),
    ],
)
def test_faults_say_where_and_how_much(left: Any, right: Any, fault: str | None) -> None:
    assert fault_of(left, right, np.asarray(0.5)) == fault


@pytest.mark.parametrize(("largest", "exact"), [(64, True), (65, False), (2**63 - 1, False)])
def test_large_integers_are_not_summed_up_as_floats(largest: int, exact: bool) -> None:
    inputs = {"A": np.array([largest, 1]), "B": np.ones((), np.float16)}
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in inputs.items()}
    (operation,) = infer(parse("function (A, B) -> (O) { O[] = +(A[i] * B[]); }"), types).operations
    assert sums_exactly(operation, inputs) is exact


def test_generated_programs_are_right_and_within_their_bounds() -> None:
    for number in range(30):
        case = program(11, number)
        case.check(case.expected())
