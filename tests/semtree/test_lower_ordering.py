from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from strategies import means
from tileir.core.dtype import DType
from tileir.core.integers import network_comparisons
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType


def places(keys: np.ndarray, count: int, vector_bytes: int) -> np.ndarray:
    """Return the order of a row, by the interpreter of kernels for vectors of some width."""
    text = f"function (X[N]) -> (O) {{ O = argsort(X, 0, 0, {count}); }}"
    types = {"X": TensorType(DType.of(keys.dtype) or DType.F32, keys.shape)}
    target = Target(vector_bytes=vector_bytes, shuffles=vector_bytes > 8)
    stages = compile_stages(parse(text), types, target)
    return np.asarray(means.by_kernel_interpreter(stages, {"X": keys})["O"])


@pytest.mark.parametrize("size", range(2, 11))
def test_all_rows_of_zeros_and_ones_are_sorted(size: int) -> None:
    """Show that the comparisons are a sorting network: by the principle of zeros and ones, these rows are all."""
    rows = np.array(list(product((0, 1), repeat=size)), np.int32)
    text = "function (X[M, N]) -> (O) { O = argsort(X, 1); }"
    stages = compile_stages(parse(text), {"X": TensorType(DType.I32, rows.shape)}, Target(shuffles=True))
    found = np.asarray(means.by_kernel_interpreter(stages, {"X": rows})["O"])
    np.testing.assert_array_equal(found, np.argsort(rows, 1, kind="stable"))


@pytest.mark.parametrize("vector_bytes", [8, 16, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize(("size", "count"), [(5, 5), (64, 64), (97, 97), (97, 5), (131, 33)])
def test_the_width_of_vectors_changes_nothing(size: int, count: int, dtype: type, vector_bytes: int) -> None:
    keys: np.ndarray = np.random.default_rng(size).integers(0, 40, size).astype(dtype)
    np.testing.assert_array_equal(places(keys, count, vector_bytes), np.argsort(keys, kind="stable")[:count])


@pytest.mark.parametrize("size", [2049, 4100])
def test_rows_that_the_nearest_cache_does_not_hold(size: int) -> None:
    keys = np.random.default_rng(size).integers(0, 99, size).astype(np.float32)
    np.testing.assert_array_equal(places(keys, size, 32), np.argsort(keys, kind="stable"))


def test_comparisons_of_a_network() -> None:
    assert [network_comparisons(size) for size in (0, 1, 2, 4, 5, 8)] == [0, 0, 1, 6, 18, 24]
