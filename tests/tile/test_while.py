"""Loops that run while something holds: their text, rules, warnings and builder, and what they compute, by NumPy."""

# ruff: noqa: ARG005  the arguments are there to be ignored
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.examples import interpreted
from tileir import ops
from tileir.core.errors import ParseError, TileError, VerifyError
from tileir.core.numbers.arithmetic import dtype_of
from tileir.stripe.interpret.interpreter import interpret as run_stripe
from tileir.stripe.lower.lowering import lower
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Scan, TensorType
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.text.parser import parse as parse_typed
from tileir.typed.text.printer import to_text as typed_text
from tileir.typed.verifier import verify as verify_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.tile.builder import Tensor

DEVICES = tuple(device.id for device in tileir.devices() if device.id in ("llvm.0", "opencl.0"))
MORE = "function (A[], B[]) -> (C) {\n    C = B != 0;\n  }"
STEP = "function (A[], B[]) -> (A1, B1) {\n    A1 = B;\n    B1 = mod(A, B);\n  }"
GCD = f"function (A[], B[]) -> (G) {{\n  R = while(A, B) {MORE} do {STEP};\n  G = element(R, 0);\n}}\n"


def stages(function: Function, arrays: dict[str, np.ndarray[Any, Any]]) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Return results of every stage that has a meaning, and of the devices of this machine."""
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in arrays.items()}
    typed = infer(function, types)
    verify_typed(typed)
    assert parse_typed(typed_text(typed)) == typed
    found = [interpreted(function, arrays), interpreted(raise_to_tile(typed), arrays)]
    found.append(dict(run_stripe(lower(simplify(typed)), arrays)))
    for device in DEVICES:
        made = tileir.compile(function, arrays, device=device)(**arrays)
        found.append(dict(zip(typed.outputs, made if isinstance(made, tuple) else (made,), strict=True)))
    return found


def agrees(function: Function, arrays: dict[str, Any], wanted: Sequence[Any], tolerance: float = 0.0) -> None:
    """Compare the results of every stage with those of Python and NumPy."""
    given = {name: np.asarray(array) for name, array in arrays.items()}
    for results in stages(function, given):
        for result, right in zip(results.values(), wanted, strict=True):
            assert np.shape(result) == np.shape(right)
            np.testing.assert_allclose(result, right, rtol=tolerance, atol=tolerance)


def loop(
    condition: Callable[..., Tensor], step: Callable[..., Any], carries: Sequence[Any], constants: Sequence[Any] = ()
) -> Function:
    """Return the function of inputs like these arrays to the last carries."""
    f = FunctionBuilder()
    given = [
        f.input(f"{kind}{n}", *(f"{kind}{n}_{axis}" for axis in range(np.ndim(array))))
        if np.ndim(array)
        else f.scalar(f"{kind}{n}")
        for kind, arrays in (("C", carries), ("K", constants))
        for n, array in enumerate(arrays)
    ]
    last = tf.while_loop(condition, step, given[: len(carries)], given[len(carries) :])
    return f.build(**{f"R{number}": value for number, value in enumerate(last)})


def named(carries: Sequence[Any], constants: Sequence[Any] = ()) -> dict[str, Any]:
    return {
        f"{kind}{n}": array for kind, arrays in (("C", carries), ("K", constants)) for n, array in enumerate(arrays)
    }


@pytest.mark.parametrize(
    "statement",
    [
        f"R = while(A, B) {MORE} do {STEP};",
        "[[pid(a)]] R = while(A; N) function (A, N[K]) -> (C) {\n    C = A < 3;\n  } do function (A, N[K]) -> (A1) {\n"
        "    A1 = A + 1;\n  };",
    ],
)
def test_text_and_json_come_back(statement: str) -> None:
    text = f"function (A[], B[], N[K]) -> (R) {{\n  {statement}\n}}\n"
    function = parse(text)
    assert to_text(function) == text
    assert tileir.from_json(tileir.to_json(function), Function) == function


def test_words_of_loops_are_names_elsewhere() -> None:
    parse("function (A[N]) -> (R) { R[while : N] = +(A[while + do - do]), do < N; }")


@pytest.mark.parametrize(
    ("statement", "faults"),
    [
        ("R = while A; Z = ;", ["TIL102", "TIL102"]),
        (f"R = while(A, 3) {MORE} do {STEP}; Z = ;", ["TIL102", "TIL102"]),
        (f"R = while(A, B) {MORE} {STEP};", ["TIL102"]),
        (f"R = while(A, B) {MORE};", ["TIL102"]),
    ],
)
def test_faults_of_the_grammar(statement: str, faults: list[str]) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"function (A[], B[]) -> (R) {{ {statement} }}")
    assert [each.code for each in caught.value.diagnostics] == faults


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        (f"R = while(A) {MORE} do {STEP};", "TIL218", "passes 1 tensor, but its condition has 2 inputs"),
        (f"R = while(; A, B) {MORE} do {STEP};", "TIL218", "has no carries"),
        (f"R = while(A; B) {MORE} do {STEP};", "TIL218", "the step of 'R' has 2 outputs, but 1 is needed"),
        (f"R = while(A, B) {STEP} do {STEP};", "TIL218", "the condition of 'R' has 2 outputs, but 1 is needed"),
        (f"R = while(A, N) {MORE} do {STEP};", "TIL205", "'N' is a dimension"),
        (f"R = while(A, X) {MORE} do {STEP};", "TIL201", "'X' is not defined"),
        (f"R = while(A, B) {MORE.replace('B != 0', 'K != 0')} do {STEP};", "TIL201", "around the scan only"),
        (
            "R = while(A, B) function (A, B) -> (C) { D = reshape(A, B); C = A < B; } do " + STEP + ";",
            "TIL204",
            "'B' changes from step to step, but sizes of the step are computed from it",
        ),
    ],
)
def test_rules(statement: str, code: str, words: str) -> None:
    with pytest.raises(VerifyError) as caught:
        parse(f"function (A[], B[], K[N]) -> (R) {{ {statement} }}")
    assert any(each.code == code and words in each.message and each.span for each in caught.value.diagnostics), (
        caught.value
    )


@pytest.mark.parametrize(
    ("condition", "step", "code", "words"),
    [
        ("C = B", STEP, "TIL334", "the condition is i64[], but is one bool"),
        ("C = K > 0", STEP, "TIL334", "the condition is bool[3], but is one bool"),
        ("C = B != 0", "function (A, B, K) -> (A1, B1) { A1 = A * 0.5; B1 = B; }", "TIL332", "makes it f64[]"),
        ("C = B != 0", "function (A, B, K) -> (A1, B1) { A1 = A + K; B1 = B; }", "TIL332", "makes it i64[3]"),
    ],
)
def test_rules_of_types(condition: str, step: str, code: str, words: str) -> None:
    step = step.replace("(A[], B[])", "(A, B, K)")
    text = f"function (A, B, K) -> (R) {{ R = while(A, B; K) function (A, B, K) -> (C) {{ {condition}; }} do {step}; }}"
    with pytest.raises(TileError) as caught:
        interpreted(parse(text), {"A": np.array(1), "B": np.array(2), "K": np.zeros(3, np.int64)})
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert words in fault.message


def test_warnings_leave_out_inputs_that_the_form_asks_for() -> None:
    assert parse(GCD).warnings == ()
    text = GCD.replace("A1 = B;", "A1 = B;\n    Idle = A + 1;")
    assert [each.code for each in parse(text).warnings] == ["TIL232"]


@examples(25)
@given(a=st.integers(0, 10**12), b=st.integers(0, 10**12))
def test_greatest_common_divisors(a: int, b: int) -> None:
    agrees(parse(GCD), {"A": np.int64(a), "B": np.int64(b)}, [math.gcd(a, b)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("start", [1, 2, 7, 27, 97])
def test_collatz(start: int) -> None:
    function = loop(
        lambda n, count: n != 1,
        lambda n, count: (tf.where(n % 2 == 0, n / 2, 3 * n + 1), count + 1),
        [np.int64(0), np.int32(0)],
    )
    count, n = 0, start
    while n != 1:
        n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
    agrees(function, named([np.int64(start), np.int32(0)]), [1, count])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_newton(dtype: type[np.floating[Any]]) -> None:
    """Square roots of many numbers at once, until the last of them is near enough."""
    x = np.linspace(0.5, 90, 37).astype(dtype)
    function = loop(
        lambda y, x, within: ops.max(tf.abs(y * y - x) - within * x) > 0,
        lambda y, x, within: (y + x / y) * 0.5,
        [x],
        [x, dtype(0)],
    )
    within, y = dtype(1e-5), x
    while np.max(np.abs(y * y - x) - within * x) > 0:
        y = (y + x / y) * dtype(0.5)
    agrees(function, named([x], [x, within]), [y], 1e-6)


def test_power_iteration_until_it_converges() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((6, 6))
    a = a @ a.T

    def step(v: Tensor, change: Tensor, steps: Tensor, a: Tensor) -> tuple[Tensor, ...]:
        w = ops.matmul(a, v)
        w = w / tf.sqrt(ops.sum(w * w))
        return w, ops.max(tf.abs(w - v)), steps + 1

    first = np.full(6, 6**-0.5)
    carries = [first, np.float64(1), np.int32(0)]
    function = loop(lambda v, change, steps, a: (change > 1e-9) & (steps < 1000), step, carries, [a])
    v, change, steps = first, 1.0, 0
    while change > 1e-9 and steps < 1000:
        w = a @ v
        w /= np.sqrt(np.sum(w * w))
        v, change, steps = w, np.max(np.abs(w - v)), steps + 1
    for results in stages(function, {n: np.asarray(each) for n, each in named(carries, [a]).items()}):
        np.testing.assert_allclose(results["R0"], v, atol=1e-7)
        assert abs(int(results["R2"]) - steps) <= 1, "rounding may take a step more or less"


def test_carries_of_several_dtypes_and_shapes() -> None:
    carries = [np.array([1, 2, 3], np.int8), np.ones((2, 3), np.float16), np.array(False), np.array(9, np.uint16)]

    def step(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
        return tf.cast(a + 3, "i8"), b * 2 + tf.cast(a, "f16"), d > 4, d - 2

    function = loop(lambda a, b, c, d: d > 1, step, carries)
    a, b, c, d = (np.asarray(carry) for carry in carries)
    while d > 1:
        a, b, c, d = (a + 3).astype(np.int8), b * 2 + a.astype(np.float16), d > 4, (d - 2).astype(np.uint16)
    agrees(function, named(carries), [a, b, c, d])


def test_no_step_leaves_the_carries_as_they_are() -> None:
    carries = [np.arange(6.0).reshape(2, 3), np.int32(5)]
    function = loop(lambda x, n: n < 5, lambda x, n: (x * 2, n + 1), carries)
    agrees(function, named(carries), carries)


def test_empty_carries() -> None:
    carries = [np.zeros((0, 3), np.float32), np.int32(0)]
    function = loop(lambda x, n: n < 3, lambda x, n: (x + 1, n + 1), carries)
    agrees(function, named(carries), [carries[0], 3])


def test_a_carry_may_be_the_condition() -> None:
    function = loop(lambda more, n: more, lambda more, n: (n < 6, n + 2), [np.array(True), np.int32(0)])
    typed = infer(function, {"C0": TensorType(tileir.DType.BOOL, ()), "C1": TensorType(tileir.DType.I32, ())})
    (scan,) = {each.carries: each for each in typed.operations if isinstance(each, Scan)}.values()
    assert len(scan.carries) == 2, "it is there once"
    agrees(function, named([np.array(True), np.int32(0)]), [False, 8])


def test_numbers_are_carries_and_constants() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    total, count = tf.while_loop(
        lambda total, count, x, by: count < 4,
        lambda total, count, x, by: (total + ops.sum(x) * by, count + 1),
        [0.0, 0],
        [x, 2],
    )
    functions = f.build(T=total, Count=count), tileir.parse(NUMBERS)
    for dtype in (np.float32, np.float64):
        for function in functions:
            result, steps = tileir.evaluate(function, [np.array([1, 2, 3.5], dtype)])
            assert (result, steps, result.dtype) == (52.0, 4, dtype)


NUMBERS = (
    "function (X[N]) -> (T, K) { Z = 0.0; I = 0; By = 2; R = while(Z, I; X, By) function (T, I, X, By) -> (C) "
    "{ C = I < 4; } do function (T, I, X[N], By) -> (T1, I1) { S[] = +(X[n]); T1 = T + S * By; I1 = I + 1; };"
    " T = element(R, 0); K = element(R, 1); }"
)


def test_sizes_inside_of_steps_come_from_constants() -> None:
    text = (
        "function (X[N], M) -> (R) { R = while(X; M) function (X, M) -> (C) { S[] = +(X[i]); C = S < 50; }"
        " do function (X[N], M) -> (Y) { P[i : M] = =(X[i]); Q[] = +(P[i]); Y = X + Q; }; }"
    )
    x = np.array([1.0, 2.0, 4.0])
    result = tileir.evaluate(parse(text), [x, 2])
    while x.sum() < 50:
        x = x + x[:2].sum()
    np.testing.assert_array_equal(result, x)


def test_constant_arrays_are_passed_to_the_loop() -> None:
    text = (
        "function (X[N]) -> (R) { R = while(X) function (X[N]) -> (C) { constant L = f64[2](9.0, 12.0); B = X < L;"
        " I[] = >(B[i]); C = I; } do function (X[N]) -> (Y) { constant K = f64[2](1.0, 3.0); Y = X + K; }; }"
    )
    x = np.zeros(2)
    while np.any(x < [9, 12]):
        x = x + np.array([1, 3])
    agrees(parse(text), {"X": np.zeros(2)}, [x])


@pytest.mark.sampled(0)
def test_loops_inside_of_loops() -> None:
    """Of each element of a sequence the number of halvings; and a scan in a step."""
    text = (
        "function (X[T]) -> (Last, Counts) { Z = 0; R = scan(Z; X) function (S[], X[]) -> (S1, N) { I = 0;"
        " P = while(X, I) function (X[], I[]) -> (C) { C = X > 1; } do function (X[], I[]) -> (Y, J) "
        "{ Y = X / 2; J = I + 1; }; N = element(P, 1); S1 = S + N; }; Last = element(R, 0); Counts = element(R, 1); }"
    )
    x = np.array([1, 2, 9, 64, 100], np.int32)
    counts = np.array([int(n).bit_length() - 1 for n in x])
    agrees(parse(text), {"X": x}, [counts.sum(), counts])
    text = (
        "function (X[N], M[]) -> (R) { R = while(M; X) function (M[], X[N]) -> (C) { C = M < 1000.0; } do "
        "function (M[], X[N]) -> (M1) { Z = M * 0.0; S = scan(Z; X) function (H[], X[]) -> (H1) { H1 = H + X; };"
        " P = while(S) function (S) -> (C) { C = S > 8.0; } do function (S) -> (S1) { S1 = S * 0.5; }; M1 = M + P; }; }"
    )
    m = 0.0
    while m < 1000:
        s = 33.5
        while s > 8:
            s *= 0.5
        m += s
    agrees(parse(text), {"X": np.array([30.0, 3.5]), "M": np.float64(0)}, [m])


def test_there_are_no_derivatives_through_a_loop() -> None:
    text = (
        "function (X[], N[]) -> (D, E, F) {{ R = while(X, N) function (X, N) -> (C) {{ C = N > 0; }} do "
        "function (X, N) -> (Y, M) {{ Y = X * X; M = N - 1; }}; Y = element(R, 0); K = element(R, 1);"
        " Z = stop_gradient(Y); D = gradient({0}, X); E = gradient(Z * X, X); F = gradient(as_f64(K) * X, X); }}"
    )
    given = {"X": np.asarray(2.0), "N": np.asarray(np.int32(2))}
    for call in ("Y", "Y * X"):
        with pytest.raises(TileError, match=r"TIL333.*no derivative through a loop") as caught:
            interpreted(parse(text.format(call)), given)
        assert caught.value.diagnostics[0].span is not None
    with pytest.raises(TileError, match="TIL333"):
        interpreted(parse(text.format("Y").replace("gradient(Y, X)", "jvp(Y, X, X)")), given)
    found = interpreted(parse(text.format("X * X")), given)
    assert {name: float(array) for name, array in found.items()} == {"D": 4.0, "E": 16.0, "F": 0.0}


def test_idle_carries_go() -> None:
    text = (
        "function (A[], B[]) -> (R) { P = while(A, B, A) function (A, B, I) -> (C) { C = B > 0; } do "
        "function (A, B, I) -> (X, Y, Z) { X = A + 1; Y = B - 1; Z = I * 2; }; R = element(P, 0); }"
    )
    kinds = {"A": TensorType(tileir.DType.F32, ()), "B": TensorType(tileir.DType.I32, ())}
    (scan,) = (each for each in simplify(infer(parse(text), kinds)).operations if isinstance(each, Scan))
    assert len(scan.carries) == 3, "the condition, and what it and the result depend on"


def test_a_function_with_a_loop_can_be_called() -> None:
    f = FunctionBuilder()
    a, b = f.scalar("P"), f.scalar("Q")
    function = f.build(R=parse(GCD)(a * 2, b) + 1)
    agrees(function, {"P": np.int64(21), "Q": np.int64(28)}, [15])


def test_the_builder_says_what_is_wrong() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")

    def fault(*arguments: Any) -> str:
        with pytest.raises(TileError) as caught:
            tf.while_loop(*arguments)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.span is not None
        return f"{diagnostic.code} {diagnostic.message}"

    assert fault(lambda: x, lambda: x, []).startswith("TIL218 a loop has at least one carry")
    assert "TIL218 the step returns 2 tensors, but there are 1 carries" in fault(lambda x: x, lambda x: (x, x + 1), [x])
    assert "TIL218 the condition returns 2 tensors" in fault(lambda x: (x, x + 1), lambda x: x, [x])
    assert fault(lambda y: x > 0, lambda y: y, [x]).startswith("TIL216")
    assert fault(parse(GCD), lambda x: x, [x]).startswith("TIL218 1 tensors are passed, but the step has 2 inputs")
    assert fault(lambda x: 1, lambda x: x, [x]).startswith("TIL215")


def test_functions_will_do_as_condition_and_step() -> None:
    f = FunctionBuilder()
    condition = parse("function (A[], B[]) -> (C) { C = B != 0; }")
    step = parse("function (A[], B[]) -> (A1, B1) { A1 = B; B1 = mod(A, B); }")
    last, _ = tf.while_loop(condition, step, [f.scalar("A"), f.scalar("B")])
    agrees(f.build(G=last), {"A": np.int64(84), "B": np.int64(36)}, [12])


def test_sizes_of_results_are_those_of_the_carries() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N", "M")
    last, count = tf.while_loop(lambda x, n: n < 3, lambda x, n: (x + 1, n + 1), [x, 0])
    assert [repr(dim) for dim in last.dims] == ["Dim(N)", "Dim(M)"]
    assert count.dims == ()
