"""Distributions have the moments and shares that they should, for fixed seeds; what is wrong is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import special

import tileir
from strategies.operation_cases.random import draw
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 40_000
HALF = math.sqrt(8 / math.pi)  # the mean of half of a normal distribution of deviation 2


def run(build: Callable[..., Any], seed: int = 1, **inputs: Any) -> Any:
    """Return what is drawn from the state of a seed, without the next state."""
    f = tileir.FunctionBuilder()
    state = f.input("S", "Words")
    tensors = [f.input(name, *(f"{name}_{axis}" for axis in range(np.ndim(a)))) for name, a in inputs.items()]
    function = f.build(Out=build(state, *tensors)[0])
    return tileir.jit(function, "llvm")(ops.random_state(seed), *inputs.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("draws", "mean", "variance"),
    [
        (lambda s: ops.uniform(s, (COUNT,)), 0.5, 1 / 12),
        (lambda s: ops.uniform(s, (COUNT,), low=-3, high=5), 1, 64 / 12),
        (lambda s: ops.normal(s, (COUNT,)), 0, 1),
        (lambda s: ops.normal(s, (200, 200), mean=-4, std=3, dtype="f64"), -4, 9),
        (lambda s: ops.truncated_normal(s, (COUNT,)), 0, 0.7737413),
        (lambda s: ops.truncated_normal(s, (COUNT,), mean=1, std=2, low=0, high=math.inf), 1 + HALF, 4 - HALF**2),
        (lambda s: ops.exponential(s, (COUNT,), rate=4), 0.25, 1 / 16),
        (lambda s: ops.gumbel(s, (COUNT,)), np.euler_gamma, math.pi**2 / 6),
        (lambda s: ops.randint(s, (COUNT,), -10, 91), 40, (101**2 - 1) / 12),
        (lambda s: ops.randint(s, (COUNT,), 0, 1 << 31, dtype="i64"), 2.0**30, 2.0**62 / 12),
        (lambda s: ops.bernoulli(s, 0.3, (COUNT,)), 0.3, 0.21),
        (lambda s: ops.glorot_uniform(s, (3, 100, 200)), 0, 2 / 900),
        (lambda s: ops.glorot_normal(s, (200, 300), in_axis=1, out_axis=0), 0, 2 / 500),
        (lambda s: ops.he_uniform(s, (100, 200, 3), in_axis=1, out_axis=0), 0, 2 / 600),
        (lambda s: ops.he_normal(s, (300, 200)), 0, 2 / 300),
        (lambda s: ops.permutation(s, 2000), 999.5, (2000**2 - 1) / 12),
    ],
)  # fmt: skip
def test_mean_and_variance(draws: Callable[..., Any], mean: float, variance: float) -> None:
    values = run(draws).astype(np.float64)
    assert abs(values.mean() - mean) < 4.5 * math.sqrt(variance / values.size)
    assert abs(values.var() / variance - 1) < 0.05


def test_normal_numbers_are_as_often_as_they_should_be_below_each_bound() -> None:
    values = np.sort(run(lambda s: ops.normal(s, (COUNT,))))
    distribution = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in values])
    steps = np.arange(COUNT) / COUNT
    assert np.abs(distribution - steps).max() < 1.63 / math.sqrt(COUNT)  # Kolmogorov and Smirnov, at 1 %


def test_the_inverse_error_function_is_exact_to_single_precision() -> None:
    bits, _ = draw(ops.random_state(3), 500)
    values = run(lambda s: ops.normal(s, (500,)), seed=3).astype(np.float64)
    wanted = (2 * bits + 1) / 2.0**24 - 1
    found = np.array([math.erf(value / math.sqrt(2)) for value in values])
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.sampled(0)
def test_bounds_hold() -> None:
    truncated = run(lambda s: ops.truncated_normal(s, (COUNT,), low=-1, high=0.5))
    assert -1 <= truncated.min() < -0.99
    assert 0.49 < truncated.max() <= 0.5
    assert set(run(lambda s: ops.randint(s, (500,), 3, 6))) == {3, 4, 5}
    assert sorted(run(lambda s: ops.permutation(s, 300))) == list(range(300))


def test_categories_have_their_shares() -> None:
    shares = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    found = run(lambda s, x: ops.categorical(s, x, samples=8000), L=np.log(shares))
    assert found.shape == (8000, 2)
    for row, share in zip(found.T, shares, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 8000, share, atol=0.02)


def test_dropout_keeps_the_mean() -> None:
    kept = run(lambda s, x: ops.dropout(x, s, 0.2), X=np.ones((200, 200)))
    assert sorted(set(kept.ravel())) == [0, 1.25]
    assert abs(kept.mean() - 1) < 0.01


@pytest.mark.sampled(0)
def test_split_states_are_independent() -> None:
    f = tileir.FunctionBuilder()
    state = f.input("S", "Words")
    first, second = ops.split_state(state, 2)
    a, b = (ops.uniform(s, (5000,))[0] for s in (first, second))
    first_state, x, y = tileir.jit(f.build(T=first, X=a, Y=b), "llvm")(ops.random_state(5))
    assert (first_state.dtype, first_state.shape) == (np.uint32, (4,))
    assert (first_state[:2] > 0xFFFF).all()
    assert (first_state[2:] == 0).all()
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.05


def test_states_go_on() -> None:
    step = tileir.stepper(_pair(), {"S": "After"}, {"S": ops.random_state(9)})
    several = np.concatenate([step() for _ in range(3)])
    assert len(set(several)) == 12


def _pair() -> tileir.Function:
    f = tileir.FunctionBuilder()
    values, after = ops.normal(f.input("S", "Words"), (4,))
    return f.build(X=values, After=after)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda _: ops.random_state(-1), "a seed is from 0 to 2**64 - 1, not -1"),
        (lambda s: ops.bernoulli(s, 1.5, [3]), "a probability is from 0 to 1, not 1.5"),
        (lambda s: ops.exponential(s, [3], rate=0), "a rate is above 0, not 0"),
        (lambda _: ops.random_state(0.5), "random_state: seed has to be an integer, not 0.5"),  # type: ignore[arg-type]
        (lambda s: ops.split_state(s, 0), "a number of states is positive, not 0"),
        (lambda s: ops.randint(s, (2,), 3, 3), "there are from 1 to 2**32 integers to draw, not 0"),
        (lambda s: ops.truncated_normal(s, (2,), low=1, high=1), "low is below high, but 1 is not below 1"),
        (lambda s: ops.he_normal(s, (2, 3), out_axis=0), "inputs and outputs are two axes, not both 0"),
        (lambda s: ops.dropout(s, s, 1.5), "a rate is from 0 to 1, not 1.5"),
    ],
)
def test_mistakes(attempt: Callable[..., object], message: str) -> None:
    state = tileir.FunctionBuilder().input("S", "Words")
    with pytest.raises(tileir.TileError) as caught:
        attempt(state)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("TIL217", message)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("count", [2000])
def test_f64_has_more_than_24_bits(count: int) -> None:
    one = run(lambda s: ops.uniform(s, (count,), low=1e6, high=1e6 + 1, dtype="f64"))
    other = run(lambda s: ops.normal(s, (count,), mean=1e6, std=1e-3, dtype="f64"))
    third = run(lambda s: ops.truncated_normal(s, (count,), mean=1e6, std=1e-3, dtype="f64"))
    for values in (one, other, third):
        assert values.dtype == np.float64
        assert len(np.unique(values)) > count - 20
    assert run(lambda s: ops.uniform(s, (count,), high=1e300, dtype="f64")).max() > 9e299


@pytest.mark.sampled(0)
def test_normal_numbers_of_f64_are_those_of_their_uniform_ones() -> None:
    uniform = run(lambda s: ops.uniform(s, (COUNT,), dtype="f64"))
    exact = special.erfinv(2 * uniform - 1 + 2.0**-48) * math.sqrt(2)
    np.testing.assert_allclose(run(lambda s: ops.normal(s, (COUNT,), dtype="f64")), exact, rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (1000, 1001), (-3, 5)])
def test_uniform_numbers_are_below_the_upper_bound(dtype: str, low: int, high: int) -> None:
    values = run(lambda s: ops.uniform(s, (200_000,), low=low, high=high, dtype=dtype)).astype(np.float64)
    assert values.min() >= low
    assert values.max() < high or dtype == "bf16"  # between 1000 and 1001 it has no number


@pytest.mark.parametrize(("low", "high", "dtype", "outside"), [(0, 300, "i8", 299), (-1, 3, "u8", -1)])
def test_bounds_that_a_dtype_cannot_hold(low: int, high: int, dtype: str, outside: int) -> None:
    with pytest.raises(tileir.TileError, match=rf"TIL217.* holds integers from .*, not {outside}"):
        run(lambda s: ops.randint(s, (3,), low, high, dtype=dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(-128, 128, "i8"), (2**40, 2**40 + 5, "i64"), (2**63, 2**63 + 9, "u64"), (-(2**31), 2**31, "i32")],
)
def test_integers_at_the_ends_of_a_dtype(low: int, high: int, dtype: str) -> None:
    values = run(lambda s: ops.randint(s, (5000,), low, high, dtype=dtype)).astype(object)
    assert low <= values.min() < values.max() < high
