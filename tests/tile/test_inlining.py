"""Functions inside of functions that are built: they compute what a call of them would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir import evaluate, parse, to_text
from tileir.core.errors import TileError
from tileir.tile.builder import FunctionBuilder
from tileir.tile.building.inlining import inline
from tileir.tile.text.printer import expression_text

if TYPE_CHECKING:
    from tileir import Function

BODY = parse("""
function (A[N, M], K[J], Scale, Size) -> (O, A) {
    Half = Size / 2;
    S[n, m : N + Half, M] = +(A[n + j, m] * K[j]), n + j - j < N;
    O = S * Scale;
}
""")


@pytest.mark.parametrize("twice", [False, True])
def test_a_call_computes_what_the_function_does(twice: bool) -> None:
    a, k = np.arange(6.0).reshape(3, 2), np.array([1.0, 10.0])
    builder = FunctionBuilder()
    outer, window = builder.input("X", "R", "C"), builder.input("W", "L")
    made, same = inline(BODY, outer, window, 2, 4)
    if twice:
        made, same = inline(BODY, made * 1.0, window, builder.scalar("Y"), outer.dims[1])
    function = builder.build(P=made, Q=same)
    arguments = [a, k, 3.0] if twice else [a, k]
    expected = evaluate(BODY, [a, k, 2, 4])
    if twice:
        expected = evaluate(BODY, [expected[0], k, 3.0, 2])
    for result, wanted in zip(evaluate(function, arguments), expected, strict=True):
        np.testing.assert_allclose(result, wanted)


def test_loops_are_called() -> None:
    body = parse("""
    function (X[N]) -> (S) {
        Z = 0.0; C[] = =(Z[]);
        S = scan (C; X) function (A, E) -> (B) { B = A + E; };
    }
    """)
    builder = FunctionBuilder()
    (total,) = inline(body, builder.input("Data", "L"))
    assert evaluate(builder.build(total * 2.0), [np.arange(5, dtype=np.float32)]) == 20


def test_operands_have_to_fit() -> None:
    builder = FunctionBuilder()
    matrix, vector, free = builder.input("X", "R", "C"), builder.input("W", "L"), builder.input("F")
    inline(BODY, free, vector, 1, 1)
    for operands, code in (
        ((matrix, vector), "TIL705"),
        ((vector, vector, 1, 1), "TIL305"),
        ((3, vector, 1, 1), "TIL305"),
    ):
        with pytest.raises(TileError) as caught:
            inline(BODY, *operands)
        assert caught.value.diagnostics[0].code == code


def test_equal_sizes_are_checked_when_compiling() -> None:
    body = parse("function (A[N], B[N]) -> (C) { C[i : N] = +(A[i] * B[i]); }")
    builder = FunctionBuilder()
    (result,) = inline(body, builder.input("X", "L"), builder.input("Y", "M"))
    function = builder.build(result)
    assert (evaluate(function, [np.ones(3), np.ones(3)]) == 1).all()
    with pytest.raises(TileError) as caught:
        evaluate(function, [np.ones(3), np.ones(2)])
    assert caught.value.diagnostics[0].code == "TIL312"


def test_constants_are_called() -> None:
    body = parse("""
    function (X[N]) -> (O, N0) {
        constant K[L] = f32[2](1.0, 10.0);
        constant Scale = 0.5;
        S[n : N - L + 1] = +(X[n + j] * K[j]);
        O = S * Scale;
        N0 = X * L;
    }
    """)
    builder = FunctionBuilder()
    made, sized = inline(body, builder.input("Data", "M"))
    again, _ = inline(body, made)
    data = np.arange(5, dtype=np.float32)
    results = evaluate(builder.build(O=made, P=sized, Q=again), [data])
    expected = evaluate(body, [data])
    for result, wanted in zip(results, (*expected, evaluate(body, [expected[0]])[0]), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_what_scans_carry_has_sizes() -> None:
    body = parse("""
    function (X[N, M]) -> (O, P) {
        Zero = 0.0;
        Sum0[m : M] = =(Zero[]);
        Count0[m : 1] = =(Zero[]);
        S = scan(Sum0, Count0; X) function (Sum[M], Count[L], Row[M]) -> (NewSum, NewCount, Out) {
            NewSum = Sum + Row;
            NewCount = Count + 1.0;
            Out = Row * 2.0;
        };
        O = element(S, 0);
        P = element(S, 1);
    }
    """)
    builder = FunctionBuilder()
    total, count = inline(body, builder.input("Data", "H", "W"))
    assert ([dim.value for dim in count.dims], total.rank) == ([1], 1)
    mean = evaluate(builder.build(total / count), [np.arange(6, dtype=np.float32).reshape(2, 3)])
    np.testing.assert_array_equal(mean, [1.5, 2.5, 3.5])


def test_attributes_are_kept() -> None:
    body = parse("function (X[N]) -> (O) { [[finite]] O[i : N - 1] = +(X[i + j] * X[i]), j < 2; }")
    builder = FunctionBuilder()
    (made,) = inline(body, builder.input("Data", "M"))
    assert "[[finite]] " in to_text(builder.build(made))


def test_sizes_of_what_is_written_inside_other_expressions_are_known() -> None:
    body = parse("""
    function (X[H, W]) -> (A, B, C) {
        Zero = 0.0;
        Sum0[w : W] = =(Zero[]);
        S = scan(Sum0; X) function (Sum[M], Row[M]) -> (NewSum) { NewSum = Sum + Row; };
        A = element(S, 0) / reshape(element(S, 0), W);
        B = -reshape(X * 2.0, W, H, 1) + 1.0;
        C = H < 9 ? gather(X, as_i32(reshape(X, H * W))) : reshape(X, H * W, 1);
    }
    """)
    builder = FunctionBuilder()
    made = inline(body, builder.input("Data", "N", "K"))
    ranks = [each.rank for each in made]
    assert ranks == [1, 3, 2]
    assert [expression_text(dim.expr) for dim in made[1].dims] == ["K", "N", "1"]


def test_programs_are_called_by_name() -> None:
    softmax = parse("""function (X[N]) -> (Y) { M[] = >(X[i]); E = exp(X - M); S[] = +(E[i]); Y = E / S; }""")
    builder = FunctionBuilder()
    data, window = builder.input("X", "R", "C"), builder.input("W", "L")
    made = BODY(data, window, 2, 4)
    assert isinstance(made, tuple)
    assert to_text(builder.build(*made)) == to_text(_inlined())
    again = FunctionBuilder()
    row = again.input("A", "K")
    twice = softmax(softmax(row))
    a = np.arange(5, dtype=np.float32)
    expected = evaluate(softmax, [evaluate(softmax, [a])])
    np.testing.assert_array_equal(evaluate(again.build(twice), [a]), expected)


def _inlined() -> Function:
    builder = FunctionBuilder()
    data, window = builder.input("X", "R", "C"), builder.input("W", "L")
    return builder.build(*inline(BODY, data, window, 2, 4))


@pytest.mark.parametrize("operands", [(), (np.ones(3),), (1, 2.0), ("A",)], ids=["none", "array", "numbers", "name"])
def test_a_program_is_not_run_by_a_call(operands: tuple[Any, ...]) -> None:
    with pytest.raises(TileError, match=r"tileir\.jit\(function\)") as error:
        BODY(*operands)
    assert error.value.diagnostics[0].code == "TIL215"


def test_operands_of_a_call_have_to_fit() -> None:
    builder = FunctionBuilder()
    with pytest.raises(TileError, match="4 inputs, but is called with 1") as error:
        BODY(builder.input("X", "R"))
    assert error.value.diagnostics[0].code == "TIL705"
