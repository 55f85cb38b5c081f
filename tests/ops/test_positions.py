"""Takes, scatters, orders and cells refuse what they cannot do, at the user's line, and keep their promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, i: ops.take(x, i, 2), "TIL314", "the axis is 2, but the tensor has axes 0 to 1"),
        (lambda x, i: ops.take(x, i, mode="raise"), "TIL217", "mode is one of 'clamp', 'fill', 'wrap', not 'raise'"),
        (lambda x, i: ops.take(x, i, batch_dims=1), "TIL217", "batch_dims is from 0 to 0, not 1"),
        (
            lambda x, i: ops.take_along_axis(x, i, 0),
            "TIL217",
            "indices along an axis have as many axes as the tensor, 2, not 1",
        ),
        (lambda x, i: ops.gather_nd(x, i), "TIL217", "the number of coordinates of a point is not known; say depth=…"),
        (lambda x, i: ops.gather_nd(x, i, depth=3), "TIL217", "a point has from 1 to 2 coordinates here, not 3"),
        (
            lambda x, i: ops.interpolated_take(x, i, interpolation="spline"),
            "TIL217",
            "interpolation is one of 'nearest', 'linear', 'cubic', not 'spline'",
        ),
        (
            lambda x, i: ops.embedding(x, i, padding_index=0.5),  # type: ignore[arg-type]
            "TIL217",
            "embedding: padding_index has to be an integer or None, not 0.5",
        ),
        (
            lambda x, i: ops.scatter(x, i, 0, mode="put"),
            "TIL217",
            "mode is one of 'add', 'mul', 'max', 'min', 'set', not 'put'",
        ),
        (
            lambda x, i: ops.scatter_nd(x, i, 0, depth=1, bounds="fill"),
            "TIL217",
            "bounds is one of 'clamp', 'drop', 'wrap', not 'fill'",
        ),
        (lambda _, i: ops.one_hot(i, 3, axis=2), "TIL314", "the axis is 2, but the tensor has axes 0 to 1"),
        (lambda x, _: ops.arange(x, 3, 9, 0), "TIL217", "step is not 0"),
        (
            lambda x, _: ops.searchsorted(x, tf.reshape(x, 1, *x.dims)),
            "TIL217",
            "a sequence has one axis, or as many as the values, 3; this one has 2",
        ),
        (lambda x, _: ops.bucketize(x, x), "TIL217", "boundaries have one axis, not 2"),
        (lambda x, _: ops.top_k(x, 0), "TIL217", "k is positive, not 0"),
        (lambda x, _: ops.quantile(x, 1.5), "TIL217", "a quantile is from 0 to 1, not 1.5"),
        (lambda x, _: ops.cumsum(x, -3), "TIL314", "the axis is -3, but the tensor has axes 0 to 1"),
        (lambda x, _: ops.rnn(x, []), "TIL217", "the inputs of a layer have 3 axes, not 2"),
        (
            lambda x, _: ops.gru(tf.reshape(x, 1, *x.dims), []),
            "TIL217",
            "there are 1 weights for each layer, not 0 for all",
        ),
        (lambda x, i: ops.nms(x, i, 0), "TIL217", "most is positive, not 0"),
        (lambda _, i: ops.iou(i, i), "TIL217", "boxes have 2 axes or more, not 1"),
        (lambda x, _: ops.nms(x, x, 1), "TIL217", "scores have one axis, not 2"),
        (
            lambda x, _: ops.grid_sample(x, x),
            "TIL305",
            "images have three axes or more, and grids as many; not 2 and 2",
        ),
        (lambda x, _: ops.affine_grid(x, (2,)), "TIL305", "affine maps have three axes, not 2"),
        (lambda x, _: ops.affine_grid(ops.unsqueeze(x, 0), []), "TIL217", "a grid has one size or more"),
        (
            lambda x, i: ops.lstm_cell(ops.sum(i), i, i, ops.RecurrentWeights(x, x)),
            "TIL217",
            "inputs and states of a cell have one axis or more; these have [0, 1, 1]",
        ),
    ],
)  # fmt: skip
def test_mistakes(attempt: Callable[..., object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, i = f.input("X", "A", "B"), f.input("I", "M")
    with pytest.raises(tileir.TileError) as caught:
        attempt(x, i)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert diagnostic.span is not None
    assert diagnostic.span.source.name == __file__


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda x, _: ops.top_k(x, 4)[0], "TIL312"),
        (lambda x, i: ops.gather_nd(x, i, depth=1), "TIL312"),
        (lambda x, _: ops.take(x, x, 1), "TIL302"),
        (lambda x, i: ops.scatter(x, i, x), "TIL310"),
        (lambda x, _: ops.iou(x, x), "TIL312"),
    ],
)
def test_what_is_seen_when_compiling(build: Callable[..., Any], code: str) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(O=build(f.input("X", "A", "B"), f.input("I", "M")))
    with pytest.raises(tileir.TileError) as caught:
        tileir.evaluate(function, [np.ones((2, 3)), np.zeros(5, np.int32)])
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {code}


def test_padding_gets_no_gradient() -> None:
    f = tileir.FunctionBuilder()
    table = f.input("T", "N", "E")
    rows = ops.embedding(table, f.input("I", "M"), padding_index=1)
    found = tileir.evaluate(f.build(D=tf.gradient(rows, table)), [np.ones((3, 2)), np.array([1, 2, 1, 2])])
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [2, 2]])


def test_ranks_need_no_memory_for_pairs() -> None:
    f = tileir.FunctionBuilder()
    executable = tileir.compile(f.build(R=ops.ranks(f.input("X", "B", "N"))), [(4, 512)], device="llvm")
    assert executable.memory.temporaries < 4 * 512 * 4 * 8


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64])
def test_positions_of_every_integer_type(dtype: type) -> None:
    f = tileir.FunctionBuilder()
    x, i = f.input("X", "N", "M"), f.input("I", "K")
    function = f.build(A=ops.take(x, i, 1), B=ops.scatter(x, i, 1, axis=1, bounds="drop"))
    array = np.arange(600.0).reshape(2, 300)
    taken, added = tileir.evaluate(function, [array, np.array([3, 100], dtype)])
    np.testing.assert_array_equal(taken, array[:, [3, 100]])
    assert (added - array).sum() == 4
