"""Attention: what is refused, what fuses into one kernel, and queries that see nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, _: ops.softmax(x, 4), "TIL314", "the axis is 4, but the tensor has axes 0 to 2"),
        (lambda x, _: ops.log_softmax(x, (0, 0)), "TIL217", "an axis stands twice"),
        (
            lambda x, m: ops.scaled_dot_product_attention(x, m, m),
            "TIL305",
            "query, key and value have the same number of axes, two or more; they have [3, 2, 2]",
        ),
        (
            lambda x, m: ops.multi_head_attention(x, x, x, (m, m, m, m), 0),
            "TIL217",
            "the number of heads is",
        ),
        (
            lambda x, m: ops.multi_head_attention(x, x, x, (x, m, m, m), 2),
            "TIL305",
            "queries, keys and values",
        ),
        (lambda x, m: ops.multi_head_attention(x, x, x, (m, m, m, x), 2), "TIL305", "weights have two axes"),
        (
            lambda x, _: ops.scaled_dot_product_attention(x, x, x, window=(-1, 0)),
            "TIL217",
            "a window is two numbers from 0 on, or None, before and behind a query; it was (-1, 0)",
        ),
        (lambda x, _: ops.scaled_dot_product_attention(x, x, x, softcap=-1.0), "TIL217", "softcap is 0 or above"),
        (
            lambda x, _: ops.scaled_dot_product_attention(x, x, x, lengths=x),
            "TIL305",
            "offsets and lengths have one axis, not 3",
        ),
        (lambda x, _: ops.attention(x, x, x), "TIL217", "tensors of three axes need heads and key_heads"),
        (lambda _, m: ops.attention(m, m, m), "TIL305", "queries have three or four axes, not 2"),
        (lambda x, _: ops.attention(x, x, x, past_key=x), "TIL217", "a past has keys and values, and no lengths"),
        (
            lambda x, _: ops.attention(x, x, x, heads=1, key_heads=1, scores="raw"),
            "TIL217",
            "scores is one of 'products', 'capped', 'masked', 'weights', 'sums', not 'raw'",
        ),
        (lambda x, _: ops.rotary_embedding(x, pairs="both"), "TIL217", "pairs is one of 'halves', 'neighbours'"),
        (lambda x, _: ops.rotary_embedding(x, base=-1), "TIL217", "base is a finite number above 0; it was -1"),
        (
            lambda x, m: ops.scaled_dot_product_attention(m, m, m, mask=x),
            "TIL305",
            "mask broadcasts with the scores, which have 2 axes",
        ),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, m = f.input("X", "B", "S", "E"), f.input("M", "O", "I")
    found, text = fault_of(lambda: attempt(x, m), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)],
        [(1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)],
        [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 5, 4)],
    ],
)
def test_sizes_that_do_not_agree(shapes: list[tuple[int, ...]]) -> None:
    def attend(*tensors: Tensor) -> Tensor:
        return ops.scaled_dot_product_attention(*tensors)

    assert fault_of(lambda: run(attend, *map(np.zeros, shapes)), __file__)[0] == "TIL312"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "build", [ops.softmax, ops.log_softmax, ops.layer_norm, ops.rms_norm, lambda x: ops.softmax(x * 2.0 + 1.0)]
)
def test_operations_on_rows_are_one_kernel(build: Callable[[Tensor], Tensor]) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(O=build(f.input("X", "N", "C")))
    executable = tileir.compile(function, {"X": np.zeros((64, 96), np.float32)})
    assert len(executable.sem.kernels) == 1


def test_queries_without_keys_have_no_gradients() -> None:
    f = tileir.FunctionBuilder()
    q, k, v, m = (f.input(name, f"{name}0", f"{name}1") for name in "QKVM")
    function = f.build(O=ops.scaled_dot_product_attention(q, k, v, mask=m))
    rng = np.random.default_rng(0)
    arrays = {name: rng.random((3, 3)) for name in "QKV"} | {"M": np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)}
    np.testing.assert_array_equal(tileir.evaluate(function, arrays)[1], 0)
    gradients = tileir.vjp(function, arrays, {"O": np.ones((3, 3))}, wrt=["Q", "K", "V"])
    assert all(np.isfinite(np.asarray(gradient)).all() for gradient in gradients.values())
    np.testing.assert_array_equal(np.asarray(gradients["Q"])[1], 0)


def test_masks_of_the_heads_of_keys_are_refused() -> None:
    def attention(query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        return ops.scaled_dot_product_attention(query, key, key, mask=mask)

    def refused() -> Any:
        return run(attention, np.ones((4, 3, 2)), np.ones((2, 3, 2)), np.ones((2, 3, 3), np.bool_))

    assert fault_of(refused, __file__)[0] in ("TIL301", "TIL312")


def test_turned_halves_are_rounded_once_and_positions_of_f64_stay_exact() -> None:
    x = np.random.default_rng(0).normal(size=(6, 8))
    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = x.astype(dtype)
        wanted = _turned(narrow.astype(np.float64), np.arange(6.0))
        found = run(ops.rotary_embedding, narrow)
        assert found.dtype == dtype
        unit = np.spacing(np.abs(wanted).astype(dtype)).astype(np.float64)
        assert (np.abs(found.astype(np.float64) - wanted) <= unit / 2 * 1.01 + 1e-6).all()
    far = np.array([2.0**24 + 1])
    np.testing.assert_allclose(run(ops.rotary_embedding, x[:1], far), _turned(x[:1], far), atol=1e-7)


def _turned(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    angle = positions[:, None] * 10000.0 ** (-np.arange(half) / half)
    pairs = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angle)
    return np.concatenate([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize("kind", [np.bool_, np.int32, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_of_floats_are_added_and_others_hide(kind: Any, causal: bool) -> None:
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((2, 5, 8), np.float32) for _ in range(3))
    seen = generator.random((5, 5)) > 0.3
    seen[:, 0] = True
    mask = seen.astype(kind)
    scores = query.astype(np.float64) @ key.transpose(0, 2, 1) / np.sqrt(8)
    scores = scores + mask if np.issubdtype(kind, np.floating) else np.where(seen, scores, -np.inf)
    if causal:
        scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    powers = np.exp(scores)
    expected = powers / powers.sum(-1, keepdims=True) @ value
    found = run(
        lambda q, k, v, m: ops.scaled_dot_product_attention(q, k, v, mask=m, causal=causal), query, key, value, mask
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
