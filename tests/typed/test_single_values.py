"""Aggregations that merge at most one value are assignments; others stay, and everything means the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Contraction, Function, Scan, TensorType
from tileir.typed.simplify.preparation import with_assignments
from tileir.typed.verifier import verify

X = {"A": (3, 4), "B": (4,), "C": (3, 4)}


def typed(statement: str, dtype: DType = DType.F32) -> Function:
    types = {name: TensorType(dtype, shape) for name, shape in X.items()}
    return infer(parse(f"function (A[M, N], B[N], C[M, N]) -> (O) {{ {statement} }}"), types)


def aggregation(function: Function) -> Aggregation:
    (found,) = (operation for operation in function.operations if isinstance(operation, Contraction))
    return found.aggregation


def arrays(dtype: DType) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    generator = np.random.default_rng(0)
    found = {name: generator.integers(-3, 4, shape).astype(dtype.numpy) for name, shape in X.items()}
    if dtype.is_float:
        found["A"].ravel()[:3] = [np.nan, np.inf, -np.inf]
    return found


def same(one: Function, other: Function, dtype: DType) -> bool:
    inputs = arrays(dtype)
    results = [interpret(function, inputs)["O"].astype(np.float64) for function in (one, other)]
    return np.array_equal(results[0], results[1], equal_nan=True)


SINGLE = [
    "O[i, j : M, N] = {}(A[i, j]);",
    "O[j, i : N, M] = {}(A[i, j] * B[j]);",
    "O[i, j, k : M, N, M] = {}(A[i, j] + C[k, j]);",
    "O[i, j : M, N] = {}(A[i, j] == C[i, j] ? B[j]);",
    "O[2 * i, j : 2 * M, N] = {}(A[i, j + 1]);",
    "O[i, j : M, N] = {}(A[i, j + 1]), i + j < 3 default C;",
    "O[i + j : M + N] = {}(A[i, j]), j < 1;",
    "O[i, j : M, N] = {}(B[j]), i < 2;",
]


@pytest.mark.parametrize("statement", SINGLE)
@pytest.mark.parametrize("sign", "+*><")
@pytest.mark.parametrize("dtype", [DType.I8, DType.F16, DType.F32], ids=lambda dtype: dtype.value)
def test_what_merges_nothing_is_assigned(statement: str, sign: str, dtype: DType) -> None:
    function = typed(statement.format(sign), dtype)
    after = with_assignments(function)
    verify(after)
    assert aggregation(after) is Aggregation.ASSIGN
    assert same(function, after, dtype)


@pytest.mark.parametrize(
    "statement",
    [
        "O[i : M] = +(A[i, j]);",
        "O[i + j : M + N] = +(A[i, j]);",
        "O[i, j : M, N] = =(A[i, j]);",
        "O[i + j - 1 : N] = >(A[i, j]), i < 2;",
    ],
)
def test_what_may_merge_stays(statement: str) -> None:
    function = typed(statement)
    assert with_assignments(function) is function


def test_sums_of_bools_stay_sums() -> None:
    function = typed("O[i, j : M, N] = +(A[i, j]);", DType.BOOL)
    assert with_assignments(function) is function


def test_steps_of_scans_are_seen() -> None:
    types = {"H": TensorType(DType.F32, (3,)), "X": TensorType(DType.F32, (2, 3))}
    text = "function (H, X) -> (O) { O = scan(H; X) function (A[N], B[N]) -> (C) { D[i : N] = +(B[i]); C = A + D; }; }"
    after = with_assignments(infer(parse(text), types))
    (scan,) = (operation for operation in after.operations if isinstance(operation, Scan))
    assert aggregation(scan.body) is Aggregation.ASSIGN


def test_differences_of_all_pairs_are_not_stored() -> None:
    text = """
    function (X[N, D], Z[M, D]) -> (O) {
      E[i, j, d : N, M, D] = +(X[i, d] + Z[j, d]);
      F = abs(E);
      O[i, j : N, M] = +(F[i, j, d]);
    }
    """
    x, z = np.ones((40, 8), np.float32), np.full((30, 8), -3, np.float32)
    run = tileir.jit(text)
    assert (run(x, z) == 16).all()
    assert run.specialise(x, z).memory.temporaries == 0


@examples(50)
@given(cases(special=True, functions=False))
def test_generated_functions_mean_the_same(case: Case) -> None:
    function = case.typed()
    after = with_assignments(function)
    verify(after)
    before, now = interpret(function, case.inputs), interpret(after, case.inputs)
    for name, array in before.items():
        if array.dtype.kind in "biu":
            assert np.array_equal(array, now[name])
