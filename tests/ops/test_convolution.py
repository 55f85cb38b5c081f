"""Convolutions: what is refused, what is one contraction, and their gradients as operations of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.effort import examples
from strategies.operation_cases.convolution import convolved, dilated, transposed
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"
THREE: Any = ((1, 2, 3), 0)


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, w, _: ops.conv(x, w, stride=0), "TIL217", "stride is an integer from 1 on, or 2 of them"),
        (lambda x, w, _: ops.conv(x, w, stride=(1, 2, 3)), "TIL217", "stride is an integer from 1 on, or 2 of them"),
        (lambda x, w, _: ops.conv(x, w, dilation=OTHER), "TIL217", "conv: dilation has to be an integer or a sequence"),
        (lambda x, w, _: ops.conv(x, w, padding="full"), "TIL217", "padding is 'valid', 'same_upper', 'same_lower'"),
        (lambda x, w, _: ops.conv(x, w, padding=-1), "TIL217", "padding is a number from 0 on, or 2 of them or of"),
        (lambda x, w, _: ops.conv(x, w, padding=THREE), "TIL217", "padding is a number from 0 on"),
        (lambda x, w, _: ops.conv(x, w, kernel_layout="bogus"), "TIL217", "a kernel layout has the letters"),
        (lambda x, w, _: ops.conv_weight_gradient(x, w, 3, kernel_layout="bogus"), "TIL217", "a kernel layout has the"),
        (lambda x, w, _: ops.conv(x, w, groups=0), "TIL217", "groups is an integer from 1 on; it was 0"),
        (lambda x, w, _: ops.conv(x, w, groups=2, groups_in="n"), "TIL217", "groups_in is one of 'k', 'c', not 'n'"),
        (lambda x, w, _: ops.conv(x, w, layout="nhwc"), "TIL217", "a layout has letters of 'ncx', each at most once"),
        (lambda x, w, _: ops.conv(x, w, layout="nx"), "TIL217", "a layout has letters of 'ncx', each at most once"),
        (lambda x, w, _: ops.conv(x, w, kernel_layout="kx"), "TIL217", "a kernel layout has the letters 'k' and 'c'"),
        (
            lambda x, w, _: ops.conv(x, w, kernel_layout="gkx", groups=2),
            "TIL217",
            "with 'g' in the kernel layout that axis says how many groups there are",
        ),
        (lambda x, _, v: ops.conv(x, v), "TIL305", "layout 'kcx' needs 3 axes or more, but the tensor has 1"),
        (lambda x, w, _: ops.conv(x, w, layout="cx"), "TIL305", "the tensors have 3 and 2 spatial axes"),
        (lambda x, w, _: ops.conv(x, w, x), "TIL305", "what is given for each channel has rank 1, not 4"),
        (lambda x, w, _: ops.depthwise_conv(x, w, kernel_layout="kcx"), "TIL217", "the layout of a depthwise kernel"),
        (
            lambda x, w, _: ops.conv_transpose(x, w, output_size=5, output_padding=1),
            "TIL217",
            "output_size says how many elements there are; leave output_padding out",
        ),
        (lambda x, w, _: ops.conv_transpose(x, w, output_size=(5,)), "TIL217", "output_size is one size, or 2 of them"),
        (lambda x, w, _: ops.conv_weight_gradient(x, w, (3, 3, 3)), "TIL217", "kernel_size is one size, or 2 of them"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, w, v = f.input("X", "N", "C", "H", "W"), f.input("K", "O", "I", "KH", "KW"), f.input("V", "L")
    found, text = fault_of(lambda: attempt(x, w, v), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (ops.conv, [(1, 3, 5), (2, 4, 3)]),
        (lambda x, w: ops.conv(x, w, groups=2), [(1, 4, 5), (3, 2, 3)]),
        (lambda x, w: ops.conv(x, w, groups=2), [(1, 6, 5), (4, 2, 3)]),
        (lambda x, w: ops.conv(x, w, stride=2, groups=2), [(1, 5, 5), (4, 2, 3)]),
        (lambda y, w: ops.conv_transpose(y, w, stride=2, groups=2), [(1, 5, 5), (4, 2, 3)]),
        (ops.conv_transpose, [(1, 3, 5), (2, 4, 3)]),
        (lambda x, w: ops.conv_weight_gradient(x, w, 3), [(1, 3, 5), (1, 2, 4)]),
    ],
)
def test_sizes_that_do_not_agree(build: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    assert fault_of(lambda: run(lambda *tensors: build(*tensors), *map(np.zeros, shapes)), __file__)[0] == "TIL312"


def test_padding_and_strides_are_one_contraction() -> None:
    f = tileir.FunctionBuilder()
    x, w = f.input("X", "N", "C", "H"), f.input("W", "K", "C", "I")
    text = tileir.to_text(f.build(O=ops.conv(x, w, stride=2, dilation=3, padding=1)))
    assert text == (
        "function (X[N, C, H], W[K, C, I]) -> (O) {\n"
        "  O[n, k, o0 : N, K, (H + 2 - ((I - 1) * 3 + 1) + 2) / 2] = "
        "+(X[n, c, o0 * 2 + i0 * 3 - 1] * W[k, c, i0]);\n}\n"
    )


def test_gradients_are_transposed_and_weight_gradients() -> None:
    rng = np.random.default_rng(0)
    x, w, dy = (rng.integers(-3, 4, shape).astype(float) for shape in ((1, 4, 7, 6), (6, 2, 3, 2), (1, 6, 4, 4)))
    options: Any = {"stride": 2, "padding": 1, "groups": 2}
    f = tileir.FunctionBuilder()
    tensors = [f.input(name, *(f"{name}{axis}" for axis in range(4))) for name in ("X", "W")]
    forward = f.build(O=ops.conv(*tensors, **options))
    found = tileir.vjp(forward, {"X": x, "W": w}, {"O": dy})
    by_data = run(lambda y, k: ops.conv_transpose(y, k, output_size=(7, 6), **options), dy, w)
    by_kernel = run(lambda a, y: ops.conv_weight_gradient(a, y, (3, 2), **options), x, dy)
    np.testing.assert_array_equal(np.asarray(found["X"]), by_data)
    np.testing.assert_array_equal(np.asarray(found["W"]), by_kernel)


@examples(40)
@given(data=st.data())
def test_all_options_together_follow_the_definition(data: st.DataObject) -> None:
    space = data.draw(st.integers(1, 2))
    size, kernel, stride, dilation, between, before, after = (
        data.draw(st.tuples(*[st.integers(least, most)] * space))
        for least, most in ((1, 6), (1, 3), (1, 3), (1, 3), (1, 2), (0, 2), (0, 2))
    )
    groups = data.draw(st.integers(1, 2))
    wide = [(n - 1) * b + 1 + p + q for n, b, p, q in zip(size, between, before, after, strict=True)]
    assume(all(n > d * (k - 1) for n, d, k in zip(wide, dilation, kernel, strict=True)))
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 2 * groups, *size)).astype(float)
    w = rng.integers(-3, 4, (3 * groups, 2, *kernel)).astype(float)
    pads = list(zip(before, after, strict=True))
    expected = convolved(dilated(x, between), w, stride=stride, pads=pads, dilation=dilation, groups=groups)
    found = run(
        lambda a, b: ops.conv(
            a, b, stride=stride, padding=pads, dilation=dilation, data_dilation=between, groups=groups
        ),
        x,
        w,
    )
    np.testing.assert_array_equal(found, expected)
    if between == (1,) * space:
        back = run(
            lambda y, b: ops.conv_transpose(
                y, b, stride=stride, padding=pads, dilation=dilation, output_size=size, groups=groups
            ),
            expected,
            w,
        )
        options: Any = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}
        np.testing.assert_array_equal(back, transposed(expected, w, size, **options))


def weights(x: np.ndarray[Any, Any], dy: np.ndarray[Any, Any], kernel: tuple[int, int], stride: int, pad: int) -> Any:
    """Return the gradient by kernels: products of what lies inside alone, whatever is beyond a border."""
    total = np.zeros((dy.shape[1], x.shape[1], *kernel))
    for i, j, a, b in np.ndindex(*kernel, *dy.shape[2:]):
        h, w = a * stride + i - pad, b * stride + j - pad
        if 0 <= h < x.shape[2] and 0 <= w < x.shape[3]:
            total[:, :, i, j] += dy[:, :, a, b].T @ x[:, :, h, w]
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel_layout", ["kcx", "xck"])
@pytest.mark.parametrize(("stride", "pad"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("channels", [2, 17])
@pytest.mark.parametrize("place", [(0, 0), (-1, -1), (1, 0)])
def test_borders_meet_no_infinity(
    place: tuple[int, int], channels: int, stride: int, pad: int, kernel_layout: str
) -> None:
    """Of an infinite gradient that arrives at a border, weights beyond that border get nothing, and no NaN."""
    rng = np.random.default_rng(0)
    x = rng.integers(1, 4, (2, channels, 7, 6)).astype(np.float32)
    sizes = [(n + 2 * pad - 3) // stride + 1 for n in x.shape[2:]]
    dy = rng.integers(1, 4, (2, 16, *sizes)).astype(np.float32)
    dy[0, 3, *place], dy[1, 5, *place] = np.inf, np.nan
    f = tileir.FunctionBuilder()
    a, b = f.input("X", *"NCHW"), f.input("DY", "N", "K", "P", "Q")
    options: Any = {"stride": stride, "padding": pad, "kernel_layout": kernel_layout}
    function = f.build(DW=ops.conv_weight_gradient(a, b, 3, **options))
    expected = weights(x, dy, (3, 3), stride, pad)
    if kernel_layout == "xck":
        expected = expected.transpose(2, 3, 1, 0)
    for found in (tileir.evaluate(function, X=x, DY=dy), tileir.jit(function)(X=x, DY=dy)):
        np.testing.assert_array_equal(found, expected)
