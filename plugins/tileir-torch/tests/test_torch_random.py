"""Random operations: distributions, masks that both directions share, seeds of PyTorch's generator, and eager's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tileir_torch
from tileir import TileError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

COUNT = 40_000


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend=tileir_torch.backend, options={"fullgraph": True})
    return made


def near(share: Any, p: float, count: int = COUNT) -> bool:
    """Return whether a share is one of a binomial distribution: off by at most five deviations."""
    return abs(float(share) - p) <= 5 * sqrt(p * (1 - p) / count) + 1e-12


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_has_the_distribution_of_eager(rate: float, dtype: torch.dtype) -> None:
    x = torch.linspace(1, 2, COUNT, dtype=dtype)
    y = whole(lambda x: functional.dropout(x, rate))(x)
    assert y.dtype is dtype
    assert near((y != 0).float().mean(), 1 - rate)
    stays = y != 0
    wide = x if dtype is torch.float64 else x.float()
    scaled = wide * (1 / (1 - rate) if rate < 1 else 0.0)
    assert torch.equal(y[stays], scaled.to(dtype)[stays])
    pairs = (stays[::2] & stays[1::2]).float().mean()  # neighbours are independent
    assert near(pairs, (1 - rate) ** 2, COUNT // 2)


def test_seeds_are_those_of_the_generator() -> None:
    made = whole(lambda x: (functional.dropout(x, 0.5), functional.dropout(x, 0.5)))
    x = torch.ones(COUNT)
    torch.manual_seed(5)
    first, second = made(x), made(x)
    torch.manual_seed(5)
    for one, other in zip(first, made(x), strict=True):
        assert torch.equal(one, other)
    masks = [(each > 0) for each in (*first, *second)]
    for at, one in enumerate(masks):
        assert all(near((one & other).float().mean(), 0.25) for other in masks[at + 1 :])


def test_whole_channels_fall() -> None:
    y = whole(lambda x: functional.dropout2d(x, 0.25))(torch.ones(100, 50, 3, 3))
    assert torch.equal(y.amin((2, 3)), y.amax((2, 3)))
    assert near((y[..., 0, 0] != 0).float().mean(), 0.75, 5000)


@pytest.mark.parametrize("function", [functional.alpha_dropout, functional.feature_alpha_dropout])
def test_dropout_that_keeps_moments(function: Callable[..., Any]) -> None:
    y = whole(lambda x: function(x, 0.3, True))(torch.randn(200, 200))
    assert abs(float(y.mean())) < 0.05
    assert abs(float(y.std()) - 1) < 0.05


def test_bernoulli_of_tensors() -> None:
    p = torch.tensor([0.0, 0.2, 0.7, 1.0])
    found = whole(torch.bernoulli)(p.repeat(COUNT // 4, 1))
    assert all(near(share, float(each), COUNT // 4) for share, each in zip(found.mean(0), p, strict=True))
    drawn = whole(lambda x: x * torch.empty_like(x).bernoulli_(0.3))(torch.ones(COUNT))
    assert near(drawn.mean(), 0.3)


def test_slopes_of_rrelu() -> None:
    x = torch.cat([torch.full((COUNT,), -1.0), torch.full((100,), 2.0)]).requires_grad_()
    y = whole(lambda x: functional.rrelu(x, 0.1, 0.4, training=True))(x)
    y.sum().backward()
    slopes = -y[:COUNT].detach()
    assert 0.1 <= float(slopes.min()) < 0.101 < 0.399 < float(slopes.max()) <= 0.4
    assert near(((slopes - 0.1) / 0.3 < 0.3).float().mean(), 0.3)
    assert torch.equal(x.grad[:COUNT], slopes)
    assert torch.equal(x.grad[COUNT:], torch.ones(100))
    assert torch.equal(y[COUNT:], torch.full((100,), 2.0))


def test_infinities_that_fall_are_nan_as_in_eager() -> None:
    y = whole(lambda x: functional.dropout(x, 0.5))(torch.full((1000,), torch.inf))
    assert near(y.isnan().float().mean(), 0.5, 1000)
    assert bool((y.isnan() | y.isinf()).all())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_no_axes_and_no_elements(shape: tuple[int, ...]) -> None:
    y = whole(lambda x: functional.dropout(x, 0.5))(torch.ones(shape))
    assert y.shape == shape
    assert bool(((y == 0) | (y == 2)).all())


def test_a_checkpoint_draws_the_same_mask_again() -> None:
    layer = whole(lambda x: functional.dropout(x, 0.5).sum())
    x = torch.ones(COUNT, requires_grad=True)
    y = checkpoint(layer, x, use_reentrant=False)
    y.backward()
    torch.testing.assert_close(y, x.grad.sum())


def test_sizes_that_change() -> None:
    made = torch.compile(lambda x: functional.dropout(x, 0.5), backend=tileir_torch.backend, dynamic=True)
    for count in (10_000, 20_000):
        assert near((made(torch.ones(count)) > 0).float().mean(), 0.5, count)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.dropout(x * 2, 0.5) + 1,
        lambda x: x + torch.bernoulli(x.sigmoid()),
        lambda x: functional.rrelu(x, training=True),
    ],
)
def test_numbers_of_eager_where_they_are_asked_for(function: Callable[..., Any]) -> None:
    x = torch.randn(5, 7)
    torch.manual_seed(3)
    expected = function(x)
    torch.manual_seed(3)
    made = torch.compile(function, backend=tileir_torch.backend, options={"fallback_random": True})
    torch.testing.assert_close(made(x), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.rand_like(x),
        lambda x: x * torch.randn(5, 7),
        lambda x: x[torch.randperm(5)] + torch.randint(0, 9, (7,)),
        lambda x: torch.normal(x, 0.5),
        lambda x: functional.gumbel_softmax(x),
    ],
)
def test_tensors_of_random_numbers_are_always_those_of_eager(function: Callable[..., Any]) -> None:
    x = torch.randn(5, 7)
    torch.manual_seed(3)
    expected = function(x)
    torch.manual_seed(3)
    torch.testing.assert_close(torch.compile(function, backend=tileir_torch.backend)(x), expected)


def test_modules_as_a_whole_draw_at_each_call(tmp_path: Path) -> None:
    made = tileir_torch.compile(nn.Sequential(nn.Dropout(0.5)).train(), (torch.ones(COUNT),))
    torch.manual_seed(5)
    first, second = made(torch.ones(COUNT)), made(torch.ones(COUNT))
    torch.manual_seed(5)
    assert torch.equal(made(torch.ones(COUNT)), first)
    assert near(((first > 0) & (second > 0)).float().mean(), 0.25)
    with pytest.raises(TileError, match="draws random numbers"):
        made.save(tmp_path / "dropout.tileir")
