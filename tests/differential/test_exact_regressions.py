"""Programs for faults of passes that other tests had let through, planted or not."""

from __future__ import annotations

from typing import Final

import pytest

from strategies.catalogue import parse_pipeline
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.checking.check import check_passes, check_program

SPARSE: Final = [
    (a, b, n, m) for a in (1, 2, 3, 4, 5) for b in (1, 2, 3) for n, m in ((2, 3), (3, 2), (4, 4)) if a * b < 13
]
"""Coefficients of two indices in an output, and their sizes: sums of multiples with gaps and without, and overlaps."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("a", "b", "n", "m"), SPARSE)
def test_outputs_with_gaps(a: int, b: int, n: int, m: int) -> None:
    """Zeros are filled in first if some elements are written by no point."""
    reach = a * (n - 1) + b * (m - 1) + 1
    for size in (reach - 1, reach, reach + 1):
        function = f"function (A[N, M]) -> (O) {{ O[{a}*i + {b}*j : {size}] = +(A[i, j]) no_defract; }}"
        types = {"A": TensorType(DType.F32, (n, m))}
        assert (found := check_passes(function, types, "plain", target=Target())) is None, str(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [513, 521, 640])
def test_reductions_in_parts_that_do_not_divide_them(rows: int) -> None:
    types = {"A": TensorType(DType.F32, (rows, 3))}
    pipeline = "split_reduction{parts=8,operations=1,columns=4},accumulate"
    function = "function (A[N, M]) -> (O) { O[j : M] = +(A[i, j]); }"
    assert (found := check_passes(function, types, pipeline, target=Target())) is None, str(found)


@pytest.mark.parametrize("dtype", [DType.I32, DType.F32])
@pytest.mark.parametrize("aggregation", ["+", ">"])
def test_padding_of_an_output_that_an_earlier_kernel_wrote(dtype: DType, aggregation: str) -> None:
    function = (
        f"function (A[N], B[M]) -> (O) {{ T[i : N] = +(A[i]); O[i : N] = {aggregation}(B[i - 5*k]), k < 2 default T; }}"
    )
    pipeline = parse_pipeline("pad{multiple=4,threshold=2,finite=true},accumulate")
    types = {"A": TensorType(dtype, (8,)), "B": TensorType(dtype, (2,))}
    assert (found := check_passes(parse(function), types, pipeline, target=Target())) is None, str(found)


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        # elements with gaps between them, of which the last ones alone are read
        ("(X[N]) -> (O) { T[i : N] = =(X[i / 2]); O[i : 4] = =(T[i + 7]); }", (11,), DType.F32),
        # padding read by the kernel that writes what is padded, through another view
        (
            "(X[M, N]) -> (O) { Q = X * X; P[i + 1, j : 3, N] = =(Q[i, j]); S[i, j : 1, N] = +(P[i + k, j]), k < 3;"
            " O = X / (S + 1.0); }",
            (1, 5),
            DType.F32,
        ),
        # a sum of few terms, written by other axes than those by which its elements are read
        (
            "(X[2, 6, 14]) -> (O) { constant C = f32[2, 2](2, 1, -2, 0);"
            " T[i, j, l : 1, 3, 14] = +(X[i + k, 2*j + n, l] * C[k, n]); D = vjp(T, T, X);"
            " O[i, j, l : 1, 3, 7] = =(D[i + 1, 2*j + 1, 2*l]); }",
            (2, 6, 14),
            DType.F32,
        ),
        # steps of a window beyond all elements, in vectors
        (
            "(X[2, 2, 4]) -> (O) { T[i, j, l : 3, 2, 4] = <(X[i + k - 1, j, l]), k < 2; O = vjp(T, T, X); }",
            (2, 2, 4),
            DType.F16,
        ),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_pieces_and_borders(function: str, shape: tuple[int, ...], dtype: DType, target: str) -> None:
    found = check_passes(f"function {function}", {"X": TensorType(dtype, shape)}, target=target)
    assert found is None, str(found)


@pytest.mark.parametrize("tail", [(), (2,)])
def test_sums_by_order_of_rows(tail: tuple[int, ...]) -> None:
    program = lower(
        infer(
            parse("function (X, I, T) -> (O) { O = scatter(X, I, T); }"),
            {"X": TensorType(DType.F32, (70, *tail)), "I": TensorType(DType.I32, (70,)),
             "T": TensorType(DType.F32, (5, *tail))},
        )
    )  # fmt: skip
    pipeline = parse_pipeline("sorted_scatter{threads=256,least=2}")
    assert run(pipeline, program) is not program
    assert (found := check_program(program, pipeline)) is None, str(found)
