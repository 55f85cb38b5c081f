"""Attention for cards beside PyTorch's: forward, its gradients, few queries against a long cache, and windows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from card_workload import Shapes, Size, Workload
from tileir import DType, ops
from tileir.tile.builder_functions import gradient, index, where

HALVES = (DType.F16, DType.BF16)


def attention(size: Size) -> Iterator[Workload]:
    """Return the workloads of attention."""
    yield from _forward(size)
    yield from _gradients(size)
    yield from _decode(size)
    yield _window(size)


def _forward(size: Size) -> Iterator[Workload]:
    for batch, heads, time, width in ((8, 16, 1024, 64), (4, 16, 4096, 64), (2, 16, 4096, 128)):
        for causal in (False, True):
            shape = (batch, heads, size(time), size(width))
            yield _attention("attention", (shape,) * 3, DType.F16, causal=causal)
    time, width = size(4096), size(128)
    yield _attention("grouped attention", ((2, 32, time, width), *((2, 8, time, width),) * 2), DType.BF16, causal=True)


def _attention(name: str, shapes: Shapes, dtype: DType, *, causal: bool = False) -> Workload:
    batch, heads, queries, width = shapes[0]
    operations = 4.0 * batch * heads * queries * shapes[1][2] * width / (2 if causal else 1)
    grouped = shapes[1][1] != heads
    return Workload(
        "attention",
        f"causal {name}" if causal else name,
        shapes,
        dtype,
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=causal),
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=grouped
        ),
        operations,
    )


def _gradients(size: Size) -> Iterator[Workload]:
    for dtype in HALVES:
        for batch, heads, time, width in ((8, 16, 1024, 64), (4, 16, 4096, 64), (2, 16, 4096, 128)):
            for causal in (False, True):
                if dtype is DType.F16 and time == 1024:
                    continue
                shape = (batch, heads, size(time), size(width))
                yield _with_gradients((shape,) * 4, dtype, causal=causal)


def _with_gradients(shapes: Shapes, dtype: DType, *, causal: bool) -> Workload:
    """Return attention with the gradients of queries, keys and values, given that of the result."""

    def program(q: Any, k: Any, v: Any, given: Any) -> Any:
        found = ops.scaled_dot_product_attention(q, k, v, causal=causal)
        loss = ops.sum(found * given)
        return (found, *(gradient(loss, tensor) for tensor in (q, k, v)))

    def peer(torch: Any, q: Any, k: Any, v: Any, given: Any) -> Any:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
            found = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
            return (found.detach(), *torch.autograd.grad(found, leaves, given))

    batch, heads, time, width = shapes[0]
    operations = 14.0 * batch * heads * time**2 * width / (2 if causal else 1)
    name = "causal attention, gradients" if causal else "attention, gradients"
    return Workload("attention", name, shapes, dtype, program, peer, operations)


def _decode(size: Size) -> Iterator[Workload]:
    for batch, heads, shared, queries, keys in ((8, 32, 8, 1, 4096), (1, 32, 8, 1, 32768), (4, 16, 16, 16, 8192)):
        shape, cache = (batch, heads, queries, size(128)), (batch, shared, size(keys), size(128))
        yield _attention("decode", (shape, cache, cache), DType.F16)


def _window(size: Size) -> Workload:
    """Return attention in which queries see the last keys, of which there are as many as a window has."""
    time, width, seen = size(4096), size(64), size(512)
    shape = (2, 16, time, width)

    def program(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(q, ops.permute(k, (0, 1, 3, 2))) * width**-0.5
        columns, rows = index(scores, 3), index(scores, 2)
        in_band = where(rows - seen < columns, scores, -math.inf)
        return ops.matmul(ops.softmax(where(columns <= rows, in_band, -math.inf)), v)

    def peer(torch: Any, q: Any, k: Any, v: Any) -> Any:
        line = torch.arange(time, device=q.device)
        mask = (line[None] <= line[:, None]) & (line[None] > line[:, None] - seen)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return Workload(
        "attention",
        "window of attention",
        (shape,) * 3,
        DType.F16,
        program,
        peer,
        4.0 * 2 * 16 * time * seen * width,
    )
