"""Convolutions of each channel alone with strides: of all layouts, sizes, groups and dtypes, beside the interpreter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples


@given(
    layout=st.sampled_from(("ncx", "nxc")),
    size=st.tuples(st.integers(5, 30), st.integers(5, 40)),
    window=st.sampled_from((1, 2, 3, 5)),
    stride=st.integers(2, 4),
    padding=st.integers(0, 2),
    groups=st.sampled_from((2, 9)),
    per_group=st.integers(1, 2),
    dtype=st.sampled_from((np.float32, np.float64, np.int32, np.float16)),
)
@examples(25)
def test_convolutions_of_channels_with_strides_are_as_the_interpreter_has_them(
    layout: str,
    size: tuple[int, int],
    window: int,
    stride: int,
    padding: int,
    groups: int,
    per_group: int,
    dtype: type[np.generic],
) -> None:
    random = np.random.default_rng(0)
    shape = (2, groups * per_group, *size) if layout == "ncx" else (2, *size, groups * per_group)
    x = random.integers(-4, 5, shape).astype(dtype)
    w = random.integers(-4, 5, (groups, per_group, window, window)).astype(dtype)
    builder = tileir.FunctionBuilder()
    data, kernel = builder.input("X", "N", "A", "B", "C"), builder.input("W", "K", "P", "R", "S")
    function = builder.build(
        Y=tileir.ops.conv(data, kernel, stride=stride, padding=padding, groups=groups, layout=layout)
    )
    np.testing.assert_array_equal(
        tileir.compile(function, {"X": x, "W": w})(x, w), tileir.evaluate(function, {"X": x, "W": w})
    )
