"""Tensors that are kept for backward passes as parts of one, beside eager execution."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

import tileir_torch
from tileir_torch.packing import ALIGNMENT, part_of
from tileir_torch.rooms import SMALL


def mixed(x: Any, w: Any) -> Any:
    """Keep tensors of several dtypes and sizes."""
    chosen = (x @ w).relu()
    found, where = torch.nn.functional.max_pool1d(chosen[None], 2, return_indices=True)
    return found.exp() * torch.where(chosen[None, :, ::2] > 0, 1.0, 0.5).tanh() + where.sum()


def turned(x: Any, w: Any) -> Any:
    """Keep tensors whose axes lie in another order."""
    image = x.reshape(1, 4, 4, -1).to(memory_format=torch.channels_last)
    return image.tanh().exp().sum(1) @ w[:2].exp()


def shown(x: Any, w: Any) -> Any:
    """Return what is kept, and a view of it."""
    first, second = (x @ w).exp(), x.sin().tanh()
    third = (2 * x).tanh().exp()
    return first * second.sum() + (second * third).cosh().mean(), first, second.T


def partly(x: Any, w: Any) -> Any:
    """Keep what is computed before and behind an operation that runs in eager."""
    before = (x @ w).tanh().exp()
    return torch.linalg.qr(before.sin())[1].abs().exp().tanh()


def kept_of(run: Callable[..., Any], x: Any, w: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return results and gradients, and what was kept in between."""
    kept: list[torch.Tensor] = []
    given = [x.detach().requires_grad_(), w.detach().requires_grad_()]

    def keep(each: torch.Tensor) -> torch.Tensor:
        kept.append(each)
        return each.clone()

    with saved_tensors_hooks(keep, lambda each: each):
        found = run(*given)
    found = found if isinstance(found, tuple) else (found,)
    sum(each.double().square().sum() for each in found).backward(retain_graph=True)
    first = [each.grad.clone() for each in given]
    sum(each.double().square().sum() for each in found).backward()
    for each, once in zip(given, first, strict=True):
        torch.testing.assert_close(each.grad, 2 * once)
    return [*found, *first], kept


@pytest.mark.sampled(1)
@pytest.mark.parametrize("function", [mixed, turned, shown, partly], ids=lambda each: each.__name__)
def test_gradients(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    with torch._functorch.config.patch(donated_buffer=False):
        found, kept = kept_of(torch.compile(function, backend=tileir_torch.backend), x, w)
    wanted, _ = kept_of(function, x, w)
    for mine, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, exact, rtol=2e-5, atol=2e-6)
    packed = [each for each in kept if each.dtype is torch.uint8]
    assert len(packed) == 1
    assert not packed[0].numel() % ALIGNMENT


def test_sizes_that_are_symbols_are_kept_apart() -> None:
    torch._dynamo.reset()
    run = torch.compile(mixed, backend=tileir_torch.backend, dynamic=True)
    for rows in (4, 6):
        x, w = torch.randn(rows, 8), torch.randn(8, 8)
        with torch._functorch.config.patch(donated_buffer=False):
            found, _ = kept_of(run, x, w)
        for mine, exact in zip(found, kept_of(mixed, x, w)[0], strict=True):
            torch.testing.assert_close(mine, exact, rtol=2e-5, atol=2e-6)


def test_results_may_be_changed_before_the_backward_pass() -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 8, requires_grad=True)
    run = torch.compile(lambda x: (x.sin().tanh().exp().sum(), x.cos()), backend=tileir_torch.backend)
    first, second = run(x)
    with torch.no_grad():
        second.add_(1)  # it is no part of what is kept beside it
    first.sum().backward()
    y = x.detach().requires_grad_()
    y.sin().tanh().exp().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.int64, torch.float32])
@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (2, 1, 5)])
def test_parts_are_where_they_are_packed(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    given = [torch.randn(sizes).to(dtype), torch.randn(4, 5).to(dtype).T]
    packed = torch.ops.tileir_torch.packed(given, [0, ALIGNMENT], 2 * ALIGNMENT)
    for each, offset in zip(given, (0, ALIGNMENT), strict=True):
        found = torch.ops.tileir_torch.part(packed, offset, each.shape, each.stride(), dtype)
        assert torch.equal(found, each)
        assert found.stride() == each.stride()
        assert found.data_ptr() == packed.data_ptr() + offset
        assert torch.equal(part_of(packed, offset, each.shape, each.stride(), dtype), each)


class Counting(torch.nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
    """Count calls in several ways."""

    def __init__(self) -> None:
        super().__init__()
        for name, start in (("plain", 0), ("other", 5), ("real", 0.5), ("scaled", 1), ("read", 2), ("list", [1, 2])):
            self.register_buffer(name, torch.tensor(start))

    def forward(self, x: Any) -> Any:
        self.plain.add_(1)
        self.other.sub_(2)
        self.real.add_(0.25)
        self.scaled.add_(3, alpha=2)
        self.read.add_(1)
        self.list += 1
        return x * self.read


@pytest.mark.parametrize("is_training", [False, True])
def test_counters_are_those_of_eager(is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    add, added = torch._foreach_add_, []

    def note(*given: Any) -> None:
        added.append(given)
        add(*given)

    monkeypatch.setattr(torch, "_foreach_add_", note)
    mine, eager = Counting(), Counting()
    run = torch.compile(mine, backend=tileir_torch.backend, fullgraph=True)
    for turn in range(3):
        x = torch.full((3,), float(turn)).requires_grad_(is_training)
        assert torch.equal(run(x), eager(x))
        for (name, found), wanted in zip(mine.named_buffers(), eager.buffers(), strict=True):
            assert torch.equal(found, wanted), name
            assert found.dtype is wanted.dtype, name
    assert [number for _, number in added] == [1, 0.25] * 3


class Sharing(torch.nn.Module):  # type: ignore[misc]
    """Norms with running statistics, weights of two dtypes, and one that is large."""

    def __init__(self) -> None:
        super().__init__()
        self.large = torch.nn.Linear(8, 2 * SMALL // 32, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(8) for _ in range(3))
        self.wide = torch.nn.Parameter(torch.rand(8, dtype=torch.float64))
        self.empty = torch.nn.Parameter(torch.empty(0, 8))

    def forward(self, x: Any) -> Any:
        for norm in self.norms:
            x = norm(x).tanh()
        return self.large(x).sum(1), (x * self.wide).sum(), self.empty.sum()


def test_small_gradients_share_memory() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    mine = Sharing()
    eager = copy.deepcopy(mine)
    run = torch.compile(mine, backend=tileir_torch.backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(6, 8)
        y = x.clone()
        x.requires_grad_(), y.requires_grad_()
        found, wanted = run(x), eager(y)
        for results in (found, wanted):
            sum(each.sum().double() for each in results).backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
        for (name, one), other in zip(mine.named_parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=name)
        for (name, one), other in zip(mine.named_buffers(), eager.named_buffers(), strict=True):
            torch.testing.assert_close(one, other[1], msg=name)
    places = {name: each.grad.untyped_storage() for name, each in mine.named_parameters()}
    small = {each.data_ptr() for name, each in places.items() if name.startswith("norms")}
    assert len(small) == 1
    assert places["large.weight"].nbytes() == mine.large.weight.nbytes
    assert not {places["large.weight"].data_ptr(), places["wide"].data_ptr()} & small
    assert len({each.untyped_storage().data_ptr() for each in found[:2]}) == 2
    before = [each.grad.clone() for each in mine.parameters()]
    mine.norms[1].weight.grad.add_(1)
    assert [
        name
        for (name, each), old in zip(mine.named_parameters(), before, strict=True)
        if not torch.equal(each.grad, old)
    ] == ["norms.1.weight"]
