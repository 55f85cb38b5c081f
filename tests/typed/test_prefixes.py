"""Aggregates over prefixes whose ends move in any way, and operands that stay, against the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

from strategies.effort import examples
from strategies.prefix_programs import function_of, numbers, polytopes, strided
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.analysis.running_aggregates import running
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Cast, Contraction, Function, TensorType
from tileir.typed.simplify import distribution, prefixes
from tileir.typed.simplify.distribution import distributed, never_negative
from tileir.typed.simplify.prefixes import with_ends
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify
from tileir_performance.explain.explanation import explain
from tileir_testing.gradients import check_gradients

if TYPE_CHECKING:
    from fuzz.area import Array


def assert_same(before: Function, after: Function, arrays: dict[str, Array]) -> None:
    verify(after)
    for name, right in interpret(before, arrays).items():
        left = interpret(after, arrays)[name]
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def runs(function: Function) -> int:
    """Count the kernels that the pass scan takes, and check that no kernel reduces a triangle otherwise."""
    found = 0
    for kernel in lower(function).main.blocks:
        if running(kernel) is not None:
            found += 1
        elif any(r.merges for r in kernel.refinements):
            assert not kernel.constraints, kernel
    return found


N = 64
LINEAR = {
    "faster end": ("O[i : A0 / 2] = +(A[k]), 2*i - k < A0;", 1),
    "slower end": ("O[i : A0] = +(A[2*k]), i - 2*k < A0;", 1),
    "thirds": ("O[i : A0 / 3] = >(A[k]), 3*i - k < A0;", 1),
    "two in three": ("O[i : A0 / 2] = <(A[k]), 3*i - 2*k < 2*A0, k < A0;", 1),
    "terms that move faster": ("O[i : A0 / 2] = +(A[2*i - k]), k < A0;", 1),
    "terms that move slower": ("O[i : A0] = +(A[i - 2*k]), k < A0;", 1),
    "to the end": ("O[i : A0 / 2] = +(A[k]), k - 2*i < A0;", 1),
    "to the end, slower": ("O[i : A0] = >(A[k]), 2*k - i < 2*A0;", 1),
    "from behind": ("O[i : A0 / 2] = +(A[A0 - 1 - k]), 2*i - k < A0;", 1),
    "two indices": ("O[i, j : A0 / 2, A0 / 2] = +(A[k]), i + j - k < A0;", 1),
    "strided and written with a step": ("O[3*i : 3*A0/2] = +(A[k]), 2*i - k < A0;", 1),
    "backwards": ("O[A0/2 - 1 - i : A0 / 2] = +(A[k]), 2*i - k < A0;", 1),
    "product": ("O[i : A0] = +(A[i] * B[k]), i - k < A0;", 1),
    "product, turned": ("O[i : A0] = +(B[k] * A[i]), i - k < A0;", 1),
    "sum": ("O[i : A0] = +(A[i] + B[k]), i - k < A0;", 2),
    "sum of what follows": ("O[i : A0] = +(A[k] + B[i]), k - i < A0;", 2),
    "product, faster": ("O[i : A0 / 2] = +(A[i] * B[k]), 2*i - k < A0;", 1),
    "product, none for the first": ("O[i : A0] = +(A[i] * B[k]), i - k - 1 < A0;", 1),
    "product of terms": ("O[i : A0 / 2] = +(A[k] * B[k]), 2*i - k < A0;", 1),
    "an odd number of terms": ("O[i : A0 - 1] = +(A[i - 2*k]), k < A0, i < A0 - 1;", 1),
    "thirds of terms": ("O[i : A0] = +(A[i - 3*k + 1]), k < A0;", 1),
    "quarters of terms, from behind": ("O[i : A0 - 1] = >(A[i + 4*k]), k < A0;", 1),
    "all of the same place in a step": ("O[i : A0] = +(A[i - 3*k]);", 0),
    "all": ("O[i : A0] = >(A[k]);", 0),
    "ends beyond all terms": ("O[i : 3*A0] = *(A[k]), i - k < 3*A0;", 1),
    "ends before all terms": ("O[i : 3*A0] = +(A[k]), k - i + 2*A0 < 3*A0;", 1),
    "strided, beside another": ("O[i : A0] = +(A[i - 3*k] * B[i]), k < A0;", 1),
    "products of strided": ("O[i : A0] = +(A[i - 3*k] * B[i - 3*k]), k < A0;", 1),
    "wide window": (f"O[i : A0 / 2] = +(A[2*i - k]), k < {N // 2};", 0),
}


@pytest.mark.parametrize("name", LINEAR)
def test_forms_of_the_same_become_running_aggregates(name: str) -> None:
    statement, count = LINEAR[name]
    types = {each: TensorType(DType.I32, (N,)) for each in ("A", "B") if f"{each}[" in statement}
    function = function_of(statement, types)
    with mock.patch.object(prefixes, "NARROWEST", 8):
        after = prepared(function)
    assert_same(function, after, numbers(function))
    if count:
        assert runs(after) == count


def test_rows_run_beside_each_other() -> None:
    types = {"A": TensorType(DType.I32, (5, N))}
    for statement in (
        "O[m, i : A0, A1 / 2] = +(A[m, k]), 2*i - k < A1;",
        "O[i, m : A1 / 2, A0] = +(A[m, k]), 2*i - k < A1;",
        "O[i : A1 / 2] = +(A[m, k]), 2*i - k < A1;",
    ):
        function = function_of(statement, types)
        after = prepared(function)
        assert runs(after) == 1
        assert_same(function, after, numbers(function))


def test_boxes_of_two_operands_are_sums_of_each() -> None:
    types = {"A": TensorType(DType.I32, (N,)), "B": TensorType(DType.I32, (N,))}
    function = function_of("O[i, j : A0, B0] = +(A[k] * B[l]), i - k < A0, j - l < B0;", types)
    after = prepared(function)
    assert runs(after) == 2
    assert_same(function, after, numbers(function))
    whole = function_of("O[] = +(A[k] * B[l]);", types)
    assert [len(o.output) for o in prepared(whole).operations if isinstance(o, Contraction)] == [0, 0]
    assert_same(whole, prepared(whole), numbers(whole))


KEPT = {
    "convolution": "O[i : A0] = +(A[i - k] * B[k]), k < A0;",
    "the end is read": "O[i : A0] = +(A[k] == B[i]), i - k < A0;",
    "greatest product": "O[i : A0] = >(A[i] * B[k]), i - k < A0;",
    "product of sums": "O[i : A0] = *(A[i] + B[k]), i - k < A0;",
    "two ends": "O[i : A0] = +(A[k]), i - k < A0, 2*k - i < A0;",
    "not cut": "O[i : A0 / 2] = +(A[2*i - k]), k < 5;",
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    types = {each: TensorType(DType.F32, (N,)) for each in ("A", "B") if f"{each}[" in KEPT[name]}
    function = function_of(KEPT[name], types)
    assert distributed(with_ends(function)) is function


EXTREMES = {
    "sum": "O[i : A0] = AGG(A[i] + B[k]), i - k < A0;",
    "root": "R = sqrt(A); [[finite]] O[i : A0] = AGG(R[i] * B[k]), i - k < A0;",
    "square": "R = A * A; [[finite]] O[i : A0] = AGG(B[k] * R[i]), i - k < A0;",
    "clamped": "R = max(A, 0.0); [[finite]] O[i : A0] = AGG(B[k] * R[i]), i - k < A0;",
    "weights": "R = 2.0 * exp(A) + 1.0; [[finite]] O[i : A0] = AGG(B[k] * R[i]), i - k < A0;",
    "bounded": "R = abs(tanh(A)); S = sin(B); O[i : A0] = AGG(S[k] * R[i]), i - k < A0;",
    "mask": "R = A < 0.5 ? 1.0 : 0.0; [[finite]] O[i : A0] = AGG(B[k] * R[i]), i - k < A0;",
    "infinite": "R = exp(A); O[i : A0] = AGG(B[k] * R[i]), i - k < A0;",
}


@pytest.mark.parametrize("sign", "<>")
@pytest.mark.parametrize("name", EXTREMES)
def test_greatest_and_least_values_have_the_same_bits(name: str, sign: str) -> None:
    types = {each: TensorType(DType.F32, (N,)) for each in "AB"}
    function = function_of(EXTREMES[name].replace("AGG", sign), types)
    after = distributed(function)
    # A choice is not looked into, and infinity times 0, in one term, would be lost.
    assert (after is function) == (name in {"mask", "infinite"})
    generator = np.random.default_rng(1)
    arrays = {each: generator.standard_normal(N).astype("f4") for each in "AB"}
    arrays["A"] = np.abs(arrays["A"]) if name == "root" else arrays["A"]
    assert_same(function, after, arrays)
    integers = function_of("O[i : A0] = >(A[i] + B[k]), i - k < A0;", {e: TensorType(DType.I32, (N,)) for e in "AB"})
    assert distributed(integers) is integers


def test_what_has_no_terms_stays_zero_beside_nan() -> None:
    types = {each: TensorType(DType.F32, (N,)) for each in "AB"}
    for sign, pair in (("+", "A[i] * B[k]"), ("+", "A[i] + B[k]"), (">", "A[i] + B[k]")):
        function = function_of(f"O[i : A0] = {sign}({pair}), i - k - 3 < A0;", types)
        after = prepared(function)
        assert after is not function
        arrays = numbers(function)
        arrays["A"][:2] = np.nan, np.inf
        assert_same(function, after, arrays)


def test_what_cancels_is_kept() -> None:
    types = {each: TensorType(DType.F32, (1000,)) for each in "AB"}
    function = function_of("O[i : A0] = +(A[i] + B[k]), i - k < A0;", types)
    generator = np.random.default_rng(2)
    high = (1e6 + generator.random(1000)).astype("f4")
    arrays = {"A": high, "B": -high}
    exact = np.cumsum(arrays["B"].astype("f8")) + arrays["A"].astype("f8") * np.arange(1, 1001)
    np.testing.assert_allclose(interpret(prepared(function), arrays)["O"], exact, rtol=1e-6)
    assert distributed(function, doubles=False) is function
    for known in (True, False):
        stages = compile_stages(function, {}, Target(doubles=known))
        assert ("fp64" in str(stages.flat)) == known
    doubles = {each: TensorType(DType.F64, (1000,)) for each in "AB"}
    wide = function_of("O[i : A0] = +(A[i] + B[k]), i - k < A0;", doubles)
    assert distributed(wide) is wide
    for given_function, told in ((wide, ["TR630"]), (function, [])):
        remarks = explain(given_function).remarks
        assert [r.code for r in remarks if r.step == "scan" and r.relevant and not r.fired] == told


@pytest.mark.parametrize("dtype", [DType.F16, DType.I8, DType.U8, DType.BOOL, DType.F64, DType.I64, DType.U64])
@pytest.mark.parametrize("name", ["faster end", "slower end", "terms that move slower", "product", "sum"])
def test_dtypes_stay(name: str, dtype: DType) -> None:
    statement, _ = LINEAR[name]
    types = {each: TensorType(dtype, (N,)) for each in ("A", "B") if f"{each}[" in statement}
    function = function_of(statement, types)
    assert_same(function, prepared(function), numbers(function))


def test_mixed_operands_are_converted_as_before() -> None:
    types = {"A": TensorType(DType.I32, (N,)), "B": TensorType(DType.F32, (N,))}
    for statement in ("O[i : A0] = +(A[i] + B[k]), i - k < A0;", "O[i : A0] = +(B[i] * A[k]), i - k < A0;"):
        function = function_of(statement, types)
        after = prepared(function)
        assert any(isinstance(operation, Cast) for operation in after.operations)
        assert_same(function, after, numbers(function))


@examples(400)
@given(st.one_of(polytopes(), strided()))
def test_any_polytope_means_the_same(case: tuple[Function, dict[str, Array]]) -> None:
    function, arrays = case
    with (
        mock.patch.multiple(prefixes, SHORTEST=2, NARROWEST=1),
        mock.patch.multiple(prefixes, GAIN=0, _GROWTH=1000),
        mock.patch.multiple(distribution, GAIN=0, LEAST=0),
    ):
        apart = distributed(function)
        after = with_ends(apart)
    event(f"operands {'apart' if apart is not function else 'together'}")
    event(f"ends {'read' if after is not apart else 'kept'}")
    assert_same(function, after, arrays)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "faster end",
        "slower end",
        "terms that move slower",
        "product",
        "sum",
        "two indices",
        "thirds of terms",
        "quarters of terms, from behind",
        "all of the same place in a step",
        "strided, beside another",
        "products of strided",
    ],
)
def test_gradients_are_those_of_differences(name: str) -> None:
    statement, _ = LINEAR[name]
    inputs = [each for each in ("A", "B") if f"{each}[" in statement]
    text = f"function ({', '.join(f'{each}[{each}0]' for each in inputs)}) -> (O) {{ {statement} }}"
    arrays = {each: np.random.default_rng(3).standard_normal(N) for each in inputs}
    check_gradients(parse(text), arrays)


def test_signs_are_plain_to_see() -> None:
    text = """function (A[N], U[N]) -> (E, S, M, P, C, D, F) {
        E = exp(A); S = A * A; M = max(A, 0.0); P = E + S; C = as_float(U, 32); D = A - 1.0; F = E * D;
    }"""
    types = {"A": TensorType(DType.F32, (4,)), "U": TensorType(DType.U8, (4,))}
    function = infer(parse(text), types)
    definitions = {each.name: each for each in (*function.inputs, *function.operations)}
    known = {name for name in "ESMPCDF" if never_negative(name, definitions)}
    assert known == set("ESMPC")


def test_a_loop_s_body_takes_part() -> None:
    text = """function (S[N], X[T, N]) -> (F) {
        F = scan(S; X) function (A[N], B[N]) -> (C) { C[i : N] = +(A[i] * B[k]), i - k < N; };
    }"""
    types = {"S": TensorType(DType.I32, (N,)), "X": TensorType(DType.I32, (3, N))}
    function = infer(parse(text), types)
    assert_same(function, prepared(function), numbers(function, 2))
    (loop,) = prepared(function).operations
    assert len([o for o in loop.body.operations if isinstance(o, Contraction)]) == 2  # type: ignore[union-attr]
