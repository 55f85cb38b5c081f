from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.passes import assert_same_meaning
from strategies.scatters import added, replaced, scattering, values
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.schedules.vectors.vectorise_scatter import VectoriseScatter
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.blocks import Binding
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

VECTORS = VectoriseScatter(vector_bytes=16, part_bytes=16, threads=8)


def bound(block: Block, binding: Binding) -> list[tuple[str, int]]:
    mine = [(index.name, index.range) for index in block.indices if index.binding is binding]
    return mine + [each for inner in block.blocks for each in bound(inner, binding)]


def scatter_of(program: Program) -> Block:
    return next(block for block in program.main.blocks if "scatter" in block.tags)


def test_lanes_run_along_updates_of_single_elements() -> None:
    after = run((VECTORS,), scattering((3, 18), (), 5))
    assert bound(scatter_of(after), Binding.LANE) == [("i2_lane", 4)]
    assert bound(scatter_of(after), Binding.GRID) == []


def test_parts_are_the_grid() -> None:
    after = run((SplitScatter(parts=4, runs=True), VECTORS), scattering((80,), (), 5))
    assert bound(scatter_of(after), Binding.GRID) == [("i1_part", 4)]
    assert bound(scatter_of(after), Binding.LANE) == [("i1_lane", 4)]


@pytest.mark.parametrize(("row", "parts"), [(8, [("i2_chunk", 2)]), (24, [("i2_chunk", 6)]), (64, [("i2_chunk", 8)])])
def test_rows_of_the_target_have_lanes_along_them_and_parts_of_them_are_the_grid(
    row: int, parts: list[tuple[str, int]]
) -> None:
    scatter = scatter_of(run((VECTORS,), scattering((50,), (row,), 7)))
    assert bound(scatter, Binding.GRID) == parts
    assert {name for name, _ in bound(scatter, Binding.LANE)} == {"i2_lane"}


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("TR664", scattering((), (), 4, terms="D * 2")),
        ("TR302", scattering((3,), (2,), 4)),  # neither has four elements
        ("TR302", scattering((), (), 4)),
    ],
)
def test_kernels_without_such_places_or_elements_stay(code: str, program: Program) -> None:
    kept = Remarks()
    with listening(kept):
        assert run((VECTORS,), program) is program
    assert code in [remark.code for remark in kept.all()]


@pytest.mark.parametrize(
    ("program", "grid", "lanes"),
    [
        (scattering((1 << 15,), (), 100), ("i1_part", 64), "i1_lane"),
        (scattering((1 << 12,), (8,), 100), ("i1_part", 16), "i2_lane"),
        (scattering((1 << 12,), (256,), 3000), ("i2_chunk", 2), "i2_lane"),
    ],
)
def test_processors_have_parts_and_lanes_for_it_in_a_kernel_of_its_own(
    program: Program, grid: tuple[str, int], lanes: str
) -> None:
    target = attrs.evolve(Target(), threads=2)
    scatter = scatter_of(run(pipeline_for(target), program))
    assert "fill" not in scatter.tags
    assert bound(scatter, Binding.GRID) == [grid]
    assert {name for name, _ in bound(scatter, Binding.LANE)} == {lanes}


SPLITS = ("", "split_scatter{parts=4,updates=1,runs=true},", "split_scatter{parts=4,updates=1},")
FUSED = ("", "inline,", "fuse,localise,scalarise,dead_code,")


@given(st.data())
def test_generated_scatters_keep_their_meaning(data: st.DataObject) -> None:
    updates = tuple(data.draw(st.lists(st.integers(1, 19), min_size=1, max_size=2), label="updates"))
    rest = tuple(data.draw(st.lists(st.integers(1, 9), max_size=2), label="rest"))
    dtype = data.draw(st.sampled_from([DType.F32, DType.F64, DType.F16, DType.I8, DType.U32, DType.I64]))
    terms = data.draw(st.sampled_from(["D", "D + 1", "D * D"]))
    program = scattering(updates, rest, data.draw(st.integers(1, 6)), dtype, terms)
    lanes = data.draw(st.sampled_from(["vector_bytes=8", "vector_bytes=32", "vector_bytes=32,max_lanes=2"]))
    text = data.draw(st.sampled_from(SPLITS)) + data.draw(st.sampled_from(FUSED)) + f"vectorise_scatter{{{lanes}}}"
    after = run(parse_pipeline(f"{text},accumulate"), program)
    arrays = values(program, data.draw(st.integers(0, 9)))
    assert_same_meaning(program, after, arrays)
    found = run_program(lower_to_kernels(after, Target()), arrays)
    np.testing.assert_array_equal(found["R"], added(arrays, terms))


@given(st.data())
def test_generated_replacements_keep_their_order(data: st.DataObject) -> None:
    updates = tuple(data.draw(st.lists(st.integers(1, 19), min_size=1, max_size=2), label="updates"))
    rest = tuple(data.draw(st.lists(st.integers(1, 9), max_size=2), label="rest"))
    dtype = data.draw(st.sampled_from([DType.F32, DType.F64, DType.F16, DType.I8, DType.U32, DType.I64]))
    terms = data.draw(st.sampled_from(["D", "D + 1", "D * D"]))
    size = data.draw(st.integers(1, 6))
    program = scattering(updates, rest, size, dtype, terms, function="scatter_last")
    lanes = data.draw(st.sampled_from(["vector_bytes=8", "vector_bytes=32", "vector_bytes=32,max_lanes=2"]))
    text = data.draw(st.sampled_from(FUSED)) + f"vectorise_scatter{{{lanes}}},vectorise,thread"
    after = run(parse_pipeline(text), program)
    arrays = values(program, data.draw(st.integers(0, 9)))
    assert_same_meaning(program, after, arrays)
    found = run_program(lower_to_kernels(after, Target()), arrays)
    np.testing.assert_array_equal(found["R"], replaced(arrays, terms))


def test_rows_that_are_replaced_in_order_have_lanes_and_parts_of_them_are_the_grid() -> None:
    scatter = scatter_of(run((VECTORS,), scattering((5, 10), (24,), 7, function="scatter_last")))
    assert bound(scatter, Binding.GRID) == [("i3_chunk", 6)]
    assert {name for name, _ in bound(scatter, Binding.LANE)} == {"i3_lane"}
    inside = [index for block in scatter.blocks for each in block.nested() for index in each.indices]
    assert [index.name for index in inside if index.serial] == ["i1", "i2"]


def test_single_elements_are_replaced_one_after_the_other() -> None:
    program = scattering((50,), (), 7, function="scatter_last")
    kept = Remarks()
    with listening(kept):
        assert run((VECTORS,), program) is program
    assert "TR103" in [remark.code for remark in kept.all()]


def test_places_are_computed_where_updates_are_put_in_order() -> None:
    f = tileir.FunctionBuilder()
    x, i, u = f.input("X", "N"), f.input("I", "M"), f.input("U", "M")
    function = f.build(O=ops.scatter(x, i, u, mode="set"))
    types = {"X": TensorType(DType.F32, (50,)), "U": TensorType(DType.F32, (90,)), "I": TensorType(DType.I64, (90,))}
    program = compile_stages(function, types, Target(threads=2)).passed
    assert program is not None
    assert ["scatter" in block.tags for block in program.main.blocks] == [False, True]


def test_lanes_that_a_script_masks_merge_where_they_run() -> None:
    program = scattering((3, 7), (), 2)
    steps = "split{loop=i2,by=8,into=(a,b),tail=mask}, bind{loop=b,to=vector}"
    after = run(parse_pipeline(f"script{{match={{writes=(R),reads=(I, D)}},steps=({steps})}}"), program)
    assert bound(scatter_of(after), Binding.LANE) == [("b", 8)]
    arrays = values(program)
    found = run_program(lower_to_kernels(after, Target()), arrays)
    np.testing.assert_array_equal(found["R"], added(arrays))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(
    ("updates", "rest", "size"),
    [((70_001,), (), 257), ((70_001,), (), 40_000), ((4_001,), (48,), 300), ((40_000,), (7,), 11), ((9,), (1_000,), 4)],
)
def test_sums_are_those_of_numpy_with_the_same_bits_on_any_number_of_threads(
    updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: type[np.generic]
) -> None:
    random = np.random.default_rng(3)
    places = random.integers(-3, size + 3, updates).astype(np.int32)
    terms = (random.random((*updates, *rest)) * 100).astype(dtype)
    target = np.zeros((size, *rest), dtype)
    axes = "".join(f", C{axis}" for axis in range(len(rest)))
    function = tileir.parse(f"function (D[N{axes}], I[N], T[M{axes}]) -> (R) {{ R = scatter(D, I, T); }}")
    arrays, found = [terms, places, target], []
    for threads in (1, 2, 3):
        context = tileir.Context(options=tileir.Options(threads=threads))
        found.append(np.asarray(tileir.compile(function, arrays, context=context)(*arrays)))
    for each in found[1:]:
        assert each.tobytes() == found[0].tobytes()
    np.testing.assert_allclose(found[0], added({"T": target.astype(np.float64), "I": places, "D": terms}), rtol=1e-5)


def test_rows_that_are_stored_are_the_grid() -> None:
    text = "function (D[N, M], I[N], T[V, M]) -> (R) { R = scatter_assign(D, I, T); }"
    types = {name: TensorType(DType.F32, shape) for name, shape in {"D": (6, 8), "T": (9, 8)}.items()}
    program = lower(infer(parse(text), {**types, "I": TensorType(DType.I32, (6,))}))
    after = run((VECTORS,), program)
    assert bound(scatter_of(after), Binding.GRID) == [("i1", 6)]
    assert {name for name, _ in bound(scatter_of(after), Binding.LANE)} == {"i2_lane"}
    random = np.random.default_rng(0)
    arrays = {"D": random.normal(size=(6, 8)), "T": random.normal(size=(9, 8)), "I": random.permutation(9)[:6]}
    arrays = {name: array.astype(np.int32 if name == "I" else np.float32) for name, array in arrays.items()}
    assert_same_meaning(program, after, arrays)


@pytest.mark.parametrize("mode", ["add", "set"])
def test_rows_of_elements_that_data_choose_along_run_side_by_side(mode: str) -> None:
    f = tileir.FunctionBuilder()
    x, i, u = (f.input(name, "N", "M") for name in "XIU")
    function = f.build(O=ops.scatter_along_axis(x, i, u, 1, mode=mode))
    types = {name: TensorType(DType.I32 if name == "I" else DType.F32, (12, 40)) for name in "XIU"}
    program = compile_stages(function, types, Target(threads=2)).passed
    assert program is not None
    assert ("i1", 12) in bound(scatter_of(program), Binding.GRID)


def test_threads_of_cards_take_columns_whatever_computes_the_places() -> None:
    text = "function (D[N, M], X[N], T[V]) -> (R) { I = as_i32(abs(X * 100)); R = scatter(D, I, T); }"
    shapes = {"D": (256, 1024), "X": (256,), "T": (500,)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    program = compile_stages(parse(text), types, with_facts(Target(pipeline="nvidia-hopper"))).sem
    reading = [kernel for kernel in program.kernels if any(param.name == "D" for param in kernel.params)]
    assert reading
    assert all(math.prod((*kernel.grid, *kernel.group)) >= 64 for kernel in reading)
