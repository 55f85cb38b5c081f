"""Steps that take in the kernel before: computed where its elements are read, with what neighbours share twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.passes import program_of, vector_sums
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.schedule.remarks import Remarks, listening
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.executable import Executable
    from tileir.stripe.ir import Program

BLUR = """function (A[M, N]) -> (C) {
    T[i, j : M, N] = +(A[i, j + k]), k < 3;
    B = T * 0.5;
    C[i, j : M, N] = +(B[i + k, j]), k < 3;
}"""
ROWS = """script{match={reads=(below), loops=(i, j), reductions=(k)}, steps=(
    inline{tensor=below}, split{loop=i, by=4, into=(block, row), tail=peel}, reorder{loops=(block, j, row)},
    compute_at{tensor=T, at=j, into=column, level=register},
    bind{loop=block, to=grid}, bind{loop=row, to=unroll}, bind{loop=column_0, to=unroll}
)}"""


def blurred(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return sums of three columns and three rows, halved; nothing stands behind the last."""
    padded = np.pad(a, ((0, 2), (0, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    return np.asarray(0.5 * windows.sum(axis=(2, 3)))


def compiled(passes: str, a: np.ndarray[Any, Any], text: str = BLUR) -> Executable:
    return tileir.compile(text, {"A": a}, passes=f"accumulate,{passes}")


def kernels(program: Executable) -> int:
    return len(program.scheduled.main.blocks)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(8, 5), (9, 7), (3, 3), (13, 20)])
def test_blocks_compute_their_halo_again(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    program = compiled(ROWS, a)
    assert all(r.name != "T" for r in program.scheduled.main.refinements)
    np.testing.assert_array_equal(program(a), blurred(a))


def test_the_part_of_an_iteration_has_the_halo_and_no_more() -> None:
    a = np.ones((8, 5), np.float32)
    inside, *_ = compiled(ROWS, a).scheduled.main.blocks  # the last block of rows tests for the end
    (part,) = [
        r for block in (inside, *inside.blocks) for r in block.refinements if r.name == "column" and not r.source
    ]
    assert part.shape.sizes == (6, 1)


@pytest.mark.parametrize("shape", [(8, 5), (9, 7), (3, 3)])
def test_blocks_with_room_behind_the_end_compute_what_there_is(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    program = compiled(ROWS.replace("tail=peel", "tail=pad"), a)
    assert all(r.name != "T" for r in program.scheduled.main.refinements)
    np.testing.assert_array_equal(program(a), blurred(a))


def test_a_kernel_stays_while_others_read_it() -> None:
    text = "function (A[M, N]) -> (C, D) { T = A * A; C = T + 1; D[j : N] = +(T[i, j]); }"
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    both = compiled("script{match={writes=(C)}, steps=(inline{tensor=T})}", a, text)
    one = compiled("script{steps=(inline{tensor=T})}", a, text)
    assert (kernels(both), kernels(one)) == (2, 2)  # a script for all kernels takes it into both
    for program in (both, one):
        c, d = program(a)
        np.testing.assert_array_equal(c, a * a + 1)
        np.testing.assert_array_equal(d, (a * a).sum(axis=0))


def test_results_of_the_program_are_stored_as_ever() -> None:
    text = "function (A[N]) -> (T, C) { T = A * A; C = T + 1; }"
    a = np.arange(12, dtype=np.int32)
    program = compiled("script{match={reads=(T)}, steps=(inline{tensor=T})}", a, text)
    assert kernels(program) == 2
    for found, expected in zip(program(a), (a * a, a * a + 1), strict=True):
        np.testing.assert_array_equal(found, expected)


REFUSALS = {
    "inline{tensor=A}": "TR738",
    "inline{tensor=C}": "TR738",
    "inline{tensor=Z}": "TR738",
    "inline{tensor=B}, inline{tensor=T}": "TR735",
    "compute_at{tensor=B, at=z, into=part}": "TR701",
    "compute_at{tensor=B, at=i, into=j}": "TR705",
}


def codes(program: Program, passes: str) -> list[str]:
    """Return what a script says of each kernel of a program."""
    found = Remarks()
    with listening(found):
        run(parse_pipeline(passes), program)
    return [remark.code for remark in found.all() if remark.step == "script"]


def last_remark(passes: str, text: str = BLUR) -> str:
    function = parse(text)
    types = {parameter.name: TensorType(DType.F32, (6, 10)) for parameter in function.inputs}
    return codes(lower(infer(function, types)), passes)[-1]


@pytest.mark.parametrize("steps", REFUSALS)
def test_refusals_say_why(steps: str) -> None:
    assert last_remark(f"accumulate,script{{match={{kernel=kernel_2}},steps=({steps})}}") == REFUSALS[steps]


def test_kernels_of_other_forms_are_not_taken_in() -> None:
    steps = "script{steps=(inline{tensor=B})}"
    assert last_remark(f"accumulate,canonicalise,{steps}") == "TR736"  # it has become one loop over all elements
    assert last_remark(f"accumulate,{steps}", "function (B[M, N]) -> (C) { C = B * 2; }") == "TR733"
    backwards = """block [i:10]:10 ( // back
        in A[i] fp32:I(1):(1):4 B, E(10):40 B
        out B[9 - i] fp32:I(1):(1):4 B, E(10):40 B
    ) {
        0: $a = load(A)
        1: B = store($a)
    }"""
    reader = backwards.replace("B =", "O =").replace("out B", "out O").replace("in A", "in B").replace("(A)", "(B)")
    assert codes(program_of([backwards, reader], {"A": (10,), "B": (10,), "O": (10,)}), steps)[-1] == "TR734"


def test_what_reads_memory_that_changes_is_not_computed_later() -> None:
    steps = "script{steps=(inline{tensor=T})}"
    assert codes(vector_sums("ABT", "CED", "TDO"), steps)[-1] == "TR001"
    assert codes(vector_sums("CDA", "ABT", "CEA", "TCO"), steps)[-1] == "TR733"  # A is another one by then
    assert codes(vector_sums("ABT", "CET", "TCO"), steps)[-1] == "TR733"  # two make T
    assert codes(vector_sums("CDA", "ABT", "TCA", outputs=("A",)), steps)[-1] == "TR733"  # it makes the other A itself
