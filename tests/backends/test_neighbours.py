"""Elements that data choose and the ones behind them: read in pairs, and the same as by NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor

EDGES = (-(2**31), -(2**31) + 1, -2, -1, 0, 1, 2, 2**31 - 3, 2**31 - 2, 2**31 - 1)


def compiled(step: int, table: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> tileir.Executable:
    """Return a function of a table and places: 3 times what is there, and what is ``step`` further on."""
    f = tileir.FunctionBuilder()
    data, index = f.input("T", "M"), f.input("I", "N")

    def at(place: Tensor) -> Tensor:
        return tf.gather(data, place)

    return tileir.compile(f.build(O=at(index) * 3 + at(index + step)), [table, places])


def expected(step: int, table: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    one, other = (table[np.clip(place, 0, len(table) - 1)] for place in (places, places + np.int32(step)))
    return np.asarray(one * table.dtype.type(3) + other)


def has_pairs(executable: tileir.Executable) -> bool:
    return any(f"@llvm.masked.gather.v{lanes}i64" in executable.listing() for lanes in (2, 4, 8, 16))


@given(st.data())
def test_pairs_at_any_place_are_what_each_gather_reads(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    dtype = data.draw(st.sampled_from([np.float32, np.int32, np.uint32, np.float64, np.int16]))
    step = data.draw(st.sampled_from([1, 1, 1, 2, -1]))
    place = st.sampled_from(EDGES) | st.integers(-3, size + 2)
    places = np.array(data.draw(st.lists(place, min_size=64, max_size=80)), np.int32)
    table = np.random.default_rng(size).integers(0, 100, size).astype(dtype)
    executable = compiled(step, table, places)
    np.testing.assert_array_equal(np.asarray(executable(table, places)), expected(step, table, places))


@pytest.mark.parametrize(
    ("step", "dtype", "size", "together"),
    [
        (1, np.float32, 50, True),
        (1, np.int32, 2, True),
        (1, np.float32, 1, False),  # there is no pair
        (2, np.float32, 50, False),
        (1, np.float64, 50, False),  # a pair is more than what is gathered in one step
    ],
)
def test_neighbours_of_four_bytes_are_read_together(
    step: int, dtype: type[np.generic], size: int, together: bool
) -> None:
    table, places = np.arange(size).astype(dtype), np.arange(-8, 120, dtype=np.int32)
    executable = compiled(step, table, places)
    assert has_pairs(executable) == together
    np.testing.assert_array_equal(np.asarray(executable(table, places)), expected(step, table, places))


def test_interpolation_between_neighbours_reads_them_in_pairs() -> None:
    f = tileir.FunctionBuilder()
    table, x = f.input("T", "M"), f.input("X", "N")
    lower = tf.cast(x, "i32")
    one, other = tf.gather(table, lower), tf.gather(table, lower + 1)
    function = f.build(O=one + (other - one) * (x - tf.cast(lower, "f32")))
    values, at = np.square(np.arange(30, dtype=np.float32)), np.linspace(-4, 40, 200, dtype=np.float32)
    executable = tileir.compile(function, [values, at])
    assert has_pairs(executable)
    low = np.trunc(at).astype(np.int32)
    near, far = (values[np.clip(low + step, 0, 29)] for step in (0, 1))
    np.testing.assert_allclose(np.asarray(executable(values, at)), near + (far - near) * (at - low), rtol=1e-5)
