"""Exported programs that write to tensors or have compositions are imported as they are, with the values of eager."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

import tileir_torch

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Calling(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@pytest.fixture
def decomposed(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """Return the programs that are decomposed from now on."""
    found: list[ExportedProgram] = []
    decompose = ExportedProgram.run_decompositions

    def counted(program: ExportedProgram, *arguments: Any) -> ExportedProgram:
        found.append(program)
        return decompose(program, *arguments)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", counted)
    return found


def compared(function: Callable[..., Any], *arguments: torch.Tensor) -> tileir_torch.Compiled:
    """Compare a compiled function with eager, and return it."""
    compiled = tileir_torch.compile(Calling(function).eval(), arguments)
    mine, others = ([each.clone() for each in arguments] for _ in range(2))
    torch.testing.assert_close(compiled(*mine), function(*others), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mine, others, rtol=0, atol=0)
    return compiled


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def written(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Write to memory as a whole and through views of each kind, and look at it through others."""
    plain = (x + 1).relu_().mul_(3).add_(x, alpha=2)
    rows = x * 2
    first, middle, turned = rows[0], rows[1:, ::2], rows.t()
    middle.fill_(7.0)
    first.add_(1)
    before = turned + 0
    turned.mul_(2)
    flat = rows.view(-1)
    flat[3:9].neg_()
    deep = (x - 1).view(2, 2, 6).permute(2, 0, 1)
    shown = deep.unsqueeze(0)
    deep[1:4].select(2, 1).exp_()
    left, right = (kept := x * x).split(3, 1)
    kept.sub_(1)
    integers = torch.zeros(3, dtype=torch.int32)
    integers[1] = 5
    return plain, rows, first, before, turned, shown + 0, left + right, integers.add_(1)


def test_writes_show_through_all_views(decomposed: list[ExportedProgram]) -> None:
    compiled = compared(written, numbers(4, 6))
    assert not decomposed
    assert any("relu_" in str(node.target) for node in compiled.program.graph.nodes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mul_(2),
        lambda x: x[1:].zero_() + x[:3],
        lambda x: (x + 1).split(3, 1)[1].add_(1) * 2,
        lambda x: (x + 1).add_(x.double() * 1.1),
        lambda x: (x + 1).expand(2, 4, 6)[0].relu_() * x,
        lambda x: (x + 1).diagonal().add_(1) * 2,
    ],
    ids=["input", "view of an input", "part of a split", "wider operand", "repeated elements", "diagonal"],
)
def test_what_is_decomposed_before(function: Callable[..., Any], decomposed: list[ExportedProgram]) -> None:
    compared(function, numbers(4, 6))
    assert len(decomposed) == 1


def test_programs_of_files_share_no_memory(decomposed: list[ExportedProgram]) -> None:
    compiled = tileir_torch.compile(Calling(lambda x: (x + 1).relu_() * 2).eval(), (numbers(3),))
    assert not decomposed
    content = io.BytesIO()
    torch.export.save(compiled.program, content)
    loaded = torch.export.load(content)
    restored = tileir_torch.exported._compiled(loaded)
    torch.testing.assert_close(restored(numbers(3)), compiled(numbers(3)))
    assert decomposed == [loaded], "its fake tensors do not tell which share memory"


def test_compositions_that_are_served_whole(decomposed: list[ExportedProgram]) -> None:
    norm = nn.BatchNorm2d(2).eval()
    assert norm.running_mean is not None
    norm.running_mean.normal_()
    functional = nn.functional

    def composed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.batch_norm(x, norm.running_mean + 0, norm.running_var + 0, None, None, False),
            functional.batch_norm(x, None, None, None, None, True),
            functional.dropout(x, 0.5, False),
            functional.pad(x, (1, -1, 2, 0), value=3.0),
            functional.pad(x, (1, 2, 3, 0), mode="reflect"),
            functional.pad(x, (2, 1, 0, 1), mode="replicate"),
            torch.min(x, y) + torch.max(x, y[0, 0, 0, 0]),
            torch.diff(x, n=2, dim=1) if x.shape[1] > 2 else torch.diff(x, dim=-1, prepend=y[..., :1]),
            torch.diff(x > 0, dim=2),
            x @ y.mT,
            x @ y[0, 0].mT,
            x @ y[0, 0, 0],
            y[0, 0, 0] @ x.mT,
            y[0, 0] @ x.mT,
            y[:1] @ x.mT[0],
            x.to(torch.float64).to("cpu").to(y) + x.softmax(2, dtype=torch.float64),
        )

    compared(composed, numbers(3, 2, 4, 5), numbers(3, 2, 4, 5).neg())
    assert not decomposed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["dropout", "batch_norm"])
def test_training_is_decomposed_before(mode: str, decomposed: list[ExportedProgram]) -> None:
    module = nn.Dropout(0.0) if mode == "dropout" else nn.BatchNorm1d(3)
    x = numbers(4, 3)
    compiled = tileir_torch.compile(module.train(), (x,))
    torch.testing.assert_close(compiled(x), module(x).detach(), rtol=1e-5, atol=1e-6)
    assert len(decomposed) == 1
