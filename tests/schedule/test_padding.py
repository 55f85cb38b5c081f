"""Tails with room: tiles at the end are computed as a whole, and what is stored of them is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, programs
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import for_target, run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.schedules.scripted import Scripted
from tileir.poly.affine import Affine
from tileir.schedule.emission import with_padding
from tileir.schedule.nest import Use
from tileir.schedule.remarks import Remarks, listening
from tileir.schedule.steps.loops import Jam, Reorder, Split
from tileir.schedule.steps.memory import Accumulate as Apart, Level, RFactor, Stage
from tileir.schedule.tree import Leaf, Loop, Tail, Tree
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.schedule.script import Step
    from tileir.stripe.ir import Block, Program

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TILES = """accumulate, canonicalise{merge=false}, script{steps=(
    split{loop=j, by=16, into=(panel, tile), tail=pad}, split{loop=i, by=3, into=(block, row), tail=pad},
    reorder{loops=(panel, block, row, tile)}, split{loop=tile, by=8, into=(vector, lane), tail=peel},
    jam{loops=(row, vector, lane)}, stage{tensor=B, at=panel, into=packed}, stage{tensor=A, at=block, into=left},
    bind{loop=panel, to=grid}, bind{loop=row, to=unroll}, bind{loop=vector, to=unroll}, bind{loop=lane, to=vector}
)}"""


def lanes(block: Block) -> set[int]:
    """Return how many lanes blocks have that merge into memory."""
    merges = any(view.aggregation is not None for view in block.refinements)
    own = {index.range for index in block.indices if index.binding is Binding.LANE and merges and not block.blocks}
    return own.union(*(lanes(inner) for inner in block.blocks))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", [(6, 16, 4), (7, 21, 5), (2, 9, 3), (4, 3, 2), (5, 40, 7)])
def test_the_last_tile_is_multiplied_as_a_whole(sizes: tuple[int, int, int]) -> None:
    rows, columns, terms = sizes
    random = np.random.default_rng(0)
    a = random.integers(-9, 9, (rows, terms)).astype(np.float32)
    b = random.integers(-9, 9, (terms, columns)).astype(np.float32)
    product = tileir.compile(PRODUCT, {"A": a, "B": b}, passes=TILES)
    assert [remark.fired for remark in product.remarks if remark.step == "script"] == [True]
    for kernel in product.scheduled.main.blocks:
        assert lanes(kernel) == {8}
    np.testing.assert_array_equal(product(a, b), a @ b)


def test_what_is_outside_is_not_multiplied_with_infinities() -> None:
    a = np.full((4, 3), np.inf, np.float32)
    b = np.ones((3, 5), np.float32)
    found = tileir.compile(PRODUCT, {"A": a, "B": b}, passes=TILES)(a, b)
    np.testing.assert_array_equal(found, np.full((4, 5), np.inf))


REDUCED = {"+": np.sum, ">": np.max, "*": np.prod}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("how", REDUCED)
@pytest.mark.parametrize(
    "steps",
    [
        "stage{tensor=A, at=i, into=own}, reorder{loops=(lane, step)}, rfactor{memory=S_acc, loop=lane, into=parts}",
        "stage{tensor=A, at=step, into=own}, rfactor{memory=S_acc, loop=lane, into=parts}",
        "stage{tensor=A, at=step, into=own}, accumulate{memory=S_acc, at=step, into=parts}",
        "stage{tensor=A, at=i, into=own}, jam{loops=(step)}",
    ],
)
def test_what_is_outside_is_never_merged(how: str, steps: str) -> None:
    a = np.random.default_rng(0).integers(-9, -1, (4, 13)).astype(np.float32)
    script = f"script{{steps=(split{{loop=k, by=4, into=(step, lane), tail=pad}}, {steps})}}"
    text = f"function (A[M, K]) -> (S) {{ S[i : M] = {how}(A[i, k]); }}"
    program = tileir.compile(text, {"A": a}, passes=f"accumulate, canonicalise, {script}")
    reduce: Any = REDUCED[how]
    np.testing.assert_array_equal(program(a), reduce(a, axis=1))


@pytest.mark.sampled(14)
@pytest.mark.parametrize("rest", ["pad", "guard"])
@pytest.mark.parametrize("tail", ["pad", "mask", "guard", "peel"])
@pytest.mark.parametrize("loop", ["step", "part"])
@pytest.mark.parametrize(
    "step", ["rfactor{{memory=S_acc, loop={}, into=p}}", "accumulate{{memory=S_acc, at={}, into=p}}"]
)
@pytest.mark.parametrize("shape", [(8, 2), (7, 5)])
def test_parts_are_merged_into_defined_elements_only(
    tail: str, rest: str, loop: str, step: str, shape: tuple[int, int]
) -> None:
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    script = f"""script{{steps=(
        split{{loop=j, by=4, into=(block, lane), tail={tail}}}, split{{loop=k, by=4, into=(step, part), tail={rest}}},
        jam{{loops=(lane)}}, {step.format(loop)}
    )}}"""
    target = Target()
    passes = for_target(parse_pipeline(f"accumulate, canonicalise{{merge=false}}, {script}"), target)
    text = "function (A[K, N]) -> (S) { S[j : N] = +(A[k, j]); }"
    said = Remarks()
    with listening(said):
        stages = compile_stages(text, {"A": TensorType(DType.F32, shape)}, target, passes=passes)
    assert [remark.fired for remark in said.all() if remark.step == "script"] == [True]
    np.testing.assert_array_equal(run_program(stages.sem, {"A": a}, ALL_CHECKS)["S"], a.sum(axis=0))


def test_whole_numbers_are_divided_by_what_is_outside_without_harm() -> None:
    a = np.arange(1, 41, dtype=np.int32).reshape(5, 8)
    text = "function (A[M, K], B[M, K]) -> (S) { D = A / B; S[i : M] = +(D[i, k]); }"
    script = """script{steps=(split{loop=i, by=4, into=(block, one), tail=pad}, jam{loops=(one)},
        stage{tensor=A, at=block, into=p}, stage{tensor=B, at=block, into=q})}"""
    program = tileir.compile(text, {"A": a, "B": a}, passes=f"inline, accumulate, dead_code, {script}")
    assert [remark.fired for remark in program.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(program(a, a), np.full(5, 8))


def store(access: Affine, *reads: str) -> Leaf:
    """Return a leaf that stores to M, of what it reads, in the first 10 of the points of 3 blocks of 4."""
    value = stripe.Load(reads[0], "v") if reads else stripe.Constant("v", DType.F32, 0.0)
    at = tuple(Use(name, name, (Affine.index("x"),), (1,), DType.F32, stripe.Direction.IN) for name in reads)
    stored = Use("M", "M", (access,), (1,), DType.F32, stripe.Direction.OUT)
    return Leaf((value, stripe.Store("v", "M")), (*at, stored), padded=(9 - Affine.of({"block": 4, "x": 1}),))


X = Affine.index("x")


@pytest.mark.parametrize(
    ("leaves", "size", "outside", "whole"),
    [
        ((store(X),), 4, False, [True]),
        ((store(X),), 3, False, [False]),  # there is no room
        ((store(Affine()),), 4, False, [False]),  # one element for all
        ((store(X),), 4, True, [False]),  # one memory for all blocks
        ((store(X, "A"),), 4, False, [False]),  # of the caller
        ((store(X), store(X, "M")), 4, False, [True, True]),
        ((store(X, "A"), store(X, "M")), 4, False, [False, False]),  # undefined behind the end
        ((store(X), attrs.evolve(store(X, "M"), padded=())), 4, False, [False, True]),  # read behind the end
    ],
)
def test_what_may_run_behind_the_end(leaves: tuple[Leaf, ...], size: int, outside: bool, whole: list[bool]) -> None:
    types = {"A": TensorType(DType.F32, (4,))}
    kernel = lower(infer(parse("function (A[N]) -> (B) { B = A + 1.0; }"), types)).main.blocks[0]
    memory = (stripe.allocation("M", DType.F32, (size,), Level.REGISTER.location),)
    inner = tuple(Loop("x", 4, (leaf,)) for leaf in leaves)
    body = (Loop("block", 3, inner, allocations=() if outside else memory),)
    (block,) = with_padding(Tree(kernel, body, memory if outside else (), {})).body
    assert isinstance(block, Loop)
    found = [item for loop in block.body if isinstance(loop, Loop) for item in loop.body]
    assert [isinstance(item, Leaf) and not item.constraints and not item.padded for item in found] == whole


def steps_for(kernel: Block, data: st.DataObject) -> tuple[Step, ...]:
    """Draw steps, the first of which splits a loop of a kernel with room behind its end."""
    names = [index.name for block in (kernel, *kernel.blocks) for index in block.indices if index.affine is None]
    loop, other = (data.draw(st.sampled_from(names or ["i"])) for _ in range(2))
    tensors = [view.name for view in kernel.refinements]
    tensor = data.draw(st.sampled_from(tensors or ["A"]))
    at = data.draw(st.sampled_from(("outer", other)))
    more: tuple[Step, ...] = (
        Jam(("inner",)),
        Stage(tensor, at, "own"),
        Apart(tensor, "outer", "apart"),
        RFactor(tensor, "inner", "parts"),
        Reorder(("inner", "outer")),
        Split(other, 2, ("first", "second"), Tail.PAD),
    )
    chosen = data.draw(st.lists(st.sampled_from(more), max_size=3, unique=True))
    tail = data.draw(st.sampled_from((Tail.PAD, Tail.MASK)))
    return (Split(loop, data.draw(st.integers(2, 5)), ("outer", "inner"), tail), *chosen)


@given(program=programs(8), data=st.data())
@examples(300)
def test_generated_programs_compute_the_same(program: Program, data: st.DataObject) -> None:
    before = run((Accumulate(),), program)
    kernel = data.draw(st.sampled_from(before.main.blocks))
    after = run((Scripted(steps_for(kernel, data)),), before)
    verify(after)
    assert_same_meaning(program, after)
    arrays = arrays_for(program)
    found = run_program(lower_to_semtree(after, Target()), arrays, ALL_CHECKS)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)
