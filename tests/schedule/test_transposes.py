"""Tiles that are turned in registers keep the meaning of kernels, whatever their tails."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.schedules.scripted import Scripted
from tileir.schedule.remarks import Refused
from tileir.schedule.script import Script
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.schedule.steps.tensors import Transpose
from tileir.schedule.tree import Tail, Tree, tree_of
from tileir.stripe.bindings import Binding
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_performance.tuning.drawing import Room
from tileir_performance.tuning.sketches import SketchSteps, sketched

TEXT = "function (A[M, N]) -> (B) { B[j, i : N, M] = =(A[i, j]); }"


def program_for(sizes: tuple[int, int], dtype: DType = DType.F32) -> Program:
    return lower(infer(parse(TEXT), {"A": TensorType(dtype, sizes)}))


def tree_for(sizes: tuple[int, int]) -> Tree:
    (kernel,) = program_for(sizes).main.blocks
    tree = tree_of(kernel)
    assert isinstance(tree, Tree)
    return tree


def squares(lanes: int, tail: Tail) -> Scripted:
    return Scripted(
        (
            Split("i", lanes, ("rows", "lane"), tail),
            Split("j", lanes, ("columns", "row"), tail),
            Reorder(("rows", "columns", "row", "lane")),
            Transpose(("row", "lane")),
        )
    )


@examples(40)
@given(
    sizes=st.tuples(*[st.integers(8, 40)] * 2),
    lanes=st.sampled_from([2, 4, 8]),
    tail=st.sampled_from(Tail),
    dtype=st.sampled_from([DType.F32, DType.F64, DType.U8]),
)
def test_turned_tiles_keep_the_meaning(sizes: tuple[int, int], lanes: int, tail: Tail, dtype: DType) -> None:
    before = program_for(sizes, dtype)
    assert_same_meaning(before, run([squares(lanes, tail)], before), whole=False)  # tiles at the end are not full


@pytest.mark.parametrize("tail", [Tail.PEEL, Tail.SHIFT])
@pytest.mark.parametrize("sizes", [(16, 32), (37, 21)])
def test_a_device_computes_the_same(sizes: tuple[int, int], tail: Tail) -> None:
    values = np.arange(sizes[0] * sizes[1], dtype=np.float32).reshape(sizes)
    turned = tileir.compile(TEXT, {"A": values}, passes=(squares(8, tail),))
    assert [remark.fired for remark in turned.remarks] == [True]
    assert "transpose" in str(turned.scheduled)
    np.testing.assert_array_equal(turned(values), values.T)


@examples(40)
@given(seed=st.integers(0, 1 << 30), sizes=st.tuples(*[st.integers(2, 40)] * 2))
def test_sketches_of_a_transpose_serve_all_sizes(seed: int, sizes: tuple[int, int]) -> None:
    tree = tree_for((32, 48))
    room = Room.of(tree, 16)
    assert room.turns == ("j",)
    random = Random(seed)
    found = sketched(room.changed(room.draw(random), random), tree)
    if isinstance(found, SketchSteps):
        before = program_for(sizes)
        script = Scripted.of(Script(found.steps, parameters=found.parameters)).for_target(Target(vector_bytes=16))
        assert_same_meaning(before, run([script], before), whole=False)


def test_a_search_draws_turned_tiles() -> None:
    room = Room.of(tree_for((32, 48)), 16)
    drawn = [sketched(room.draw(Random(seed)), tree_for((32, 48))) for seed in range(40)]
    assert any(isinstance(each, SketchSteps) and "transpose" in [s.name for s in each.steps] for each in drawn)


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ("split{loop=i,by=4,into=(a,lane)}, split{loop=j,by=8,into=(b,row)}", "TR756"),
        ("split{loop=i,by=3,into=(a,lane)}, split{loop=j,by=3,into=(b,row)}", "TR756"),
        ("split{loop=i,by=4,into=(a,row)}, split{loop=j,by=4,into=(b,lane)}", "TR721"),
    ],
)
def test_what_is_no_square_is_refused(steps: str, code: str) -> None:
    text = f"script{{steps=({steps}, reorder{{loops=(a, b, row, lane)}}, transpose{{loops=(row, lane)}})}}"
    (script,) = parse_pipeline(text)
    assert isinstance(script, Scripted)
    (kernel,) = program_for((24, 24)).main.blocks
    refusal = script.script.apply(kernel)
    assert isinstance(refusal, Refused)
    assert refusal.code == code


def test_what_lies_along_the_lanes_is_not_turned() -> None:
    text = "function (A[M, N]) -> (B) { B[i, j : M, N] = =(A[i, j]); }"
    (kernel,) = lower(infer(parse(text), {"A": TensorType(DType.F32, (8, 8))})).main.blocks
    for steps, code in (
        ((Transpose(("i", "j")),), "TR757"),
        ((Bind("j", Binding.LANE), Transpose(("i", "j"))), "TR707"),
        ((Split("j", 4, ("vector", "lane")), Transpose(("i", "vector"))), "TR720"),
    ):
        refusal = Script(steps).apply(kernel)
        assert isinstance(refusal, Refused)
        assert refusal.code == code
