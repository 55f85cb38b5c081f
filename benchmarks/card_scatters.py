"""Scatters on cards beside PyTorch: gradients of embeddings, histograms, messages along edges, mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from card_workload import Shapes, Size, Workload
from tileir import DType, ops
from tileir.tile import builder_functions as tf

_SPREAD = 1 << 23
"""Random numbers times this have remainders that are random, too."""

_APART: Final = 2003


def scatters(size: Size) -> Iterator[Workload]:
    """Return scatters whose positions are made of random numbers, the first tensor of each workload."""
    yield from _rows(size)
    yield from _elements(size)
    yield from _halves(size)
    yield from _gradients(size)
    yield from _points(size)
    yield _edges(size)
    yield _experts(size)


def places(x: Any, count: int) -> Any:
    """Return random positions."""
    return tf.cast(ops.abs(ops.cast(x, "f32")) * float(_SPREAD), "i32") % count


def peer_places(x: Any, count: int) -> Any:
    """Return these positions as a tensor of PyTorch."""
    return (x.float().abs() * float(_SPREAD)).int() % count


def _workload(
    name: str, shapes: Shapes, program: Callable[..., Any], peer: Callable[..., Any], dtype: DType = DType.F32
) -> Workload:
    return Workload("scatters", name, shapes, dtype, program, peer)


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


def _halves(size: Size) -> Iterator[Workload]:
    """Return updates in f16 and bf16; what random halves choose is spread by the numbers of the updates."""
    for dtype in (DType.F16, DType.BF16):
        for name, updates, rows, columns in (
            ("embedding gradient", 16_384, 50_257, 1024),
            ("messages", 1_000_000, 100_000, 64),
        ):
            n, v, c = size(updates), size(rows), size(columns)
            yield _workload(
                name,
                ((n,), (n, c)),
                lambda x, u, n=n, v=v, c=c: tf.scatter(
                    u, (places(x, v) + ops.arange(x, 0, n) * _APART) % v, ops.zeros(u, [v, c])
                ),
                lambda torch, x, u, n=n, v=v, c=c: torch.zeros(v, c, device=x.device, dtype=u.dtype).index_add_(
                    0, (peer_places(x, v) + torch.arange(n, device=x.device, dtype=torch.int32) * _APART) % v, u
                ),
                dtype,
            )


def _gradients(size: Size) -> Iterator[Workload]:
    """Return gradients of what is taken by positions: rows, columns, and elements along an axis."""
    n, v, c = size(16_384), size(50_257), size(1024)
    yield _workload(
        "gradient of take, rows",
        ((n,), (n, c), (v, c)),
        lambda x, u, t: tf.gradient(ops.sum(ops.take(t, places(x, v)) * u), t),
        lambda torch, x, u, t: torch.zeros_like(t).index_add_(0, peer_places(x, v), u),
    )
    m, k, w = size(4096), size(8192), size(4096)
    yield _workload(
        "gradient of take, columns",
        ((k,), (m, k), (m, w)),
        lambda x, u, t: tf.gradient(ops.sum(ops.take(t, places(x, w), 1) * u), t),
        lambda torch, x, u, t: torch.zeros_like(t).index_add_(1, peer_places(x, w), u),
    )
    yield _workload(
        "gradient of take along axis 1",
        ((m, k), (m, k), (m, w)),
        lambda x, u, t: tf.gradient(ops.sum(ops.take_along_axis(t, places(x, w), 1) * u), t),
        lambda torch, x, u, t: torch.zeros_like(t).scatter_add_(1, peer_places(x, w).long(), u),
    )


def _points(size: Size) -> Iterator[Workload]:
    """Return updates at points that two positions tell."""
    n, edge = size(1 << 22), size(4096)
    yield _workload(
        "points of a matrix",
        ((n, 2), (n,), (edge, edge)),
        lambda x, u, t: ops.scatter_nd(t, places(x, edge), u, depth=2),
        lambda _, x, u, t: t.index_put(peer_places(x, edge).long().unbind(1), u, accumulate=True),
    )
    n, edge, c = size(1 << 18), size(256), size(64)
    yield _workload(
        "rows at points",
        ((n, 2), (n, c), (edge, edge, c)),
        lambda x, u, t: ops.scatter_nd(t, places(x, edge), u, depth=2),
        lambda _, x, u, t: t.index_put(peer_places(x, edge).long().unbind(1), u, accumulate=True),
    )


def _edges(size: Size) -> Workload:
    """Return messages along edges: what nodes have, times a weight of the edge, added where the edge goes."""
    n, v, c = size(1_000_000), size(100_000), size(64)
    return _workload(
        "weighted messages of nodes",
        ((n,), (n,), (n,), (v, c)),
        lambda x, y, w, h: tf.scatter(
            ops.take(h, places(x, v)) * ops.reshape(w, n, 1), places(y, v), ops.zeros(h, [v, c])
        ),
        lambda torch, x, y, w, h: torch.zeros_like(h).index_add_(
            0, peer_places(y, v), h[peer_places(x, v)] * w[:, None]
        ),
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
