"""Index sets: what a wrong pass leaves out, adds, does twice or lets run at once is told with a point."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from strategies.catalogue import parse_pipeline
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, run
from tileir.stripe.ir import Block, Index, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.isl.index_leaves import stores
from tileir_testing.isl.index_sets import difference, races, tuples

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SHAPES = {"A": (7, 9), "B": (9, 5)}


def program(text: str = PRODUCT, shapes: dict[str, tuple[int, ...]] | None = None) -> Program:
    types = {name: TensorType(DType.F32, shape) for name, shape in (shapes or SHAPES).items()}
    return lower(infer(parse(text), types))


def changed(change: Callable[[Block], Block], text: str = PRODUCT) -> str:
    before = program(text)
    return difference(before, map_kernels(before, change)) or ""


def test_tuples_of_a_product() -> None:
    ((signature, (points, once)),) = tuples(program()).items()
    assert signature == ("C", "add", ("A", "B"))
    assert points.count_val().to_python() == 7 * 9 * 5
    assert once


@pytest.mark.parametrize(
    "pipeline",
    ["tile{sizes=(3,4,5)}", "accumulate", "accumulate,canonicalise", "cache{odd_size=true}", "thread{groups=4}"],
)
def test_right_passes_keep_the_tuples(pipeline: str) -> None:
    before = program()
    after = run(parse_pipeline(pipeline), before)
    assert tuples(before).keys() == tuples(after).keys()
    assert difference(before, after) is None
    assert races(after) == ()


def test_results_by_way_of_other_memory_are_left_out() -> None:
    before = program("function (A[N]) -> (O) { O[x : 5] = +(A[x + k]), k < 3; }", {"A": (4,)})
    after = run(parse_pipeline("window{least=2,least_outputs=1}"), before)
    assert after is not before
    assert difference(before, after) is None


def test_a_point_that_is_missing() -> None:
    def shorten(kernel: Block) -> Block:
        first, *others = kernel.indices
        return attrs.evolve(kernel, indices=(attrs.evolve(first, range=first.range - 1), *others))

    assert "is missing" in changed(shorten)


def test_a_point_that_is_new() -> None:
    def swap(kernel: Block) -> Block:
        views = tuple(
            attrs.evolve(r, access=(r.access[1], r.access[0])) if r.name == "C" else r for r in kernel.refinements
        )
        return attrs.evolve(kernel, refinements=views)

    text = "function (A[M, K], B[K, M]) -> (C) { C[i, j : M, M] = +(A[i, k] * B[k, j]); }"
    before = program(text, {"A": (4, 3), "B": (3, 4)})
    assert "elements is" in (difference(before, map_kernels(before, swap)) or "")


def test_a_term_that_is_added_twice() -> None:
    def twice(kernel: Block) -> Block:
        return attrs.evolve(kernel, indices=(*kernel.indices, Index("again", 2)))

    assert "meets at several points" in changed(twice)


def test_a_dependence_between_points_that_may_run_at_once() -> None:
    """A scan whose index has lost its order."""
    scan = program("function (A[N]) -> (O) { O[i : N] = +(A[k]), i - k < N; }", {"A": (9,)})
    right = run(parse_pipeline("scan{least=2}"), scan)
    assert races(right) == ()

    def unordered(block: Block) -> Block:
        indices = tuple(attrs.evolve(index, serial=False) for index in block.indices)
        inner = tuple(unordered(s) if isinstance(s, Block) else s for s in block.statements)
        return attrs.evolve(block, indices=indices, statements=inner)

    (problem, *_) = races(map_kernels(right, unordered))
    assert "another point of a block around it" in problem


def test_elements_that_depend_on_values_are_left_out() -> None:
    text = "function (A[N], I[M]) -> (O) { O = gather(A, I); }"
    types = {"A": TensorType(DType.F32, (5,)), "I": TensorType(DType.I32, (3,))}
    assert stores(lower(infer(parse(text), types))).leaves == ()


def test_accumulators_stand_for_what_they_are_copied_to() -> None:
    after = run((Accumulate(),), program())
    assert ("C", "add", ("A", "B")) in tuples(after)
