"""Pooling: what is refused, and gradients of ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.effort import examples
from strategies.operation_cases.pooling import pooled
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.max_pool(x, 0), "TIL217", "kernel_size is an integer from 1 on, or 2 of them; it was 0"),
        (lambda x: ops.max_pool(x, OTHER), "TIL217", "max_pool: kernel_size has to be an integer"),
        (lambda x: ops.max_pool(x, 2, stride=(2,)), "TIL217", "stride is an integer from 1 on, or 2 of them"),
        (lambda x: ops.max_pool(x, 2, padding=2), "TIL217", "padding is smaller than the window, which has 2 elements"),
        (lambda x: ops.average_pool(x, 3, padding=((0, 3), 0)), "TIL217", "padding is smaller than the window"),
        (lambda x: ops.sum_pool(x, 2, layout="ncxy"), "TIL217", "a layout has letters of 'ncx', each at most once"),
        (lambda x: ops.lp_pool(x, 0, 2), "TIL217", "the norm is above 0; it was 0"),
        (lambda x: ops.adaptive_average_pool(x, (1, 2, 3)), "TIL217", "output_size is one size, or 2 of them"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "C", "H", "W")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.parametrize(("ties", "expected"), [("all", [1, 1, 0, 1]), ("even", [0.5, 0.5, 0, 1])])
def test_ties_of_maxima(ties: Any, expected: list[float]) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(O=ops.max_pool(f.input("X", "N", "C", "H"), 2))
    x = np.array([[[2.0, 2.0, 1.0, 3.0]]])
    gradient = tileir.evaluate(tileir.gradient(function, ties=ties), {"X": x})
    np.testing.assert_array_equal(np.asarray(gradient), [[expected]])


def test_padding_at_the_end_begins_no_window() -> None:
    found = run(
        lambda x: ops.max_pool(x, 1, stride=3, padding=0, ceil_mode=True), -np.arange(1.0, 6.0).reshape(1, 1, 5)
    )
    np.testing.assert_array_equal(found, [[[-1, -4]]])


@examples(40)
@given(
    size=st.integers(1, 8),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 4),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    ceil=st.booleans(),
)
def test_windows_follow_their_definition(
    size: int, kernel: int, stride: int, pads: tuple[int, int], ceil: bool
) -> None:
    assume(max(pads) < kernel <= size + sum(pads))
    starts = range(-pads[0], size + pads[1], stride)
    inside = [first for first in starts if first + kernel <= size + pads[1]]
    begun = [first for first in starts if first < size]
    count = min(len(inside) + (starts[len(inside) - 1] + kernel < size + pads[1]), len(begun)) if ceil else len(inside)
    x = -np.arange(1.0, size + 1).reshape(1, 1, size)
    options: Any = {"stride": stride, "padding": (pads,), "ceil_mode": ceil}
    found = run(
        lambda t: (
            ops.max_pool(t, kernel, **options),
            ops.average_pool(t, kernel, count_include_pad=False, **options),
        ),
        x,
    )
    np.testing.assert_array_equal(found[0], pooled(np.max, x, [kernel], [stride], [pads[0]], [count]))
    np.testing.assert_allclose(found[1], pooled(np.mean, x, [kernel], [stride], [pads[0]], [count]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("norm", [1, 2, 3, 0.5])
def test_norms_of_zeros_have_the_gradient_0(norm: float) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(Y=ops.lp_pool(f.input("X", "N"), norm, 2, layout="x"))
    gradient = tileir.vjp(function, {"X": np.array([0.0, 0.0, 1.0, 2.0])}, {"Y": np.ones(2)})["X"]
    assert gradient[:2].tolist() == [0, 0]
    assert (gradient[2:] > 0).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "count"), [(46341, 46341), (65536, 32768), (1 << 20, 2049), (46341, 92682)])
def test_products_of_sizes_beyond_32_bits(size: int, count: int) -> None:
    f = tileir.FunctionBuilder()
    pool = tileir.jit(f.build(Y=ops.adaptive_average_pool(f.input("X", "N", "C", "L"), count)), "llvm")
    np.testing.assert_array_equal(pool(np.ones((1, 1, size), np.float32)), 1)
