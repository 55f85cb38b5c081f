"""Reductions: what is refused, dtypes, empty tensors, and random axes against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


TEXT: Any = "1"  # where an integer belongs


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.sum(x, 2), "TIL314", "the axis is 2, but the tensor has axes 0 to 1"),
        (lambda x: ops.mean(x, (0, 0)), "TIL217", "an axis stands twice among (0, 0)"),
        (
            lambda x: ops.max(x, TEXT),
            "TIL217",
            "max: axes has to be an integer, a sequence of integers or None, not '1'",
        ),
        (lambda x: ops.argmax(x, -3), "TIL314", "the axis is -3, but the tensor has axes 0 to 1"),
        (lambda x: ops.argmax(x, 0, ties="any"), "TIL217", "ties is one of 'first', 'last', not 'any'"),
        (lambda x: ops.norm(x, order=float("nan")), "TIL217", "the order of a norm is a number, not NaN"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "A", "B")
    found = fault_of(lambda: attempt(x), __file__)
    assert found[0] == code
    assert message in found[1]


def test_inputs_without_sizes_are_refused() -> None:
    x = tileir.FunctionBuilder().input("X")
    assert fault_of(lambda: ops.sum(x), __file__)[0] == "TIL209"


NAMES = ("sum", "prod", "max", "min", "mean", "all", "any", "count_nonzero")


@given(
    name=st.sampled_from(NAMES),
    axes=st.one_of(st.none(), st.integers(-3, 2), st.sets(st.integers(0, 2)).map(tuple)),
    keepdims=st.booleans(),
    dtype=st.sampled_from([np.float64, np.int32, np.bool_]),
)
def test_reductions_are_those_of_numpy(name: str, axes: Any, keepdims: bool, dtype: Any) -> None:
    x = sample(2, 3, 2).round().astype(dtype)
    actual = run(lambda t: getattr(ops, name)(t, axes, keepdims=keepdims), x)
    np.testing.assert_allclose(actual, getattr(np, name)(x, axis=axes, keepdims=keepdims), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [
        ("sum", np.bool_, np.int32),
        ("sum", np.int8, np.int8),
        ("mean", np.int8, np.float32),
        ("mean", np.int64, np.float64),
        ("mean", np.float16, np.float16),
        ("max", np.bool_, np.bool_),
        ("all", np.float32, np.bool_),
        ("count_nonzero", np.float64, np.int32),
        ("argmax", np.float64, np.int32),
        ("std", np.float64, np.float64),
        ("logsumexp", np.int32, np.float32),
    ],
)
def test_dtypes(name: str, dtype: Any, result: Any) -> None:
    assert run(lambda x: getattr(ops, name)(x, 0), np.ones((2, 2), dtype)).dtype == result


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_over_no_elements(dtype: Any) -> None:
    for name, result in {"sum": 0, "prod": 1, "max": 0, "all": True, "any": False}.items():
        for axes in (0, None):
            found = run(lambda x, name=name, axes=axes: getattr(ops, name)(x, axes), np.ones((0, 2), dtype))
            full = run(lambda x, name=name, axes=axes: getattr(ops, name)(x, axes), np.ones((1, 2), dtype))
            np.testing.assert_array_equal(found, np.full_like(full, result))
            assert found.dtype == full.dtype


def test_scalars_are_reduced_too() -> None:
    assert run(ops.sum, np.array(2.5)) == 2.5
    assert run(ops.argmax, np.array(2.5)) == 0
    assert run(ops.variance, np.array(2.5)) == 0


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("shape", [(3, 4, 2), (5,), (1, 1)])
def test_positions_keep_axes(name: str, axis: int | None, shape: tuple[int, ...]) -> None:
    x = sample(*shape)
    found = run(lambda x: getattr(ops, name)(x, axis, keepdims=True), x)
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis, keepdims=True))


@pytest.mark.parametrize(
    ("dtype", "empty"),
    [
        (np.float32, -np.inf),
        (np.float16, -np.inf),
        (np.int64, int(np.iinfo(np.int64).min)),
        (np.uint8, 3),
        (np.bool_, 1),
    ],
)
def test_extrema_of_no_elements_are_what_the_caller_says(dtype: Any, empty: Any) -> None:
    for extreme, numpy in ((ops.max, np.max), (ops.min, np.min)):
        nothing = run(lambda x, f=extreme: f(x, 1, keepdims=True, empty=empty), np.zeros((2, 0), dtype))
        np.testing.assert_array_equal(nothing, np.full((2, 1), empty, dtype))
        assert nothing.dtype == dtype
        x = sample(2, 3).astype(dtype)
        np.testing.assert_array_equal(run(lambda x, f=extreme: f(x, 1, empty=empty), x), numpy(x, 1))
