"""Inputs from which sizes are computed: found, passed, told when missing, and a new program for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir import ops
from tileir.tile.builder import FunctionBuilder
from tileir.tile.checks.integers import sizing_inputs
from tileir_testing.gradients import check_gradients

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.arange(12, dtype=np.float32)
HALF = "function (A[N], S) -> (O) { Half = S / 2; O[i : Half] = =(A[i + S - Half]); }"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("O[i : S] = +(A[i]);", "S"),
        ("P = S - K / 2; O[i : N] = +(A[i + P]);", "S K"),
        ("O[i : N] = +(A[i + j]), j < K;", "K"),
        ("O = reshape(A, S, K);", "S K"),
        ("O = index(A, S);", "S"),
        ("C = assert_even(S / 2 * 2 == S); O = A;", "S"),
        ("O = A * S; P = S + K;", ""),
        ("O = scan(K; A; S) function (H, X, P) -> (H2) { T[i : P] = +(H[]); H2 = H * X; };", "S"),
        ("O = scan(K; A) S times function (H, X) -> (H2) { H2 = H * X; };", "S"),
    ],
)
def test_inputs_that_reach_a_size(statements: str, expected: str) -> None:
    function = tileir.parse(f"function (A[N], S, K) -> (O) {{ {statements} }}")
    assert sizing_inputs(function) == frozenset(expected.split())


def way(name: str) -> Callable[..., Any]:
    """Return what runs a function on arrays."""
    if name == "interpreter":
        return tileir.evaluate
    if name == "compile":
        return lambda text, arrays: tileir.compile(text, arrays, device="llvm")(*arrays)
    return lambda text, arrays: tileir.jit(text, name)(*arrays)


@pytest.mark.parametrize("name", ["interpreter", "compile", "llvm"])
@pytest.mark.parametrize("size", [0, 1, 6, 7, np.int8(5), np.array(4)])
def test_sizes_are_computed_from_integers(name: str, size: Any) -> None:
    number = int(size)
    np.testing.assert_array_equal(way(name)(HALF, [X, size]), X[number - number // 2 : number])


def test_each_value_is_a_program_of_its_own() -> None:
    run = tileir.jit(HALF, "llvm")
    sizes = (6, 9, 6, 2)
    assert [run(X, size).size for size in sizes] == [size // 2 for size in sizes]
    arrays = [np.array(size, np.int64) for size in sizes]
    assert [run(X, array).size for array in arrays] == [size // 2 for size in sizes]
    assert run.specialise(X, 6) is run.specialise(X, np.int8(6)) is not run.specialise(X, 9)


def test_an_executable_refuses_another_value_than_it_was_compiled_for() -> None:
    executable = tileir.compile(HALF, {"A": X, "S": np.int64(6)}, device="llvm")
    given = np.array(6)
    assert executable(X, given).size == 3
    given[()] = 8
    for call in (executable, executable.submit):
        with pytest.raises(tileir.TileError, match="'S' is 8, and it was compiled for 6"):
            call(X, given)


def test_numbers_that_nothing_reads_are_taken() -> None:
    text = "function (A[N], S, Unread) -> (O) { O[i : S] = =(A[i]); }"
    for unread in (3, 2.5, np.float32(1)):
        np.testing.assert_array_equal(tileir.jit(text, "llvm")(X, 4, unread), X[:4])
        np.testing.assert_array_equal(tileir.jit(text, "llvm").specialise(X, 4, unread)(X, 4, unread), X[:4])
        np.testing.assert_array_equal(tileir.evaluate(text, [X, 4, unread]), X[:4])
    np.testing.assert_array_equal(tileir.jit("function (A, Unread) -> (O) { O = A * 2; }", "llvm")(X, 3), X * 2)


def test_a_stepper_takes_new_sizes_from_call_to_call() -> None:
    text = "function (A[N], S, K) -> (B, T) { O[i : N] = +(A[i + S]); B = O * K; T = S + 1; }"
    step = tileir.stepper(text, {"A": "B", "S": "T"}, {"A": X, "S": np.int32(1)}, "llvm")
    for _ in range(3):
        step(np.float32(1))
    np.testing.assert_array_equal(step.state["A"], [*X[6:], *[0] * 6])
    assert step.state["S"] == 4


@pytest.mark.parametrize(
    ("value", "code", "says"),
    [
        (("i32", ()), "TIL306", "pass the integer itself"),
        (np.array([3]), "TIL305", "an integer of rank 0, but its argument is i64[1]"),
        (2.5, "TIL302", "an integer of rank 0"),
        (True, "TIL302", "an integer of rank 0"),
        (-4, "TIL307", "a size is -2"),
    ],
)
def test_what_is_no_size(value: object, code: str, says: str) -> None:
    with pytest.raises(tileir.TileError) as caught:
        tileir.compile(HALF, {"A": X, "S": value}, device="llvm")
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert says in fault.message


def test_elements_and_sizes_read_one_integer() -> None:
    text = "function (A[N], S) -> (O, P, Q) { O[i : S] = +(A[i]); P = A * S; Q = S / 2; }"
    short, scaled, half = tileir.evaluate(text, [X.astype(np.float16), 5])
    np.testing.assert_array_equal(short, X[:5])
    np.testing.assert_array_equal(scaled, X.astype(np.float16) * 5)
    assert (scaled.dtype, half.dtype, half) == (np.float16, np.int32, 2)


def test_constants_of_scans_reach_sizes_of_steps() -> None:
    text = """function (X[T, B], H0[B], S) -> (Y) {
        Y = scan(H0; X; S) function (H[B], Q[B], P) -> (H2) { R[i : B] = +(Q[i + j]), j < P; H2 = H + R; };
    }"""
    ones, zeros = np.ones((3, 4), np.float32), np.zeros(4, np.float32)
    for size, row in ((1, [3, 3, 3, 3]), (2, [6, 6, 6, 3]), (4, [12, 9, 6, 3])):
        np.testing.assert_array_equal(tileir.evaluate(text, [ones, zeros, size]), row)
        np.testing.assert_array_equal(tileir.jit(text, "llvm")(ones, zeros, size), row)


TRANSPOSED = """function (I[N, H, CI], K[S, CO, CI], Size, Before) -> (O) {
    O[n, x, co : N, Size, CO] = +(I[n, (x + k - Before) / 2, ci] * K[S - 1 - k, co, ci]);
}"""


@examples(20)
@given(size=st.integers(1, 12), before=st.integers(0, 3))
def test_transposed_convolutions_with_computed_padding(size: int, before: int) -> None:
    numbers = np.random.default_rng(3)
    images, kernel = numbers.normal(size=(2, 4, 2)), numbers.normal(size=(3, 3, 2))
    wanted = np.zeros((2, size, 3))
    for x in range(size):
        for tap in range(3):
            place, rest = divmod(x + tap - before, 2)
            if rest == 0 and 0 <= place < 4:
                wanted[:, x] += images[:, place] @ kernel[2 - tap].T
    np.testing.assert_allclose(tileir.evaluate(TRANSPOSED, [images, kernel, size, before]), wanted, atol=1e-12)


def test_gradients_leave_sizes_out() -> None:
    numbers = np.random.default_rng(3)
    arrays = [numbers.normal(size=(2, 4, 2)), numbers.normal(size=(3, 3, 2)), 9, 1]
    assert [output.name for output in tileir.gradient(TRANSPOSED).outputs] == ["DI", "DK"]
    assert set(tileir.vjp(TRANSPOSED, arrays, np.ones((2, 9, 3)))) == {"I", "K"}
    check_gradients(TRANSPOSED, arrays)


def test_a_gradient_for_known_arguments_refuses_other_values() -> None:
    made = tileir.gradient("function (A[N], S) -> (O) { O[i : S] = +(A[i]); }", arguments=[X, 3])
    np.testing.assert_array_equal(tileir.evaluate(made, [X, 3]), [1] * 3 + [0] * 9)
    with pytest.raises(tileir.TileError, match="TIL312"):
        tileir.evaluate(made, [X, 4])


def test_the_builder_declares_integers() -> None:
    f = FunctionBuilder()
    x, width = f.input("X", "N"), f.integer("Width")
    function = f.build(Y=ops.pad(x, [(width, width + 1)], mode="edge") * width)
    assert tileir.parse(tileir.to_text(function)) == function
    for number in (0, 1, 3):
        wanted = np.pad(X, (number, number + 1), mode="edge") * number
        np.testing.assert_array_equal(tileir.evaluate(function, [X, number]), wanted)


def test_a_tensor_is_no_size_of_the_builder() -> None:
    f = FunctionBuilder()
    with pytest.raises(tileir.TileError, match=r"integer\(name\)"):
        f.tensor("T", f.scalar("S"))  # type: ignore[arg-type]  # what a user may try


def test_winograds_assertion_is_about_sizes() -> None:
    text = """function (K[S, CI], G[BI, S], A[BI, BO], P) -> (U) {
        Left = sub(BI, S); Tiles = add(Left, P); Same = cmp_eq(Tiles, BO); Valid = assert_winograd_valid(Same);
        U[i, ci : BI, CI] = +(G[i, k] * K[k, ci]);
    }"""
    arrays = [np.ones((3, 2)), np.ones((4, 3)), np.ones((4, 2))]
    assert tileir.evaluate(text, [*arrays, 1]).shape == (4, 2)
    with pytest.raises(tileir.TileError, match="TIL312"):
        tileir.evaluate(text, [*arrays, 2])
