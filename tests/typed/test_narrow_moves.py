"""Moves of what is widened before and narrowed behind: no f32 is stored, and elements are the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from strategies.operations import Case
from tileir import ops
from tileir.core.dtype import DType
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Cast, Function, TensorType
from tileir.typed.simplify.preparation import prepared, with_narrow_moves
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify

SHIFTED = "W = widen(X); T[i + 1 : N] = =(W[i]);"
OVER = "W = widen(X); V = widen(Y); T[i : N] = =(W[i + 2]) default V;"
RESHAPED = "W = widen(X); R = reshape(W, N / 2, 2); T[j, i : 2, N / 2] = =(R[i, j]);"
GATHERED = "W = widen(X); T = gather(W, index(Y, 0) / 2);"
BESIDE = "W = widen(X); V = W * 2.5; T[i : N] = =(W[i + 2]) default V;"
SUMMED = "W = widen(X); T[0 : N] = +(W[i]);"


def graph(statements: str, dtype: DType = DType.F16) -> Function:
    text = f"function (X[N], Y[N]) -> (O) {{ {statements} O = as_like(T, X); }}"
    return infer(tileir.parse(text), {name: TensorType(dtype, (8,)) for name in "XY"})


@pytest.mark.parametrize("statements", [SHIFTED, OVER, RESHAPED, GATHERED])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_moves_stay_narrow(statements: str, dtype: DType) -> None:
    made = prepared(graph(statements, dtype))
    verify(made)
    assert not any(isinstance(operation, Cast) for operation in made.operations)
    assert {operation.dtype for operation in made.operations if operation.dtype.is_float} == {dtype}


@pytest.mark.parametrize("statements", [BESIDE, SUMMED])
def test_what_is_computed_stays_wide(statements: str) -> None:
    simple = simplify(graph(statements))
    assert with_narrow_moves(simple) is simple


def test_without_casts_nothing_changes() -> None:
    simple = simplify(graph(OVER, DType.F32))
    assert with_narrow_moves(simple) is simple


@pytest.mark.parametrize("statements", [SHIFTED, OVER, RESHAPED, GATHERED, BESIDE, SUMMED])
def test_values_are_the_same_bits(statements: str) -> None:
    before = graph(statements)
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal(8).astype(np.float16) for name in "XY"}
    after = with_narrow_moves(simplify(before))
    verify(after)
    np.testing.assert_array_equal(interpret(after, arrays)["O"], interpret(before, arrays)["O"])


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_borders_store_no_f32(mode: str) -> None:
    case = Case(mode, lambda x: ops.pad(x, 2, mode=mode), {"X": np.zeros((6, 7))}, np.pad)
    made = prepared(infer(case.function(), {"X": TensorType(DType.F16, (6, 7))}))
    assert {operation.dtype for operation in made.operations} <= {DType.F16, DType.I32}
