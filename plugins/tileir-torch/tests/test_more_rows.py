"""Operations compiled whole, beside eager execution: values, and gradients where there are some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  as everybody calls it

import tileir_torch

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about what it compiles


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


I, J = torch.tensor([2, -1, 0]), torch.tensor([[0, 1, 1], [2, 0, 2]])  # noqa: E741
POOLED, PLACES = F.max_pool2d(tensor(2, 3, 6, 6), 2, return_indices=True)
CASES: Final[dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]] = {
    "take": (lambda x: torch.take(x, J - 3), (tensor(3, 4),)),
    "put": (lambda x, y: x.put(J, y, accumulate=True), (tensor(3, 4), tensor(2, 3))),
    "index_fill": (lambda x: x.index_fill(1, I, 2.5), (tensor(3, 4),)),
    "index_reduce": (
        lambda x, y: x.index_reduce(0, I % 3, y, "amax", include_self=False),
        (tensor(4, 2), tensor(3, 2)),
    ),
    "scatter_mean": (
        lambda x, y: x.scatter_reduce(0, J, y, "mean", include_self=False),
        (tensor(3, 3), tensor(2, 3, seed=1)),
    ),
    "scatter_prod": (
        lambda x, y: x.scatter_reduce(0, J, y, "prod", include_self=False),
        (tensor(3, 3), tensor(2, 3, seed=1)),
    ),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), (tensor(3, 4), tensor(12, seed=1))),
    "as_strided": (lambda x: torch.as_strided(x * 2, (3, 2), (2, 3), 1), (tensor(3, 4),)),
    "as_strided_beyond_a_part": (
        lambda x: (
            torch.as_strided((x * 2).T[1:], (2, 2), (2, 3)),
            torch.as_strided((x * 2)[:1, 1], (3,), (4,), 0),
            torch.as_strided((x.T * 2).split(1, -1)[1], (4, 2), (1, 4)),
        ),
        (tensor(3, 4),),
    ),
    "as_strided_beyond_an_update": (
        lambda x, y: (
            torch.as_strided(torch.slice_scatter(x[:, ::2], y, 1, 1), (3,), (2,), 1),
            torch.as_strided(torch.slice_scatter(x.detach()[:, 1:5], y.detach(), 1, 1), (5,), (2,), 1),
        ),
        (tensor(3, 8), tensor(3, 3, seed=1)),
    ),
    "as_strided_scatter": (
        lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (1, 3), 1),
        (tensor(3, 4), tensor(2, 2)),
    ),
    "diagonal_scatter": (lambda x, y: torch.diagonal_scatter(x, y, 1), (tensor(3, 4), tensor(3))),
    "unfold": (lambda x: x.unfold(1, 3, 2).sin(), (tensor(2, 9),)),
    "kthvalue": (lambda x: x.kthvalue(2, 1)[0], (tensor(3, 5),)),
    "median": (lambda x: (x.median(0)[0], x.median()), (tensor(4, 5),)),
    "median_of_nan": (lambda x: torch.where(x > 1, float("nan"), x).median(1)[0], (tensor(4, 5),)),
    "cummax": (lambda x: torch.cummax(x, 1), (tensor(3, 7),)),
    "cummin": (lambda x: torch.cummin(x, 0), (tensor(3, 7),)),
    "searchsorted": (lambda x, y: torch.searchsorted(x, y, right=True), (tensor(2, 6).sort().values, tensor(2, 3))),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1])), (tensor(3, 4),)),
    "adaptive_max": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (tensor(2, 3, 7, 5),)),
    "adaptive_max_3d": (lambda x: F.adaptive_max_pool3d(x, (2, 1, 2)), (tensor(2, 5, 4, 3),)),
    "adaptive_average_3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (tensor(1, 2, 5, 4, 3),)),
    "average_3d": (lambda x: F.avg_pool3d(x, 2, 1, 1, count_include_pad=False), (tensor(1, 2, 3, 4, 3),)),
    "overlapping_windows": (
        lambda x: (
            F.max_pool2d(x - x.detach() + (x * 2).detach().round(), 3, 2, 1),
            F.max_pool2d(x, (3, 2), 1, (1, 0), (1, 2)),
            F.max_pool2d(x[0], 3, 2, ceil_mode=True),
        ),
        (tensor(2, 3, 9, 7),),
    ),
    "overlapping_windows_3d": (lambda x: F.max_pool3d(x, 2, 1, 1), (tensor(1, 2, 3, 4, 5),)),
    "max_unpool": (lambda x: F.max_unpool2d(x, PLACES, 2), (POOLED,)),
    "patches": (lambda x: F.unfold(x, 3, dilation=2, padding=1, stride=2), (tensor(2, 3, 8, 7),)),
    "nearest_1d": (lambda x: F.interpolate(x, scale_factor=2.5), (tensor(2, 3, 5),)),
    "linear_1d": (lambda x: F.interpolate(x, 7, mode="linear"), (tensor(2, 3, 5),)),
    "trilinear": (
        lambda x: F.interpolate(x, (4, 5, 3), mode="trilinear", align_corners=True),
        (tensor(1, 2, 3, 3, 4),),
    ),
    "smooth_bilinear": (lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True), (tensor(1, 2, 8, 7),)),
    "smooth_bicubic": (lambda x: F.interpolate(x, (5, 12), mode="bicubic", antialias=True), (tensor(1, 2, 8, 7),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), padding_mode="border", align_corners=False),
        (tensor(1, 2, 5, 4), tensor(1, 3, 3, 2)),
    ),
    "reflection": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), (tensor(1, 2, 4, 5),)),
    "replication": (lambda x: F.pad(x, (2, 1), mode="replicate"), (tensor(1, 2, 4),)),
    "embedding_renorm": (
        lambda x: F.embedding(J, x.detach().clone() * 2, max_norm=1.0, norm_type=3.0),
        (tensor(5, 4),),
    ),
    "embedding_bag": (
        lambda w: tuple(
            F.embedding_bag(
                torch.tensor([3, 1, 0, 3, 2]), w.detach(), torch.tensor([0, 2, 2]), mode=mode, padding_idx=1
            )
            for mode in ("sum", "mean")
        ),
        (tensor(4, 3),),
    ),
    "soft_margin": (
        lambda x: (
            F.soft_margin_loss(x * 9, x.detach().sign()),
            F.soft_margin_loss(x, -x.detach().sign(), reduction="sum"),
        ),
        (tensor(3, 4),),
    ),
    "cropped_replication": (lambda x: F.pad(x, (-2, 3, 1, -1), mode="replicate"), (tensor(1, 2, 4, 5),)),
    "nanmedian": (
        lambda x: (torch.where(x > 0.5, float("nan"), x).nanmedian(1)[0], torch.where(x > 0, x, x / 0 * 0).nanmedian()),
        (tensor(4, 5),),
    ),
    "mode": (lambda x: (x * 2).round().mode(1)[0], (tensor(3, 12),)),
    "histc": (lambda x: (x.histc(7, -1, 1.5), x.histc(4), x.histc(1, 0, 1)), (tensor(50),)),
    "dist": (
        lambda x, y: (torch.dist(x, y, 3), torch.dist(x.detach(), y.detach(), 0)),
        (tensor(3, 4), tensor(4, seed=1)),
    ),
    "pdist": (lambda x: F.pdist(x), (tensor(5, 3),)),
    "bilinear": (
        lambda x, y, w: F.bilinear(x, y, w),
        (tensor(4, 3), tensor(4, 2, seed=1), tensor(5, 3, 2, seed=2)),
    ),
    "gcd": (lambda x: (torch.gcd(x * 6, J * 4), torch.lcm(x - 5, J)), (torch.tensor([[4, 0, -9], [12, 7, 30]]),)),
    "nextafter": (
        lambda x, y: (torch.nextafter(x, y), torch.nextafter(x * 0, -y), torch.nextafter(y.bfloat16(), x.bfloat16())),
        (tensor(3, 4), tensor(3, 4, seed=1)),
    ),
    "frexp": (lambda x: torch.frexp(x * 10.0 ** torch.arange(-44, 36, 20)), (tensor(3, 4),)),
    "searchsorted_number": (lambda x: torch.searchsorted(x, 0.5), (tensor(7).sort().values,)),
    "gamma": (lambda x: (torch.lgamma(x), torch.digamma(x), torch.polygamma(2, x)), (tensor(3, 4),)),
    "error_functions": (
        lambda x: (torch.erfinv(x.tanh()), torch.special.log_ndtr(x * 4), torch.special.erfcx(x)),
        (tensor(3, 4),),
    ),
    "quantile_of_the_normal_distribution": (lambda x: torch.special.ndtri(x.sigmoid()), (tensor(3, 4),)),
    "modified_bessel": (
        lambda x: (torch.i0(x), torch.special.i1(x * 5), torch.special.i0e(x), torch.special.i1e(x)),
        (tensor(3, 4),),
    ),
    "bessel": (
        lambda x: (
            torch.special.bessel_j0(x * 9),
            torch.special.bessel_y1(x.exp()),
            torch.special.scaled_modified_bessel_k0(x.exp()),
        ),
        (tensor(3, 4),),
    ),
    "polynomials": (
        lambda x: (
            torch.special.chebyshev_polynomial_t(x, J),
            torch.special.shifted_chebyshev_polynomial_w(x, 3),
            torch.special.laguerre_polynomial_l(x, J + 4),
        ),
        (tensor(2, 3),),
    ),
    "zeta": (
        lambda x: (torch.special.zeta(x.detach().exp() + 1.5, 2.5), torch.special.zeta(3.5, x.exp())),
        (tensor(3, 4),),
    ),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2) * 2, (tensor(1, 6, 2, 2),)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    torch._dynamo.reset()
    function, arguments = CASES[name]

    def both(call: Callable[..., Any]) -> list[torch.Tensor]:
        given = [each.clone().requires_grad_(each.is_floating_point()) for each in arguments]
        found = call(*given)
        results = list(found) if isinstance(found, tuple) else [found]
        floats = [each for each in results if each.requires_grad]
        loss = sum((each * torch.linspace(1, 2, each.numel()).reshape(each.shape)).sum() for each in floats)
        gradients = torch.autograd.grad(loss, given, allow_unused=True) if floats else ()
        return [*(each.detach() for each in results), *(each for each in gradients if each is not None)]

    found = both(torch.compile(function, backend=tileir_torch.backend, fullgraph=True, options={"fullgraph": True}))
    torch.testing.assert_close(found, both(function), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "function",
    [torch.add, torch.sub, torch.rsub, torch.mul, torch.div, torch.remainder, lambda x, y: y * x, lambda x, y: y / x],
)
def test_numbers_of_more_bits_are_rounded_where_eager_rounds_them(
    function: Callable[..., Any], dtype: torch.dtype
) -> None:
    torch._dynamo.reset()
    x, number = (tensor(500).abs() * 20 + 1).to(dtype), torch.tensor(-41.0826)
    found = torch.compile(function, backend=tileir_torch.backend, options={"fullgraph": True})(x, number)
    wanted = function(x, number)
    assert found.dtype is wanted.dtype
    assert torch.equal(found, wanted)
