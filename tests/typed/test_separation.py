"""Aggregations over products of index sets: what is separated means the same, and takes fewer points."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, event, given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Contraction, Function, TensorType
from tileir.typed.simplify import separation
from tileir.typed.simplify.preparation import prepared
from tileir.typed.simplify.separation import separated
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from fuzz.area import Array


def function_of(statement: str, dtype: DType = DType.I32, **shapes: tuple[int, ...]) -> Function:
    inputs = ", ".join(f"{name}[{', '.join(f'{name}{axis}' for axis in range(len(s)))}]" for name, s in shapes.items())
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return infer(parse(f"function ({inputs}) -> (O) {{ {statement} }}"), types)


def numbers(function: Function) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {v.name: generator.integers(-9, 10, v.shape).astype(v.dtype.numpy) for v in function.inputs}


def assert_same(before: Function, after: Function, arrays: dict[str, Array]) -> None:
    verify(after)
    for name, right in interpret(before, arrays).items():
        left = interpret(after, arrays)[name]
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


SEPARATED = {
    "integral image": ("O[i, j : A0, A1] = +(A[k, l]), i - k < A0, j - l < A1;", (12, 13), 2),
    "turned integral image": ("O[j, i : A1, A0] = +(A[k, l]), k - i < A0, j - l < A1;", (12, 13), 2),
    "sum before a running sum": ("O[i : A1] = +(A[m, k]), i - k < A1;", (20, 30), 2),
    "box": ("O[i, j : A0, A1] = +(A[i + a - 5, j + b - 5]), a < 11, b < 11;", (20, 21), 2),
    "maxima of boxes": ("O[i, j : A0, A1] = >(A[i + a - 5, j + b - 5]), a < 11, b < 11;", (20, 21), 2),
    "strided box": ("O[i, j : A0 / 2, A1 / 2] = +(A[2*i + a - 9, 2*j + b - 9]), a < 19, b < 19;", (30, 30), 2),
    "cube": ("O[x, y, z : A0, A1, A2] = +(A[x + a, y + b, z + c]), a < 9, b < 9, c < 9;", (10, 11, 12), 3),
    "axes of one": ("O[0, j : 1, A1] = +(A[m, k]), j - k < A1;", (20, 30), 2),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_products_of_index_sets_are_taken_apart(name: str) -> None:
    statement, shape, count = SEPARATED[name]
    function = function_of(statement, A=shape)
    after = separated(function)
    assert [type(operation) for operation in after.operations] == [Contraction] * count
    assert_same(function, after, numbers(function))


KEPT = {
    "small box": ("O[i, j : A0, A1] = +(A[i + a - 1, j + b - 1]), a < 3, b < 3;", (20, 21)),
    "sum of all": ("O[] = +(A[i, j]);", (50, 60)),
    "indices in one condition": ("O[i, j : A0, A1] = +(A[i + a, j + b]), a + b < 11, a < 11;", (20, 21)),
    "product": ("O[i, j : A0, A1] = *(A[k, l]), i - k < A0, j - l < A1;", (12, 13)),
    "default": ("O[i, j : A0, A1] = +(A[k, l]), i - k < A0, j - l < A1 default A;", (12, 13)),
    "maxima of nothing": ("O[i, j : A0, A1] = >(A[i + a - 30, j + b - 30]), a < 19, b < 19;", (60, 61)),
    "diagonal": ("O[i, i : A0, A0] = +(A[k, l]), i - k < A0, i - l < A1;", (30, 30)),
    "shifted": ("O[i + 1, j : A0 + 1, A1] = +(A[k, l]), i - k < A0, j - l < A1, i < A0;", (12, 13)),
    "written by two": ("O[i + j, j : 40, A1] = +(A[k, l]), i - k < A0, j - l < A1, i < A0;", (12, 13)),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    statement, shape = KEPT[name]
    function = function_of(statement, A=shape)
    assert separated(function) is function


def test_parts_take_little_memory() -> None:
    # Either part is the whole for one more axis: 100 by 50, or 10 by 50 by 16.
    function = function_of("O[i, j : 50, 16] = +(A[k, l]), i + l < 200, i + j + k < 200;", A=(100, 10))
    assert separated(function) is function
    with mock.patch.object(separation, "_GROWTH", 1000):
        assert separated(function) is not function


def test_halves_are_summed_as_wide_as_before() -> None:
    function = function_of("O[i, j : A0, A1] = +(A[k, l]), i - k < A0, j - l < A1;", DType.F16, A=(12, 13))
    after = separated(function)
    assert [operation.dtype for operation in after.operations] == [DType.F32, DType.F32, DType.F32, DType.F16]
    assert_same(function, after, numbers(function))
    maxima = function_of("O[i, j : A0, A1] = >(A[k, l]), i - k < A0, j - l < A1;", DType.F16, A=(12, 13))
    assert [operation.dtype for operation in separated(maxima).operations] == [DType.F16, DType.F16]


def test_all_parts_of_a_wide_sum_are_wide() -> None:
    statement, shape, _ = SEPARATED["cube"]
    function = function_of(statement, DType.F16, A=shape)
    after = separated(function)
    assert [operation.dtype for operation in after.operations] == [DType.F32] * 4 + [DType.F16]
    assert_same(function, after, numbers(function))


def test_sums_of_nothing_are_taken_apart() -> None:
    statement, shape = KEPT["maxima of nothing"]
    function = function_of(statement.replace(">(", "+("), A=shape)
    after = separated(function)
    assert len(after.operations) == 2
    assert_same(function, after, numbers(function))


def test_sums_of_truth_values_count() -> None:
    function = function_of("O[i, j : A0, A1] = +(A[k, l]), i - k < A0, j - l < A1;", DType.BOOL, A=(12, 13))
    after = separated(function)
    assert len(after.operations) > 1
    assert_same(function, after, {"A": np.ones((12, 13), np.bool_)})


def test_bodies_of_loops_and_preparation_take_part() -> None:
    text = """function (S[N, M], X[T, M]) -> (F) {
        F = scan(S; X) function (A[N, M], B[M]) -> (C) {
            C[i, j : N, M] = +(A[k, l]), i - k < N, j - l < M;
        };
    }"""
    types = {"S": TensorType(DType.I32, (12, 13)), "X": TensorType(DType.I32, (3, 13))}
    function = infer(parse(text), types)
    assert len(prepared(function).operations[0].body.operations) == 2  # type: ignore[union-attr]
    assert_same(function, prepared(function), numbers(function))


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Draw aggregations over boxes, triangles and windows: each reduced index has conditions of its own."""
    written = ("i", "j")[: draw(st.integers(0, 2))]
    sizes = [draw(st.integers(1, 6)) for _ in written]
    axes, constraints = [], []
    for name in ("k", "l", "m")[: draw(st.integers(2, 3))]:
        factor, offset = draw(st.sampled_from((1, 1, -1, 2))), draw(st.integers(-2, 4))
        beside = draw(st.sampled_from(("0", *written, *(f"2 * {index}" for index in written))))
        axes.append(f"{factor} * {name} + {beside} + {offset}")
        if draw(st.booleans()):
            limit = draw(st.sampled_from((name, *(f"{index} - {name}" for index in written))))
            constraints.append(f", {limit} < {draw(st.integers(1, 7))}")
    axes += [index for index in written if draw(st.booleans())]
    shape = tuple(draw(st.integers(1, 7)) for _ in axes)
    dtype = draw(st.sampled_from((DType.I32, DType.F32, DType.I8, DType.F16, DType.BOOL)))
    aggregation = draw(st.sampled_from("++><"))
    statement = (
        f"O[{', '.join(written)} : {', '.join(map(str, sizes))}] = {aggregation}(A[{', '.join(axes)}])"
        f"{''.join(constraints)};"
    )
    try:
        function = function_of(statement, dtype, A=shape)
    except TileError:  # an index of the result may stand nowhere else
        assume(False)
    return function, numbers(function)


@examples(300)
@given(boxes())
def test_whatever_is_taken_apart_means_the_same(case: tuple[Function, dict[str, Array]]) -> None:
    function, arrays = case
    with mock.patch.multiple(separation, GAIN=0, _GROWTH=1000):
        after = separated(function)
    event("taken apart" if after is not function else "kept")
    assert_same(function, after, arrays)


def test_fewer_points_are_visited() -> None:
    function = function_of(*SEPARATED["integral image"][:1], A=(64, 64))
    shapes = {value.name: value.shape for value in function.inputs}
    points = []
    for operation in separated(function).operations:
        assert isinstance(operation, Contraction)
        domain = separation.domain_of(operation, shapes)
        assert domain is not None
        points.append(prod(extent for _, extent in domain.ranges))
        shapes[operation.name] = operation.shape
    assert points == [64**3, 64**3]
