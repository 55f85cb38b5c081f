"""Kernels over the same rows, joined: which indices they share, and what one reads of the rows of the other."""

from __future__ import annotations

import attrs
import pytest

from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

CHANNELS = "function (M[H, W], X[H, W, C]) -> (A, B) { A = -M; B = X + reshape(A, H, W, 1); }"
ELEMENT = "function (X[H, W]) -> (B) { A = -X; F[y, 0 : H, 1] = =(A[y, 0]); B = A + F; }"


def program_of(text: str, **shapes: tuple[int, ...]) -> Program:
    return lower(infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))


def test_channels_leave_columns_to_the_rows_of_both() -> None:
    program = program_of(CHANNELS, M=(6, 40), X=(6, 40, 3))
    rows = Fusion(rows=True, siblings=False, shorten=True, least_row=32)
    joined = run((Canonicalise(merge=False), rows), program)
    (kernel,) = joined.main.blocks
    assert [index.range for index in kernel.indices] == [6]
    assert_same_meaning(program, joined)
    assert len(run((rows,), program).main.blocks) == 2  # the reshape is a copy of other elements as long as it is whole
    long = run((Canonicalise(merge=False), attrs.evolve(rows, shorten=False)), program)
    assert len(long.main.blocks) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [1, 4, 600])
@pytest.mark.parametrize(
    "text",
    [
        "P[m, 0 : M, 1] = +(X[m, n]); E = X - P; O[m, n : M, N] = =(E[m, n] * E[m, 0]);",
        "P[m, 0 : M, 1] = +(X[m, n]); E = X - P; O[m, n : M, N] = +(E[m, n] * E[m, n / 2]), n / 2 < 9;",
        "P[m, 0 : M, 1] = +(X[m, n]); E = X - P; F[m, 0 : M, 1] = =(E[m, 0]); O = E * F + P;",
    ],
)
def test_the_first_element_of_a_row_is_read_by_every_point(text: str, rows: int) -> None:
    program = program_of(f"function (X[M, N]) -> (O) {{ {text} }}", X=(rows, 6))
    steps = (
        Accumulate(),
        Fusion(rows=True, least_row=1, least_points=1),
        Fusion(rows=True, least_row=1, few_bytes=4096),
    )
    joined = run(steps, program)
    verify(joined)
    assert_same_meaning(program, joined)


@pytest.mark.parametrize("shape", [(4, 8), (1, 2), (3, 1)])
def test_an_element_of_a_row_is_not_read_before_the_row(shape: tuple[int, int]) -> None:
    """A joined kernel would load the first element of rows that a block inside of it stores."""
    program = program_of(ELEMENT, X=shape)
    joined = run((Fusion(),), program)
    verify(joined)
    assert_same_meaning(program, joined)


@pytest.mark.parametrize("text", ["Y = gather(X, I) * P;", "Y = gather(X, I + P);"])
def test_places_that_data_choose_are_no_rows_of_groups(text: str) -> None:
    """One thread would go along each row or column, since no schedule of groups takes such rows."""
    types = {"X": TensorType(DType.I32, (90,)), "I": TensorType(DType.I32, (6, 40)), "A": TensorType(DType.I32, (40,))}
    program = lower(infer(parse(f"function (X[K], I[M, N], A[N]) -> (Y, P) {{ P = A * A; {text} }}"), types))
    flat = run((Fuse(),), program)
    fusion = Fusion(rows=True, least_row=1, least_points=1, beside_bytes=4)
    assert run((attrs.evolve(fusion, local_bytes=40960),), flat) is flat
    joined = run((fusion,), flat)
    assert len(joined.main.blocks) < len(flat.main.blocks)
    assert_same_meaning(flat, joined)
