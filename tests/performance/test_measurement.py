from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir_performance.tuning.measurement import random_array, random_inputs


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_values_have_the_dtype_and_shape(dtype: DType, shape: tuple[int, ...]) -> None:
    array = random_array(dtype, shape, np.random.default_rng(0))
    assert (array.dtype, array.shape) == (dtype.numpy, shape)
    assert array.flags.c_contiguous


def test_the_same_seed_gives_the_same_values() -> None:
    types = {"X": tileir.TensorType(DType.F32, (8,)), "Y": tileir.TensorType(DType.I8, (8,))}
    for one, other in zip(random_inputs(types).values(), random_inputs(types).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_without_arrays_are_measured() -> None:
    found = tileir.explain("function (X, U) -> (Y) { Y = X * U; }", {"X": (64, 64), "U": ()}, measure=True)
    assert len(found.measured) == 1


def test_kernels_that_read_numbers_are_measured() -> None:
    text = "function (X, Z, Rate, K) -> (Y, W) { Y = X * (1 - Rate) + K; W = Z * Rate; }"
    found = tileir.explain(text, {"X": (64,), "Z": (DType.F64, (32,)), "Rate": 0.1, "K": 2}, measure=True)
    assert len(found.measured) == len(found.kernels)


def test_random_numbers_are_of_the_kind_that_is_described() -> None:
    types = {
        name: tileir.TensorType(dtype, (), weak=True)
        for name, dtype in (("A", DType.F64), ("B", DType.I64), ("C", DType.BOOL))
    }
    assert [type(value) for value in random_inputs(types).values()] == [float, int, bool]


def test_inputs_with_names_in_quotes_are_measured() -> None:
    source = 'function ("gpu_0/data": f32[8], Y: f32[8]) -> (Z) { Z = "gpu_0/data" + Y; }'
    assert len(tileir.explain(source, {"gpu_0/data": (8,), "Y": (8,)}, measure=True).measured) == 1
