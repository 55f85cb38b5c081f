"""Operands that are combined once with a sum or an extreme: what overflows, and what is infinite or NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.passes.analysis.running_aggregates import running
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType
from tileir.typed.simplify.distribution import distributed, never_infinite
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from fuzz.area import Array

N = 64


def function_of(statement: str, dtype: DType) -> Function:
    return infer(
        parse(f"function (A[A0], B[B0]) -> (O) {{ {statement} }}"), {each: TensorType(dtype, (N,)) for each in "AB"}
    )


HUGE = (1e38, -1e38, 3e38, 1e-30, -1e-30, 0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan)
EDGES = {
    "product": "O[i : A0] = +(A[i] * B[k]), i - k < A0;",
    "product of what follows": "O[i : A0] = +(B[k] * A[i]), k - i < A0;",
    "product, none for the first": "O[i : A0] = +(A[i] * B[k]), i - k - 3 < A0;",
    "product with all": "O[i : A0] = +(A[i] * B[k]);",
    "product of all": "O[] = +(A[i] * B[k]);",
    "product of two": "O[i : 8] = +(A[i + 8 * j] * B[k]);",
    "sum": "O[i : A0] = +(A[i] + B[k]), i - k < A0;",
    "greatest": "O[i : A0] = >(A[i] + B[k]), i - k < A0;",
    "least": "O[i : A0] = <(A[k] + B[i]), k - i - 3 < A0;",
    "greatest of all": "O[] = >(A[i] + B[k]);",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("doubles", [True, False])
@pytest.mark.parametrize("name", EDGES)
@examples(60)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_overflows_or_is_infinite_means_the_same(name: str, doubles: bool, seed: int) -> None:
    """The numbers are those of the statement as written, in a type in which nothing overflows on the way."""
    function, wide = (function_of(EDGES[name], dtype) for dtype in (DType.F32, DType.F64))
    after = prepared(function, doubles=doubles)
    assert (after is not function) == (doubles or name != "sum")
    generator = np.random.default_rng(seed)
    arrays = {}
    for each in "AB":
        pool = generator.choice(HUGE, generator.integers(1, 5))
        arrays[each] = generator.choice(pool, N).astype("f4")
    with np.errstate(all="ignore"):
        exact = interpret(wide, {each: array.astype("f8") for each, array in arrays.items()})["O"]
        # Terms that cancel leave the roundings of the greatest.
        sizes = {each: np.abs(np.where(np.isfinite(array), array, 0)).astype("f8") for each, array in arrays.items()}
        largest = interpret(wide, sizes)["O"] if "+(" in EDGES[name] else np.abs(exact)
        left, written = interpret(after, arrays)["O"], interpret(function, arrays)["O"]
    bound = (1e-12 if doubles else 1e-5) * largest + 1e-6 * np.abs(exact) + 1e-44
    # Without f64, terms may overflow as they do as written, and an infinity of the other sign makes NaN of that.
    small = largest <= np.finfo(np.float32).max
    sound = np.full(exact.shape, doubles) | np.isfinite(written) | (~np.isfinite(exact) & small)
    assert_near(left[sound], exact[sound], bound[sound])


def assert_near(left: Array, exact: Array, bound: Array) -> None:
    """Assert that numbers are so near to those of f64, or infinite where these are or may round to that."""
    with np.errstate(all="ignore"):
        high, low = (exact + bound).astype(left.dtype), (exact - bound).astype(left.dtype)
        right = exact.astype(left.dtype)
    np.testing.assert_array_equal(np.isnan(left), np.isnan(right))
    near = (left == right) | ((low <= left) & (left <= high)) | np.isnan(right)
    np.testing.assert_array_equal(left[~near], right[~near])


@pytest.mark.parametrize("name", [each for each in EDGES if "product" in each])
@examples(60)
@given(seed=st.integers(0, 2**32 - 1))
def test_doubles_that_overflow_mean_the_same(name: str, seed: int) -> None:
    function = function_of(EDGES[name], DType.F64)
    after = prepared(function)
    assert after is not function
    generator = np.random.default_rng(seed)
    small, large = (0.0, 1e-300, -5e-324, 1e-290), (1e308, -1e308, 1.7e308, 0.0, 1e-310, 1.0)
    pools = generator.permutation(2)
    arrays = {
        each: generator.choice(generator.choice((small, large)[pool], generator.integers(1, 4)), N)
        for each, pool in zip("AB", pools, strict=True)
    }
    infinite = generator.choice((0.0, np.inf, -np.inf, np.nan), p=(0.7, 0.1, 0.1, 0.1))
    arrays["AB"[generator.integers(2)]][generator.integers(N)] += infinite
    with np.errstate(all="ignore"):
        exact = interpret(function, arrays)["O"]
        sizes = {each: np.abs(np.where(np.isfinite(array), array, 0)) for each, array in arrays.items()}
        bound = 1e-13 * interpret(function, sizes)["O"] + 1e-13 * np.abs(exact) + 1e-321  # of up to N * N terms
        left = interpret(after, arrays)["O"]
    assert_near(left, exact, bound)


def test_what_is_known_to_be_finite_needs_no_more_values() -> None:
    def aggregates(statement: str, dtype: DType = DType.F32, *, doubles: bool = True) -> int:
        function = distributed(function_of(statement, dtype), doubles=doubles)
        return sum(running(kernel) is not None for kernel in lower(function).main.blocks)

    statement = EDGES["product"]
    for dtype in (DType.F16, DType.BF16, DType.F32):
        assert aggregates(statement, dtype) == 3
        assert aggregates(f"[[finite]] {statement}", dtype, doubles=False) == 1
        assert aggregates(f"T = tanh(A); {statement.replace('A[i]', 'T[i]')}", dtype) == 1
    assert aggregates(f"[[finite]] {statement}", DType.F64) == 1
    assert aggregates(statement, DType.F64) == aggregates(statement, doubles=False) == 4
    assert aggregates(f"C = as_float(B, 64); {statement.replace('B[', 'C[')}") == 3
    assert aggregates(statement, DType.F16, doubles=False) == 3
    assert aggregates(EDGES["greatest"]) == 2
    assert aggregates(f"T = tanh(B); {EDGES['greatest'].replace('B[', 'T[')}") == 1


def test_infinities_are_plain_to_see() -> None:
    text = """function (A[N], U[N]) -> (T, M, S, C, H, E, P, W, R) {
        T = tanh(A); M = max(T, -1.0); S = A < 0.0 ? T : sin(A); C = as_float(U, 32); H = as_float(U, 16);
        E = exp(A); P = T + T; W = as_float(T, 64); R = reshape(T, 2, 2);
    }"""
    function = infer(parse(text), {"A": TensorType(DType.F32, (4,)), "U": TensorType(DType.U32, (4,))})
    definitions = {each.name: each for each in (*function.inputs, *function.operations)}
    assert {name for name in "TMSCHEPWR" if never_infinite(name, definitions)} == set("TMSCWR")
