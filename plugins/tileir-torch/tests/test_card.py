"""Tensors of a card of NVIDIA's: both doors, streams, captures, memory, training. Skipped where there is none."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tileir_torch

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card of NVIDIA's"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # PyTorch 2.11 gives these to itself
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]


class Block(nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
    """A layer of a transformer with a convolution before it, so that there are many kernels."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, 4, 4)
        self.bn = nn.BatchNorm2d(width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn(self.convolution(x)).flatten(2).mT
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.last(y.transpose(1, 2).reshape(batch, length, width))
        found: torch.Tensor = x + self.mlp(x)
        return found


def block(dtype: torch.dtype = torch.float32) -> tuple[Block, torch.Tensor]:
    """Return a module on the card, for inference, and an input."""
    torch.manual_seed(0)
    return Block().eval().to("cuda", dtype), torch.randn(2, 3, 32, 32, device="cuda", dtype=dtype)


def fast(module: nn.Module) -> Callable[..., Any]:
    """Return a module through ``torch.compile``, of which nothing is left to eager execution."""
    found: Callable[..., Any] = torch.compile(
        module, backend=tileir_torch.backend, fullgraph=True, options={"fullgraph": True}
    )
    return found


def exact(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the result in f64."""
    with torch.no_grad():
        found: torch.Tensor = copy.deepcopy(module).double()(x.double())
    return found


def assert_near(found: torch.Tensor, wanted: torch.Tensor, tolerance: float = 1e-5) -> None:
    assert found.is_cuda
    error = (found.double() - wanted).norm() / wanted.norm()
    assert error < tolerance, float(error)


@pytest.fixture(autouse=True)
def exact_products() -> None:
    torch._dynamo.reset()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("door", ["compile", "backend"])
def test_modules_run_through_both_doors(door: str, dtype: torch.dtype) -> None:
    module, x = block(dtype)
    wanted = exact(module, x)
    with torch.no_grad():
        run = fast(module) if door == "backend" else tileir_torch.compile(module, (x,))
        assert_near(run(x), wanted, {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype])


def test_results_belong_to_the_allocator_of_torch() -> None:
    module, x = block()
    run = tileir_torch.compile(module, (x,))
    run(x)
    before = torch.cuda.memory_allocated()
    found = run(x)
    assert torch.cuda.memory_allocated() - before >= found.untyped_storage().nbytes()
    kept = found.clone()
    del found
    for _ in range(20):
        run(x + 1)
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + kept.untyped_storage().nbytes()
    assert torch.equal(run(x), kept)


def test_memory_is_flat_over_calls() -> None:
    module, x = block()
    with torch.no_grad():
        run = fast(module)
        for _ in range(5):
            run(x)
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        for _ in range(200):
            run(x)
        torch.cuda.synchronize()
        assert torch.cuda.mem_get_info()[0] >= free


@pytest.mark.parametrize("door", ["compile", "backend"])
def test_calls_are_in_order_with_the_current_stream(door: str) -> None:
    module, x = block()
    with torch.no_grad():
        run = fast(module) if door == "backend" else tileir_torch.compile(module, (x,))
        wanted = [exact(module, x * factor) for factor in (1.0, 2.0)]
        run(x)
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        found = []
        for turn in range(12):
            with torch.cuda.stream(streams[turn % 3]):
                torch.cuda._sleep(2_000_000)
                given = torch.zeros_like(x)
                given += x
                given *= 1 + turn % 2
                found.append(run(given) + 0.0)
                given.zero_()
        torch.cuda.synchronize()
        for turn, each in enumerate(found):
            assert_near(each, wanted[turn % 2])


@pytest.mark.parametrize("door", ["compile", "backend", "frozen"])
def test_calls_are_captured(door: str) -> None:
    module, x = block()
    module.requires_grad_(door != "frozen")
    with torch.no_grad():
        run = tileir_torch.compile(module, (x,)) if door == "compile" else fast(module)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = run(x) * 2
        for factor in (1.0, -0.5):
            given = x * factor if factor == 1.0 else torch.randn_like(x)
            x.copy_(given)
            graph.replay()
            assert_near(found, exact(module, given) * 2)
            assert_near(run(given), exact(module, given))


def test_steps_of_training_are_those_of_eager() -> None:
    module, x = block()
    module.train()
    other = copy.deepcopy(module)
    run = fast(module)
    target = torch.randn(2, 64, 64, device="cuda")
    losses = []
    for each, call in ((module, run), (other, other)):
        optimiser = torch.optim.SGD(each.parameters(), lr=0.05)
        kept = []
        for _ in range(10):
            optimiser.zero_grad()
            loss = nn.functional.mse_loss(call(x), target)
            loss.backward()
            optimiser.step()
            kept.append(loss.item())
        losses.append(kept)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][-1] < losses[0][0]
    for mine, theirs in zip(module.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_autocast_is_followed() -> None:
    module, x = block()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        found = fast(module)(x)
        assert found.dtype is module(x).dtype
    assert_near(found, exact(module, x), 3e-2)


def test_strides_stay_and_numbers_of_the_host_go_along() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * y + x.mT.mT

    x = torch.randn(2, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    factor = torch.tensor(3.0)
    found = torch.compile(function, backend=tileir_torch.backend)(x, factor)
    assert found.stride() == function(x, factor).stride()
    torch.testing.assert_close(found, function(x, factor))


def test_an_operation_in_tile_runs_there() -> None:
    op = tileir_torch.op("testcard::double", "function (X) -> (Y) { Y = X * 2.0; }")
    x = torch.randn(100, device="cuda", requires_grad=True)
    found = op(x)
    found.sum().backward()
    torch.testing.assert_close(found, x * 2)
    assert x.grad is not None
    assert x.grad.unique().tolist() == [2.0]
