"""Kernels of steps of training that once had few threads, or elements that came one by one, on a whole card."""

from __future__ import annotations

import math
import re
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
    from collections.abc import Callable, Mapping

    from tileir.driver.compiler import Stages

_CARD: Final = ARCHITECTURES["sm_90a"]
HOPPER: Final = target_of(_CARD, _CARD.card, _CARD.multiprocessors, _CARD.cache_bytes)
SMALL: Final = Target(
    vector_bytes=16, threads=8, group_threads=32, group_width=4, local_bytes=4096, index_dtype=DType.I32, pipeline="gpu"
)
Shape = tuple[int, ...]


def by_weights(x: Any, g: Any) -> tuple[Any, ...]:
    """Return the gradient of a convolution of 1x1 by its weights."""
    return (ops.conv_weight_gradient(x, g, (1, 1), stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1),)


def expected_by_weights(x: Any, g: Any) -> tuple[Any, ...]:
    """Return the same in f64."""
    return (np.einsum("nchw,nkhw->kc", x, g)[:, :, None, None],)


def by_scale(g: Any, y: Any) -> tuple[Any, ...]:
    """Return the gradient of a layer's scale: what arrives has channels first, what was scaled has them last."""
    return (ops.sum(ops.cast(g, DType.F32) * ops.cast(ops.transpose(y, (0, 3, 1, 2)), DType.F32), [0, 2, 3]),)


def expected_by_scale(g: Any, y: Any) -> tuple[Any, ...]:
    """Return the same in f64."""
    return (np.einsum("nchw,nhwc->c", g, y),)


def pooled(x: Any) -> tuple[Any, ...]:
    """Return the greatest elements of windows, and where they are."""
    return ops.max_pool(x, (3, 3), stride=(2, 2), padding=(1, 1), return_indices=True)


def expected_pooled(x: Any) -> tuple[Any, ...]:
    """Return the same in f64."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    number = np.pad(np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:]), 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    numbers = np.lib.stride_tricks.sliding_window_view(number, (3, 3))[::2, ::2]
    flat = windows.reshape(*windows.shape[:4], 9)
    at = flat.argmax(-1)
    return flat.max(-1), np.take_along_axis(
        np.broadcast_to(numbers.reshape(*numbers.shape[:2], 9), flat.shape), at[..., None], -1
    )[..., 0]


def normed(x: Any, w: Any) -> tuple[Any, ...]:
    """Return what a convolution makes, less the mean of each channel."""
    made = ops.conv(x, w, stride=(1, 1), padding=(1, 1))
    wide = ops.cast(made, DType.F32)
    return made, wide - ops.mean(wide, [0, 2, 3], keepdims=True)


def expected_normed(x: Any, w: Any) -> tuple[Any, ...]:
    """Return the same in f64."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    made = np.einsum("nchwij,kcij->nkhw", np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)), w)
    return made, made - made.mean((0, 2, 3), keepdims=True)


FORMS: Final[Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "weights": (by_weights, expected_by_weights),
    "scale": (by_scale, expected_by_scale),
    "pool": (pooled, expected_pooled),
    "norm": (normed, expected_normed),
}


def compiled(name: str, shapes: tuple[Shape, ...], dtype: DType, target: Target) -> Stages:
    builder = tileir.FunctionBuilder()
    names = "XYZ"[: len(shapes)]
    symbols = ([f"{each}{axis}" for axis in range(len(shape))] for each, shape in zip(names, shapes, strict=True))
    made = FORMS[name][0](*(builder.input(each, *own, dtype=dtype) for each, own in zip(names, symbols, strict=True)))
    function = builder.build(**{f"R{number}": one for number, one in enumerate(made)})
    types = {each: TensorType(dtype, shape) for each, shape in zip(names, shapes, strict=True)}
    return compile_stages(function, types, target)


def kernels_of(stages: Stages) -> list[str]:
    return re.split(r"\n  (?=kernel )", str(stages.sem))[1:]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("weights", ((64, 64, 56, 56), (64, 64, 56, 56))),  # all products need one tile of outputs
        ("weights", ((64, 256, 56, 56), (64, 64, 56, 56))),
        ("weights", ((64, 128, 28, 28), (64, 512, 28, 28))),  # parts of images would cut rows of pixels
        ("weights", ((64, 1024, 14, 14), (64, 256, 14, 14))),
        ("weights", ((8, 256, 56, 56), (8, 64, 56, 56))),
        ("weights", ((32, 16, 112, 112), (32, 64, 112, 112))),
        ("weights", ((32, 40, 28, 28), (32, 120, 28, 28))),
        ("scale", ((32, 384, 14, 14), (32, 14, 14, 384))),
        ("scale", ((32, 96, 56, 56), (32, 56, 56, 96))),
        ("scale", ((32, 768, 7, 7), (32, 7, 7, 768))),
        ("pool", ((64, 64, 112, 112),)),
    ],
)
def test_all_of_a_card_is_busy(name: str, shapes: tuple[Shape, ...]) -> None:
    size = max(map(math.prod, shapes))
    for kernel in compiled(name, shapes, DType.BF16, HOPPER).sem.kernels:
        if max(each.size for each in kernel.params) >= size:
            assert math.prod(kernel.grid) * math.prod(kernel.group) >= 8192, kernel.name


@pytest.mark.parametrize(
    "shapes",
    [
        ((64, 64, 56, 56), (64, 64, 56, 56)),
        ((64, 128, 28, 28), (64, 512, 28, 28)),
        ((64, 1024, 14, 14), (64, 256, 14, 14)),
        ((8, 256, 56, 56), (8, 64, 56, 56)),
    ],
)
def test_factors_of_gradients_by_weights_come_in_pieces(shapes: tuple[Shape, ...]) -> None:
    (product,) = [each for each in kernels_of(compiled("weights", shapes, DType.BF16, HOPPER)) if "multiply" in each]
    assert re.search(r"\bbf16 \w+ = [XY]\[", product) is None


def test_what_a_norm_follows_stays_a_product_of_boxes() -> None:
    kernels = kernels_of(compiled("norm", ((64, 64, 56, 56), (64, 64, 3, 3)), DType.BF16, HOPPER))
    assert [("bulk_copy" in each) for each in kernels if "multiply" in each] == [True]


def test_neighbours_take_neighbouring_windows() -> None:
    kernels = kernels_of(compiled("pool", ((64, 64, 112, 112),), DType.BF16, HOPPER))
    assert not any("_shared" in each for each in kernels)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("weights", ((16, 4, 6, 6), (16, 3, 6, 6))),
        ("weights", ((5, 2, 9, 7), (5, 6, 9, 7))),
        ("weights", ((32, 8, 4, 4), (32, 8, 4, 4))),
        ("scale", ((3, 40, 6, 6), (3, 6, 6, 40))),
        ("scale", ((2, 5, 12, 10), (2, 12, 10, 5))),
        ("scale", ((1, 64, 3, 3), (1, 3, 3, 64))),
        ("pool", ((2, 3, 12, 12),)),
        ("pool", ((1, 2, 7, 9),)),
        ("pool", ((3, 1, 20, 4),)),
        ("norm", ((4, 2, 9, 12), (3, 2, 3, 3))),
        ("norm", ((8, 3, 16, 16), (2, 3, 3, 3))),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_these_kernels_mean_the_same(name: str, shapes: tuple[Shape, ...], dtype: DType) -> None:
    random = np.random.default_rng(len(shapes) + sum(shapes[0]))
    values = {
        each: random.standard_normal(shape).astype(dtype.numpy) for each, shape in zip("XYZ", shapes, strict=False)
    }
    found = run_program(compiled(name, shapes, dtype, SMALL).sem, values, ALL_CHECKS)
    tolerance = {DType.F32: 1e-4, DType.F16: 1e-2, DType.BF16: 6e-2}[dtype]
    wanted = FORMS[name][1](*(each.astype(np.float64) for each in values.values()))
    for number, array in enumerate(wanted):
        scale = max(1.0, float(np.abs(array).max()))
        np.testing.assert_allclose(
            found[f"R{number}"].astype(np.float64) / scale, array / scale, rtol=0, atol=tolerance
        )
