"""Results as large as the data say, beside NumPy: whole as results of a model, refused within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import tileir
import tileir_onnx

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
X = np.array([[3, 0, 1, 0], [0, 0, 3, 1], [1, 0, 0, 0]], np.float32)


def run(text: str, *feeds: Any) -> tuple[Any, ...]:
    model = tileir_onnx.load(parser.parse_model(HEAD + text).SerializeToString())
    return model.run(dict(zip((port.name for port in model.inputs), feeds, strict=True)))


def equal(found: tuple[Any, ...], *wanted: Any) -> None:
    for result, right in zip(found, wanted, strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("x", [X, X * 0, X + 1, X[:0]])
def test_places_that_are_not_zero(x: Any) -> None:
    text = "g (float[n, 4] x) => (int64[2, k] y, float[n, 4] z) { y = NonZero(x) z = Neg(x) }"
    equal(run(text, x), np.array(np.nonzero(x)), -x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_slices_that_a_condition_keeps(axis: int | None) -> None:
    size = X.size if axis is None else X.shape[axis]
    given = "" if axis is None else f"<axis={axis}>"
    for condition in (np.arange(size) % 2 == 0, np.zeros(size, bool), np.ones(size, bool)):
        text = f"g (float[3, 4] x, bool[n] c) => (float y) {{ y = Compress{given}(x, c) }}"
        equal(run(text, X, condition), np.compress(condition, X, axis))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_distinct_elements(axis: int | None) -> None:
    given = "" if axis is None else f"<axis={axis}>"
    text = f"g (float[3, 4] x) => (float y, int64 i, int64 j, int64 c) {{ y, i, j, c = Unique{given}(x) }}"
    wanted = np.unique(X, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    equal(run(text, X), wanted[0], *(each.reshape(-1) for each in wanted[1:]))


def test_what_has_no_known_size_is_no_input_of_nodes() -> None:
    text = "g (float[3, 4] x) => (int64 y) { z = NonZero(x) y = Neg(z) }"
    with pytest.raises(tileir.TileError, match=r"node of 'y' \(Neg\).*TIL605.*known only when the model has run"):
        run(text, X)
