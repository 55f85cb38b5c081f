"""Graphs that PyTorch makes of tensors of a card, which differ from those of the host's; no card is needed."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tileir_torch.calls import Specialising


def test_batch_norm_of_cards_keeps_what_it_computes_with() -> None:
    """On the host PyTorch returns two tensors without elements instead."""
    operation = torch.ops.aten._native_batch_norm_legit_no_training
    torch.manual_seed(0)
    given = [torch.randn(2, 3, 4, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5]
    with FakeTensorMode() as mode:
        fake = [torch.empty(each.shape, device="cuda") for each in given]
        assert mode is not None
        module = make_fx(lambda *values: list(operation(*values, 0.1, 1e-5)))(*fake)
    found = Specialising(module.graph, module)(given)
    x, weight, bias, mean, variance = (each.double() for each in given)
    wanted = torch.nn.functional.batch_norm(x, mean, variance, weight, bias, eps=1e-5)
    for mine, exact in zip(found, (wanted, mean, (variance + 1e-5).rsqrt()), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=1e-6)
