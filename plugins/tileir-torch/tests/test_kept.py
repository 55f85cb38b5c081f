"""Compiled graphs in later processes and other places: caches of PyTorch, saved and copied modules."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tileir_torch

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning",
    "ignore::DeprecationWarning",
    "ignore:The given buffer is not writable",  # of PyTorch itself, where it reads a program
)

SCRIPT = """
import sys, torch
from functools import partial
from torch import nn
from torch._dynamo.utils import counters
if len(sys.argv) > 2:
    torch.compiler.load_cache_artifacts(open(sys.argv[2], "rb").read())
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
x = torch.randn(3, 8)
def loss(model):
    model.zero_grad()
    found = model(x)
    found.square().sum().backward()
    return [found.detach(), *[each.grad.clone() for each in model.parameters()]]
def cut(x):
    return (x * 2).cumsum(0) + torch.rand(3, 8) * 0 + torch.fft.fft(x).real.sin()
compiled = partial(torch.compile, backend="tileir", options={"cache": True})
fast = compiled(model)
for mine, right in zip(loss(fast), loss(model)):
    torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-6)
for shape in ((3, 8), (5, 8)):
    y = torch.randn(shape)
    made = compiled(lambda x: x.softmax(-1) @ x.T, dynamic=True)
    torch.testing.assert_close(made(y), y.softmax(-1) @ y.T)
torch.testing.assert_close(compiled(cut)(x), cut(x))
found = counters["aot_autograd"]
print(found["autograd_cache_hit"], found["autograd_cache_miss"])
artifacts = torch.compiler.save_cache_artifacts()
open(sys.argv[1], "wb").write(artifacts[0])
"""


def run(folder: Path, *words: str) -> tuple[int, int]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder.with_suffix(".bin")), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    hits, misses = map(int, done.stdout.split())
    return hits, misses


@pytest.mark.sampled(0)
def test_graphs_are_read_by_later_processes_and_carried_elsewhere(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    assert first == (0, 3)
    assert run(tmp_path / "one") == (3, 0)
    assert run(tmp_path / "other", str(tmp_path / "one.bin")) == (3, 0)


class Model(nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
    """A module with a product and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 4), nn.LayerNorm(4)

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x)).relu()


@pytest.fixture
def model() -> Iterator[nn.Module]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield Model()
    torch._dynamo.reset()


def stored(value: Any) -> Any:
    """Return what ``torch.load`` makes of what ``torch.save`` wrote."""
    content = io.BytesIO()
    torch.save(value, content)
    content.seek(0)
    return torch.load(content, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, stored])
def test_compiled_modules_are_copied_and_saved(again: Any, model: nn.Module) -> None:
    x = torch.randn(3, 8)
    fast = torch.compile(model, backend=tileir_torch.backend)
    expected = fast(x)
    other = again(fast)
    torch.testing.assert_close(other(x), expected)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not other(x).any()
    torch.testing.assert_close(fast(x), expected)


@pytest.mark.parametrize("again", [copy.deepcopy, stored])
def test_modules_as_a_whole_are_copied_and_saved(again: Any, model: nn.Module) -> None:
    x = torch.randn(3, 8)
    made = tileir_torch.compile(model, (x,))
    weights = {name: value + 1 for name, value in model.state_dict().items()}
    made.update(weights)
    expected = made(x)
    other = again(made)
    torch.testing.assert_close(other(x), expected)
    other.update(model.state_dict())
    torch.testing.assert_close(other(x), model(x).detach())
    torch.testing.assert_close(made(x), expected)


def test_functions_that_are_compiled_ahead_of_time_are_read_again(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return (x @ x.T).softmax(-1) * 2

    torch._dynamo.reset()
    x = torch.randn(3, 8)
    with torch._dynamo.config.patch(enable_aot_compile=True):
        ahead = torch.compile(function, fullgraph=True, backend="tileir").aot_compile(((x,), {}))
    torch.testing.assert_close(ahead(x), function(x))
    ahead.save_compiled_function(str(tmp_path / "f.pt"))
    with (tmp_path / "f.pt").open("rb") as file:
        torch.testing.assert_close(torch.compiler.load_compiled_function(file)(x), function(x))
