"""Scatters on cards beside PyTorch: gradients of embeddings, histograms, messages along edges, mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from card_workload import Shapes, Size, Workload
from tileir import DType, ops
from tileir.tile import builder_functions as tf

_SPREAD = 1 << 23
"""Random numbers times this have remainders that are random, too."""


def scatters(size: Size) -> Iterator[Workload]:
    """Return scatters whose positions are made of random numbers, the first tensor of each workload."""
    yield from _rows(size)
    yield from _elements(size)
    yield _experts(size)


def places(x: Any, count: int) -> Any:
    """Return random positions."""
    return tf.cast(ops.abs(x) * float(_SPREAD), "i32") % count


def peer_places(x: Any, count: int) -> Any:
    """Return these positions as a tensor of PyTorch."""
    return (x.abs() * float(_SPREAD)).int() % count


def _workload(name: str, shapes: Shapes, program: Callable[..., Any], peer: Callable[..., Any]) -> Workload:
    return Workload("scatters", name, shapes, DType.F32, program, peer)


def _rows(size: Size) -> Iterator[Workload]:
    """Return updates of whole rows."""
    for name, updates, rows, columns in (
        ("embedding gradient", 16_384, 50_257, 1024),
        ("rows", 8192, 4096, 2048),
        ("messages", 1_000_000, 100_000, 64),
    ):
        n, v, c = size(updates), size(rows), size(columns)
        yield _workload(
            name,
            ((n,), (n, c)),
            lambda x, u, v=v, c=c: tf.scatter(u, places(x, v), ops.zeros(u, [v, c])),
            lambda torch, x, u, v=v, c=c: torch.zeros(v, c, device=x.device).index_add_(0, peer_places(x, v), u),
        )
        yield _workload(
            f"{name}, replaced",
            ((n,), (n, c), (v, c)),
            lambda x, u, t, v=v: ops.scatter(t, places(x, v), u * 0.0 + 1.0, mode="set"),
            lambda _, x, u, t, v=v: t.index_put((peer_places(x, v).long(),), u * 0.0 + 1.0),
        )
    n, c = 1 << (size(1 << 14).bit_length() - 1), size(1024)
    yield _workload(
        "permuted rows",
        ((1,), (n, c), (n, c)),
        lambda x, u, t: ops.scatter(t, _permuted(x, n), u, mode="set", unique=True),
        lambda torch, x, u, t: t.index_copy(0, _peer_permuted(torch, x, n), u),
    )


def _permuted(x: Any, count: int) -> Any:
    return ops.arange(x, 0, count) ^ places(x, count)


def _peer_permuted(torch: Any, x: Any, count: int) -> Any:
    return (torch.arange(count, device=x.device) ^ peer_places(x, count)).long()


def _elements(size: Size) -> Iterator[Workload]:
    """Return updates of single elements."""
    n = size(1 << 24)
    for bins in (256, 1 << 16):
        yield _workload(
            f"histogram of {bins}",
            ((n,),),
            lambda x, bins=bins: tf.scatter(tf.cast(ops.ones_like(x), "i32"), places(x, bins), ops.zeros(x, [bins])),
            lambda torch, x, bins=bins: torch.bincount(peer_places(x, bins), minlength=bins).int(),
        )
    k = size(1 << 22)
    yield _workload(
        "weighted histogram of 1000",
        ((k,), (k,)),
        lambda x, u: tf.scatter(u, places(x, 1000), ops.zeros(x, [1000])),
        lambda torch, x, u: torch.bincount(peer_places(x, 1000), u, 1000),
    )
    m = 1 << (n.bit_length() - 1)
    yield _workload(
        "permutation",
        ((1,), (m,), (m,)),
        lambda x, u, t: ops.scatter(t, _permuted(x, m), u, mode="set", unique=True),
        lambda torch, x, u, t: t.index_copy(0, _peer_permuted(torch, x, m), u),
    )
    rows = size(4096)
    for mode, reduce in (("max", "amax"), ("add", "sum")):
        yield _workload(
            f"{mode} along axis 1",
            ((rows, rows), (rows, rows), (rows, rows)),
            lambda x, u, t, mode=mode: ops.scatter_along_axis(t, places(x, rows), u, 1, mode=mode),
            lambda _, x, u, t, r=reduce: t.scatter_reduce(1, peer_places(x, rows).long(), u, r),
        )


def _experts(size: Size) -> Workload:
    """Return a mixture of experts of which each takes as many tokens, two for each token on average."""
    tokens, width, hidden, experts = size(4096), size(1024), size(4096), 8
    taken = max(1, tokens * 2 // experts)

    def program(x: Any, gate: Any, up: Any, down: Any) -> Any:
        weights, chosen = ops.top_k(ops.transpose(ops.softmax(ops.matmul(x, gate))), taken)
        hidden = ops.silu(ops.matmul(ops.take(x, chosen), up))
        return tf.scatter(ops.matmul(hidden, down) * ops.reshape(weights, experts, taken, 1), chosen, x)

    def peer(torch: Any, x: Any, gate: Any, up: Any, down: Any) -> Any:
        weights, chosen = torch.topk(torch.softmax(x @ gate, -1).T, taken)
        made = torch.nn.functional.silu(x[chosen] @ up) @ down * weights[..., None]
        return torch.zeros_like(x).index_add_(0, chosen.reshape(-1), made.reshape(-1, width))

    shapes = ((tokens, width), (width, experts), (experts, width, hidden), (experts, hidden, width))
    return _workload("mixture of experts", shapes, program, peer)
