"""Sketches at random stand for steps that keep the meaning of kernels; the same seed draws the same ones."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, programs
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import expand_kernels, run, unnamed
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline
from tileir.passes.pipelines.pipeline import to_json, to_text
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.schedules.scripted import SCHEDULES, Scripted
from tileir.schedule.emission import kernels_of
from tileir.schedule.remarks import Refused
from tileir.schedule.script import Pattern, Script
from tileir.schedule.steps.loops import Split
from tileir.schedule.tree import Tree, tree_of
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_performance.tuning.drawing import Room
from tileir_performance.tuning.sketches import Sketch, SketchSteps, sketched

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SOFTMAX = """function (A[M, K]) -> (C) {
    X[i, 0 : M, 1] = >(A[i, k]); E = exp(A - X); S[i, 0 : M, 1] = +(E[i, k]); C = E / S;
}"""


def tree_for(text: str, **shapes: tuple[int, ...]) -> Tree:
    program = lower(infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))
    (kernel,) = run([Accumulate()], program).main.blocks
    tree = tree_of(kernel)
    assert isinstance(tree, Tree)
    return tree


@attrs.frozen
class Drawn:
    """Applies a sketch at random to each kernel, as a pass does."""

    name: ClassVar[str] = "sketched"
    seed: int
    changes: int

    def __call__(self, program: Program) -> Program:
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: Block) -> tuple[Block, ...]:
        tree = tree_of(kernel)
        if isinstance(tree, Refused) or not (room := Room.of(tree, 16)).order:
            return (kernel,)
        random = Random(self.seed)
        sketch = room.draw(random)
        for _ in range(self.changes):
            sketch = room.crossed(room.changed(sketch, random), room.draw(random), random)
        found = sketched(sketch, tree)
        if isinstance(found, Refused):
            return (kernel,)
        made = Script(found.steps, parameters=found.parameters).apply(kernel)
        plain = kernels_of(found.tree)
        if isinstance(made, Refused):
            assert isinstance(plain, Refused)
            assert made.facts[-len(plain.facts) :] == plain.facts  # a script tells the step as well
            return (kernel,)
        assert made == plain
        return made


@examples(100)
@given(program=programs(most=3), seed=st.integers(0, 1 << 30), changes=st.integers(0, 2))
def test_sketches_keep_the_meaning(program: Program, seed: int, changes: int) -> None:
    before = run([Accumulate()], program)
    assert_same_meaning(before, run([Drawn(seed, changes)], before))


@pytest.mark.parametrize("seed", range(4))
def test_the_same_seed_draws_the_same_sketches(seed: int) -> None:
    room = Room.of(tree_for(PRODUCT, A=(20, 30), B=(30, 40)), 32)
    one, other = Random(seed), Random(seed)
    first = [room.draw(one) for _ in range(20)]
    assert first == [room.draw(other) for _ in range(20)]
    assert len(set(first)) > 10
    changed = [room.changed(each, one) for each in first]
    assert changed == [room.changed(each, other) for each in first]
    assert sum(before != after for before, after in zip(first, changed, strict=True)) > 15


def test_rooms_know_where_vectors_are() -> None:
    room = Room.of(tree_for(PRODUCT, A=(20, 30), B=(30, 40)), 32)
    assert (room.order, room.sizes, room.inner) == (("i", "j"), (20, 40), ("k",))
    assert (room.vectors, room.read, room.lanes) == (("j",), ("A", "B"), 8)
    rows = Room.of(tree_for("function (A[M, K]) -> (S) { S[i : M] = +(A[i, k]); }", A=(5, 9)), 16)
    assert (rows.vectors, rows.inner, rows.lanes) == (("i",), ("k",), 4)


def test_a_sketch_is_a_tile_of_registers() -> None:
    tree = tree_for(PRODUCT, A=(20, 30), B=(30, 40))
    sketch = Sketch(("j", "i"), (16, 3), "j", 8, unrolled=2, staged=(("B", "j"),), grid=2)
    found = sketched(sketch, tree)
    assert isinstance(found, SketchSteps)
    steps = found.steps
    assert [step.name for step in steps[:6]] == ["split", "split", "reorder", "split", "split", "bind"]
    script = Scripted(steps, parameters=found.parameters)
    (scripted,) = load_pipeline(to_json([script]))
    assert scripted == script
    assert parse_pipeline(to_text([scripted])) == (scripted,)
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((20, 30), (30, 40)))
    passes = (*parse_pipeline("accumulate"), scripted)
    product = tileir.compile(PRODUCT, {"A": a, "B": b}, passes=passes)
    assert [remark.fired for remark in product.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [48, 64, 101])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_lanes_of_several_reductions_of_one_name_have_partial_results(size: int, rows: int) -> None:
    values = np.random.default_rng(0).standard_normal((17, size)).astype(np.float32)
    context = tileir.Context()
    target = attrs.evolve(context.device("llvm").target, threads=2, vector_bytes=32)
    steps = pipeline_for(target)
    first = next(n for n, step in enumerate(steps) if type(unnamed(step)).__module__.startswith(SCHEDULES))
    program = lower(infer(parse(SOFTMAX), {"A": TensorType(DType.F32, values.shape)}))
    (kernel,) = run(steps[:first], program).main.blocks
    tree = tree_of(kernel)
    assert isinstance(tree, Tree)
    found = sketched(Sketch(("i",), (rows,), "", 4, 2), tree)
    assert isinstance(found, SketchSteps)
    drawn = Scripted(found.steps, parameters=found.parameters)
    assert sum(step.name == "rfactor" for step in drawn.steps) == 2  # sums and maxima
    softmax = tileir.compile(SOFTMAX, {"A": values}, device="llvm", context=context, passes=(*steps[:first], drawn))
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        softmax(values), exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7
    )


def test_numbers_are_said_in_lanes_and_by_name() -> None:
    tree = tree_for(PRODUCT, A=(20, 30), B=(30, 40))
    room = Room.of(tree, 32)
    found = sketched(Sketch(("j", "i"), (16, 3), "j", 8, unrolled=2), tree)
    assert isinstance(found, SketchSteps)
    script = room.script(found, Pattern.of(tree))
    assert {each.name: each.value for each in script.parameters} == {
        "lanes": "max(1, VECTOR_BYTES // 4)",
        "j_by": "2 * lanes",
        "i_by": 3,
        "unrolled": 2,
    }
    assert not [step for step in script.steps if isinstance(step, Split) and not isinstance(step.by, str)]
    assert script.match == Pattern("", ("i", "j"), ("k",), ("A", "B"), ("C",))


@examples(40)
@given(
    seed=st.integers(0, 1 << 30),
    sizes=st.tuples(*[st.integers(2, 40)] * 3),
    vector_bytes=st.sampled_from([8, 16, 32, 64]),
)
def test_a_script_serves_other_names_sizes_and_widths(
    seed: int, sizes: tuple[int, int, int], vector_bytes: int
) -> None:
    tree = tree_for(PRODUCT, A=(20, 30), B=(30, 40))
    room = Room.of(tree, 32)
    found = sketched(room.draw(Random(seed)), tree)
    if isinstance(found, Refused):
        return
    script = Scripted.of(room.script(found, Pattern.of(tree)))
    (read,) = parse_pipeline(to_text(load_pipeline(to_json([script]))))
    assert read == script
    rows, terms, columns = sizes
    other = "function (X[M, K], Y[K, N]) -> (Z) { Z[r, c : M, N] = +(X[r, t] * Y[t, c]); }"
    types = {"X": TensorType(DType.F32, (rows, terms)), "Y": TensorType(DType.F32, (terms, columns))}
    before = run([Accumulate()], lower(infer(parse(other), types)))
    fitted = script.for_target(Target(vector_bytes=vector_bytes, vector_registers=16))
    assert_same_meaning(before, run([fitted], before))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [5, 16, 33, 100])
def test_a_script_fires_at_all_sizes(size: int) -> None:
    tree = tree_for(PRODUCT, A=(20, 30), B=(30, 40))
    room = Room.of(tree, 32)
    found = sketched(Sketch(("j", "i"), (16, 4), "j", 8, unrolled=2, staged=(("B", "j"),), grid=1), tree)
    assert isinstance(found, SketchSteps)
    script = Scripted.of(room.script(found, Pattern.of(tree)))
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, (size, size)).astype(np.float32) for _ in "ab")
    product = tileir.compile(PRODUCT, {"A": a, "B": b}, passes=(*parse_pipeline("accumulate"), script))
    assert [remark.fired for remark in product.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(product(a, b), a @ b)


def test_a_step_that_does_not_fit_refuses_the_sketch() -> None:
    tree = tree_for(PRODUCT, A=(20, 30), B=(30, 40))
    refusal = sketched(Sketch(("i", "j"), (1, 8), "j", 8, staged=(("C", "i"),)), tree)
    assert isinstance(refusal, Refused)
    assert refusal.code == "TR712"


def test_code_that_takes_long_to_compile_is_not_tried() -> None:
    tree = tree_for(PRODUCT, A=(64, 64), B=(64, 64))
    refusal = sketched(Sketch(("i", "j"), (32, 64), "j", 8, unrolled=8), tree)
    assert isinstance(refusal, Refused)
    assert refusal.code == "TR755"
    assert isinstance(sketched(Sketch(("i", "j"), (4, 16), "j", 8, unrolled=4), tree), SketchSteps)
