"""All passes of the catalogue, in any order: the result is a valid program that means the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, strategies as st

from strategies.catalogue import parse_pipeline
from strategies.drawn_pipelines import pipelines
from strategies.effort import examples
from strategies.families import FAMILIES, Written, written
from strategies.passes import assert_same_index_sets, assert_same_meaning, programs
from strategies.steps import STEPS
from tileir.core.dtype import DType
from tileir.core.errors import TileError, VerifyError
from tileir.passes.base import run
from tileir.passes.pipelines.pipeline import to_text
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program


def _after(passes: list[Pass], program: Program) -> Program:
    """Run passes until one refuses: what it may refuse is a request, and that is an error of tileir's own."""
    for step in passes:
        try:
            program = run((step,), program)
        except TileError as error:
            if error.diagnostics[0].code != "TIL543":
                raise AssertionError(to_text(passes)) from error
    return program


@given(programs(6), st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
@examples(300)
def test_any_sequence_keeps_the_meaning(program: Program, passes: list[Pass]) -> None:
    after = _after(passes, program)
    assert_same_meaning(program, after)


REFUSALS: Final = ("TIL505", "TIL543", "TIL548")
"""Allowed refusals of passes: units, sizes and memories that do not fit the selected blocks."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), passes=pipelines())
@examples(80)
def test_no_pipeline_makes_an_illegal_program(family: str, data: st.DataObject, passes: tuple[Pass, ...]) -> None:
    program = after = data.draw(written(family)).program()
    for step in passes:
        try:
            after = run((step,), after)
        except TileError as error:
            if not {fault.code for fault in error.diagnostics} <= {*REFUSALS} or isinstance(error, VerifyError):
                raise AssertionError(to_text(passes)) from error
    assert_same_meaning(program, after)


@pytest.mark.sampled(37)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: to_text((step,)))
@given(program=programs(6))
@examples(15)
def test_each_pass_keeps_the_meaning_and_then_stays(step: Pass, program: Program) -> None:
    after = _after([step], program)
    assert_same_meaning(program, after)
    assert_same_index_sets(program, after)


SCANS: Final = (
    ("O[i : N] = +(I[i - k]), k < N;", "scan{least=2}"),
    ("O[i : N] = >(I[k]), k - i < N;", "scan{least=2,vector_bytes=16}"),
    ("O[i : N] = +(I[k] * I[k]), i - k < N;", "scan{least=2,threads=4,each=2,local_bytes=4096}"),
    ("O[i : N] = +(I[i - k]), k < N;", "scan{least=2,vector_bytes=8,parts=2,part_terms=1}"),
)
"""Programs whose points run in order, and what makes them so."""


@pytest.mark.parametrize(("body", "scan"), SCANS, ids=[scan for _, scan in SCANS])
@given(passes=st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
@examples(25)
def test_what_runs_in_order_stays_so(body: str, scan: str, passes: list[Pass]) -> None:
    graph = infer(parse(f"function (I[N]) -> (O) {{ {body} }}"), {"I": TensorType(DType.I32, (13,))})
    program = lower(graph)
    assert_same_meaning(program, _after([*parse_pipeline(scan), *passes], program))


STEPS_OF_A_LOOP: Final = """function (X[M, N], H[N]) -> (Y, Z) {
    W = X * 2;
    S = scan(H; W) function (A[N], B[N]) -> (C, D) { C = A + B; D = C * B; };
    Y = element(S, 0);
    R = element(S, 1);
    Z = R - X;
}"""
"""Each step writes a row of what the loop stacks up, and kernels around the loop use the same input."""

FOUND: Final[tuple[tuple[str, dict[str, tuple[int, ...]], str], ...]] = (
    (
        "function (A[M, N]) -> (O) { B[i : M] = >(A[i, j]); E = A - reshape(B, M, 1); P = E * E;"
        " S[i : M] = +(P[i, j]); O = P * reshape(S, M, 1); }",
        {"A": (5, 9)},
        "fusion,vectorise_reduction,accumulate",
    ),
    (
        "function (A[N, M], X[K]) -> (O) { G = gather(A, X); S[i : K] = +(G[i, j]); O = G * reshape(S, K, 1); }",
        {"A": (16, 9), "X": (5,)},
        "accumulate,fusion{rows=true,least_points=1,least_row=1},vectorise_reduction",
    ),
    (
        "function (A[M, K], B[K, N]) -> (P, Q) { P[i, j : M, N] = >(A[i, k] + B[k, j]); Q[i : M] = +(A[i, k]); }",
        {"A": (17, 9), "B": (9, 1)},
        "accumulate,vectorise_reduction{vector_bytes=8,unroll=3},vectorise_reduction{vector_bytes=8,unroll=3}",
    ),
    (
        "function (A[M, N]) -> (O) { S[i : M] = +(A[i, j]); T[i : M] = <(A[i, j]); O = A * reshape(S - T, M, 1); }",
        {"A": (5, 7)},
        "accumulate,fusion{rows=true,least_points=1,least_row=1},group_rows{width=4,vector_bytes=4,local_bytes=64}",
    ),
    (
        "function (A[M, N]) -> (O, S) { S[i : M] = +(A[i, j]); T[i : M] = <(A[i, j]); O = A * reshape(S - T, M, 1); }",
        {"A": (5, 13)},
        "inline,accumulate,fuse,localise,group_reduction{local_bytes=256}",
    ),
    (
        "function (A[N, M], X[K], E[K, M]) -> (O) { U = scatter(E, X, A); O = U + A; }",
        {"A": (12, 7), "X": (7,), "E": (7, 7)},
        "fusion,register_tile{registers=4,threads=4,columns=2}",
    ),
    (STEPS_OF_A_LOOP, {"X": (3, 2), "H": (2,)}, "compute_deps,schedule,accumulate"),
    (STEPS_OF_A_LOOP, {"X": (3, 2), "H": (2,)}, "accumulate,schedule"),
    (STEPS_OF_A_LOOP, {"X": (3, 2), "H": (2,)}, "schedule,schedule{mem_loc=LOCAL},dead_code"),
    (
        "function (A[M, K], B[K, N]) -> (O) { T[i, j : M, N] = +(A[i, k] * B[k, j]); O = T + 1; }",
        {"A": (5, 3), "B": (3, 4)},
        "schedule{reqs=(main)},constant_propagate",
    ),
)
"""Programs, and pipelines that once made illegal programs of them."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("text", "shapes", "passes"), FOUND, ids=[passes for _, _, passes in FOUND])
def test_what_random_pipelines_found(text: str, shapes: dict[str, tuple[int, ...]], passes: str) -> None:
    program = Written(text, shapes).program()
    assert_same_meaning(program, _after([*parse_pipeline(passes)], program))
