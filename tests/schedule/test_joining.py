"""Kernels that run as one: the maker of a tensor before its reader, and one loop of loops of both."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, programs, vector_sums
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.schedules.scripted import Scripted, with_scripts
from tileir.schedule.remarks import Remarks, listening
from tileir.schedule.steps.iterations import Fuse
from tileir.schedule.steps.producers import JoinKernel
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

CENTRED = "function (A[M, N]) -> (C) { S[i, 0 : M, 1] = +(A[i, j]); C = A * S; }"
ONE_LOOP = "join_kernel{tensor=S, into=(row)}, fuse{loops=(row, i1), into=i1}"


def first_loops(program: Program) -> list[tuple[str, str]]:
    """Return the names of the outermost loops of blocks that stand beside each other in a kernel."""
    found = []
    for kernel in program.main.blocks:
        names = [next((index.name for index in block.indices), "") for block in kernel.blocks]
        found += [pair for pair in pairwise(names) if all(pair)]
    return found


def codes(program: Program, steps: str, match: str = "") -> list[str]:
    """Return what a script says of each kernel of a program."""
    found = Remarks()
    with listening(found):
        run(parse_pipeline(f"script{{{match}steps=({steps})}}"), program)
    return [remark.code for remark in found.all() if remark.step == "script"]


def program_of(text: str, *shape: int) -> Program:
    function = parse(text)
    types = {parameter.name: TensorType(DType.F32, shape) for parameter in function.inputs}
    return run((Accumulate(),), lower(infer(function, types)))


def handed_on(program: Program) -> list[str]:
    """Return the tensors that kernels write and others read; any that they touch where there are none."""
    views = [view for kernel in program.main.blocks for view in kernel.refinements if view.source]
    read = {view.source for view in views if view.direction.reads}
    both = {view.source for view in views if view.direction.writes} & read
    return sorted(both or {view.source for view in views})


@given(program=programs(8), data=st.data())
@examples(150)
def test_kernels_that_run_as_one_compute_the_same(program: Program, data: st.DataObject) -> None:
    before = run((Accumulate(),), program)
    join = JoinKernel(data.draw(st.sampled_from(handed_on(before))))
    joined = run((Scripted((join,)),), before)
    verify(joined)
    assert_same_meaning(program, joined)
    if pairs := first_loops(joined):
        pair = data.draw(st.sampled_from(pairs))
        fused = run((Scripted((join, Fuse(pair, pair[0]))),), before)
        verify(fused)
        assert_same_meaning(program, fused)


@given(program=programs(8), data=st.data())
@examples(40)
def test_other_passes_schedule_them(program: Program, data: st.DataObject) -> None:
    target = Target(vector_bytes=16, threads=4)
    join = JoinKernel(data.draw(st.sampled_from(handed_on(run((Accumulate(),), program)))))
    after = run(with_scripts(target, Scripted((join,))), run((Accumulate(), Scripted((join,))), program))
    arrays = arrays_for(program)
    found = run_program(lower_to_kernels(after, target), arrays)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("more", ["", ", bind{loop=i1, to=grid}", ", split{loop=i1, by=4, into=(o, p), tail=peel}"])
def test_a_row_is_read_right_after_its_sum_is_stored(more: str) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (6, 7)).astype(np.float32)
    program = tileir.compile(CENTRED, {"A": a}, passes=f"accumulate, script{{steps=({ONE_LOOP}{more})}}, canonicalise")
    (kernel, *rest) = program.scheduled.main.blocks
    assert kernel.name == "kernel_0(A)+kernel_1(A,S)"
    assert len(rest) == 0
    np.testing.assert_array_equal(program(a), a * a.sum(axis=1, keepdims=True))


def test_an_iteration_that_needs_a_later_one_is_not_joined_with_it() -> None:
    text = "function (A[N]) -> (C) { S = A * A; C[i : N] = =(S[N - 1 - i]); }"
    joined = "join_kernel{tensor=S, into=(first)}"
    assert codes(program_of(text, 10), joined)[-1] == "TR001"
    assert codes(program_of(text, 10), f"{joined}, fuse{{loops=(first, i), into=i}}")[-1] == "TR750"


def kernels_after(text: str, steps: str, *shape: int) -> int:
    program = program_of(text, *shape)
    after = run(parse_pipeline(f"script{{steps=({steps})}}"), program)
    assert_same_meaning(program, after)
    return len(after.main.blocks)


def test_the_other_kernel_goes_unless_one_between_reads_what_it_stores() -> None:
    between = "function (A[N]) -> (B, C) { S = A * A; T[] = +(S[i]); C = S + T; B = T * 2; }"
    result = "function (A[N]) -> (S, C) { S = A * A; C = S + 1; }"
    later = "function (A[N]) -> (C, B) { S = A * A; C = S + 1; B[i : N] = =(S[N - 1 - i]); }"
    match = "match={reads=(S, T)}, "
    assert codes(program_of(between, 6), "join_kernel{tensor=S}", match).count("TR733") == 1
    assert codes(program_of(between, 6), "join_kernel{tensor=T}", match).count("TR001") == 1
    assert kernels_after(result, "join_kernel{tensor=S}", 6) == 1
    assert kernels_after(later, "join_kernel{tensor=S}", 6) == 2


def test_each_of_a_chain_takes_in_the_one_before() -> None:
    chain = vector_sums("ABT", "TAU", "UTV", "VUO")
    for tensor in "TUV":
        assert_same_meaning(chain, run((Scripted((JoinKernel(tensor),)),), chain))
    assert_same_meaning(chain, run((Scripted((JoinKernel("T"),)), Scripted((JoinKernel("U"),))), chain))


REFUSALS: dict[str, tuple[str, Any]] = {
    "join_kernel{tensor=Z}": ("TR738", CENTRED),
    "join_kernel{tensor=A}": ("TR733", CENTRED),
    "join_kernel{tensor=S, into=(i1)}": ("TR705", CENTRED),
    "join_kernel{tensor=S, into=(row, column)}": ("TR725", CENTRED),
    "join_kernel{tensor=S}, join_kernel{tensor=S}": ("TR712", CENTRED),
    "join_kernel{tensor=S}, inline{tensor=T}": ("TR733", "function (A[N]) -> (C) { S = A * A; T = S * 2; C = S + T; }"),
    "join_kernel{tensor=S, into=(row)}, bind{loop=row, to=thread}, bind{loop=i1, to=thread}": (
        "TR731",
        "function (A[N]) -> (C) { S = A * A; C = S + A; }",
    ),
}


@pytest.mark.parametrize("steps", REFUSALS)
def test_refusals_say_why(steps: str) -> None:
    code, text = REFUSALS[steps]
    shape = (6, 5) if text is CENTRED else (6,)
    assert codes(program_of(text, *shape), steps)[-1] == code
