"""Forward mode: the transpose of reverse mode, on generated functions and on each kind of operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given

from strategies.derivatives import Problem, accept, problems, pulled, pushed, types_of
from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, Scan, ScanPart, ScanResult, TensorType, Value
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from strategies.derivatives import Arrays


def assert_transposed(
    function: Function, inputs: Arrays, wrt: Sequence[str], cotangents: Arrays, *, even_ties: bool = False
) -> None:
    """Compare ``<w, jvp(v)>`` with ``<vjp(w), v>``."""
    random = np.random.default_rng(1)
    tangents: dict[str, NDArray[Any]] = {name: np.asarray(random.uniform(1, 2, inputs[name].shape)) for name in wrt}
    outputs = tuple(cotangents)
    ahead = pushed(function, outputs, types_of(tangents), even_ties=even_ties)
    moved = interpret(ahead, {**inputs, **{f"v_{name}": array for name, array in tangents.items()}})
    back = pulled(function, wrt, types_of(cotangents), even_ties=even_ties)
    found = interpret(back, {**inputs, **{f"w_{name}": array for name, array in cotangents.items()}})
    left = sum(float(np.sum(w * moved[f"d_{name}"])) for name, w in cotangents.items())
    terms = [float(np.sum(found[f"d_{name}"] * v)) for name, v in tangents.items()]
    scale = 1 + sum(float(np.sum(np.abs(found[f"d_{name}"] * v))) for name, v in tangents.items())
    assert np.isclose(left, sum(terms), rtol=0, atol=1e-9 * scale, equal_nan=True)


@examples(60)
@given(problems())
def test_contractions(problem: Problem) -> None:
    accept(problem)
    assert_transposed(
        infer(parse(problem.text), types_of(problem.inputs)), problem.inputs, problem.wrt, problem.cotangents
    )


@examples(40)
@given(problems("><"))
def test_extrema_with_even_ties(problem: Problem) -> None:
    accept(problem)
    inputs = {name: np.round(array) for name, array in problem.inputs.items()}
    function = infer(parse(problem.text), types_of(inputs))
    assert_transposed(function, inputs, problem.wrt, problem.cotangents, even_ties=True)


@examples(40)
@given(cases(dtypes=(DType.F64,)))
def test_generated_functions(case: Case) -> None:
    function = infer(parse(case.text), case.types)
    outputs = [o.name for o in function.operations if o.name in function.outputs and o.dtype is DType.F64]
    wrt = [value.name for value in function.inputs if value.dtype is DType.F64]
    shapes = {o.name: o.shape for o in function.operations}
    assume(bool(outputs and wrt))
    random = np.random.default_rng(2)
    cotangents = {name: np.asarray(random.uniform(1, 2, shapes[name])) for name in outputs}
    with np.errstate(all="ignore"):
        assert_transposed(function, case.inputs, wrt, cotangents)


def run(text: str, **inputs: object) -> dict[str, NDArray[Any]]:
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    function = infer(parse(text), types_of(arrays))
    verify(function)
    return interpret(function, arrays)


def test_operations_that_move_elements() -> None:
    text = """
    function (A[N, M], B[K], I[K], D[N, M], E[K]) -> (G, S, R) {
        P = gather(A, I); Q = scatter(B, I, A); T = reshape(A, 6) * 2;
        J = jvp(tuple(P, Q, T), tuple(A, B), tuple(D, E));
        G = element(J, 0); S = element(J, 1); R = element(J, 2);
    }"""
    tangent, chosen = np.arange(6.0).reshape(3, 2), np.array([2, 0, 2, 1], np.int32)
    found = run(text, A=np.ones((3, 2)), B=np.ones(4), I=chosen, D=tangent, E=np.array([1.0, 2, 3, 4]))
    np.testing.assert_array_equal(found["G"], tangent[chosen])
    np.testing.assert_array_equal(found["S"], [2, 4, 4])
    np.testing.assert_array_equal(found["R"], 2 * tangent.reshape(6))


def test_tangents_broadcast() -> None:
    text = """
    function (A[N, M], I[K]) -> (G, R, S) {
        X = gather(A, I); Y = reshape(A, 6); O[i : N] = +(A[i, j]);
        G = jvp(X, A, 1.0); R = jvp(Y, A, 1.0); S = jvp(O, A, 1.0);
    }"""
    found = run(text, A=np.zeros((3, 2)), I=np.array([1, 1], np.int32))
    np.testing.assert_array_equal(found["G"], np.ones((2, 2)))
    np.testing.assert_array_equal(found["R"], np.ones(6))
    np.testing.assert_array_equal(found["S"], np.full(3, 2.0))


def test_values_that_move_by_themselves_move_with_others_too() -> None:
    text = "function (A, D, E) -> (J) { B = A * 3; Y = A * B; J = jvp(Y, tuple(A, B), tuple(D, E)); }"
    assert float(run(text, A=2.0, D=1.0, E=10.0)["J"]) == 6.0 + 2.0 * (3.0 + 10.0)


def test_what_does_not_move_has_a_tangent_of_zeros() -> None:
    text = "function (A[N], B[N], D[N]) -> (J) { Y = B * 2; J = jvp(Y, A, D); }"
    np.testing.assert_array_equal(run(text, A=np.ones(2), B=np.ones(2), D=np.ones(2))["J"], [0, 0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("stop_gradient(A)", 0.0),
        ("checkpoint(A)", 5.0),
        ("reverse_grad(A, 3)", -15.0),
        ("override_gradient(Z, A, upstream(Z) * B)", 35.0),
    ],
)
def test_overrides_hold_transposed(value: str, expected: float) -> None:
    text = f"function (A[N], B[N], D[N]) -> (J) {{ Z = A * A; Y = {value}; J = jvp(Y, A, D); }}"
    np.testing.assert_array_equal(run(text, A=np.ones(2), B=np.full(2, 7.0), D=np.full(2, 5.0))["J"], [expected] * 2)


def test_second_derivatives_mix_both_modes() -> None:
    text = "function (A, D) -> (H) { Y = A * A * A; G = gradient(Y, A); H = jvp(G, A, D); }"
    assert float(run(text, A=2.0, D=5.0)["H"]) == 6 * 2.0 * 5.0


@pytest.mark.parametrize(
    ("call", "code", "underlined"),
    [
        ("jvp(Y, A, 1)", None, None),
        ("jvp(Y, I, 1)", "TIL321", "I"),
        ("jvp(I, A, 1)", "TIL321", "I"),
        ("jvp(Y, A, B)", "TIL322", "B"),
        ("jvp(Y, A, I)", "TIL322", "I"),
        ("jvp(Y, tuple(A, Y), tuple(A))", "TIL322", "jvp(Y, tuple(A, Y), tuple(A))"),
    ],
)
def test_faults(call: str, code: str | None, underlined: str | None) -> None:
    text = f"function (A[N], B[M], I[N]) -> (J) {{ Y = A * 2; J = {call}; }}"
    arrays: dict[str, NDArray[Any]] = {"A": np.ones(2), "B": np.ones(3), "I": np.ones(2, np.int32)}
    if code is None:
        infer(parse(text), types_of(arrays))
        return
    with pytest.raises(TileError) as caught:
        infer(parse(text), types_of(arrays))
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == [(code, underlined)]


def loop(part: ScanPart, number: int, *, reverse: bool) -> Function:
    """Return a result of h = tanh(h * w + x); y = h * w, with w of fewer axes and a carry that counts."""
    body = """
    function (H, C, X, W) -> (H_new, C_new, Y) {
        H_new = tanh(H * W + X); C_new = C + 1; Y = H_new * W * as_f64(C);
    }"""
    types = {"H": TensorType(DType.F64, (2,)), "C": TensorType(DType.I32, ())}
    types |= {"X": TensorType(DType.F64, (2,)), "W": TensorType(DType.F64, ())}
    step = infer(parse(body), types)
    shape = {ScanPart.FINAL: (2,), ScanPart.HISTORY: (4, 2), ScanPart.OUTPUT: (4, 2)}[part]
    result = ScanResult(part, number)
    scan = Scan("O", step, 4, reverse, ("h", "c"), ("x",), ("w",), result, DType.F64, shape)
    inputs = (
        Value("h", DType.F64, (2,)),
        Value("c", DType.I32, ()),
        Value("x", DType.F64, (4, 2)),
        Value("w", DType.F64, ()),
    )
    return Function(inputs, ("O",), (scan,))


@pytest.mark.parametrize("wrt", [("h",), ("x",), ("w",), ("h", "x", "w")])
@pytest.mark.parametrize(("part", "number"), [(ScanPart.FINAL, 0), (ScanPart.HISTORY, 0), (ScanPart.OUTPUT, 0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_loops(part: ScanPart, number: int, wrt: tuple[str, ...], reverse: bool) -> None:
    function = loop(part, number, reverse=reverse)
    random = np.random.default_rng(3)
    inputs: dict[str, NDArray[Any]] = {
        v.name: np.asarray(random.uniform(-1, 1, v.shape)).astype(v.dtype.numpy) for v in function.inputs
    }
    cotangent = np.asarray(random.uniform(1, 2, function.operations[0].shape))
    assert_transposed(function, inputs, wrt, {"O": cotangent})


@pytest.mark.parametrize("shape", [(), (2,), (1, 2), (4, 1)])
def test_sequences_that_move_alike_in_all_steps(shape: tuple[int, ...]) -> None:
    function = loop(ScanPart.OUTPUT, 0, reverse=False)
    inputs: dict[str, NDArray[Any]] = {v.name: np.full(v.shape, 0.5, v.dtype.numpy) for v in function.inputs}
    tangent = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    found = []
    for value in (tangent, np.array(np.broadcast_to(tangent, (4, 2)))):
        ahead = pushed(function, ("O",), types_of({"x": value}))
        found.append(interpret(ahead, {**inputs, "v_x": value})["d_O"])
    np.testing.assert_array_equal(found[0], found[1])
