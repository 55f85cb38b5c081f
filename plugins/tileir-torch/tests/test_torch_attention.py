"""Attention of cards and its gradients as functions of Tile, beside PyTorch's composition in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tileir_torch import backend
from tileir_torch.calls import Specialising

ATEN = torch.ops.aten
SIZES = {"plain": (2, 3, 3, 16, 16), "grouped": (2, 6, 2, 16, 16), "odd": (1, 2, 2, 7, 13)}
CASES = [
    ("flash", "plain", False, False),
    ("flash", "plain", True, False),
    ("flash", "grouped", False, False),
    ("flash", "grouped", True, False),
    ("flash", "odd", False, False),
    *((kind, "plain", True, False) for kind in ("efficient", "cudnn")),
    *((kind, "odd", False, bias) for kind in ("efficient", "cudnn") for bias in (False, True)),
]
"""Kinds, sizes, whether they are causal, and whether a mask is added."""


def forward_of(kind: str, bias: bool, causal: bool) -> Callable[..., Any]:
    """Return attention of a kind with its sums."""

    def flash(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)

    def efficient(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return ATEN._scaled_dot_product_efficient_attention(q, k, v, mask if bias else None, True, 0.0, causal)

    def cudnn(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return ATEN._scaled_dot_product_cudnn_attention(q, k, v, mask if bias else None, True, 0.0, causal, False)

    return {"flash": flash, "efficient": efficient, "cudnn": cudnn}[kind]


def backward_of(kind: str, bias: bool, causal: bool) -> Callable[..., Any]:
    """Return gradients of a kind."""

    def flash(g: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, mask: Any) -> Any:
        rest = (None, None, q.shape[2], k.shape[2], 0.0, causal, seed, seed)
        return ATEN._scaled_dot_product_flash_attention_backward(g, q, k, v, out, sums, *rest)

    def efficient(g: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, mask: Any) -> Any:
        rest = (seed, seed, 0.0, [True, True, True, False], causal)
        given = (g, q, k, v, mask if bias else None, out, sums)
        return ATEN._scaled_dot_product_efficient_attention_backward(*given, *rest)[:3]

    def cudnn(g: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, mask: Any) -> Any:
        rest = (seed, seed, mask if bias else None, None, None, q.shape[2], k.shape[2], 0.0, causal)
        return ATEN._scaled_dot_product_cudnn_attention_backward(g, q, k, v, out, sums, *rest)

    return {"flash": flash, "efficient": efficient, "cudnn": cudnn}[kind]


def run(function: Callable[..., Any], *values: Any) -> list[Any]:
    """Return what tileir makes of a function that is traced with fake tensors."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(each) for each in values]
        module = make_fx(lambda *given: [each for each in function(*given) if isinstance(each, torch.Tensor)])(*fake)
    return Specialising(module.graph, module)(values)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "sizes", "causal", "bias"), CASES)
def test_kinds_of_cards_are_attention(kind: str, sizes: str, causal: bool, bias: bool) -> None:
    batch, heads, shared, rows, columns = SIZES[sizes]
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(batch, each, size, 8) for each, size in ((heads, rows), (shared, columns), (shared, columns))
    )
    mask = torch.randn(batch, heads, rows, columns)
    g = torch.randn(batch, heads, rows, 8)
    exact = [each.double().requires_grad_() for each in (q, k, v)]
    chosen = mask.double() if bias else None
    wanted = nn.functional.scaled_dot_product_attention(
        *exact, attn_mask=chosen, is_causal=causal, enable_gqa=heads != shared
    )
    gradients = torch.autograd.grad(wanted, exact, g.double())
    out, sums, *_ = run(forward_of(kind, bias, causal), q, k, v, mask)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-5)
    scores = q.double() @ k.double().repeat_interleave(heads // shared, 1).mT / 8**0.5
    scores = scores + chosen if chosen is not None else scores
    scores = scores.masked_fill(~torch.ones(rows, columns, dtype=torch.bool).tril(), -torch.inf) if causal else scores
    found = sums.double().reshape(batch, heads, -1)[..., :rows]
    torch.testing.assert_close(found, scores.logsumexp(-1), rtol=1e-5, atol=1e-5)
    seed = torch.zeros((), dtype=torch.int64)
    for mine, theirs in zip(
        run(backward_of(kind, bias, causal), g, q, k, v, out, sums, seed, mask), gradients, strict=True
    ):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5)


def positions(count: int) -> Any:
    """Return the numbers of documents that positions, 0 and on, begin anew: one, found by a running sum."""
    place = torch.arange(count)
    return (torch.diff(place, prepend=place[:1] - 1) != 1).cumsum(-1)


MASKS: dict[str, Callable[[int, int], Any]] = {
    "gathered": lambda rows, columns: (
        torch.arange(columns)[torch.arange(columns)[None, :]] <= torch.arange(rows)[torch.arange(rows)[:, None]]
    ),
    "documents": lambda rows, columns: (
        torch.ones(rows, columns, dtype=torch.bool).tril()
        & (positions(rows)[torch.arange(rows)[:, None]] == positions(columns)[torch.arange(columns)])
    ),
    "window": lambda rows, columns: torch.ones(rows, columns, dtype=torch.bool).tril(2).triu(-3),
    "blind": lambda rows, columns: torch.ones(rows, columns, dtype=torch.bool).tril(-3),
    "odd": lambda rows, columns: (torch.arange(rows)[:, None] * 3 + torch.arange(columns)) % 4 != 0,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("is_added", [False, True], ids=["bool", "added"])
@pytest.mark.parametrize("mask", MASKS)
def test_masks_that_programs_make_are_equal_to_eager(mask: str, is_added: bool, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, size, 16, dtype=dtype) for size in (12, 9, 9))

    def attended(q: Any, k: Any, v: Any) -> Any:
        seen = MASKS[mask](q.shape[-2], k.shape[-2]).expand(2, 1, -1, -1)
        if is_added:
            seen = torch.where(seen, torch.tensor(0.0, dtype=q.dtype), torch.tensor(-torch.inf, dtype=q.dtype))
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    compiled = torch.compile(attended, backend=backend, fullgraph=True, options={"fullgraph": True})
    limit = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    wanted = attended(q.double(), k.double(), v.double())
    torch.testing.assert_close(compiled(q, k, v).double(), wanted, rtol=limit, atol=limit)


def test_queries_that_see_nothing_have_no_gradients() -> None:
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(1, 2, 6, 8) for _ in range(4))
    mask = torch.zeros(1, 2, 6, 6).masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(-2), -torch.inf)
    exact = [each.double().requires_grad_() for each in (q, k, v)]
    wanted = nn.functional.scaled_dot_product_attention(*exact, attn_mask=mask.double())
    out, sums, *_ = run(forward_of("efficient", True, False), q, k, v, mask)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-5)
    seed = torch.zeros((), dtype=torch.int64)
    found = run(backward_of("efficient", True, False), g, q, k, v, out, sums, seed, mask)
    for mine, theirs in zip(found, torch.autograd.grad(wanted, exact, g.double()), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5)
