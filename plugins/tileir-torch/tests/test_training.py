"""Steps of training compiled for a processor, beside eager execution: losses, parameters and statistics."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import tileir_torch

STEPS = 20


class Block(nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
    """Two convolutions with batch norms, and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.second, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Any) -> Any:
        inner = torch.relu(self.norm1(self.first(x)))
        return torch.relu(self.norm2(self.second(inner)) + self.shortcut(x))


def residual() -> tuple[nn.Module, tuple[Any, ...]]:
    stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
    body = nn.Sequential(nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2))
    model = nn.Sequential(stem, body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return model, (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))


class Attention(nn.Module):  # type: ignore[misc]
    """Grouped causal attention with rotated queries and keys."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (layer(x).view(batch, length, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v))
        angles = torch.arange(length)[:, None] / 100 ** (torch.arange(0, self.size, 2) / self.size)
        turn = torch.cat([angles, angles], -1)
        q, k = (each * turn.cos() + torch.cat(each.chunk(2, -1)[::-1], -1) * turn.sin() for each in (q, k))
        k, v = (each.repeat_interleave(self.heads // self.groups, 1) for each in (k, v))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(batch, length, -1))


class Layer(nn.Module):  # type: ignore[misc]
    """A layer of Llama."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, 4, 2)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        inner = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(inner)) * self.up(inner))


class Llama(nn.Module):  # type: ignore[misc]
    """A language model of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([Layer(32), Layer(32)])
        self.norm, self.head = nn.RMSNorm(32), nn.Linear(32, 50, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)).flatten(0, 1)


def llama() -> tuple[nn.Module, tuple[Any, ...]]:
    tokens = torch.randint(0, 50, (2, 13))
    return Llama(), (tokens[:, :-1], tokens[:, 1:].flatten())


def trained(model: nn.Module, call: Any, optimiser: Any, data: tuple[Any, ...]) -> list[float]:
    """Train, and return the losses."""
    found = []
    stepping = optimiser(model.parameters())
    for _ in range(STEPS):
        stepping.zero_grad()
        loss = nn.functional.cross_entropy(call(data[0]), data[1])
        loss.backward()
        stepping.step()
        found.append(float(loss))
    return found


@pytest.mark.sampled(0)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("make", "optimiser"),
    [
        (residual, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
        (llama, lambda p: torch.optim.AdamW(p, lr=1e-3)),
    ],
)
def test_twenty_steps_are_those_of_eager_execution(make: Any, optimiser: Any) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, data = make()
    other = copy.deepcopy(model)
    wanted = trained(model, model, optimiser, data)
    found = trained(other, torch.compile(other, backend=tileir_torch.backend), optimiser, data)
    assert wanted[-1] < 0.9 * wanted[0]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=2e-4, atol=2e-5)
    for (name, mine), right in zip(other.state_dict().items(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, right, rtol=5e-3, atol=5e-4, msg=lambda told, name=name: f"{name}: {told}")
