"""Rows that a kernel stores, reduces and reads again, such as gradients behind a batch norm: all threads share them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.typed.ir import TensorType
from tileir_cuda.architectures import ARCHITECTURES, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.driver.compiler import Stages

_CARD: Final = ARCHITECTURES["sm_90a"]
HOPPER: Final = target_of(_CARD, _CARD.card, _CARD.multiprocessors, _CARD.cache_bytes)
SMALL: Final = Target(
    vector_bytes=16, threads=8, group_threads=32, group_width=4, local_bytes=1024, index_dtype=DType.I32, pipeline="gpu"
)
"""Local memory holds less than its shortest rows."""


def gradient_of_norm(g: Any, x: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """Return what arrives behind a rectifier, and gradients of a norm without weights by its shift, scale and input."""
    z = ops.where(x > 0, g + x, 0)
    wide, hat = ops.cast(z, DType.F32), ops.cast(x, DType.F32) * 0.5 - 1.0
    shift, scale = ops.mean(wide, axes, keepdims=True), ops.mean(wide * hat, axes, keepdims=True)
    return z, shift, scale, wide - shift - hat * scale


def expected_gradient(g: Any, x: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """Return the same in f64, from what was stored in the dtype of the inputs."""
    narrow = np.where(x > 0, (g.astype(np.float32) + x.astype(np.float32)).astype(g.dtype), 0)
    wide, hat = narrow.astype(np.float64), x.astype(np.float64) * 0.5 - 1.0
    shift, scale = (each.mean(axis=tuple(axes), keepdims=True) for each in (wide, wide * hat))
    return narrow, shift, scale, wide - shift - hat * scale


def centred_twice(g: Any, x: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """Return a stored row, one that is computed of its sum and stored, and what that one's squares make of it."""
    z = g * x
    first = z - ops.cast(ops.mean(ops.cast(z, DType.F32), axes, keepdims=True), z.dtype)
    wide = ops.cast(first, DType.F32)
    return z, first, wide * ops.mean(wide * wide, axes, keepdims=True)


def expected_twice(g: Any, x: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """Return the same in f64."""
    z = g.astype(np.float64) * x.astype(np.float64)
    first = z - z.mean(axis=tuple(axes), keepdims=True)
    return z, first, first * (first * first).mean(axis=tuple(axes), keepdims=True)


FORMS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "gradient of a norm": (gradient_of_norm, expected_gradient),
    "centred twice": (centred_twice, expected_twice),
}


def compiled(name: str, shape: tuple[int, ...], axes: Sequence[int], dtype: DType, target: Target) -> Stages:
    builder = tileir.FunctionBuilder()
    symbols = [f"D{axis}" for axis in range(len(shape))]
    found = FORMS[name][0](*(builder.input(each, *symbols, dtype=dtype) for each in "GX"), axes)
    function = builder.build(**{f"R{number}": one for number, one in enumerate(found)})
    return compile_stages(function, dict.fromkeys("GX", TensorType(dtype, shape)), target)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((8, 64, 112, 112), (0, 2, 3)),
        ((64, 64, 112, 112), (0, 2, 3)),  # each row is cut in parts
        ((64, 256, 56, 56), (0, 2, 3)),  # longer than what a group holds
        ((64, 512, 28, 28), (0, 2, 3)),  # not longer
        ((64, 200, 57, 55), (0, 2, 3)),
        ((512, 600_000), (1,)),
        ((512, 60_000), (1,)),
        ((512, 3, 300, 301), (1, 2, 3)),
        ((200_000, 512), (0,)),
        ((1, 3_000_000), (1,)),
        ((1000, 1003), (0, 1)),
    ],
)
@pytest.mark.parametrize(("name", "dtype"), [("gradient of a norm", DType.BF16), ("centred twice", DType.F32)])
def test_rows_of_any_length_keep_a_card_busy(
    name: str, dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    for kernel in compiled(name, shape, axes, dtype, HOPPER).sem.kernels:
        large = [each for each in kernel.params if each.size >= math.prod(shape)]
        assert not large or math.prod(kernel.grid) * math.prod(kernel.group) >= 16384, kernel.name


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 2, 4, 12), (0, 2, 3)),
        ((5, 2, 7, 9), (0, 2, 3)),
        ((2, 2, 16, 20), (0, 2, 3)),
        ((3, 200), (1,)),
        ((2, 701), (1,)),
        ((2, 3, 6, 20), (1, 2, 3)),
        ((150, 4), (0,)),
        ((21, 43), (0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("name", FORMS)
def test_stored_rows_mean_the_same(name: str, dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    random = np.random.default_rng(sum(shape))
    values = {each: random.standard_normal(shape).astype(dtype.numpy) for each in "GX"}
    found = run_program(compiled(name, shape, axes, dtype, SMALL).sem, values, ALL_CHECKS)
    tolerance = {DType.F32: 1e-5, DType.F16: 1e-2, DType.BF16: 6e-2}[dtype]
    for number, array in enumerate(FORMS[name][1](values["G"], values["X"], axes)):
        np.testing.assert_allclose(
            found[f"R{number}"].astype(np.float64), array.astype(np.float64), rtol=tolerance, atol=tolerance
        )
