"""Layouts of temporaries between products: which get another one, and results as in NumPy in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir import FunctionBuilder, ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.layouts import channels_last
from tileir.passes.layouts.channels_last import ChannelsLast
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.stripe.check.verifier import verify
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

    Array = np.ndarray[Any, np.dtype[np.float32]]

STEP = ChannelsLast(vector_bytes=16)  # four lanes of f32


def weights(*shape: int, seed: int = 0) -> Array:
    """Return integers, which add up exactly in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def network(image: tuple[int, ...], body: Callable[[FunctionBuilder, Any], Any]) -> Program:
    """Return what the pass sees of a function of an image."""
    f = FunctionBuilder()
    y = body(f, f.input("X", *image))
    program = lower(infer(f.build(Y=y), {"X": TensorType(DType.F32, image)}))
    return run((DeadCode(), Canonicalise(merge=False), Accumulate()), program)


def laid(program: Program) -> list[tuple[int, ...]]:
    """Return the shapes of temporaries that get other strides, and check that the program means the same."""
    after = run((STEP,), program)
    verify(after)
    assert_same_meaning(program, after, arrays_for(program))
    old = {each.name: each.shape for each in program.memory}
    return [each.shape.sizes for each in after.memory if each.shape.strides != old[each.name].strides]


def conv(f: FunctionBuilder, x: Any, *shape: int, **options: Any) -> Any:
    """Return a convolution by constants."""
    return ops.conv(x, f.constant(weights(*shape)), **options)


@given(
    image=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(3, 5), st.integers(3, 5)),
    features=st.sampled_from((4, 6, 8)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    shortcut=st.booleans(),
)
@examples(8)
def test_the_meaning_stays(
    image: tuple[int, ...], features: int, window: tuple[int, int], stride: int, padding: int, shortcut: bool
) -> None:
    assume(padding < min(window))

    def body(f: FunctionBuilder, x: Any) -> Any:
        first = conv(f, x, features, image[1], 1, 1)
        second = ops.maximum(conv(f, first, features, features, *window, stride=stride, padding=padding), 0.0)
        third = conv(f, second, features, features, 1, 1)
        return conv(f, third + second if shortcut else third, 8, features, 1, 1)

    with mock.patch.object(channels_last, "_LEAST_ADDS", 0):  # nothing takes too long
        found = laid(network(image, body))
    assert found or features % 4


def rows_and_columns(x: Any) -> Any:
    """Return the greatest of two by two pixels, of rows first."""
    return ops.max_pool(ops.max_pool(x, (1, 2), stride=1), (2, 1), stride=1)


def doubled(f: FunctionBuilder, x: Any) -> Any:
    """Return a transposed convolution of 40 channels to 8, with four pixels for each one."""
    return ops.conv_transpose(x, f.constant(weights(40, 8, 2, 2)), stride=2)


ROWS: dict[str, tuple[Callable[[FunctionBuilder, Any], Any], int]] = {
    # Two products hand one temporary on; what comes from outside and goes there stays as it is.
    "two products": (lambda f, x: conv(f, conv(f, x, 40, 3, 3, 3), 4, 40, 3, 3), 1),
    "strides and edges": (
        lambda f, x: conv(f, conv(f, x, 40, 3, 3, 3, padding=1), 4, 40, 3, 3, stride=2, padding=1),
        1,
    ),
    "short sums whose results are turned": (lambda f, x: conv(f, conv(f, x, 8, 3, 3, 3), 4, 8, 1, 1), 0),
    "short sums before one group for each channel": (
        lambda f, x: conv(f, conv(f, conv(f, x, 4, 3, 1, 1), 16, 4, 1, 1), 16, 1, 3, 3, groups=16),
        0,
    ),
    "channels that fill no vectors": (lambda f, x: conv(f, conv(f, x, 6, 3, 3, 3), 6, 6, 1, 1), 0),
    "channels that fill half a vector more": (lambda f, x: conv(f, conv(f, x, 42, 3, 3, 3), 4, 42, 3, 3), 1),
    "channels that fill a quarter of a vector more": (lambda f, x: conv(f, conv(f, x, 41, 3, 3, 3), 4, 41, 3, 3), 0),
    "one group for each channel before long sums": (
        lambda f, x: conv(f, ops.maximum(conv(f, conv(f, x, 40, 3, 1, 1), 40, 1, 3, 3, groups=40), 0.0), 4, 40, 3, 3),
        3,
    ),
    "groups of two channels": (
        lambda f, x: conv(f, conv(f, conv(f, x, 40, 3, 1, 1), 40, 2, 3, 3, groups=20), 4, 40, 3, 3),
        0,
    ),
    "one group for each channel": (
        lambda f, x: conv(f, conv(f, conv(f, x, 8, 3, 1, 1), 8, 1, 3, 3, groups=8), 4, 8, 1, 1),
        0,
    ),
    # A window beside the other has axes of its own in views: pixels and places in windows.
    "windows side by side": (lambda f, x: conv(f, ops.max_pool(conv(f, x, 40, 3, 1, 1), 2), 4, 40, 3, 3, padding=1), 2),
    # The sums of rows are between the two steps of a pool: no product touches them.
    "two steps of a pool": (lambda f, x: conv(f, rows_and_columns(conv(f, x, 40, 3, 1, 1)), 4, 40, 3, 3), 3),
    "a transposed convolution": (lambda f, x: conv(f, doubled(f, conv(f, x, 40, 3, 1, 1)), 4, 8, 6, 6), 2),
    "no constant": (lambda f, x: ops.conv(ops.conv(x, x[:, :, :1, :1] * 2.0), conv(f, x, 1, 3, 1, 1)[:, :, :1, :1]), 0),
}


@pytest.mark.parametrize("name", ROWS)
def test_temporaries_of_products_by_constants_get_channels_last(name: str) -> None:
    body, count = ROWS[name]
    assert len(laid(network((1, 3, 6, 6), body))) == count


def test_a_kernel_that_walks_along_rows_for_long_keeps_them() -> None:
    def body(f: FunctionBuilder, x: Any) -> Any:
        first = conv(f, x, 8, 3, 1, 1)
        return conv(f, first, 8, 8, 1, 1) + ops.sum(first, 1, keepdims=True)

    assert laid(network((1, 3, 6, 6), body)) == []


def gated(f: FunctionBuilder, x: Any) -> Any:
    """Return a convolution of channels, each times a factor that a product computes of all of them."""
    y = conv(f, x, 40, 3, 1, 1)
    return conv(f, y * conv(f, ops.max(y, (2, 3), keepdims=True), 40, 40, 1, 1), 4, 40, 3, 3)


def test_a_kernel_of_a_product_and_longer_loops_keeps_what_these_run_along() -> None:
    program = network((1, 3, 6, 6), gated)
    fusion = Fusion(rows=True, shorten=True, products=True, least_points=1, least_row=1, fused_set=("fused", "rows"))
    assert len(laid(program)) == 4
    assert laid(run((Fuse(), fusion), program)) == []


def test_products_of_matrices_have_sums_along_rows_anyway() -> None:
    def body(f: FunctionBuilder, x: Any) -> Any:
        return ops.matmul(ops.matmul(x, f.constant(weights(8, 12))), f.constant(weights(12, 4)))

    assert laid(network((9, 8), body)) == []
