"""The error function by tables of polynomials."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tileir
from strategies.ulps import worst
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir.semtree.transform.expansions import ULP
from tileir_llvm.emit.tables import COUNT, DEGREE, MOST, WIDTH, coefficients, error_function, looked_up
from tileir_llvm.emit.text import FunctionText, ModuleText, Value


def test_only_processors_that_pick_lanes_of_a_register_look_coefficients_up() -> None:
    assert list(looked_up(("avx512f", "fma"))) == [Op.ERF]
    assert not looked_up(("avx2", "fma"))


def test_polynomials_are_the_error_function_around_their_points() -> None:
    tables = np.array(coefficients())
    assert tables.shape == (DEGREE + 1, COUNT)
    for number in range(COUNT):
        places = np.linspace(-WIDTH / 2 if number else 0.0, min(WIDTH / 2, MOST - number * WIDTH), 101)
        found = sum(tables[power, number] * places**power for power in range(DEGREE + 1))
        exact = [math.erf(number * WIDTH + place) for place in places]
        last = number == COUNT - 1  # which ends at 1
        assert found + (0 if number else places) == pytest.approx(exact, rel=2.0**-24, abs=2.0**-24 if last else 0)


@pytest.mark.parametrize("size", [16, 17, 33, 100, 1000])
def test_error_is_within_the_stated_bound_at_every_length(size: int) -> None:
    x = np.linspace(-4.5, 4.5, size, dtype=np.float32) * np.float32(1.0009765625)
    y = tileir.compile("function (X[N]) -> (Y) { Y = erf(X); }", (x,))(x)
    distance, where = worst(Op.ERF, DType.F32, y, [x])
    assert distance <= ULP[Op.ERF, DType.F32], where


def test_special_values_are_exact() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 4.0, -4.0, 3e38, 1e-45] * 8, np.float32)
    y = tileir.compile("function (X[N]) -> (Y) { Y = erf(X); }", (x,))(x)
    expected = np.array([1, -1, np.nan, 0, -0.0, 1, -1, 1, 1e-45] * 8, np.float32)
    assert np.array_equal(y, expected, equal_nan=True)
    assert np.array_equal(np.signbit(y), np.signbit(expected))


@pytest.mark.parametrize("lanes", [1, 4, 16, 24, 32, 48, 64])
def test_any_number_of_lanes_is_computed_sixteen_at_a_time(lanes: int) -> None:
    out = FunctionText(ModuleText(""))
    result = error_function(out, Value("%x", Type(DType.F32, lanes)))
    assert result.type == Type(DType.F32, lanes)
    picked = [line for line in out.lines if "permvar" in line]
    assert len(picked) == (DEGREE + 1) * -(-lanes // COUNT)
