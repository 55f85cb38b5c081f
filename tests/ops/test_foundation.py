"""Helpers with which operations are written."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.core.ops import Aggregation
from tileir.ops.shared import foundation
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.arange(6.0).reshape(2, 3)


def run(build: Callable[..., Any], *arrays: Any) -> Any:
    """Return what the operation gives for the arrays, by interpretation."""
    f = tileir.FunctionBuilder()
    names = [f"I{position}" for position in range(len(arrays))]
    tensors = [
        f.input(name, *(f"{name}_{axis}" for axis in range(np.ndim(array))))
        for name, array in zip(names, arrays, strict=True)
    ]
    return tileir.evaluate(f.build(O=build(*tensors)), arrays)


def test_library_is_loaded_when_it_is_used() -> None:
    script = (
        "import sys, tileir; print('tileir.ops' in sys.modules); tileir.ops.relu; print('tileir.ops' in sys.modules);"
        "print(hasattr(tileir, 'options'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "True", "False"]


def test_every_operation_is_documented_and_exported() -> None:
    assert [name for name in ops.__all__ if not getattr(ops, name).__doc__] == []


def test_axes_count_from_both_ends() -> None:
    x = tileir.FunctionBuilder().input("X", "A", "B", "C")
    assert [foundation.axis_of(x, axis) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    groups: list[Any] = [None, 1, (-1, 0), [], np.int64(2)]
    assert [foundation.axes_of(x, axes) for axes in groups] == [(0, 1, 2), (1,), (0, 2), (), (2,)]
    assert (foundation.rank_of(3), foundation.dims_of(3)) == (0, ())


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, _: foundation.axis_of(x, 2), "TIL314", "the axis is 2, but the tensor has axes 0 to 1"),
        (lambda x, _: foundation.axis_of(x, -3), "TIL314", "the axis is -3, but the tensor has axes 0 to 1"),
        (lambda x, _: foundation.axes_of(x, (0, -2)), "TIL217", "an axis stands twice among (0, -2)"),
        (
            lambda x, _: foundation.axis_of(x, 0.5),  # type: ignore[arg-type]
            "TIL217",
            "an axis is an integer, not 0.5",
        ),
        (lambda x, _: foundation.axis_of(x, True), "TIL217", "an axis is an integer, not True"),
        (
            lambda x, _: foundation.axes_of(x, "01"),  # type: ignore[arg-type]
            "TIL217",
            "an axis is an integer, not '01'",
        ),
        (lambda _, y: foundation.dims_of(y), "TIL209", "declare the dimensions of the inputs"),
        (lambda _, y: foundation.axis_of(y + 1, 0), "TIL209", "declare the dimensions of the inputs"),
        (lambda _, __: foundation.chosen("a", ("b", "c"), "mode"), "TIL217", "mode is one of 'b', 'c', not 'a'"),
        (lambda x, _: foundation.cast_to(x, "f33"), "TIL206", "there is no element type 'f33'; did you mean 'f32'?"),
        (lambda x, _: foundation.cast_to(x, "float32"), "TIL206", "no element type 'float32'; did you mean 'f32'?"),
        (lambda x, _: foundation.cast_to(x, "flot32"), "TIL206", "no element type 'flot32'; did you mean 'f32'?"),
        (
            lambda x, _: foundation.cast_to(x, "complex64"),
            "TIL206",
            "no element type 'complex64'; write one of bool, i8",
        ),
    ],
)
def test_mistakes(attempt: Callable[..., object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, y = f.input("X", "A", "B"), f.input("Y")
    with pytest.raises(tileir.TileError) as caught:
        attempt(x, y)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert message in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.source.name == __file__


def test_aggregate_writes_one_contraction() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "A", "B")
    i, j = foundation.indices_of(x)
    top = foundation.aggregate(Aggregation.MAX, x[i, j], [i], x.dims[:1])
    kept = foundation.aggregate(Aggregation.ASSIGN, x[i, j].given(j < 2), [i, j], x.dims, default=x, no_defract=True)
    lines = to_text(f.build(T=top, K=kept)).splitlines()
    assert lines[1] == "  T[i0 : A] = >(X[i0, i1]);"
    assert lines[2] == "  K[i0, i1 : A, B] = =(X[i0, i1]), i1 < 2 no_defract default X;"


def test_full_tensors_and_broadcasts() -> None:
    full = run(lambda x: foundation.full(x, x.dims, 2.5, "f64"), X)
    assert full.dtype == np.float64
    np.testing.assert_array_equal(full, np.full((2, 3), 2.5))
    np.testing.assert_array_equal(run(lambda x: foundation.full(x, (), True), X), np.True_)
    np.testing.assert_array_equal(run(lambda x: foundation.full(x, (2,), x.dims[1]), X), [3, 3])
    rows = run(lambda x: foundation.expand(ops.sum(x, 0, keepdims=True), (2, 4, x.dims[1])), X)
    filled = run(lambda x: foundation.like(x, 7), X.astype(np.float16))
    assert (filled.dtype, filled.shape) == (np.float16, (2, 3))
    np.testing.assert_array_equal(rows, np.broadcast_to(X.sum(0), (2, 4, 3)))


def test_sizes_as_floats() -> None:
    np.testing.assert_array_equal(run(lambda x: x / foundation.real(x.dims[1]), np.array([[1, 2]])), [[0.5, 1]])
    assert foundation.real(3) == 3.0
